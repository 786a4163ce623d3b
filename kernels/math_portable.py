"""Portable mathematics: vectorized, and the same bits on every platform, compiled or not.

Each function is plain Python over the primitives of `math_primitives`; `vecenv.kernels.math` compiles it. What makes
the bits equal everywhere is that only IEEE operations occur (`+ - * /`, sqrt, fma, floor, bit patterns), each rounded
once and in a written order. What makes loops vectorize is that nothing branches (`select` evaluates both sides), and
that integers come from the mantissa of a float after adding 1.5 * 2**52, not from a conversion. "ulp" in a docstring
is the largest error measured against 80-bit or longer references, in units of the result's last place.

The polynomial coefficients of sin, cos, log, atan and asin are those of fdlibm (Sun Microsystems, 1993; "permission to
use, copy, modify, and distribute this software is freely granted, provided that this notice is preserved"); those of
exp and of the double-double logarithm are Chebyshev fits of our own. A pair (hi, lo) stands for the unrounded sum
hi + lo.
"""

from __future__ import annotations

from typing import Any

from vecenv.kernels.math_primitives import (
    bits_float,
    composed,
    copysign,
    f32,
    float_bits,
    floor,
    fma,
    held,
    magnitude,
    select,
    sqrt,
    to_float,
)

inf = float("inf")
nan = float("nan")

# Adding it rounds to an integer, which then stands in the low bits of the mantissa (of either sign).
ROUNDER = 1.5 * 2.0**52

# --- sine and cosine

#: Beyond this the quotient by pi/2 needs more than 20 bits and the reduction is no longer exact.
TRIG_LIMIT = 1.6e6
TWO_OVER_PI = 0.6366197723675814
# pi/2 in 53 + 33 + 53 bits. With fma the first step is exact: n * pi/2 and x are multiples of one power of two. A
# 20-bit quotient times the 33-bit part is exact, so what the second step rounds away is exact too.
HALF_PI_1 = 1.5707963267948966
HALF_PI_2 = 6.12323399538461e-17
HALF_PI_3 = 3.5215598651832e-27

S1 = -1.66666666666666324348e-01
S2 = 8.33333333332248946124e-03
S3 = -1.98412698298579493134e-04
S4 = 2.75573137070700676789e-06
S5 = -2.50507602534068634195e-08
S6 = 1.58969099521155010221e-10
C1 = 4.16666666666666019037e-02
C2 = -1.38888888888741095749e-03
C3 = 2.48015872894767294178e-05
C4 = -2.75573143513906633035e-07
C5 = 2.08757232129817482790e-09
C6 = -1.13596475577881948265e-11


@composed
def _reduce(x: float) -> tuple[float, float, Any]:
    """x - n * pi/2 as a pair, and an integer that is n modulo 4 (Cody and Waite with fma)."""
    shifted = fma(x, held(TWO_OVER_PI), held(ROUNDER))
    n = shifted - held(ROUNDER)
    a = fma(-n, held(HALF_PI_1), x)
    b = fma(-n, held(HALF_PI_2), a)
    return b, fma(-n, held(HALF_PI_3), fma(-n, held(HALF_PI_2), a - b)), float_bits(shifted)


@composed
def _sin_kernel(hi: float, lo: float) -> float:
    """sin(hi + lo) for |hi| <= pi/4, lo about an ulp of hi."""
    z = hi * hi
    w = z * z
    p = fma(w, fma(w, fma(z, held(S6), held(S5)), fma(z, held(S4), held(S3))), fma(z, held(S2), held(S1)))
    return hi + fma(z * hi, p, lo * fma(-0.5, z, 1.0))


@composed
def _cos_kernel(hi: float, lo: float) -> float:
    """cos(hi + lo) for |hi| <= pi/4, lo about an ulp of hi; what 1 - z/2 rounds away is added back."""
    z = hi * hi
    w = z * z
    p = fma(w, fma(w, fma(z, held(C6), held(C5)), fma(z, held(C4), held(C3))), fma(z, held(C2), held(C1)))
    head = fma(-0.5, z, 1.0)
    return head + (fma(-0.5, z, 1.0 - head) + fma(w, p, -hi * lo))


