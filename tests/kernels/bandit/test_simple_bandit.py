"""SimpleBandit against a slow model in plain Python and known results (reference systems 1.2)."""

import numpy as np
import pytest
from oracle import assert_follows, assert_mean, first_episodes

import vecenv
from vecenv.planning import value_iteration


class Slow:
    def reset(self, rng):
        self.bit, self.time = rng.integers(0, 2), 0

    def step(self, action, rng):
        reward = float(action == self.bit)
        self.bit, self.time = int(rng.random() >= 0.5), self.time + 1
        return reward, self.time == 100

    def obs(self):
        return [self.bit]


def test_as_the_slow_model():
    assert assert_follows(vecenv.make_vec("SimpleBandit-v0", 4, autoreset_mode="same_step"), Slow, 350, seed=1) == 12


def test_right_answers_give_100_and_random_ones_50():
    envs = vecenv.make_vec("SimpleBandit-v0", 50, autoreset_mode="disabled")
    obs, _ = envs.reset(seed=0)
    for t in range(1, 101):
        obs, rewards, terminated, truncated, _ = envs.step(obs[:, 0].astype(int))
        assert (rewards == 1).all() and (terminated == (t == 100)).all() and not truncated.any()
    assert (envs.episode_returns == 100).all()
    episodes = first_episodes(vecenv.make_vec("SimpleBandit-v0", 20_000), seed=2)
    assert (episodes.lengths == 100).all() and episodes.terminated.all()
    assert_mean(episodes.returns, 50)


def test_best_values():
    """100 for the whole episode; with gamma 0.9 the sum of 100 powers."""
    model = vecenv.model("SimpleBandit-v0")
    assert value_iteration(model, discount=1.0, precision=1e-9).values[:2] == pytest.approx([100, 100], abs=1e-9)
    best = value_iteration(model, discount=0.9, precision=1e-12)
    assert best.values[:2] == pytest.approx(np.power(0.9, np.arange(100)).sum(), abs=1e-9)
