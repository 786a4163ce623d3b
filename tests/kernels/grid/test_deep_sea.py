"""DeepSea against a slow model in plain Python, after the published rules of bsuite's."""

import numpy as np
import pytest
from oracle import assert_follows, assert_mean

import vecenv
from vecenv.planning import value_iteration


class Slow:
    def __init__(self, size=10, randomize_actions=True, mapping_seed=0, stochastic=False):
        self.size, self.stochastic = size, stochastic
        self.right = np.ones((size, size))
        if randomize_actions:
            self.right = np.random.default_rng(mapping_seed).integers(0, 2, (size, size), np.uint8)

    def reset(self, rng):
        self.row = self.col = 0

    def step(self, action, rng):
        reward, last = 0.0, self.size - 1
        goes_right = action == self.right[self.row, self.col]
        noise = rng.standard_normal() if self.stochastic and self.row == last and self.col in (0, last) else 0.0
        if goes_right:
            reward = (1.0 if self.col == last else 0.0) - 0.01 / self.size
            if not self.stochastic or rng.random() > 1 / self.size:
                self.col = min(self.col + 1, last)
        else:
            self.col = max(self.col - 1, 0)
        self.row += 1
        return reward + noise, self.row == self.size

    def obs(self):
        sea = np.zeros((self.size, self.size))
        if self.row < self.size:
            sea[self.row, self.col] = 1
        return sea


@pytest.mark.parametrize(
    "options",
    [{}, {"size": 3, "mapping_seed": 7}, {"size": 2, "randomize_actions": False}, {"size": 4, "stochastic": True}],
    ids=repr,
)
def test_as_the_slow_model(options):
    envs = vecenv.make_vec("DeepSea-v0", 6, autoreset_mode="same_step", **options)
    assert assert_follows(envs, lambda: Slow(**options), 240, seed=3) == 6 * 240 // options.get("size", 10)


@pytest.mark.parametrize("size", [2, 10, 30])
def test_the_treasure(size):
    """The best return is 0.99; half of the triangle of cells can be reached."""
    model = vecenv.model("DeepSea-v0", size=size)
    values = value_iteration(model, discount=1.0, precision=1e-12).values
    assert values[0] == pytest.approx(0.99, abs=1e-12)
    view = vecenv.make("DeepSea-v0", size=size)
    view.reset()
    for _ in range(size):
        view.step(int(view.envs.definition.default_params["right"][view.state.row, view.state.col]))
    assert view.envs.episode_returns[0] == pytest.approx(0.99, abs=1e-12)


def test_currents():
    """Always right: the treasure with probability (1 - 1/4)^3, and one noise wherever the last step begins."""
    n, size = 50_000, 4
    envs = vecenv.make_vec("DeepSea-v0", n, size=size, stochastic=True, randomize_actions=False)
    envs.reset(seed=0)
    for _ in range(size - 1):
        _, rewards, terminated, _, _ = envs.step(np.ones(n, np.int64))
        assert (rewards == -0.01 / size).all() and not terminated.any()
    at_end = np.array(envs.state.col == size - 1)
    _, rewards, terminated, _, _ = envs.step(np.ones(n, np.int64))
    assert terminated.all()
    assert_mean(at_end, (1 - 1 / size) ** (size - 1))
    assert_mean(rewards[at_end], 1 - 0.01 / size)
    assert abs(rewards[at_end].std() - 1) < 0.03
    with pytest.raises(ValueError, match="DeepSea-v0 has no model"):
        vecenv.model("DeepSea-v0", stochastic=True)


def test_text_and_wrong_options():
    view = vecenv.make("DeepSea-v0", size=2, render_mode="ansi")
    view.reset()
    assert view.render() == "A~\n~T\n"
    for options, error, message in (
        ({"size": 1}, ValueError, "size: expected 2 to 1000, got 1"),
        ({"mapping_seed": -1}, ValueError, "mapping_seed: expected 0 to"),
        ({"stochastic": 1}, TypeError, "stochastic: expected True or False, got 1"),
    ):
        with pytest.raises(error, match=message):
            vecenv.make_vec("DeepSea-v0", 2, **options)