@composed
def sin(x: float) -> float:
    """The sine of x radians: 0.80 ulp for |x| <= 1.6e6. Keeps -0.0.

    The bound: beyond |x| = 1.6e6 the portable result is NaN, as for NaN.
    """
    x = to_float(x)
    size = magnitude(x)
    hi, lo, quadrant = _reduce(size)
    y = select((quadrant & 1) == 0, _sin_kernel(hi, lo), _cos_kernel(hi, lo))
    y = bits_float(float_bits(y) ^ ((quadrant & 2) << 62) ^ (float_bits(x) ^ float_bits(size)))
    return select(size <= TRIG_LIMIT, y, nan)


@composed
def cos(x: float) -> float:
    """The cosine of x radians: 0.80 ulp for |x| <= 1.6e6.

    The bound: beyond |x| = 1.6e6 the portable result is NaN, as for NaN.
    """
    size = magnitude(to_float(x))
    hi, lo, quadrant = _reduce(size)
    y = select((quadrant & 1) == 0, _cos_kernel(hi, lo), _sin_kernel(hi, lo))
    y = bits_float(float_bits(y) ^ (((quadrant + 1) & 2) << 62))
    return select(size <= TRIG_LIMIT, y, nan)


@composed
def tan(x: float) -> float:
    """The tangent of x radians: 0.95 ulp for |x| <= 1.6e6. Keeps -0.0.

    The bound: beyond |x| = 1.6e6 the portable result is NaN, as for NaN.
    """
    x = to_float(x)
    hi, lo, quadrant = _reduce(x)
    z = hi * hi
    w = z * z
    # sine and cosine as in their kernels, but as pairs, so that the quotient has one rounding that counts
    p = fma(w, fma(w, fma(z, S6, S5), fma(z, S4, S3)), fma(z, S2, S1))
    q = fma(w, fma(w, fma(z, C6, C5), fma(z, C4, C3)), fma(z, C2, C1))
    head = fma(-0.5, z, 1.0)
    s_rest = fma(z * hi, p, lo * head)
    c_rest = fma(-0.5, z, 1.0 - head) + fma(w, q, -hi * lo)
    s_hi = hi + s_rest
    s_lo = (hi - s_hi) + s_rest
    c_hi = head + c_rest
    c_lo = (head - c_hi) + c_rest
    even = (quadrant & 1) == 0
    top, top_lo = select(even, s_hi, -c_hi), select(even, s_lo, -c_lo)
    bottom, bottom_lo = select(even, c_hi, s_hi), select(even, c_lo, s_lo)
    y = top / bottom
    y = y + (fma(-y, bottom, top) + (top_lo - y * bottom_lo)) / bottom
    y = select(magnitude(x) < 2.0**-27, x, y)
    return select(magnitude(x) <= TRIG_LIMIT, y, nan)


# --- inverse trigonometric functions

PI_HI = 3.141592653589793
PI_LO = 1.2246467991473532e-16

# atan(0.5), atan(1), atan(1.5), atan(inf) in two parts
ATAN_HALF, ATAN_HALF_LO = 4.63647609000806093515e-01, 2.26987774529616870924e-17
ATAN_ONE, ATAN_ONE_LO = 7.85398163397448278999e-01, 3.06161699786838301793e-17
ATAN_THREE_HALVES, ATAN_THREE_HALVES_LO = 9.82793723247329054082e-01, 1.39033110312309984516e-17
ATAN_INF, ATAN_INF_LO = 1.57079632679489655800e00, 6.12323399573676603587e-17
A0 = 3.33333333333329318027e-01
A1 = -1.99999999998764832476e-01
A2 = 1.42857142725034663711e-01
A3 = -1.11111104054623557880e-01
A4 = 9.09088713343650656196e-02
A5 = -7.69187620504482999495e-02
A6 = 6.66107313738753120669e-02
A7 = -5.83357013379057348645e-02
A8 = 4.97687799461593236017e-02
A9 = -3.65315727442169155270e-02
A10 = 1.62858201153657823623e-02


