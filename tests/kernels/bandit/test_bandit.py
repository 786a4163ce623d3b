"""Bandit against a slow model in plain Python and known results."""

import numpy as np
import pytest
from oracle import assert_follows, assert_mean

import vecenv


class Slow:
    def __init__(self, arms=10, rewards="normal", means=None):
        self.arms, self.rewards, self.given = arms, rewards, means

    def reset(self, rng):
        if self.given is not None:
            self.means = self.given
        elif self.rewards == "normal":
            self.means = [rng.normal(0, 1) for _ in range(self.arms)]
        else:
            self.means = [rng.random() for _ in range(self.arms)]

    def step(self, action, rng):
        mean = self.means[action]
        return (rng.normal(mean, 1) if self.rewards == "normal" else float(rng.random() < mean)), False

    def obs(self):
        return 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"arms": 3, "rewards": "bernoulli"},
        {"arms": 2, "means": [5, -1.5]},
        {"arms": 4, "rewards": "bernoulli", "means": [0, 0.2, 0.7, 1]},
    ],
    ids=repr,
)
def test_as_the_slow_model(options):
    envs = vecenv.make_vec("Bandit-v0", 3, autoreset_mode="same_step", **options)
    assert assert_follows(envs, lambda: Slow(**options), 1100, seed=4) == 3  # the limit of 1000


def test_the_best_of_ten_arms():
    """The mean of the largest of ten standard normal numbers is 1.53875 (order statistics); `best` and `regret` of
    every pull against the means of the row."""
    n = 40_000
    envs = vecenv.make_vec("Bandit-v0", n, autoreset_mode="disabled")
    _, infos = envs.reset(seed=0)
    assert infos["best"].all() and (infos["regret"] == 0).all()
    means = np.array(envs.state.means)
    _, rewards, _, _, infos = envs.step(means.argmax(1))
    assert infos["best"].all() and (infos["regret"] == 0).all()
    assert_mean(rewards, 1.538753)
    assert_mean(rewards - means.max(1), 0)
    assert abs((rewards - means.max(1)).std() - 1) < 0.02
    _, _, _, _, infos = envs.step(np.zeros(n, np.int64))
    np.testing.assert_array_equal(infos["regret"], means.max(1) - means[:, 0])
    np.testing.assert_array_equal(infos["best"], means.argmax(1) == 0)


@pytest.mark.parametrize("mode, total", [("next_step", 10), ("same_step", 10), ("disabled", 10)])
def test_an_episode_is_many_pulls(mode, total):
    """Case C152: an arm that always pays 1, ten calls: all are pulls, and the limit truncates."""
    envs = vecenv.make_vec(
        "Bandit-v0", 1, autoreset_mode=mode, arms=1, rewards="bernoulli", means=[1], max_episode_steps=10
    )
    envs.reset(seed=0)
    results = [envs.step(np.zeros(1, np.int64)) for _ in range(10)]
    assert sum(float(result[1][0]) for result in results) == total
    assert [bool(result[3][0]) for result in results] == [False] * 9 + [True]
    assert not any(result[2][0] for result in results)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"arms": 0}, ValueError, "arms: expected 1 to 65535, got 0"),
        ({"arms": 2.5}, TypeError, "arms: expected an int, got 2.5"),
        ({"rewards": "cauchy"}, ValueError, "rewards: expected 'normal' or 'bernoulli', got 'cauchy'"),
        ({"means": [1, 2]}, ValueError, "means: expected one for each of 10 arms, got 2"),
        ({"arms": 1, "rewards": "bernoulli", "means": [1.5]}, ValueError, "means: expected a probability"),
        ({"arms": 1, "means": [float("nan")]}, ValueError, "means: expected a finite number"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        vecenv.make_vec("Bandit-v0", 2, **options)
