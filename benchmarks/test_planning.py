"""Exact models and dynamic programming on a noisy grid of 100x100 cells. Targets: model .5 s, value iteration 1 s."""

from __future__ import annotations

from typing import Any

import pytest

import vecenv
from vecenv.kernels.grid.gridworld import NOISE
from vecenv.planning import policy_iteration, value_iteration

SIZE = 100
GRID = ["." * (SIZE - 1) + "G", *["." * SIZE] * (SIZE - 2), "S" + "." * (SIZE - 1)]
WORLD = vecenv.gridworld(GRID, noise=NOISE)


def run(benchmark: Any, function: Any, *args: Any, **kwargs: Any) -> None:
    """The first call compiles and is not counted."""
    function(*args, **kwargs)
    benchmark.group = "planning"
    benchmark(function, *args, **kwargs)


def test_definition(benchmark: Any) -> None:
    run(benchmark, vecenv.gridworld, GRID, noise=NOISE)


def test_model(benchmark: Any) -> None:
    run(benchmark, vecenv.model, WORLD)


@pytest.mark.parametrize("in_place", [True, False])
def test_value_iteration(benchmark: Any, in_place: bool) -> None:
    run(benchmark, value_iteration, vecenv.model(WORLD), 0.99, 1e-6, in_place=in_place)


def test_policy_iteration(benchmark: Any) -> None:
    run(benchmark, policy_iteration, vecenv.model(WORLD), 0.99, 1e-6)
