"""Rollouts and replay: GAE and its kin, collecting into the buffers, sampling; ns per row are ns per step of a row."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import vecenv
from benchmarks.measure import record_rate
from vecenv.cli import ActionPool
from vecenv.kernels import returns

STEPS, ROWS = 128, 4096
MODES = ["next_step", "same_step"]


def collected(mode: str) -> vecenv.Rollout:
    envs = vecenv.make_vec("CartPole-v1", ROWS, autoreset_mode=mode, max_episode_steps=30)
    rollout = vecenv.Rollout(envs, STEPS)
    rollout.begin(envs.reset(seed=0)[0])
    for t, actions in enumerate(ActionPool(envs.single_action_space, ROWS).windows(STEPS)):
        envs.step(actions, out=rollout[t])
    return rollout


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gae_kernel(benchmark: Any, dtype: Any) -> None:
    benchmark.group = f"returns, T={STEPS}, N={ROWS}"
    rollout = collected("same_step")
    values = np.random.default_rng(0).normal(size=(STEPS, ROWS)).astype(dtype)
    flags = rollout.valid, rollout.terminated, rollout.terminated | rollout.truncated
    out = np.empty_like(values), np.empty_like(values)
    benchmark(returns.gae, rollout.rewards, *flags, values, values.copy(), 0.99, 0.95, *out)
    record_rate(benchmark, STEPS * ROWS, dtype=np.dtype(dtype).name)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["gae", "discounted_returns", "n_step", "v_trace"])
def test_method(benchmark: Any, name: str, mode: str) -> None:
    """With the checks, the values of what follows, and new arrays for results."""
    benchmark.group = f"returns, T={STEPS}, N={ROWS}"
    rollout = collected(mode)
    values = np.random.default_rng(0).normal(size=(STEPS, ROWS)).astype(np.float32)
    calls = {
        "gae": lambda: rollout.gae(values, 0.0, 0.99, 0.95, 0.0),
        "discounted_returns": lambda: rollout.discounted_returns(0.99),
        "n_step": lambda: rollout.n_step(5, 0.99),
        "v_trace": lambda: rollout.v_trace(values, 0.0, values, 0.99, final_values=0.0),
    }
    calls[name]()  # compiles
    benchmark(calls[name])
    record_rate(benchmark, STEPS * ROWS, mode=mode)


def test_minibatches(benchmark: Any) -> None:
    benchmark.group = f"returns, T={STEPS}, N={ROWS}"
    rollout, rng = collected("next_step"), np.random.default_rng(0)
    benchmark(lambda: sum(len(part["obs"]) for part in rollout.minibatches(4096, rng, rewards=rollout.rewards)))
    record_rate(benchmark, STEPS * ROWS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("into", ["fresh arrays", "rollout", "replay"])
def test_collecting(benchmark: Any, into: str, mode: str) -> None:
    """One step of 1024 rows. Target with buffers: 25 us."""
    benchmark.group = "collecting, CartPole, N=1024"
    envs = vecenv.make_vec("CartPole-v1", 1024, autoreset_mode=mode)
    actions = itertools.cycle(ActionPool(envs.single_action_space, 1024).windows(4096))
    rollout, replay = vecenv.Rollout(envs, 1), vecenv.ReplayBuffer(envs, 100)
    rollout.begin(replay.reset(seed=0)[0])
    calls = {
        "fresh arrays": lambda: envs.step(next(actions)),
        "rollout": lambda: envs.step(next(actions), out=rollout[0]),
        "replay": lambda: replay.step(next(actions)),
    }
    benchmark(calls[into])
    record_rate(benchmark, 1024, mode=mode)


@pytest.mark.parametrize("exponent", [None, 0.6])
def test_sampling(benchmark: Any, exponent: float | None) -> None:
    """256 of 10**6 steps, n=3."""
    benchmark.group = "sampling, CartPole, 256 of 1,024,000"
    envs = vecenv.make_vec("CartPole-v1", 1024)
    replay = vecenv.ReplayBuffer(envs, 1000, priority_exponent=exponent)
    replay.reset(seed=0)
    for actions in ActionPool(envs.single_action_space, 1024).windows(1000):
        replay.step(actions)
    rng = np.random.default_rng(0)
    benchmark(lambda: replay.sample(256, rng, n=3))
    record_rate(benchmark, 256, priorities=exponent is not None)
