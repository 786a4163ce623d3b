"""Snapshots, restores, forks, resets and seeds. Planners call the first three once per simulation."""

from __future__ import annotations

from collections.abc import Callable
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


def run(benchmark: Any, rows: int, group: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Benchmark a call that moves `rows` rows; the first one compiles and is not counted."""
    function(*args, **kwargs)
    benchmark.group = group
    benchmark(function, *args, **kwargs)
    record_rate(benchmark, rows)


@N
def test_snapshot(benchmark: Any, num_envs: int) -> None:
    run(benchmark, num_envs, f"state, N={num_envs}", running(num_envs).snapshot)


@N
def test_snapshot_recycled(benchmark: Any, num_envs: int) -> None:
    envs = running(num_envs)
    snap = envs.snapshot()
    run(benchmark, num_envs, f"state, N={num_envs}", envs.snapshot, out=snap)


@N
def test_restore(benchmark: Any, num_envs: int) -> None:
    envs = running(num_envs)
    run(benchmark, num_envs, f"state, N={num_envs}", envs.restore, envs.snapshot())


@N
def test_restore_one_row_to_all(benchmark: Any, num_envs: int) -> None:
    envs = running(num_envs)
    run(benchmark, num_envs, f"state, N={num_envs}", envs.restore, envs.snapshot(rows=[0]))


@pytest.mark.parametrize("rng", ["copy", "keep", "fresh"])
@pytest.mark.parametrize("num_envs", SIZES[1:])
def test_fork_one_row_to_all(benchmark: Any, num_envs: int, rng: str) -> None:
    envs = running(num_envs)
    run(benchmark, num_envs, f"state, N={num_envs}", envs.fork, 0, np.arange(1, num_envs), rng=rng)


@pytest.mark.parametrize("num_envs", SIZES[1:])
def test_fork_in_random_order(benchmark: Any, num_envs: int) -> None:
    envs = running(num_envs)
    order = np.random.default_rng(0).permutation(num_envs)
    half = num_envs // 2
    run(benchmark, half, f"state, N={num_envs}", envs.fork, order[:half], order[half : 2 * half])


@N
def test_reset(benchmark: Any, num_envs: int) -> None:
    run(benchmark, num_envs, f"reset, N={num_envs}", running(num_envs).reset)


@N
def test_reset_with_a_seed(benchmark: Any, num_envs: int) -> None:
    run(benchmark, num_envs, f"reset, N={num_envs}", running(num_envs).reset, seed=0)


@pytest.mark.parametrize("num_envs", SIZES[1:])
def test_reset_of_every_second_row(benchmark: Any, num_envs: int) -> None:
    mask = np.arange(num_envs) % 2 == 0
    run(benchmark, num_envs, f"reset, N={num_envs}", running(num_envs).reset, options={"reset_mask": mask})


@N
def test_observe(benchmark: Any, num_envs: int) -> None:
    run(benchmark, num_envs, f"state, N={num_envs}", running(num_envs).observe)


@N
def test_episode_statistics(benchmark: Any, num_envs: int) -> None:
    envs = running(num_envs)
    run(
        benchmark,
        num_envs,
        f"state, N={num_envs}",
        lambda: (envs.episode_ended, envs.episode_returns, envs.episode_lengths),
    )


@N
def test_make_vec(benchmark: Any, num_envs: int) -> None:
    """A second batch of a definition whose kernels the process has loaded already."""
    run(benchmark, num_envs, f"reset, N={num_envs}", vecenv.make_vec, "CartPole-v1", num_envs)