@composed
def _atan_ratio(a: float, b: float) -> tuple[float, float]:
    """atan(a / b) for a, b >= 0, not both 0 or infinite, as a pair.

    fdlibm's five intervals: atan(a/b) = atan(c) + atan((a/b - c) / (1 + c a/b)) for c = 0, 1/2, 1, 3/2, infinity.
    """
    i1 = a >= 0.4375 * b
    i2 = a >= 0.6875 * b
    i3 = a >= 1.1875 * b
    i4 = a >= 2.4375 * b
    top = select(i4, -b, select(i3, fma(-1.5, b, a), select(i2, a - b, select(i1, fma(2.0, a, -b), a))))
    bottom = select(i4, a, select(i3, fma(1.5, a, b), select(i2, a + b, select(i1, fma(2.0, b, a), b))))
    hi = select(i4, ATAN_INF, select(i3, ATAN_THREE_HALVES, select(i2, ATAN_ONE, select(i1, ATAN_HALF, 0.0))))
    lo = select(
        i4, ATAN_INF_LO, select(i3, ATAN_THREE_HALVES_LO, select(i2, ATAN_ONE_LO, select(i1, ATAN_HALF_LO, 0.0)))
    )
    t = top / bottom
    z = t * t
    w = z * z
    odd = fma(w, fma(w, fma(w, fma(w, fma(w, A10, A8), A6), A4), A2), A0)
    even = fma(w, fma(w, fma(w, fma(w, A9, A7), A5), A3), A1)
    rest = fma(-t, z * fma(z, even, odd), lo)
    # hi is 0 or larger than t
    y = hi + t
    return y, (select(hi == 0.0, t, hi) - y) + (select(hi == 0.0, 0.0, t) + rest)


@composed
def atan(x: float) -> float:
    """The arc tangent of x: 0.85 ulp. Keeps -0.0."""
    x = to_float(x)
    hi, lo = _atan_ratio(magnitude(x), 1.0)
    return copysign(hi + lo, x)


@composed
def atan2(y: float, x: float) -> float:
    """The angle of the point (x, y) in (-pi, pi]: 1.5 ulp; C's results for zeros and infinities."""
    y = to_float(y)
    x = to_float(x)
    a = magnitude(y)
    b = magnitude(x)
    # Far from overflow; what underflows here was far below the last place of the result.
    big = (a > 2.0**1000) | (b > 2.0**1000)
    small = (a < 2.0**-900) & (b < 2.0**-900)
    scale = select(big, 2.0**-100, select(small, 2.0**120, 1.0))
    both = (a == b) & ((a == 0.0) | (a == inf))
    a_scaled = select(both, select(a == 0.0, 0.0, 1.0), a * scale)
    b_scaled = select(both, 1.0, b * scale)
    hi, lo = _atan_ratio(a_scaled, b_scaled)
    left = float_bits(x) < 0
    # pi - hi - lo, where pi > hi
    turned = PI_HI - hi
    turned_lo = ((PI_HI - turned) - hi) + (PI_LO - lo)
    angle = select(left, turned + turned_lo, hi + lo)
    return select((x != x) | (y != y), nan, copysign(angle, y))


P0 = 1.66666666666666657415e-01
P1 = -3.25565818622400915405e-01
P2 = 2.01212532134862925881e-01
P3 = -4.00555345006794114027e-02
P4 = 7.91534994289814532176e-04
P5 = 3.47933107596021167570e-05
Q1 = -2.40339491173441421878e00
Q2 = 2.02094576023350569471e00
Q3 = -6.88283971605453293030e-01
Q4 = 7.70381505559019352791e-02


