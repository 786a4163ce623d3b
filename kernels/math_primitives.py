"""The instructions that `vecenv.kernels.math` is written in: one IEEE operation each, in Python and compiled.

Every function here has a Python body and, for Numba, one LLVM instruction or intrinsic (`lowered`). Both give the same
bits, so a function written in these primitives and in `+ - * /` gives the same bits compiled and un-compiled. The
compiled form is registered as typing plus lowering, not as `@overload`: an overload would compile a function of its own
per primitive and process. Python bodies take Python or NumPy scalars and return NumPy scalars, whose arithmetic is
IEEE's (a division by zero is an infinity, int64 wraps).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types as numba_types
from numba.core.typing import templates as numba_templates
from numba.extending import lower_builtin as numba_lower

INT64_MIN = -(2**63)

# Numba's internals are typed in part only.
types: Any = numba_types
templates: Any = numba_templates
lower_builtin: Any = numba_lower

F = TypeVar("F", bound=Callable[..., Any])
Emit = Callable[..., Any]
_DOUBLE = ir.DoubleType()
_FLOAT = ir.FloatType()
_INT64 = ir.IntType(64)
_INT = struct.Struct("<q")
_DOUBLE_BYTES = struct.Struct("<d")


def _is_scalar(type_: Any) -> bool:
    return isinstance(type_, types.Boolean | types.Integer | types.Float)


def composed(function: F) -> F:
    """Mark a function that is written in primitives; `vecenv.kernels.math` compiles it into its callers."""
    function.__vecenv_composed__ = True  # type: ignore[attr-defined]
    return function


def lowered(function: Callable[..., Any], result: Any, *params: Any) -> Callable[[Emit], Emit]:
    """Compile calls of `function` to what `emit(builder, *values)` builds. Scalar arguments are cast to `params`."""

    def decorate(emit: Emit) -> Emit:
        class Template(templates.AbstractTemplate):  # type: ignore[misc]
            key = function

            def generic(self, args: Any, kws: Any) -> Any:
                fits = len(args) == len(params) and not kws and all(map(_is_scalar, args))
                return templates.signature(result, *params) if fits else None

        templates.infer_global(function)(Template)
        lower_builtin(function, *params)(lambda context, builder, sig, args: emit(builder, *args))
        return emit

    return decorate


def _intrinsic(name: str, operands: int) -> Emit:
    """Emit a call of the double-precision LLVM intrinsic `llvm.<name>.f64`."""

    def emit(builder: Any, *args: Any) -> Any:
        function_type = ir.FunctionType(_DOUBLE, [_DOUBLE] * operands)
        return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", [_DOUBLE], function_type), args)

    return emit


# --- floating point


def exact_fma(a: float, b: float, c: float) -> float:
    """a * b + c rounded once, for Python without `math.fma`; IEEE's rules for NaN, infinities and signed zeros.

    Finite operands are ratios of integers, and Python's int / int is correctly rounded, subnormal results included.
    """
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        # A finite product must not overflow into the sum with an infinite or NaN c.
        return c if math.isfinite(a) and math.isfinite(b) else a * b + c
    a_num, a_den = a.as_integer_ratio()
    b_num, b_den = b.as_integer_ratio()
    c_num, c_den = c.as_integer_ratio()
    product = a_num * b_num
    if not product:
        return math.copysign(0.0, a) * math.copysign(1.0, b) + c
    denominator = a_den * b_den
    total = product * c_den + c_num * denominator
    if not total:
        return 0.0  # exact cancellation, to nearest: +0
    try:
        return total / (denominator * c_den)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _standard_fma(a: float, b: float, c: float) -> float:
    """`math.fma` (Python 3.13), with C's results where it raises."""
    try:
        return math.fma(a, b, c)  # type: ignore[attr-defined,no-any-return,unused-ignore]
    except (OverflowError, ValueError):
        return exact_fma(a, b, c)


_python_fma = _standard_fma if hasattr(math, "fma") else exact_fma


def fma(a: float, b: float, c: float) -> float:
    """a * b + c with one rounding."""
    return np.float64(_python_fma(float(a), float(b), float(c)))


# The instruction on hardware that has it, else a library call with the same bits.
lowered(fma, types.float64, types.float64, types.float64, types.float64)(_intrinsic("fma", 3))


