"""Throughput of `VecEnv.step` by environment, batch size and auto-reset mode, copying and validating."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

import vecenv
from benchmarks.measure import empty_outputs, record_rate, stepper

SIZES = (1, 64, 1024, 8192, 65536)


@pytest.mark.parametrize("num_envs", SIZES)
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("env_id", vecenv.registered_ids())
def test_step(benchmark: Any, env_id: str, mode: str, num_envs: int) -> None:
    benchmark.group = f"step {env_id}"
    envs = vecenv.make_vec(env_id, num_envs, autoreset_mode=mode)
    benchmark(stepper(envs))
    record_rate(benchmark, num_envs, id=env_id, mode=mode)
    envs.close()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"math": "libm"},
        {"validate": False},
        {"copy": False},
        {"copy": False, "validate": False},
    ],
    ids=lambda arguments: " ".join(f"{key}={value}" for key, value in arguments.items()) or "default",
)
def test_cartpole_variants(benchmark: Any, arguments: dict[str, Any]) -> None:
    """What copying, validating and the platform's libm cost."""
    benchmark.group = "CartPole variants, N=8192"
    envs = vecenv.make_vec("CartPole-v1", 8192, **arguments)
    benchmark(stepper(envs))
    record_rate(benchmark, 8192, **arguments)
    envs.close()


@pytest.mark.parametrize("num_envs", [8192, 65536])
def test_cartpole_out(benchmark: Any, num_envs: int) -> None:
    """Arrays of the caller's, written in place: no page faults."""
    benchmark.group = "CartPole variants, out="
    envs = vecenv.make_vec("CartPole-v1", num_envs)
    benchmark(stepper(envs, out=empty_outputs(envs)))
    record_rate(benchmark, num_envs)
    envs.close()


def test_cartpole_some_rows(benchmark: Any) -> None:
    """Every second row of 8,192: the row-list kernel."""
    benchmark.group = "CartPole variants, rows="
    envs = vecenv.make_vec("CartPole-v1", 8192)
    envs.reset(seed=0)
    rows = list(range(0, 8192, 2))
    some = vecenv.make_vec("CartPole-v1", len(rows))  # only for actions of the right number
    actions = some.action_space.sample()
    benchmark(lambda: envs.step(actions, rows=rows))
    record_rate(benchmark, len(rows))


def test_gymnasium_cartpole(benchmark: Any) -> None:
    """Gymnasium's own NumPy batch, for scale. Ratios come from `python -m benchmarks.compare`, which interleaves."""
    benchmark.group = "CartPole variants, N=8192"
    envs = gymnasium.make_vec("CartPole-v1", num_envs=8192, vectorization_mode="vector_entry_point")
    benchmark(stepper(envs))
    record_rate(benchmark, 8192)
    envs.close()