@composed
def _asin_parts(a: float) -> tuple[float, float]:
    """t + u = asin(a) for 0 <= a < 1/2, and asin(sqrt((1 - a) / 2)) for 1/2 <= a <= 1."""
    outer = a >= 0.5
    z = select(outer, 0.5 * (1.0 - a), a * a)
    root = sqrt(z)
    t = select(outer, root, a)
    # what the square root rounded away
    t_lo = select(outer & (root > 0.0), fma(-root, root, z) / (root + root), 0.0)
    w = z * z
    top = fma(w, fma(w, fma(z, P5, P4), fma(z, P3, P2)), fma(z, P1, P0))
    bottom = fma(w, fma(w, Q4, fma(z, Q3, Q2)), fma(z, Q1, 1.0))
    return t, t_lo + t * (z * (top / bottom))


@composed
def asin(x: float) -> float:
    """The arc sine of x: 0.71 ulp; NaN outside [-1, 1]. Keeps -0.0."""
    x = to_float(x)
    a = magnitude(x)
    t, rest = _asin_parts(a)
    # asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) from 1/2 on
    turned = ATAN_INF - 2.0 * t
    turned_rest = ((ATAN_INF - turned) - 2.0 * t) + (ATAN_INF_LO - 2.0 * rest)
    y = select(a >= 0.5, turned + turned_rest, t + rest)
    return select(a <= 1.0, copysign(y, x), nan)


@composed
def acos(x: float) -> float:
    """The arc cosine of x: 0.67 ulp; NaN outside [-1, 1]."""
    x = to_float(x)
    a = magnitude(x)
    t, rest = _asin_parts(a)
    double_ = 2.0 * t
    back = PI_HI - double_
    back_rest = ((PI_HI - back) - double_) + (PI_LO - 2.0 * rest)
    outer = select(x < 0.0, back + back_rest, double_ + 2.0 * rest)
    # acos(x) = pi/2 - asin(x) inside
    signed = copysign(t, x)
    inner = ATAN_INF - signed
    inner_rest = ((ATAN_INF - inner) - signed) + (ATAN_INF_LO - copysign(1.0, x) * rest)
    y = select(a >= 0.5, outer, inner + inner_rest)
    return select(a <= 1.0, y, nan)


# --- exponential and logarithm

LOG2_E = 1.4426950408889634
# ln 2: 33 bits, so that an exponent times it is exact, and the rest
LN2_HI = 0.6931471804855391
LN2_LO = 7.440617110012397e-11

# (exp(r) - 1 - r) / r**2 on |r| <= ln(2)/2, to 2**-61 of exp(r)
E0 = 0.5
E1 = 0.1666666666666667
E2 = 0.04166666666666667
E3 = 0.008333333333326136
E4 = 0.0013888888888883748
E5 = 0.00019841269874820627
E6 = 2.4801587325547743e-05
E7 = 2.7557255400206422e-06
E8 = 2.75572736431103e-07
E9 = 2.5105217004720745e-08
E10 = 2.0914686968086876e-09


@composed
def _exp_reduce(x: float, x_lo: float) -> tuple[float, float, float]:
    """n, r and s with exp(x + x_lo) = 2**n (1 + r + s), |r| <= ln(2)/2; s is about r**2 / 2, to its last place."""
    n = fma(x, LOG2_E, ROUNDER) - ROUNDER
    a = fma(-n, LN2_HI, x)
    b = fma(-n, LN2_LO, x_lo)
    r = a + b
    z = r * r
    w = z * z
    low = fma(w, fma(r, E6, E5), fma(z, fma(r, E4, E3), fma(r, E2, E1)))
    q = fma(w * z, fma(z, fma(r, E10, E9), fma(r, E8, E7)), low)
    return n, r, 0.5 * z + fma(z * r, q, fma(0.5, fma(r, r, -z), (a - r) + b))


@composed
def _power_of_two(n: float) -> float:
    """2**n for an integer -1022 <= n <= 1023: the exponent bits are the low mantissa bits of a large float."""
    return bits_float(float_bits(n + (ROUNDER + 1023.0)) << 52)