def sqrt(x: float) -> float:
    """The square root, correctly rounded; NaN below zero."""
    return np.float64(np.sqrt(np.float64(x)))


lowered(sqrt, types.float64, types.float64)(_intrinsic("sqrt", 1))


def floor(x: float) -> float:
    """The largest integer <= x, as a float (as `np.floor`; `math.floor` gives an int)."""
    return np.float64(np.floor(np.float64(x)))


lowered(floor, types.float64, types.float64)(_intrinsic("floor", 1))


def ceil(x: float) -> float:
    """The smallest integer >= x, as a float (as `np.ceil`; `math.ceil` gives an int)."""
    return np.float64(np.ceil(np.float64(x)))


lowered(ceil, types.float64, types.float64)(_intrinsic("ceil", 1))


def copysign(x: float, y: float) -> float:
    """The magnitude of x with the sign of y."""
    return np.float64(math.copysign(float(x), float(y)))


lowered(copysign, types.float64, types.float64, types.float64)(_intrinsic("copysign", 2))


def magnitude(x: float) -> float:
    """abs(x) as a float."""
    return np.float64(abs(float(x)))


lowered(magnitude, types.float64, types.float64)(_intrinsic("fabs", 1))


def fmod(x: float, y: float) -> float:
    """The remainder of x / y truncated, exact, with the sign of x: C's fmod. Not vectorized; `mod` is."""
    return np.float64(np.fmod(np.float64(x), np.float64(y)))


@lowered(fmod, types.float64, types.float64, types.float64)
def _fmod(builder: Any, x: Any, y: Any) -> Any:
    return builder.frem(x, y)


def f32(x: float) -> float:
    """x rounded to float32 and back: what a float32 variable would hold."""
    return np.float64(np.float32(np.float64(x)))


@lowered(f32, types.float64, types.float64)
def _f32(builder: Any, x: Any) -> Any:
    return builder.fpext(builder.fptrunc(x, _FLOAT), _DOUBLE)


def to_float(x: float) -> float:
    """What `float(x)` means in row functions: x as float64."""
    if isinstance(x, str | bytes):
        raise TypeError("float() of text is not available in row functions")
    return np.float64(x)


@lowered(to_float, types.float64, types.float64)
def _to_float(builder: Any, x: Any) -> Any:
    return x


# --- bits


def float_bits(x: float) -> Any:
    """The 64 bits of a double as int64."""
    return np.int64(_INT.unpack(_DOUBLE_BYTES.pack(x))[0])


@lowered(float_bits, types.int64, types.float64)
def _float_bits(builder: Any, x: Any) -> Any:
    return builder.bitcast(x, _INT64)


def bits_float(bits: Any) -> float:
    """The double with the 64 bits of an int64."""
    return np.float64(_DOUBLE_BYTES.unpack(_INT.pack(bits))[0])


@lowered(bits_float, types.float64, types.int64)
def _bits_float(builder: Any, bits: Any) -> Any:
    return builder.bitcast(bits, _DOUBLE)


def select(condition: Any, a: float, b: float) -> float:
    """a where the condition holds, else b, both evaluated: no branch, so the loop around it still vectorizes."""
    return np.float64(a if condition else b)


@lowered(select, types.float64, types.boolean, types.float64, types.float64)
def _select(builder: Any, condition: Any, a: Any, b: Any) -> Any:
    return builder.select(condition, a, b)


# --- the builtins int, round, min and max


def _is_integer(x: Any) -> bool:
    return isinstance(x, int | np.integer | np.bool_)


def cast_int(builder: Any, x: Any) -> Any:
    """A double as int64, towards zero; what has no int64 becomes -2**63."""
    # fptosi of a NaN or of a value out of range is poison in LLVM, which a select does not pass on.
    minimum_, limit = ir.Constant(_DOUBLE, -(2.0**63)), ir.Constant(_DOUBLE, 2.0**63)
    fits = builder.and_(builder.fcmp_ordered(">=", x, minimum_), builder.fcmp_ordered("<", x, limit))
    return builder.select(fits, builder.fptosi(x, _INT64), ir.Constant(_INT64, INT64_MIN))


