"""`vecenv.kernels.math`: accuracy, equal bits compiled and un-compiled, the C library's bits, the builtins' rules."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vecenv.kernels import math as vmath
from vecenv.kernels import math_libm, math_primitives
from vecenv.kernels.jit import NUMBA_OPTIONS

JIT = not numba.config.DISABLE_JIT
INF, NAN = math.inf, math.nan
INT64_MIN = -(2**63)

BINARY = ("atan2", "pow", "hypot", "mod", "fmod", "copysign", "minimum", "maximum")
TERNARY = ("clip",)
#: Names whose two kinds differ.
TWO_KINDS = tuple(math_libm.FUNCTIONS)
CASES = [(name, "portable") for name in vmath.PUBLIC] + [(name, "libm") for name in TWO_KINDS]

needs_extended = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="the reference is a long double with more bits than a double"
)
quick = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
floats = st.floats(width=64)
#: Values at which functions have branches in C, or roundings change.
SPECIAL = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, INF, -INF, NAN, 5e-324, -5e-324, 2.0**-1022, -1e-310),
    *(1e-30, 1e300, -1e300, 1.7976931348623157e308, 709.79, -745.2, 710.4758, 2.0**52 + 1.0, 2.0**53, 2.0**63),
]


def arity(name: str) -> int:
    return 2 if name in BINARY else 3 if name in TERNARY else 1


@cache
def batch(name: str, kind: str) -> Callable[..., Any]:
    """The function over arrays, compiled in a loop as row functions are."""
    function = vmath.implementation(name, kind, compiled=True)
    if arity(name) == 1:

        def loop(out: Any, x: Any) -> None:
            for i in range(x.size):
                out[i] = function(x[i])

    elif arity(name) == 2:

        def loop(out: Any, x: Any, y: Any) -> None:  # type: ignore[misc]
            for i in range(x.size):
                out[i] = function(x[i], y[i])

    else:

        def loop(out: Any, x: Any, y: Any, z: Any) -> None:  # type: ignore[misc]
            for i in range(x.size):
                out[i] = function(x[i], y[i], z[i])

    compiled = numba.njit(**NUMBA_OPTIONS)(loop)

    def run(*columns: Any) -> Any:
        arrays = [np.array(column) for column in columns]
        result = np.bool_ if name.startswith("is") else np.int64 if name in ("to_int", "round_even") else np.float64
        out = np.empty(arrays[0].size, result)
        with np.errstate(all="ignore"):
            compiled(out, *arrays)
        return out

    return run


def twin(name: str, kind: str, *columns: Any) -> Any:
    """The same through the Python form, element by element."""
    function = vmath.implementation(name, kind, compiled=False)
    with np.errstate(all="ignore"):
        return np.array([function(*row) for row in zip(*columns, strict=True)])


def assert_same_bits(actual: Any, expected: Any) -> None:
    """Equal, signs of zeros included; any NaN equals any NaN."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    np.testing.assert_array_equal(actual, expected)
    if actual.dtype == np.float64:
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(actual[number]), np.signbit(expected[number]))


def wide(rng: np.random.Generator, n: int, low: float = 1e-310, high: float = 1e300) -> Any:
    """Values of both signs, uniform in the logarithm."""
    return np.exp(rng.uniform(math.log(low), math.log(high), n)) * rng.choice([-1.0, 1.0], n)