@composed
def _exp_pair(x: float, x_lo: float) -> float:
    """exp(x + x_lo) for a pair, any x."""
    x = select(x > 710.0, 710.0, select(x < -746.0, -746.0, x))
    n, r, s = _exp_reduce(x, x_lo)
    one = 1.0 + r
    y = one + ((r - (one - 1.0)) + s)
    # in two factors, for subnormal results and for 2**1024
    half = floor(0.5 * n)
    return (y * _power_of_two(half)) * _power_of_two(n - half)


@composed
def exp(x: float) -> float:
    """e**x: 0.61 ulp (0.76 where subnormal); inf above 709.78, subnormal below -708.4 and 0 below -745.1."""
    return _exp_pair(to_float(x), 0.0)


@composed
def _expm1_quarter(x: float) -> tuple[float, float]:
    """(exp(x) - 1) / 4 as a pair for -40 <= x <= 710.5 and |x| not tiny; the quarter keeps it in range."""
    n, r, s = _exp_reduce(x, 0.0)
    scale = _power_of_two(n - 2.0)
    a = scale - 0.25
    b = scale * r
    total = a + b
    a_part = total - b
    rest = (a - a_part) + (b - (total - a_part))
    rest = (rest + ((scale - a) - 0.25)) + scale * s
    y = total + rest
    return y, (total - y) + rest


@composed
def expm1(x: float) -> float:
    """e**x - 1: 0.94 ulp. Keeps -0.0."""
    x = to_float(x)
    y, _ = _expm1_quarter(select(x > 710.5, 710.5, select(x < -40.0, -40.0, x)))
    return select(magnitude(x) < 2.0**-54, x, 4.0 * y)


@composed
def tanh(x: float) -> float:
    """The hyperbolic tangent: 0.79 ulp. Keeps -0.0."""
    x = to_float(x)
    a = 2.0 * magnitude(x)
    # tanh(x) = t / (t + 2) with t = exp(2|x|) - 1; it is 1 from 20 on
    t, t_lo = _expm1_quarter(select(a > 44.0, 44.0, a))
    d = t + 0.5
    d_lo = t_lo + select(t < 0.5, t - (d - 0.5), (t - d) + 0.5)
    inverse = 1.0 / d
    y = t * inverse
    y = y + (fma(-y, d, t) + (t_lo - y * d_lo)) * inverse
    return select(a < 2.0**-27, x, copysign(y, x))


@composed
def sinh(x: float) -> float:
    """The hyperbolic sine: 0.82 ulp; overflows above 710.47. Keeps -0.0."""
    x = to_float(x)
    a = magnitude(x)
    # sinh(x) = (t + t / (t + 1)) / 2 with t = exp(|x|) - 1, here in quarters
    t, t_lo = _expm1_quarter(select(a > 710.5, 710.5, a))
    d = t + 0.25
    d_lo = t_lo + select(t < 0.25, t - (d - 0.25), (t - d) + 0.25)
    inverse = 1.0 / d
    y = t * inverse
    rest = (fma(-y, d, t) + (t_lo - y * d_lo)) * inverse
    # y / 4 <= t, up to the last place
    total = t + 0.25 * y
    rest = ((t - total) + 0.25 * y) + (t_lo + 0.25 * rest)
    return select(a < 2.0**-28, x, copysign(2.0 * (total + rest), x))


@composed
def cosh(x: float) -> float:
    """The hyperbolic cosine: 0.88 ulp; overflows above 710.47."""
    a = magnitude(x)
    n, r, s = _exp_reduce(select(a > 710.5, 710.5, a), 0.0)
    one = 1.0 + r
    rest = (r - (one - 1.0)) + s
    # (exp(a) + exp(-a)) / 2 = 2 (q + 1 / (16 q)) for q = exp(a) / 4
    scale = _power_of_two(n - 2.0)
    q = scale * one
    return 2.0 * (q + (scale * rest + 0.0625 / (q + scale * rest)))


