"""TMaze against a slow model in plain Python and known results (reference systems 1.3 and 6.7)."""

import numpy as np
import pytest
from oracle import assert_follows, assert_mean, first_episodes

import vecenv
from vecenv.planning import value_iteration


class Slow:
    def __init__(self, length):
        self.length = length

    def reset(self, rng):
        self.cue, self.position = (-1, 1)[rng.integers(0, 2)], 0

    def step(self, action, rng):
        if self.position < self.length:
            self.position += 1
            return 0.0, False
        return (1.0 if (action == 0) == (self.cue == 1) else -1.0), True

    def obs(self):
        at_junction = self.position == self.length
        return [self.cue if self.position == 0 else 0, float(not at_junction), float(at_junction)]


@pytest.mark.parametrize("length", [1, 4, 10])
def test_as_the_slow_model(length):
    envs = vecenv.make_vec("TMaze-v0", 5, autoreset_mode="same_step", length=length)
    assert assert_follows(envs, lambda: Slow(length), 200, seed=2) == 5 * (200 // (length + 1))


@pytest.mark.nojit
def test_one_episode():
    """Worked example 8: 11 steps; the cue shows at the start only, the junction looks the same for both."""
    for seed in range(6):
        view = vecenv.make("TMaze-v0")
        obs, _ = view.reset(seed=seed)
        turn = 0 if obs[0] == 1 else 1
        assert abs(obs[0]) == 1 and obs[1:].tolist() == [1, 0]
        results = [view.step(turn) for _ in range(11)]
        assert [result[0].tolist() for result in results] == [[0, 1, 0]] * 9 + [[0, 0, 1]] * 2
        assert [result[1] for result in results] == [0] * 10 + [1]
        assert [result[2] for result in results] == [False] * 10 + [True]


def test_random_play():
    episodes = first_episodes(vecenv.make_vec("TMaze-v0", 40_000), seed=1)
    assert (episodes.lengths == 11).all() and episodes.terminated.all() and set(episodes.returns) == {-1, 1}
    assert_mean(episodes.returns, 0)


def test_best_values():
    model = vecenv.model("TMaze-v0", length=3)
    assert model.num_states == 8 and model.starts.tolist() == [0.5, 0.5] + [0] * 6
    assert (
        value_iteration(model, discount=0.5, precision=1e-12).values.tolist()
        == [0.125] * 2 + [0.25] * 2 + [0.5] * 2 + [1.0] * 2
    )


def test_text():
    view = vecenv.make("TMaze-v0", length=3, render_mode="ansi")
    view.reset(seed=0)
    view.state.goal = -1
    assert view.render() == "   .\nA...\n   G\n"


def test_snapshot_holds_later_cues():
    envs = vecenv.make_vec("TMaze-v0", 50, length=1, autoreset_mode="same_step")
    envs.reset(seed=0)
    snapshot = envs.snapshot()
    action = np.zeros(50, np.int64)
    first = [envs.step(action)[0] for _ in range(6)]
    envs.restore(snapshot)
    np.testing.assert_array_equal([envs.step(action)[0] for _ in range(6)], first)


def test_wrong_options():
    with pytest.raises(ValueError, match="length: expected 1 to 1048576, got 0"):
        vecenv.make_vec("TMaze-v0", 2, length=0)