def columns(name: str, n: int, seed: int = 7) -> list[Any]:
    """Arguments for any function: special values in all combinations, then ordinary ones, then wide ones."""
    rng = np.random.default_rng(seed)
    k = arity(name)
    special = np.array(SPECIAL if k < 3 else SPECIAL[:14])
    grids = [grid.ravel() for grid in np.meshgrid(*[special] * k)]
    out = []
    for grid in grids:
        near = rng.integers(-1_000_000, 1_000_000, n // 4) * (math.pi / 2)
        parts = [grid, rng.uniform(-1, 1, n // 4), rng.uniform(-30, 30, n // 4), wide(rng, n // 4), near]
        out.append(np.concatenate(parts))
    return out


# --- accuracy

# fmt: off
#: Correctly rounded values, computed with 1,300 bits.
REFERENCE: dict[str, list[tuple[float, ...]]] = {
    "sin": [
        (1e-09, 1e-09), (0.1, 0.09983341664682815), (0.7853981633974483, 0.7071067811865475),
        (2.5, 0.5984721441039565), (-4.0, 0.7568024953079282), (1000.25, 0.9403086681560692),
        (1.5707963267948966, 1.0), (3.141592653589793, 1.2246467991473532e-16), (22.0, -0.008851309290403876),
        (355.0, -3.014435335948845e-05), (5.5, -0.7055403255703919), (52174.0, -0.9999999999848337),
        (573204.0, 0.9999999999999568), (9.42477796076938, 3.6739403974420594e-16),
        (1600000.0, -0.5414010921983009), (-1599999.9, 0.6226327293558106),
    ],
    "cos": [
        (1e-09, 1.0), (0.1, 0.9950041652780258), (0.7853981633974483, 0.7071067811865476),
        (2.5, -0.8011436155469337), (-4.0, -0.6536436208636119), (1000.25, 0.3403228005740423),
        (1.5707963267948966, 6.123233995736766e-17), (3.141592653589793, -1.0), (22.0, -0.9999608263946371),
        (355.0, -0.999999999545659), (5.5, 0.70866977429126), (52174.0, 5.507508792203807e-06),
        (573204.0, -2.938899864407033e-07), (9.42477796076938, -1.0), (1600000.0, 0.8407644482056118),
        (-1599999.9, 0.7825142071137967),
    ],
    "tan": [
        (1e-09, 1e-09), (0.1, 0.10033467208545055), (0.7853981633974483, 0.9999999999999999),
        (2.5, -0.7470222972386603), (-4.0, -1.1578212823495775), (1000.25, 2.76299050951037),
        (1.5707963267948966, 1.633123935319537e+16), (3.141592653589793, -1.2246467991473532e-16),
        (22.0, 0.00885165604168446), (355.0, 3.0144353373184265e-05), (5.5, -0.995584052213885),
        (52174.0, -181570.295702549), (573204.0, -3402633.7954244036), (9.42477796076938, -3.6739403974420594e-16),
        (1600000.0, -0.6439390882354477), (-1599999.9, 0.7956823322765111),
    ],
    "asin": [
        (1e-09, 1e-09), (0.25, 0.25268025514207865), (0.4999999999999999, 0.5235987755982987),
        (0.5, 0.5235987755982989), (0.5000000000000001, 0.523598775598299), (-0.75, -0.848062078981481),
        (0.9999999999999999, 1.5707963118937354), (1.0, 1.5707963267948966), (-1.0, -1.5707963267948966),
        (-0.1, -0.1001674211615598),
    ],
    "acos": [
        (1e-09, 1.5707963257948967), (0.25, 1.318116071652818), (0.4999999999999999, 1.0471975511965979),
        (0.5, 1.0471975511965979), (0.5000000000000001, 1.0471975511965976), (-0.75, 2.4188584057763776),
        (0.9999999999999999, 1.4901161193847656e-08), (1.0, 0.0), (-1.0, 3.141592653589793),
        (-0.1, 1.6709637479564565),
    ],
    "atan": [
        (1e-09, 1e-09), (0.4375, 0.4124104415973873), (0.5, 0.4636476090008061), (0.6875, 0.6022873461349642),
        (-1.0, -0.7853981633974483), (1.1875, 0.870903457075653), (2.4375, 1.1814796049617557),
        (-3.0, -1.2490457723982544), (10000000000.0, 1.5707963266948965), (1e+300, 1.5707963267948966),
    ],
    "exp": [
        (1e-17, 1.0), (0.3466, 1.4142509118505286), (-0.3466, 0.7070881069410189), (1.0, 2.718281828459045),
        (-1.0, 0.36787944117144233), (10.5, 36315.502674246636), (-37.25, 6.64554417291507e-17),
        (700.1, 1.120899771073261e+304), (709.782712893384, 1.7976931348622732e+308),
        (-708.2, 2.7079953615140913e-308), (-740.5, 2.5e-322),
    ],
    "expm1": [
        (1e-17, 1e-17), (0.3466, 0.41425091185052865), (-0.3466, -0.2929118930589812), (1.0, 1.7182818284590453),
        (-1.0, -0.6321205588285577), (10.5, 36314.502674246636), (-37.25, -0.9999999999999999),
        (700.1, 1.120899771073261e+304), (709.782712893384, 1.7976931348622732e+308), (-708.2, -1.0),
        (-740.5, -1.0),
    ],
    "log": [
        (5e-324, -744.4400719213812), (1e-310, -713.8013788281542), (1e-200, -460.51701859880916),
        (0.5, -0.6931471805599453), (0.7072, -0.3464417676587033), (0.9999999999999999, -1.1102230246251565e-16),
        (1.0000000000000002, 2.2204460492503128e-16), (1.4142, 0.3465640001880033), (2.0, 0.6931471805599453),
        (3.0, 1.0986122886681098), (1e+22, 50.65687204586901), (1.7976931348623157e+308, 709.782712893384),
    ],
    "log2": [
        (5e-324, -1074.0), (1e-310, -1029.7977094150824), (1e-200, -664.3856189774725), (0.5, -1.0),
        (0.7072, -0.4998098201580177), (0.9999999999999999, -1.6017132519074588e-16),
        (1.0000000000000002, 3.203426503814917e-16), (1.4142, 0.49998616442187416), (2.0, 1.0),
        (3.0, 1.584962500721156), (1e+22, 73.08241808752197), (1.7976931348623157e+308, 1024.0),
    ],
    "log10": [
        (5e-324, -323.3062153431158), (1e-310, -310.0), (1e-200, -200.0), (0.5, -0.3010299956639812),
        (0.7072, -0.1504577479949833), (0.9999999999999999, -4.821637332766436e-17),
        (1.0000000000000002, 9.64327466553287e-17), (1.4142, 0.15051083290796738), (2.0, 0.3010299956639812),
        (3.0, 0.47712125471966244), (1e+22, 22.0), (1.7976931348623157e+308, 308.25471555991675),
    ],
    "sinh": [
        (1e-09, 1e-09), (0.05, 0.050020835937655016), (0.25, 0.2526123168081683), (0.35, 0.3571897294372719),
        (-0.36, -0.3678265442446546), (1.0, 1.1752011936438014), (-5.0, -74.20321057778875),
        (20.0, 242582597.70489514), (37.09, 6411392105700360.0), (100.5, 2.2159779549229477e+43),
    ],
    "cosh": [
        (1e-09, 1.0), (0.05, 1.001250260438369), (0.25, 1.0314130998795732), (0.35, 1.0618778191559852),
        (-0.36, 1.0655028703156857), (1.0, 1.5430806348152437), (-5.0, 74.20994852478785),
        (20.0, 242582597.70489514), (37.09, 6411392105700360.0), (100.5, 2.2159779549229477e+43),
    ],
    "tanh": [
        (1e-09, 1e-09), (0.05, 0.04995837495787998), (0.25, 0.24491866240370913), (0.35, 0.3363755443363322),
        (-0.36, -0.3452140341355209), (1.0, 0.7615941559557649), (-5.0, -0.9999092042625951), (20.0, 1.0),
        (37.09, 1.0), (100.5, 1.0),
    ],
    "atan2": [
        (1.0, 2.0, 0.4636476090008061), (-1.0, 3.0, -0.3217505543966422), (2.0, -0.5, 1.8157749899217608),
        (-3e-05, -1e-05, -1.892546881191539), (1e-300, 1e+300, 0.0), (1e+300, -1e+300, 2.356194490192345),
        (0.3, -7.0, 3.098761720921066), (5e-324, 5e-324, 0.7853981633974483),
    ],
    "pow": [
        (2.0, 0.5, 1.4142135623730951), (10.0, 3.0, 1000.0), (10.0, -3.0, 0.001),
        (1.0000001, 10000000.0, 2.7182816941320818), (0.1, 300.0, 1.0000000000000166e-300),
        (3.0, -2.5, 0.06415002990995841), (-3.0, 3.0, -27.0), (7.0, 2.0, 49.0),
        (1e-300, -1.02, 1.0000000000000122e+306), (5e-324, 0.5, 2.2227587494850775e-162),
        (1.5, -1800.0, 1.0857597e-317),
    ],
    "hypot": [
        (3.0, 4.0, 5.0), (1e+300, 1e+300, 1.4142135623730952e+300), (1e-300, 3e-300, 3.16227766016838e-300),
        (1.0, 1e-10, 1.0), (5e-324, 5e-324, 5e-324), (0.1, -0.7, 0.7071067811865475),
    ],
}
# fmt: on


@pytest.mark.nojit
@pytest.mark.parametrize("kind", vmath.KINDS)
@pytest.mark.parametrize("name", REFERENCE)
def test_reference_values(name: str, kind: str) -> None:
    *arguments, expected = map(np.array, zip(*REFERENCE[name], strict=True))
    actual = batch(name, kind)(*arguments)
    off = np.abs(actual - expected) / np.spacing(np.abs(expected))
    assert off.max() <= 1.0, arguments[0][off.argmax()]


def regions(name: str, n: int) -> list[list[Any]]:
    """The ranges in which `name` has to hold its bound."""
    rng = np.random.default_rng(11)
    uniform = rng.uniform
    tiny = wide(rng, n, 1e-310, 1.0)
    if name in ("sin", "cos", "tan"):
        half_pi = np.arange(1, 1_018_000, max(1, 1_018_000 // n)) * (np.longdouble(math.pi) / 2)
        near = half_pi.astype(float)
        wider = [uniform(-0.25, 0.25, n), uniform(-4, 4, n), uniform(-1.6e6, 1.6e6, n), tiny]
        return [[x] for x in (*wider, near, np.nextafter(near, 0), np.nextafter(near, 1e9))]
    if name in ("asin", "acos"):
        return [[x] for x in (uniform(-1, 1, n), uniform(0.4, 0.6, n), 1.0 - np.abs(tiny), np.abs(tiny) - 1.0, tiny)]
    if name == "atan":
        return [[x] for x in (uniform(-1, 1, n), uniform(-5, 5, n), wide(rng, n))]
    if name in ("exp", "expm1", "sinh", "cosh"):
        return [[x] for x in (uniform(-1, 1, n), uniform(-708, 709, n), tiny)]
    if name == "tanh":
        return [[x] for x in (uniform(-1, 1, n), uniform(-22, 22, n), tiny)]
    if name in ("log", "log2", "log10"):
        close = 1.0 + wide(rng, n, 1e-16, 1e-3)
        return [[x] for x in (uniform(0.5, 2, n), np.abs(wide(rng, n)), np.abs(wide(rng, n, 5e-324, 1e-300)), close)]
    if name == "pow":
        return [
            [uniform(0.1, 10, n), uniform(-10, 10, n)],
            [uniform(0.5, 2, n), uniform(-700, 700, n)],
            [np.abs(wide(rng, n)), uniform(-1, 1, n)],
            [1.0 + wide(rng, n, 1e-10, 1e-3), wide(rng, n, 1, 1e6)],
        ]
    limits = [(1e-3, 1e3), (1e-300, 1e300), (1e-320, 1e-290), (1e295, 1e308)]
    pairs = [[wide(rng, n, *limit), wide(rng, n, *limit)] for limit in limits]
    return [[uniform(-1, 1, n), uniform(-1, 1, n)], *pairs]


NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power"}
BOUNDS = {
    **{"sin": 0.8, "cos": 0.8, "tan": 0.96, "asin": 0.72, "acos": 0.68, "atan": 0.86, "atan2": 1.5, "hypot": 0.76},
    **{"exp": 0.62, "expm1": 0.95, "log": 0.83, "log2": 0.51, "log10": 0.51, "pow": 0.63},
    **{"sinh": 0.83, "cosh": 0.89, "tanh": 0.8},
}


@needs_extended
@pytest.mark.skipif(not JIT, reason="many values")
@pytest.mark.parametrize("name", BOUNDS)
def test_error_in_ulp(name: str) -> None:
    """The reference carries 11 bits more than a double, so that its own error is below 0.001 ulp of the double."""
    for arguments in regions(name, 100_000):
        actual = batch(name, "portable")(*arguments)
        with np.errstate(all="ignore"):
            exact = getattr(np, NUMPY.get(name, name))(*[x.astype(np.longdouble) for x in arguments])
            rounded = exact.astype(np.float64)
            below = np.nextafter(rounded, 0.0)
            ulp = np.spacing(np.abs(np.where(np.abs(rounded) > np.abs(exact), below, rounded)))
            off = np.where(np.isfinite(rounded), np.abs(actual - exact) / ulp, 0.0)
        # where the result overflows, or underflows to be rounded twice, the bound is not meant
        off[np.abs(rounded) < 2.0**-1021] *= 0.5
        worst = off.argmax()
        assert off[worst] <= BOUNDS[name], [x[worst] for x in arguments]


@pytest.mark.nojit
def test_exact_results() -> None:
    """What is representable comes out exactly where users count on it."""
    powers = np.arange(-300, 301, 10)
    assert_same_bits(batch("log10", "portable")(10.0 ** np.arange(0, 23)), np.arange(0.0, 23.0))
    assert_same_bits(batch("log2", "portable")(2.0**powers), powers.astype(float))
    x = np.random.default_rng(3).uniform(-100, 100, 200)
    assert_same_bits(batch("pow", "portable")(x, np.full(200, 2.0)), x * x)
    assert_same_bits(batch("pow", "portable")(x, np.full(200, 1.0)), x)
    assert_same_bits(batch("pow", "portable")(x, np.full(200, 0.0)), np.ones(200))
    cubes = np.arange(-200.0, 200.0)
    assert_same_bits(batch("pow", "portable")(cubes, np.full(400, 3.0)), cubes * cubes * cubes)


@pytest.mark.nojit
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_trigonometric_bound(name: str) -> None:
    values = [1.6e6, -1.6e6, math.nextafter(1.6e6, INF), -1.7e6, 1e300, INF, -INF, NAN]
    assert np.isnan(batch(name, "portable")(values)).tolist() == [False, False] + [True] * 6
    assert np.isnan(twin(name, "portable", values)).tolist() == [False, False] + [True] * 6
    assert "1.6e6" in (vmath.PUBLIC[name].__doc__ or "")


@pytest.mark.parametrize("name", TWO_KINDS)
def test_special_values_are_those_of_c(name: str) -> None:
    """NaN, infinities, zeros and their signs agree with the C library; finite results within 2 ulp."""
    arguments = [grid.ravel() for grid in np.meshgrid(*[SPECIAL] * arity(name))]
    if name in ("sin", "cos", "tan"):
        arguments = [x[(np.abs(x) <= 1.6e6) | ~np.isfinite(x)] for x in arguments]
    actual, expected = batch(name, "portable")(*arguments), batch(name, "libm")(*arguments)
    finite = np.isfinite(expected) & (expected != 0.0)
    assert_same_bits(actual[~finite], expected[~finite])
    actual, expected = actual[finite], expected[finite]
    assert (np.abs(actual - expected) <= 2 * np.spacing(np.abs(expected) * (1.0 - 2.0**-53))).all()


# --- the same bits


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_compiled_equals_python(name: str, kind: str) -> None:
    arguments = columns(name, 800)
    assert_same_bits(batch(name, kind)(*arguments), twin(name, kind, *arguments))


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_compiled_equals_python_for_any_float(name: str, kind: str) -> None:
    run = batch(name, kind)

    @settings(quick, max_examples=50)
    @given(st.lists(st.tuples(*[floats] * arity(name)), min_size=1, max_size=8))
    def check(rows: list[tuple[float, ...]]) -> None:
        arguments = list(zip(*rows, strict=True))
        assert_same_bits(run(*arguments), twin(name, kind, *arguments))

    check()


@pytest.mark.parametrize("name", [name for name in vmath.PUBLIC if name not in ("minimum", "maximum", "clip")])
def test_integers_and_booleans_convert_first(name: str) -> None:
    rng = np.random.default_rng(5)
    for values in (rng.integers(-40, 40, (arity(name), 50)), rng.integers(0, 2, (arity(name), 8)).astype(bool)):
        expected = batch(name, "portable")(*values.astype(float))
        assert_same_bits(batch(name, "portable")(*values), expected)
        assert_same_bits(twin(name, "portable", *values), expected)


@pytest.mark.nojit
@pytest.mark.parametrize("name", vmath.PUBLIC)
def test_called_directly_it_is_the_portable_python_form(name: str) -> None:
    arguments = [0.3, 0.7, 0.9][: arity(name)]
    function = getattr(vmath, name)
    assert function is vmath.PUBLIC[name]
    assert function.__vecenv_math__ == name
    assert function.__doc__
    result = function(*arguments)
    assert result == twin(name, "portable", *[[x] for x in arguments])[0]
    assert isinstance(result, np.generic)
    # no warning and no exception at the edges
    function(*[NAN, INF, 0.0][: arity(name)])
    function(*[0.0, 0.0, 0.0][: arity(name)])


# --- the C library


@pytest.mark.parametrize("name", [name for name in TWO_KINDS if hasattr(math, name) and name != "hypot"])
def test_libm_is_pythons_math(name: str) -> None:
    arguments = columns(name, 20_000)
    actual = batch(name, "libm")(*arguments)
    function = getattr(math, name)
    for row in zip(*arguments, actual, strict=True):
        try:
            expected = function(*row[:-1])
        except (OverflowError, ValueError):  # C gives inf or NaN
            assert not math.isfinite(row[-1]), row
        else:
            assert row[-1] == expected or (math.isnan(row[-1]) and math.isnan(expected)), row


def test_libm_hypot_is_numpys() -> None:
    arguments = columns("hypot", 4000)
    with np.errstate(all="ignore"):
        assert_same_bits(batch("hypot", "libm")(*arguments), np.hypot(*arguments))


def test_libm_squares_are_pythons_and_numpys() -> None:
    """`x**2` of Python's float, NumPy's float64 and NumPy's float32; each differs from x * x somewhere."""
    x = np.concatenate([np.random.default_rng(4).uniform(-10, 10, 50_000), *columns("pow_square", 800)])
    with np.errstate(all="ignore"):
        double, single = np.array([v**2 for v in x]), np.array([v**2 for v in x.astype(np.float32)])
        assert single.dtype == np.float32
        assert_same_bits(batch("pow_square", "libm")(x), double)
        assert_same_bits(batch("powf_square", "libm")(x), single.astype(float))
        assert double[:50_000].tolist() == [v**2 for v in x[:50_000].tolist()]
        assert_same_bits(batch("pow_square", "portable")(x), x * x)
        assert_same_bits(batch("powf_square", "portable")(x), np.square(x.astype(np.float32)).astype(float))
        assert (double != x * x).any() and (single != np.square(x.astype(np.float32))).any()


@pytest.mark.skipif(not JIT, reason="about compiled code")
def test_constant_powers_are_not_folded() -> None:
    power = vmath.implementation("pow", "libm", compiled=True)

    @numba.njit(**NUMBA_OPTIONS)  # type: ignore[untyped-decorator]
    def squares(out: Any, x: Any) -> None:
        for i in range(x.size):
            out[i] = power(x[i], 2.0)

    x = np.random.default_rng(2).uniform(-10, 10, 50_000)
    out = np.empty_like(x)
    squares(out, x)
    assert out.tolist() == [math.pow(value, 2.0) for value in x]


CACHED = """
import sys
import numba
from vecenv.kernels.math import implementation
from vecenv.kernels.jit import NUMBA_OPTIONS
sine, power, cosine = implementation("sin", "libm"), implementation("pow", "libm"), implementation("cos", "portable")
@numba.njit(**NUMBA_OPTIONS, cache=True)
def f(x):
    return sine(x) + power(x, 2.5) + cosine(x)
value = f(1.25)
print(value.hex(), sum(f.stats.cache_hits.values()), sum(f.stats.cache_misses.values()))
"""


@pytest.mark.skipif(not JIT, reason="about compiled code")
def test_disk_cache(tmp_path: Any) -> None:
    """Both kinds come back from Numba's disk cache in another process."""
    script = tmp_path / "cached.py"
    script.write_text(CACHED)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(script)]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    )
    expected = math.sin(1.25) + math.pow(1.25, 2.5) + float(vmath.cos(1.25))
    assert first == [expected.hex(), "0", "1"]
    assert second == [expected.hex(), "1", "0"]


# --- compiled form


@pytest.mark.skipif(not JIT, reason="about compiled code")
@pytest.mark.parametrize("name", [name for name in vmath.PUBLIC if name not in ("fmod", "to_int", "round_even")])
def test_loops_vectorize(name: str) -> None:
    """The loop over rows becomes one over vectors of doubles."""
    function = vmath.implementation(name, "portable", compiled=True)
    if arity(name) == 1:

        def loop(out: Any, x: Any, y: Any) -> None:
            for i in range(x.size):
                out[i] = function(x[i])

    elif arity(name) == 2:

        def loop(out: Any, x: Any, y: Any) -> None:
            for i in range(x.size):
                out[i] = function(x[i], y[i])

    else:

        def loop(out: Any, x: Any, y: Any) -> None:
            for i in range(x.size):
                out[i] = function(x[i], -1.0, y[i])

    array = numba.types.Array(numba.float64, 1, "C")
    out = numba.types.Array(numba.boolean, 1, "C") if name.startswith("is") else array
    compiled = numba.njit((out, array, array), **NUMBA_OPTIONS)(loop)
    assert " x double>" in compiled.inspect_llvm(compiled.signatures[0])


@pytest.mark.nojit
def test_implementation_arguments() -> None:
    with pytest.raises(KeyError, match="no function 'sine'"):
        vmath.implementation("sine", "portable", True)
    with pytest.raises(ValueError, match="fast"):
        vmath.implementation("sin", "fast", True)
    assert vmath.implementation("sin", "libm", True) is vmath.implementation("sin", "libm", True)
    assert vmath.implementation("sin", "portable", True) is vmath.implementation("sin", "portable", True)
    assert vmath.implementation("floor", "libm", False) is vmath.implementation("floor", "portable", False)


# --- exact functions


@pytest.mark.nojit
@given(floats, floats)
@settings(quick)
def test_mod_is_pythons(x: float, y: float) -> None:
    with np.errstate(all="ignore"):
        in_domain = y != 0.0 and math.isfinite(x) and not math.isnan(y) and abs(np.float64(x) / y) < 2.0**53
    expected = x % y if in_domain else NAN
    assert_same_bits(batch("mod", "portable")([x], [y])[0], expected)
    assert_same_bits(vmath.mod(x, y), expected)


@pytest.mark.skipif(not JIT, reason="many values")
def test_mod_is_pythons_for_many_values() -> None:
    rng = np.random.default_rng(13)
    integers = rng.integers(-1000, 1000, 50_000) * 0.1
    tiny = -(10.0 ** -np.arange(300.0))
    divisors = rng.choice([0.1, -0.1, 2 * math.pi, 0.3], 50_000)
    x = np.concatenate([rng.uniform(-1e4, 1e4, 50_000), integers, wide(rng, 50_000, 1e-10, 1e10), tiny])
    y = np.concatenate([rng.uniform(-10, 10, 50_000), divisors, wide(rng, 50_000, 1e-3, 1e3), np.ones(300)])
    expected = [a % b for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert_same_bits(batch("mod", "portable")(x, y), expected)


@pytest.mark.nojit
def test_mod_edges() -> None:
    rows = [(5.0, INF), (-5.0, INF), (5.0, -INF), (-5.0, -INF), (0.0, -3.0), (-0.0, 3.0), (-1e-20, 1.0), (6.0, -3.0)]
    expected = [a % b for a, b in rows]
    assert_same_bits(batch("mod", "portable")(*zip(*rows, strict=True)), expected)
    outside = [(1.0, 0.0), (INF, 2.0), (NAN, 1.0), (1.0, NAN), (1e300, 1.0)]
    assert np.isnan(batch("mod", "portable")(*zip(*outside, strict=True))).all()


@pytest.mark.nojit
@given(floats, floats)
@settings(quick)
def test_fmod_is_cs(x: float, y: float) -> None:
    try:
        expected = math.fmod(x, y)
    except ValueError:
        expected = NAN
    assert_same_bits(batch("fmod", "portable")([x], [y])[0], expected)


@pytest.mark.nojit
@given(floats)
@settings(quick)
def test_functions_numpy_has_too(x: float) -> None:
    with np.errstate(all="ignore"):
        for name in ("sqrt", "square", "floor", "ceil", "sign", "isnan", "isinf", "isfinite"):
            assert_same_bits(batch(name, "portable")([x])[0], getattr(np, name)(np.float64(x)))
        assert_same_bits(batch("f32", "portable")([x])[0], np.float64(np.float32(x)))
        assert_same_bits(batch("copysign", "portable")([3.0], [x])[0], np.copysign(3.0, x))


@pytest.mark.nojit
def test_clip() -> None:
    rows = [(0.5, 0.0, 1.0), (-3.0, 0.0, 1.0), (3.0, 0.0, 1.0), (NAN, 0.0, 1.0), (2.0, 5.0, 1.0), (-0.0, 0.0, 1.0)]
    assert_same_bits(batch("clip", "portable")(*zip(*rows, strict=True)), [0.5, 0.0, 1.0, NAN, 1.0, -0.0])
    assert type(vmath.clip(7, 0, 5)) is np.int64


# --- fma


def fraction_fma(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # a zero product carries the sign of its factors; else it underflows only if c does not cancel
    try:
        return float(exact)
    except OverflowError:
        return INF if exact > 0 else -INF


@cache
def compiled_fma() -> Callable[..., Any]:
    fma = math_primitives.fma
    compiled: Callable[..., Any] = numba.njit(**NUMBA_OPTIONS)(lambda a, b, c: fma(a, b, c))
    return compiled


def assert_fma(a: float, b: float, c: float, expected: float) -> None:
    assert_same_bits(math_primitives.exact_fma(a, b, c), expected)
    assert_same_bits(math_primitives.fma(a, b, c), expected)
    assert_same_bits(compiled_fma()(a, b, c), expected)


@pytest.mark.nojit
@given(floats, floats, floats)
@settings(quick, max_examples=500)
def test_fma(a: float, b: float, c: float) -> None:
    if all(map(math.isfinite, (a, b, c))):
        assert_fma(a, b, c, fraction_fma(a, b, c))
    else:
        finite = math.isfinite(a) and math.isfinite(b)
        assert_fma(a, b, c, c if finite else a * b + c)


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        (1.0 + 2.0**-52, 1.0 - 2.0**-52, -1.0, -(2.0**-104)),  # what two roundings lose
        (2.0**-540, 2.0**-540, 5e-324, 5e-324),
        (2.0**-537, 2.0**-538, 0.0, 0.0),  # half of the smallest subnormal, ties to even
        (2.0**-537, 2.0**-538, 5e-324, 1e-323),
        (1e200, 1e200, -1e300, INF),
        (1e200, 1e200, -INF, -INF),
        (-1e200, 1e200, 0.0, -INF),
        (0.0, 1.0, -0.0, 0.0),
        (-0.0, 1.0, -0.0, -0.0),
        (1.0, 1.0, -1.0, 0.0),
        (-1e-200, 1e-200, 0.0, -0.0),
        (INF, 0.0, 1.0, NAN),
        (INF, 1.0, -INF, NAN),
        (1.0, 1.0, NAN, NAN),
    ],
)
def test_fma_edges(a: float, b: float, c: float, expected: float) -> None:
    assert_fma(a, b, c, expected)


@pytest.mark.nojit
@given(st.integers(-(2**53), 2**53), st.integers(-(2**53), 2**53), st.integers(-1100, 50), st.integers(-2, 2))
@settings(quick)
def test_fma_where_the_product_cancels(m: int, n: int, exponent: int, nudge: int) -> None:
    a, b = float(m), math.ldexp(float(n), exponent)
    c = -(a * b) + nudge * 5e-324
    assert_fma(a, b, c, fraction_fma(a, b, c))


# --- builtins


@pytest.mark.nojit
def test_builtins_have_replacements() -> None:
    assert set(vmath.BUILTINS) == {int, float, round, min, max}
    assert set(vmath.BUILTINS.values()) <= set(vmath.PUBLIC)


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("x", "integer", "rounded"),
    [
        (2.7, 2, 3),
        (-2.7, -2, -3),
        (0.5, 0, 0),
        (1.5, 1, 2),
        (2.5, 2, 2),
        (-0.5, 0, 0),
        (-3.5, -3, -4),
        (0.49999999999999994, 0, 0),
        (2.0**53 + 2.0, 2**53 + 2, 2**53 + 2),
        (math.nextafter(2.0**63, 0.0), 2**63 - 1024, 2**63 - 1024),
        (-(2.0**63), INT64_MIN, INT64_MIN),
        (2.0**63, INT64_MIN, INT64_MIN),
        (-1e300, INT64_MIN, INT64_MIN),
        (INF, INT64_MIN, INT64_MIN),
        (-INF, INT64_MIN, INT64_MIN),
        (NAN, INT64_MIN, INT64_MIN),
    ],
)
def test_int_and_round(x: float, integer: int, rounded: int) -> None:
    assert batch("to_int", "portable")([x])[0] == integer == vmath.to_int(x)
    assert batch("round_even", "portable")([x])[0] == rounded == vmath.round_even(x)


def result_type(value: Any) -> str:
    return str(np.asarray(value).dtype)


@pytest.mark.skipif(not JIT, reason="about compiled types")
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("to_int", (True,), np.int64(1)),
        ("to_int", (-7,), np.int64(-7)),
        ("round_even", (7,), np.int64(7)),
        ("round_even", (False,), np.int64(0)),
        ("to_float", (3,), np.float64(3.0)),
        ("to_float", (True,), np.float64(1.0)),
        ("minimum", (1, 2), np.int64(1)),
        ("maximum", (1, 2, -5, 7, 3), np.int64(7)),
        ("minimum", (1, 2.5), np.float64(1.0)),
        ("maximum", (True, False), np.bool_(True)),
        ("minimum", (True, False), np.bool_(False)),
        ("maximum", (True, 5), np.int64(5)),
        ("minimum", (2**53 + 1, 2.0**53), np.float64(2.0**53)),
        ("clip", (12, 0, 9), np.int64(9)),
        ("clip", (12, 0.0, 9.0), np.float64(9.0)),
        ("sign", (-3,), np.float64(-1.0)),
        ("square", (3,), np.float64(9.0)),
        ("isnan", (3,), np.bool_(False)),
    ],
)
def test_types(name: str, arguments: tuple[Any, ...], expected: Any) -> None:
    function = vmath.implementation(name, "portable", compiled=True)
    compiled = numba.njit(**NUMBA_OPTIONS)(lambda args: function(*args))
    assert result_type(compiled(arguments)) == result_type(expected)
    assert compiled(arguments) == expected
    python = vmath.PUBLIC[name](*arguments)
    assert result_type(python) == result_type(expected)
    assert isinstance(python, np.generic)
    assert python == expected