SQRT_HALF_BITS = 0x3FE6A09E00000000
ONE_BITS = 0x3FF0000000000000
MANTISSA = 0x000FFFFFFFFFFFFF
L1 = 6.666666666666735130e-01
L2 = 3.999999999940941908e-01
L3 = 2.857142874366239149e-01
L4 = 2.222219843214978396e-01
L5 = 1.818357216161805012e-01
L6 = 1.531383769920937332e-01
L7 = 1.479819860511658591e-01


@composed
def _log_reduce(x: float) -> tuple[float, float]:
    """n and f with x = 2**n (1 + f), 1 + f between sqrt(1/2) and sqrt(2), for finite x > 0."""
    subnormal = x < 2.0**-1022
    bits = float_bits(select(subnormal, x * 2.0**54, x)) + (ONE_BITS - SQRT_HALF_BITS)
    # the exponent field as the low mantissa bits of 2**52
    n = bits_float(((bits >> 52) & 0xFFF) | 0x4330000000000000) - (2.0**52 + 1023.0)
    f = bits_float((bits & MANTISSA) + SQRT_HALF_BITS) - 1.0
    return select(subnormal, n - 54.0, n), f


@composed
def _log_edges(x: float, y: float) -> float:
    """y, with the logarithm's values at 0, at infinity and outside its domain."""
    y = select(x == 0.0, -inf, select(x == inf, inf, y))
    return select(x >= 0.0, y, nan)


@composed
def log(x: float) -> float:
    """The natural logarithm: 0.82 ulp; -inf at 0 and NaN below."""
    x = to_float(x)
    n, f = _log_reduce(x)
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    r = z * fma(w, fma(w, fma(z, L7, L6), fma(z, L5, L4)), fma(z, L3, L2)) + L1
    r = z * r
    half = 0.5 * f * f
    y = fma(n, LN2_HI, f - (half - fma(s, half + r, n * LN2_LO)))
    return _log_edges(x, y)


THIRD, THIRD_LO = 0.3333333333333333, 1.850371707708594e-17
FIFTH, FIFTH_LO = 0.2, -1.1102230246251566e-17
# (atanh(s)/s - 1 - z/3 - z**2/5) / z**3 for z = s**2 up to 0.0295
W0 = 0.14285714285714285
W1 = 0.11111111111111477
W2 = 0.09090909090648908
W3 = 0.07692307762797279
W4 = 0.06666657301781058
W5 = 0.05883027018294802
W6 = 0.05236397497723725
W7 = 0.05309096972949301


@composed
def _log_pair(x: float) -> tuple[float, float]:
    """The natural logarithm of a finite x > 0 as a pair, to about 2**-68 of its value."""
    n, f = _log_reduce(x)
    # s = f / (2 + f), log(1 + f) = 2 atanh(s) = 2 s (1 + z/3 + z**2/5 + ...), z = s**2, all as pairs
    d = 2.0 + f
    d_lo = f - (d - 2.0)
    inverse = 1.0 / d
    s = f * inverse
    s_lo = (fma(-s, d, f) - s * d_lo) * inverse
    z = s * s
    z_lo = fma(s, s, -z) + 2.0 * s * s_lo
    w = z * z
    tail = fma(w * w, fma(w, fma(z, W7, W6), fma(z, W5, W4)), fma(w, fma(z, W3, W2), fma(z, W1, W0)))
    a = z * tail
    b = FIFTH + a
    b_lo = ((FIFTH - b) + a) + FIFTH_LO
    c = z * b
    c_lo = fma(z, b, -c) + fma(z, b_lo, z_lo * b)
    e = THIRD + c
    e_lo = ((THIRD - e) + c) + (c_lo + THIRD_LO)
    g = z * e
    g_lo = fma(z, e, -g) + fma(z, e_lo, z_lo * e)
    h = s * g
    h_lo = fma(s, g, -h) + fma(s, g_lo, s_lo * g)
    m = s + h
    m_lo = ((s - m) + h) + (s_lo + h_lo)
    base = n * LN2_HI
    hi = base + 2.0 * m
    lo = ((base - hi) + 2.0 * m) + fma(n, LN2_LO, 2.0 * m_lo)
    total = hi + lo
    return total, (hi - total) + lo