def to_int(x: Any) -> Any:
    """What `int(x)` means in row functions: x as int64, floats truncated towards zero.

    NaN, infinities and everything outside int64 give -2**63 (what x86's cvttsd2si gives); Python would raise.
    """
    if _is_integer(x):
        return np.int64(x)
    if isinstance(x, str | bytes):
        raise TypeError("int() of text is not available in row functions")
    x = float(x)
    return np.int64(int(x) if -(2.0**63) <= x < 2.0**63 else INT64_MIN)


def round_even(x: Any) -> Any:
    """What `round(x)` means in row functions: the nearest integer as int64, ties to even, else the rule of `to_int`.

    `round(x, ndigits)` is not available: write `round(x * 100.0) / 100.0`.
    """
    return to_int(x) if _is_integer(x) else to_int(np.rint(np.float64(x)))


def _integer_conversion(function: Callable[..., Any], emit: Emit) -> None:
    """Type `function` as int64(int64) for integers and booleans, int64(float64) for floats."""

    class Template(templates.AbstractTemplate):  # type: ignore[misc]
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) != 1 or kws or not _is_scalar(args[0]):
                return None
            return templates.signature(types.int64, types.float64 if isinstance(args[0], types.Float) else types.int64)

    templates.infer_global(function)(Template)
    lower_builtin(function, types.int64)(lambda context, builder, sig, args: args[0])
    lower_builtin(function, types.float64)(lambda context, builder, sig, args: emit(builder, args[0]))


_integer_conversion(to_int, cast_int)
# rint, not roundeven: the rounding mode is always "to nearest, ties to even", and every C library has rint.
_integer_conversion(round_even, lambda builder, x: cast_int(builder, _intrinsic("rint", 1)(builder, x)))


def _common(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values as float64 if one is a float, else int64 if one is an integer, else bool."""
    if all(isinstance(value, float) for value in values):
        return values
    for value in values:
        if not isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating):
            raise TypeError(f"min() and max() in row functions take scalars, not {type(value).__name__}")
    if not all(map(_is_integer, values)):
        return tuple(np.float64(value) for value in values)
    if all(isinstance(value, bool | np.bool_) for value in values):
        return tuple(np.bool_(value) for value in values)
    return tuple(np.int64(value) for value in values)


def minimum(a: Any, b: Any, *more: Any) -> Any:
    """What `min(a, b, ...)` means in row functions: Python's rule `b if b < a else a`, from left to right.

    So a NaN in first place stays and a NaN elsewhere is passed over, as in Python. If one argument is a float the
    result is float64 (Python would keep the int it picked), else int64, or bool if all are. Two or more scalars.
    """
    best, *rest = _common((a, b, *more))
    for value in rest:
        best = value if value < best else best
    return np.float64(best) if isinstance(best, float) else best


def maximum(a: Any, b: Any, *more: Any) -> Any:
    """What `max(a, b, ...)` means in row functions: Python's rule `b if b > a else a`, from left to right.

    Types and NaN as in `minimum`.
    """
    best, *rest = _common((a, b, *more))
    for value in rest:
        best = value if value > best else best
    return np.float64(best) if isinstance(best, float) else best


def _extreme(function: Callable[..., Any], comparison: str) -> None:
    """Type and lower `minimum` or `maximum` for any number of scalars."""

    class Template(templates.AbstractTemplate):  # type: ignore[misc]
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) < 2 or kws or not all(map(_is_scalar, args)):
                return None
            if any(isinstance(arg, types.Float) for arg in args):
                common = types.float64
            else:
                common = types.int64 if any(isinstance(arg, types.Integer) for arg in args) else types.boolean
            return templates.signature(common, *[common] * len(args))

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        best = args[0]
        for value in args[1:]:
            if sig.return_type == types.float64:
                better = builder.fcmp_ordered(comparison, value, best)
            elif sig.return_type == types.int64:
                better = builder.icmp_signed(comparison, value, best)
            else:
                better = builder.icmp_unsigned(comparison, value, best)
            best = builder.select(better, value, best)
        return best

    templates.infer_global(function)(Template)
    lower_builtin(function, types.VarArg(types.Any))(lower)


_extreme(minimum, "<")
_extreme(maximum, ">")


def held(x: float) -> float:
    """A constant that stays in a register or on the stack over a loop.

    Without it LLVM loads every constant anew from a 64-bit address, two instructions each: CartPole's step 5 % slower.
    """
    return x


lowered(held, types.float64, types.float64)(_intrinsic("arithmetic.fence", 1))
