"""Snapshots, restores, forks, resets and seeds. Planners call the first three once per simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vecenv
from benchmarks.measure import record_rate, stepper

SIZES = (1, 1024, 65536)
N = pytest.mark.parametrize("num_envs", SIZES)


def running(num_envs: int) -> vecenv.VecEnv:
    envs = vecenv.make_vec("CartPole-v1", num_envs)
    stepper(envs)()
    return envs


@N
def test_snapshot(benchmark: Any, num_envs: int) -> None:
    benchmark.group = f"state, N={num_envs}"
    benchmark(running(num_envs).snapshot)
    record_rate(benchmark, num_envs)


@N
def test_snapshot_recycled(benchmark: Any, num_envs: int) -> None:
    benchmark.group = f"state, N={num_envs}"
    envs = running(num_envs)
    snap = envs.snapshot()
    benchmark(envs.snapshot, out=snap)
    record_rate(benchmark, num_envs)


@N
def test_restore(benchmark: Any, num_envs: int) -> None:
    benchmark.group = f"state, N={num_envs}"
    envs = running(num_envs)
    benchmark(envs.restore, envs.snapshot())
    record_rate(benchmark, num_envs)


@N
def test_restore_one_row_to_all(benchmark: Any, num_envs: int) -> None:
    benchmark.group = f"state, N={num_envs}"
    envs = running(num_envs)
    benchmark(envs.restore, envs.snapshot(rows=[0]))
    record_rate(benchmark, num_envs)


@pytest.mark.parametrize("rng", ["copy", "keep", "fresh"])
@pytest.mark.parametrize("num_envs", SIZES[1:])
def test_fork_one_row_to_all(benchmark: Any, num_envs: int, rng: str) -> None:
    benchmark.group = f"state, N={num_envs}"
    envs = running(num_envs)
    benchmark(envs.fork, 0, np.arange(1, num_envs), rng=rng)
    record_rate(benchmark, num_envs)


@pytest.mark.parametrize("num_envs", SIZES[1:])
def test_fork_in_random_order(benchmark: Any, num_envs: int) -> None:
    benchmark.group = f"state, N={num_envs}"
    envs = running(num_envs)
    order = np.random.default_rng(0).permutation(num_envs)
    half = num_envs // 2
    benchmark(envs.fork, order[:half], order[half : 2 * half])
    record_rate(benchmark, half)


@N
def test_reset(benchmark: Any, num_envs: int) -> None:
    benchmark.group = f"reset, N={num_envs}"
    benchmark(running(num_envs).reset)
    record_rate(benchmark, num_envs)


@N
def test_reset_with_a_seed(benchmark: Any, num_envs: int) -> None:
    benchmark.group = f"reset, N={num_envs}"
    benchmark(running(num_envs).reset, seed=0)
    record_rate(benchmark, num_envs)


@pytest.mark.parametrize("num_envs", SIZES[1:])
def test_reset_of_every_second_row(benchmark: Any, num_envs: int) -> None:
    benchmark.group = f"reset, N={num_envs}"
    mask = np.arange(num_envs) % 2 == 0
    benchmark(running(num_envs).reset, options={"reset_mask": mask})
    record_rate(benchmark, num_envs)


@N
def test_observe(benchmark: Any, num_envs: int) -> None:
    benchmark.group = f"state, N={num_envs}"
    benchmark(running(num_envs).observe)
    record_rate(benchmark, num_envs)


@N
def test_episode_statistics(benchmark: Any, num_envs: int) -> None:
    benchmark.group = f"state, N={num_envs}"
    envs = running(num_envs)
    benchmark(lambda: (envs.episode_ended, envs.episode_returns, envs.episode_lengths))
    record_rate(benchmark, num_envs)


@N
def test_make_vec(benchmark: Any, num_envs: int) -> None:
    """A second batch of a definition whose kernels the process has loaded already."""
    benchmark.group = f"reset, N={num_envs}"
    benchmark(vecenv.make_vec, "CartPole-v1", num_envs)
    record_rate(benchmark, num_envs)