LOG10_E, LOG10_E_LO = 0.4342944819032518, 1.098319650216765e-17
LOG2_E_LO = 2.0355273740931033e-17


@composed
def _log_base(x: float, factor: float, factor_lo: float) -> float:
    hi, lo = _log_pair(x)
    y = hi * factor
    return _log_edges(x, y + (fma(hi, factor, -y) + fma(hi, factor_lo, lo * factor)))


@composed
def log2(x: float) -> float:
    """The logarithm to base 2: 0.51 ulp, exact for powers of 2; -inf at 0 and NaN below."""
    return _log_base(to_float(x), LOG2_E, LOG2_E_LO)


@composed
def log10(x: float) -> float:
    """The logarithm to base 10: 0.51 ulp, exact for powers of 10; -inf at 0 and NaN below."""
    return _log_base(to_float(x), LOG10_E, LOG10_E_LO)


@composed
def pow(x: float, y: float) -> float:
    """x**y: 0.62 ulp (0.77 where subnormal); exactly x, x * x and 1.0 for y = 1, 2 and 0.

    C's results for zeros, infinities and NaN; NaN for x < 0 unless y is an integer.
    """
    x = to_float(x)
    y = to_float(y)
    a = magnitude(x)
    hi, lo = _log_pair(a)
    hi = select(a == 0.0, -inf, select(a == inf, inf, hi))
    t = y * hi
    t_lo = fma(y, hi, -t) + y * lo
    r = _exp_pair(t, select(magnitude(t) < 800.0, t_lo, 0.0))
    r = select(a == 1.0, 1.0, r)
    whole = floor(y) == y
    half = 0.5 * y
    odd = whole & (floor(half) != half)
    r = select((float_bits(x) < 0) & odd, -r, r)
    r = select((x < 0.0) & (a < inf) & (not whole), nan, r)
    r = select((x != x) | (y != y), nan, r)
    r = select(y == 2.0, x * x, select(y == 1.0, x, r))
    return select((y == 0.0) | (x == 1.0), 1.0, r)


@composed
def pow_square(x: float) -> float:
    """Python's `x**2` of a float: x * x when portable, the C library's pow(x, 2.0) under libm.

    The two differ in the last place of 0.08 % of values.
    """
    x = to_float(x)
    return x * x


@composed
def powf_square(x: float) -> float:
    """NumPy's `x**2` of a float32: x * x rounded to float32 when portable, the C library's powf(x, 2.0f) under libm.

    x is rounded to float32 first. The two differ in the last place of 0.07 % of values.
    """
    x = f32(x)
    return f32(x * x)


@composed
def hypot(x: float, y: float) -> float:
    """sqrt(x*x + y*y) without overflow: 0.51 ulp (0.75 where subnormal); inf if either is infinite, as in C."""
    x = magnitude(x)
    y = magnitude(y)
    a = select(y > x, y, x)
    b = select(y > x, x, y)
    big = a > 2.0**500
    small = a < 2.0**-400
    scale = select(big, 2.0**-600, select(small, 2.0**600, 1.0))
    unscale = select(big, 2.0**600, select(small, 2.0**-600, 1.0))
    p = a * scale
    q = b * scale
    squared = p * p
    h = sqrt(fma(q, q, squared))
    # one Newton step with the exact error of h*h (Borges, 2019)
    h_squared = h * h
    error = (fma(-q, q, h_squared - squared) + fma(h, h, -h_squared)) - fma(p, p, -squared)
    h = select(h > 0.0, h - error / (2.0 * h), h)
    h = h * unscale
    return select((x == inf) | (y == inf), inf, select((x != x) | (y != y), nan, h))