@pytest.mark.nojit
@given(st.lists(floats, min_size=2, max_size=5))
@settings(quick)
def test_min_and_max_are_pythons(values: list[float]) -> None:
    assert_same_bits(vmath.minimum(*values), min(*values))
    assert_same_bits(vmath.maximum(*values), max(*values))
    assert_same_bits(batch("minimum", "portable")(values[:1], values[1:2])[0], min(*values[:2]))
    assert_same_bits(batch("maximum", "portable")(values[:1], values[1:2])[0], max(*values[:2]))


@pytest.mark.skipif(not JIT, reason="about compiled code")
def test_refused_calls() -> None:
    minimum = vmath.implementation("minimum", "portable", compiled=True)
    rounded = vmath.implementation("round_even", "portable", compiled=True)
    integer = vmath.implementation("to_int", "portable", compiled=True)
    for call in (lambda: minimum(1), lambda: minimum((1, 2)), lambda: rounded(1.234, 2), lambda: integer("7")):
        with pytest.raises(numba.core.errors.TypingError):
            numba.njit(**NUMBA_OPTIONS)(call)()


@pytest.mark.nojit
def test_refused_calls_in_python() -> None:
    for call in (
        lambda: vmath.minimum(1),
        lambda: vmath.minimum([1, 2], 3),
        lambda: vmath.round_even(1.234, 2),
        lambda: vmath.to_int("7"),
        lambda: vmath.to_float("7"),
    ):
        with pytest.raises(TypeError):
            call()
