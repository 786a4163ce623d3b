"""The C library's mathematics, bit for bit what CPython's `math` module computes on this platform.

Compiled code calls each function through an external symbol of our own (`vecenv_libm_sin`, ...), registered with LLVM
when this module is imported. Under its own name LLVM would know the function and fold or rewrite it (`pow(x, 2.0)`
becomes `x * x`, which differs in 0.08 % of values), and a symbol, unlike an address, may stand in Numba's disk cache.
The un-compiled twins call the same addresses through ctypes rather than `math.*`, which raises where C returns inf or
NaN. `hypot` is C's (as `np.hypot`); Python's `math.hypot` is an algorithm of its own. `pow_square` and `powf_square`
are `pow(x, 2.0)` and `powf(x, 2.0f)`: what `x**2` means for Python's and NumPy's float64 and for NumPy's float32.
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


_DOUBLE, _FLOAT = ir.DoubleType(), ir.FloatType()


def _load(library: ctypes.CDLL, name: str, operands: int, number: Any = ctypes.c_double) -> Callable[..., Any]:
    """The function `name` of the library for Python; LLVM gets to know its symbol."""
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None
    llvmlite.binding.add_symbol(f"vecenv_libm_{name}", address)
    return ctypes.CFUNCTYPE(number, *[number] * operands)(address)


def _call(builder: Any, name: str, args: Any, number: Any = _DOUBLE) -> Any:
    """Emit a call of a function that was loaded."""
    symbol = f"vecenv_libm_{name}"
    external = builder.module.globals.get(symbol)
    if external is None:
        external = ir.Function(builder.module, ir.FunctionType(number, [number] * len(args)), symbol)
        # Two calls with the same argument may become one, and a call may leave a loop.
        external.attributes.add("nounwind")
        external.attributes.add("readnone")
    return builder.call(external, args)


def _define(library: ctypes.CDLL, name: str, operands: int) -> Callable[..., Any]:
    """The function `name` of the library: its twin, and what Numba compiles a call of it to."""
    call = _load(library, name, operands)

    def unary(x: float) -> float:
        return np.float64(call(np.float64(x)))

    def binary(x: float, y: float) -> float:
        return np.float64(call(np.float64(x), np.float64(y)))

    def atan2(y: float, x: float) -> float:
        return np.float64(call(np.float64(y), np.float64(x)))

    def emit(builder: Any, *args: Any) -> Any:
        return _call(builder, name, args)

    twin: Callable[..., Any] = unary if operands == 1 else atan2 if name == "atan2" else binary
    twin.__name__ = twin.__qualname__ = name
    twin.__doc__ = f"The C library's {name}."
    globals()[name] = twin  # Numba looks a typed function up by its module and name
    lowered(twin, types.float64, *[types.float64] * operands)(emit)
    return twin


_LIBRARY = _library()
FUNCTIONS.update({name: _define(_LIBRARY, name, 1) for name in UNARY})
FUNCTIONS.update({name: _define(_LIBRARY, name, 2) for name in BINARY})
_powf = _load(_LIBRARY, "powf", 2, ctypes.c_float)


def pow_square(x: float) -> float:
    """The C library's pow(x, 2.0)."""
    return FUNCTIONS["pow"](x, 2.0)  # type: ignore[no-any-return]


@lowered(pow_square, types.float64, types.float64)
def _pow_square(builder: Any, x: Any) -> Any:
    return _call(builder, "pow", [x, ir.Constant(_DOUBLE, 2.0)])


def powf_square(x: float) -> float:
    """The C library's powf(x, 2.0f)."""
    return np.float64(_powf(np.float32(np.float64(x)), 2.0))


@lowered(powf_square, types.float64, types.float64)
def _powf_square(builder: Any, x: Any) -> Any:
    y = _call(builder, "powf", [builder.fptrunc(x, _FLOAT), ir.Constant(_FLOAT, 2.0)], _FLOAT)
    return builder.fpext(y, _DOUBLE)


FUNCTIONS.update(pow_square=pow_square, powf_square=powf_square)
