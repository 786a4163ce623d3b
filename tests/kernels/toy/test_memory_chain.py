"""MemoryChain against a slow model in plain Python, after the published rules of bsuite's."""

import numpy as np
import pytest
from oracle import assert_follows

import vecenv
from vecenv.planning import value_iteration


class Slow:
    def __init__(self, length=10, num_bits=1):
        self.length, self.num_bits = length, num_bits

    def reset(self, rng):
        self.context = [int(rng.integers(0, 2)) for _ in range(self.num_bits)]
        self.query = int(rng.integers(0, self.num_bits))
        self.time = 0
        self.show()

    def show(self):
        self.shown = [1 - self.time / self.length, 0, *[0] * self.num_bits]
        if self.time == self.length - 1:
            self.shown[1] = self.query
        if self.time == 0:
            self.shown[2:] = [2 * bit - 1 for bit in self.context]

    def step(self, action, rng):
        self.show()
        self.time += 1
        if self.time <= self.length:
            return 0.0, False
        return (1.0 if action == self.context[self.query] else -1.0), True

    def obs(self):
        return self.shown


@pytest.mark.parametrize("options", [{}, {"length": 1, "num_bits": 2}, {"length": 3, "num_bits": 60}], ids=repr)
def test_as_the_slow_model(options):
    envs = vecenv.make_vec("MemoryChain-v0", 7, autoreset_mode="same_step", **options)
    ended = assert_follows(envs, lambda: Slow(**options), 150, seed=3)
    assert ended == 7 * (150 // (options.get("length", 10) + 1))


@pytest.mark.nojit
def test_one_episode():
    view = vecenv.make("MemoryChain-v0", length=3, num_bits=2)
    obs, _ = view.reset(seed=5)
    context = ((obs[2:] + 1) / 2).astype(int)
    results = [view.step(0) for _ in range(3)]
    assert [result[0][0] for result in results] == pytest.approx([1, 2 / 3, 1 / 3])
    assert results[0][0].tolist() == obs.tolist() and not results[1][0][2:].any()
    query = int(results[2][0][1])
    assert view.step(context[query])[1:3] == (1.0, True)


def test_model():
    """The right answer is worth discount^length; every bit and query is a start."""
    model = vecenv.model("MemoryChain-v0", length=4, num_bits=3)
    assert model.num_states == 24 * 6 and (model.starts > 0).sum() == 24
    values = value_iteration(model, discount=0.5, precision=1e-12).values
    np.testing.assert_array_equal(values[model.starts > 0], 0.5**4)


@pytest.mark.parametrize("options, message", [({"length": 0}, "length: expected 1 to"), ({"num_bits": 61}, "1 to 60")])
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        vecenv.make_vec("MemoryChain-v0", 2, **options)
