"""Mathematics that is exact or correctly rounded, and so the same in both kinds.

Plain Python over the primitives, like `math_portable`; `vecenv.kernels.math` compiles it.
"""

from __future__ import annotations

from typing import Any

from vecenv.kernels.math_primitives import composed, copysign, floor, fma, magnitude, maximum, minimum, select, to_float

inf = float("inf")
nan = float("nan")


@composed
def square(x: float) -> float:
    """x * x as float64. `x**2` is not available in row functions: compilers and C libraries round it differently.

    Where a Gymnasium environment writes `x**2`, `pow_square` gives its bits under libm.
    """
    x = to_float(x)
    return x * x


@composed
def mod(x: float, y: float) -> float:
    """Python's `x % y` on floats, bit for bit, for |x / y| < 2**53; NaN beyond, for y = 0 and for infinite x.

    The quotient, rounded and then floored, is right or one too large (rounding is monotonic, so never too small); the
    fma's remainder is exact in the second case and has Python's one rounding in the first.
    """
    x = to_float(x)
    y = to_float(y)
    quotient = floor(x / y)
    r = fma(-quotient, y, x)
    r = select((r != 0.0) & ((r < 0.0) != (y < 0.0)), r + y, r)
    r = select(r == 0.0, copysign(0.0, y), r)
    r = select(magnitude(quotient) < 2.0**53, r, nan)
    # An infinite divisor: the quotient is 0 or -1, and its product with y is no number.
    whole = select((x == 0.0) | ((x < 0.0) == (y < 0.0)), x, y)
    whole = select(x == 0.0, copysign(0.0, y), whole)
    return select((magnitude(y) == inf) & (magnitude(x) < inf), whole, r)


@composed
def isnan(x: float) -> bool:
    """Whether x is no number."""
    x = to_float(x)
    return x != x


@composed
def isinf(x: float) -> bool:
    """Whether x is an infinity."""
    return magnitude(x) == inf


@composed
def isfinite(x: float) -> bool:
    """Whether x is neither infinite nor NaN."""
    return magnitude(x) < inf


@composed
def sign(x: float) -> float:
    """-1.0, 0.0 or 1.0, or NaN for NaN: `np.sign`."""
    x = to_float(x)
    return select(x > 0.0, 1.0, select(x < 0.0, -1.0, select(x == 0.0, 0.0, x)))


@composed
def clip(x: Any, lo: Any, hi: Any) -> Any:
    """min(max(x, lo), hi) in the sense of `minimum` and `maximum`: ints stay ints, a NaN x stays, hi wins over lo."""
    return minimum(maximum(x, lo), hi)
