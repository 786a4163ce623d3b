"""The one place that compiles: `@jit` marks an author's row function, `@kernel` compiles a standalone batch function,
`bind` rebinds a call tree for one definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

#: error_model="numpy": the default division check costs 5x; nogil: threads run kernels side by side.
NUMBA_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}


def inline(function: F) -> Any:
    """A compiled function that is always inlined into its caller (row, rng and math functions)."""
    return numba.njit(**NUMBA_OPTIONS, forceinline=True)(function)


def jit(function: F) -> F:
    """Mark `function` as callable from row functions. Called directly, it is plain Python."""
    function.__vecenv_jit__ = True  # type: ignore[attr-defined]
    return function


def kernel(function: F) -> Any:
    """A standalone batch function, compiled on its first call and cached on disk."""
    return numba.njit(**NUMBA_OPTIONS, cache=False)(function)
