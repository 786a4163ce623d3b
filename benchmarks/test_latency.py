"""Time of one step of one environment: a batch of one, views, and `gymnasium.make`.

Every benchmark plays the same recorded episode, 400 steps that keep CartPole upright, so that nothing is reset while
the clock runs. One round is the whole episode.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import vecenv
from benchmarks.measure import balancing_actions


def play(benchmark: Any, env: Any, actions: list[Any]) -> None:
    def episode() -> None:
        for action in actions:
            env.step(action)

    benchmark.group = "CartPole, 400 steps of one environment"
    benchmark.pedantic(episode, setup=lambda: env.reset(seed=0) and None, rounds=200, warmup_rounds=5)
    if benchmark.stats is not None:
        benchmark.extra_info["us_per_step"] = benchmark.stats.stats.median / len(actions) * 1e6
    env.close()


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("copy", [True, False], ids=["copy", "no-copy"])
def test_batch_of_one(benchmark: Any, mode: str, copy: bool) -> None:
    envs = vecenv.make_vec("CartPole-v1", 1, autoreset_mode=mode, copy=copy)
    play(benchmark, envs, [np.array([action]) for action in balancing_actions()])


def test_view(benchmark: Any) -> None:
    play(benchmark, vecenv.make("CartPole-v1"), balancing_actions())


def test_view_of_a_large_batch(benchmark: Any) -> None:
    envs = vecenv.make_vec("CartPole-v1", 8192)
    envs.reset(seed=0)
    play(benchmark, envs.view(0), balancing_actions())


@pytest.mark.parametrize("env_id", ["CartPole-v1", "vecenv/CartPole-v1"])
def test_gymnasium_make(benchmark: Any, env_id: str) -> None:
    play(benchmark, gymnasium.make(env_id), balancing_actions())
