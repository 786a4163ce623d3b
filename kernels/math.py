"""Mathematics for row functions: `from vecenv.kernels.math import sin, cos, square`.

There are two kinds of arithmetic. "portable" (the default): functions of our own that vectorize and give the same bits
on every platform. "libm": the C library's, bit for bit what CPython's `math` and so Gymnasium compute on this platform,
several times slower. What is exact or correctly rounded is the same in both. A row function names a function once; when
it is bound, the name is replaced by `implementation(name, kind, compiled)`.

Called directly, a function of this module is plain Python and computes the portable result. Arguments may be floats,
ints and bools, of Python or NumPy; results are float64 unless a docstring says otherwise. The sign and payload of a
NaN result are unspecified.

In row functions the builtins `int, float, round, min, max` stand for the functions in `BUILTINS`, which do not raise
for NaN or overflow: `to_int` and `round_even` give -2**63 there, `minimum` and `maximum` follow Python's comparisons.
`abs` is itself.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar

import numpy as np

from vecenv.kernels import math_exact as exact
from vecenv.kernels import math_libm as libm
from vecenv.kernels import math_portable as portable
from vecenv.kernels import math_primitives as primitives
from vecenv.kernels.jit import inline

F = TypeVar("F", bound=Callable[..., Any])

KINDS = ("portable", "libm")

pi = 3.141592653589793
inf = float("inf")
nan = float("nan")

#: name -> the function as authors import it
PUBLIC: dict[str, Callable[..., Any]] = {}

#: builtin -> name of the function that stands for it in row functions
BUILTINS: dict[Callable[..., Any], str] = {
    int: "to_int",
    float: "to_float",
    round: "round_even",
    min: "minimum",
    max: "maximum",
}


def _public(source: F) -> F:
    """`source` as authors import it: a Python function that knows its name, and IEEE's results without warnings."""

    @wraps(source)
    def function(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return source(*args, **kwargs)

    function.__module__ = __name__
    function.__vecenv_math__ = source.__name__  # type: ignore[attr-defined]
    PUBLIC[source.__name__] = function
    return function  # type: ignore[return-value]


sin = _public(portable.sin)
cos = _public(portable.cos)
tan = _public(portable.tan)
asin = _public(portable.asin)
acos = _public(portable.acos)
atan = _public(portable.atan)
atan2 = _public(portable.atan2)
exp = _public(portable.exp)
expm1 = _public(portable.expm1)
log = _public(portable.log)
log2 = _public(portable.log2)
log10 = _public(portable.log10)
sinh = _public(portable.sinh)
cosh = _public(portable.cosh)
tanh = _public(portable.tanh)
pow = _public(portable.pow)
pow_square = _public(portable.pow_square)
powf_square = _public(portable.powf_square)
hypot = _public(portable.hypot)

square = _public(exact.square)
mod = _public(exact.mod)
isnan = _public(exact.isnan)
isinf = _public(exact.isinf)
isfinite = _public(exact.isfinite)
sign = _public(exact.sign)
clip = _public(exact.clip)

sqrt = _public(primitives.sqrt)
floor = _public(primitives.floor)
ceil = _public(primitives.ceil)
fmod = _public(primitives.fmod)
copysign = _public(primitives.copysign)
f32 = _public(primitives.f32)
to_int = _public(primitives.to_int)
to_float = _public(primitives.to_float)
round_even = _public(primitives.round_even)
minimum = _public(primitives.minimum)
maximum = _public(primitives.maximum)


@cache
def _compiled(function: Callable[..., Any]) -> Any:
    """What compiled code calls: a dispatcher for a composed function; a primitive, which Numba knows, itself."""
    if not hasattr(function, "__vecenv_composed__"):
        return function
    scope = function.__globals__
    parts = {name: _compiled(scope[name]) for name in function.__code__.co_names if callable(scope.get(name))}
    clone = types.FunctionType(function.__code__, {**scope, **parts}, function.__name__)
    return inline(clone)


@cache
def implementation(name: str, kind: str = "portable", compiled: bool = True) -> Callable[..., Any]:
    """The function `name` of one kind, for compiled code or for Python, with the same bits.

    The compiled form is a force-inlined dispatcher, made when first asked for, or a Python function that Numba knows as
    a primitive. The Python form gives no warnings.
    """
    if kind not in KINDS:
        raise ValueError(f"math must be one of {KINDS}, not {kind!r}")
    if name not in PUBLIC:
        raise KeyError(f"vecenv.kernels.math has no function {name!r}")
    if kind == "libm" and name in libm.FUNCTIONS:
        return libm.FUNCTIONS[name]  # the twin, and what Numba knows as a call of the C function
    return _compiled(PUBLIC[name].__wrapped__) if compiled else PUBLIC[name]  # type: ignore[attr-defined]
