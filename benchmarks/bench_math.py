"""ns per value of every function of `vecenv.kernels.math`, by kind: `python benchmarks/bench_math.py [names]`.

Each function runs over 8,192 doubles in a compiled loop of its own. Kinds alternate, and the median of the rounds is
shown, so that another load on the machine meets both alike. `sin+cos` is the pair of one angle, whose work is shared.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from vecenv.kernels import math as vmath
from vecenv.kernels.jit import NUMBA_OPTIONS

N = 8192
ROUNDS = 9
BINARY = ("atan2", "pow", "hypot", "mod", "fmod", "copysign", "minimum", "maximum")
POSITIVE = ("log", "log2", "log10", "pow", "sqrt")
UNIT = ("asin", "acos")


def make_loop(names: list[str], kind: str) -> Callable[..., Any]:
    """out[i] = f(x[i]), or f(x[i], y[i]), or the sum of two functions of x[i]."""
    first = vmath.implementation(names[0], kind, compiled=True)
    second = vmath.implementation(names[-1], kind, compiled=True)

    def pair(out: Any, x: Any, y: Any) -> None:
        for i in range(x.size):
            out[i] = first(x[i]) + second(x[i])

    def binary(out: Any, x: Any, y: Any) -> None:
        for i in range(x.size):
            out[i] = first(x[i], y[i])

    def clip(out: Any, x: Any, y: Any) -> None:
        for i in range(x.size):
            out[i] = first(x[i], -1.0, 1.0)

    def unary(out: Any, x: Any, y: Any) -> None:
        for i in range(x.size):
            out[i] = first(x[i])

    loop = pair if len(names) == 2 else binary if names[0] in BINARY else clip if names[0] == "clip" else unary
    compiled: Callable[..., Any] = numba.njit(**NUMBA_OPTIONS)(loop)
    return compiled


def measure(name: str) -> dict[str, float]:
    """Median ns per value for both kinds."""
    names = name.split("+")
    rng = np.random.default_rng(0)
    low, high = (0.01, 10.0) if names[0] in POSITIVE else (-1.0, 1.0) if names[0] in UNIT else (-3.0, 3.0)
    arrays = np.empty(N), rng.uniform(low, high, N), rng.uniform(-3.0, 3.0, N)
    loops = {kind: make_loop(names, kind) for kind in vmath.KINDS}
    for loop in loops.values():
        loop(*arrays)
    times: dict[str, list[float]] = {kind: [] for kind in loops}
    for _ in range(ROUNDS):
        for kind, loop in loops.items():
            start = time.perf_counter_ns()
            for _ in range(20):
                loop(*arrays)
            times[kind].append((time.perf_counter_ns() - start) / (20 * N))
    return {kind: statistics.median(values) for kind, values in times.items()}


def main(names: list[str]) -> None:
    print(f"{'':12}{'portable':>10}{'libm':>10}   ns per value")
    for name in names or ["sin", "cos", "sin+cos", *[name for name in vmath.PUBLIC if name not in ("sin", "cos")]]:
        result = measure(name)
        print(f"{name:12}{result['portable']:10.2f}{result['libm']:10.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
