"""The C library's mathematics, bit for bit what CPython's `math` module computes on this platform.

Compiled code calls each function through an external symbol of our own (`vecenv_libm_sin`, ...), registered with LLVM
when this module is imported. Under its own name LLVM would know the function and fold or rewrite it (`pow(x, 2.0)`
becomes `x * x`, which differs in 0.08 % of values), and a symbol, unlike an address, may stand in Numba's disk cache.
The un-compiled twins call the same addresses through ctypes rather than `math.*`, which raises where C returns inf or
NaN. `hypot` is C's (as `np.hypot`); Python's `math.hypot` is an algorithm of its own.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np
from llvmlite import ir
from numba.core import types

from vecenv.kernels.math_primitives import lowered

UNARY = ("sin", "cos", "tan", "asin", "acos", "atan", "exp", "expm1", "log", "log2", "log10", "sinh", "cosh", "tanh")
BINARY = ("atan2", "pow", "hypot")

#: name -> the function for row functions: in Python the twin, in Numba a call of the C function.
FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _library() -> ctypes.CDLL:
    """The library that has C's mathematics."""
    if sys.platform == "win32":
        return ctypes.CDLL("ucrtbase")
    process = ctypes.CDLL(None)
    if hasattr(process, "expm1"):  # Python's math module brought it
        return process
    from ctypes.util import find_library  # slow: starts other programs

    return ctypes.CDLL(find_library("m"))


def _define(library: ctypes.CDLL, name: str, operands: int) -> Callable[..., Any]:
    """The function `name` of the library: its twin, and what Numba compiles a call of it to."""
    prototype = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * operands)
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None
    call = prototype(address)
    symbol = f"vecenv_libm_{name}"
    llvmlite.binding.add_symbol(symbol, address)

    def unary(x: float) -> float:
        return np.float64(call(np.float64(x)))

    def binary(x: float, y: float) -> float:
        return np.float64(call(np.float64(x), np.float64(y)))

    def emit(builder: Any, *args: Any) -> Any:
        double = ir.DoubleType()
        external = builder.module.globals.get(symbol)
        if external is None:
            external = ir.Function(builder.module, ir.FunctionType(double, [double] * operands), symbol)
            # Two calls with the same argument may become one, and a call may leave a loop.
            external.attributes.add("nounwind")
            external.attributes.add("readnone")
        return builder.call(external, args)

    twin: Callable[..., Any] = unary if operands == 1 else binary
    twin.__name__ = twin.__qualname__ = name
    twin.__doc__ = f"The C library's {name}."
    globals()[name] = twin  # Numba looks a typed function up by its module and name
    lowered(twin, types.float64, *[types.float64] * operands)(emit)
    return twin


_LIBRARY = _library()
FUNCTIONS.update({name: _define(_LIBRARY, name, 1) for name in UNARY})
FUNCTIONS.update({name: _define(_LIBRARY, name, 2) for name in BINARY})
