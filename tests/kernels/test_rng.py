"""Streams against their oracle, `numpy.random.Generator(PCG64)` of NumPy 2.4.6: values and final states bit for bit."""

import collections
import enum
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import config
from numba.core.errors import TypingError
from numba.np.random._constants import fi_double, ke_double, ki_double

from vecenv.kernels.jit import inline, kernel
from vecenv.kernels.rng import (
    POLICY_WORDS,
    WORDS,
    PolicyGenerator,
    load,
    pack_state,
    policy_rng_from_address,
    rng_from_address,
    store,
    unpack_state,
)

needs_jit = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="compares compiled code")

P = (0.1, 0.0, 0.25, 0.4, 0.25)
MILLION = 1_000_000


@inline
def draw(rng, method, a, b, x, y, p, cells):
    """Call method number `method`; integer results are exact in the second value."""
    integer = 0
    real = 0.0
    if method == 0:
        real = rng.random()
    elif method == 1:
        real = rng.uniform()
    elif method == 2:
        real = rng.uniform(x, high=x + y)
    elif method == 3:
        integer = rng.integers(b - a)
    elif method == 4:
        integer = rng.integers(a, b)
    elif method == 5:
        integer = rng.choice(b - a)
    elif method == 6:
        integer = rng.choice(len(P), p=P)
    elif method == 7:
        integer = rng.choice(len(p), None, True, p)
    elif method == 8:
        rng.shuffle(cells)
    elif method == 9:
        real = rng.standard_normal()
    elif method == 10:
        real = rng.normal(x, scale=y)
    elif method == 11:
        real = rng.standard_exponential()
    elif method == 12:
        real = rng.exponential(y)
    return real, integer


@inline
def draw_more(rng, method, a, b, x, y, p, cells):
    integer = 0
    real = 0.0
    if method == 0:
        real = rng.standard_gamma(y)
    elif method == 1:
        real = rng.gamma(y, scale=2.5)
    elif method == 2:
        real = rng.beta(y, 1.5)
    elif method == 3:
        real = rng.chisquare(y)
    elif method == 4:
        real = rng.lognormal(x, sigma=0.5)
    elif method == 5:
        real = rng.laplace(x, y)
    elif method == 6:
        real = rng.logistic(x, y)
    elif method == 7:
        real = rng.triangular(x, x + y, x + 3.0 * y)
    elif method == 8:
        integer = rng.poisson(y)
    elif method == 9:
        integer = rng.geometric(1.0 / (1.0 + y))
    elif method == 10:
        integer = rng.binomial(a, 1.0 / (1.0 + y))
    elif method == 11:
        real = rng.normal() + rng.exponential() + rng.laplace() + rng.gamma(2)
    return real, integer


# The same calls for a twin: scalars with size=None, arrays with size=n. `shuffle` shuffles in place.
ORACLE = [
    lambda g, a, b, x, y, p, cells, size: g.random(size),
    lambda g, a, b, x, y, p, cells, size: g.uniform(size=size),
    lambda g, a, b, x, y, p, cells, size: g.uniform(x, x + y, size),
    lambda g, a, b, x, y, p, cells, size: g.integers(b - a, size=size),
    lambda g, a, b, x, y, p, cells, size: g.integers(a, b, size),
    lambda g, a, b, x, y, p, cells, size: g.choice(b - a, size),
    lambda g, a, b, x, y, p, cells, size: g.choice(len(P), size, p=P),
    lambda g, a, b, x, y, p, cells, size: g.choice(len(p), size, p=p),
    lambda g, a, b, x, y, p, cells, size: g.shuffle(cells) or 0.0,
    lambda g, a, b, x, y, p, cells, size: g.standard_normal(size),
    lambda g, a, b, x, y, p, cells, size: g.normal(x, y, size),
    lambda g, a, b, x, y, p, cells, size: g.standard_exponential(size),
    lambda g, a, b, x, y, p, cells, size: g.exponential(y, size),
]
SHUFFLE = 8
ORACLE_MORE = [
    lambda g, a, b, x, y, p, cells, size: g.standard_gamma(y, size),
    lambda g, a, b, x, y, p, cells, size: g.gamma(y, 2.5, size),
    lambda g, a, b, x, y, p, cells, size: g.beta(y, 1.5, size),
    lambda g, a, b, x, y, p, cells, size: g.chisquare(y, size),
    lambda g, a, b, x, y, p, cells, size: g.lognormal(x, 0.5, size),
    lambda g, a, b, x, y, p, cells, size: g.laplace(x, y, size),
    lambda g, a, b, x, y, p, cells, size: g.logistic(x, y, size),
    lambda g, a, b, x, y, p, cells, size: g.triangular(x, x + y, x + 3.0 * y, size),
    lambda g, a, b, x, y, p, cells, size: g.poisson(y, size),
    lambda g, a, b, x, y, p, cells, size: g.geometric(1.0 / (1.0 + y), size),
    lambda g, a, b, x, y, p, cells, size: g.binomial(a, 1.0 / (1.0 + y), size),
    lambda g, a, b, x, y, p, cells, size: g.normal() + g.exponential() + g.laplace() + g.gamma(2),
]


@kernel
def interpret(words, methods, a, b, x, y, p, cells, real, integer):
    rng = rng_from_address(words.ctypes.data)
    for i in range(len(methods)):
        real[i], integer[i] = draw(rng, methods[i], a[i], b[i], x[i], y[i], p, cells)


@kernel
def interpret_policy(words, methods, a, b, x, y, p, cells, real, integer):
    rng = policy_rng_from_address(words.ctypes.data)
    for i in range(len(methods)):
        real[i], integer[i] = draw(rng, methods[i], a[i], b[i], x[i], y[i], p, cells)


@kernel
def interpret_more(words, methods, a, b, x, y, p, cells, real, integer):
    rng = rng_from_address(words.ctypes.data)
    for i in range(len(methods)):
        real[i], integer[i] = draw_more(rng, methods[i], a[i], b[i], x[i], y[i], p, cells)


def words_of(generator):
    return np.array(pack_state(generator.bit_generator.state), np.uint64)


def generator_of(words):
    bit_generator = np.random.PCG64()
    bit_generator.state = unpack_state(words)
    return np.random.Generator(bit_generator)


def fresh(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def run(kernel_, words, program, p, cells):
    """Run a program [(method, a, b, x, y)] in compiled code; returns reals and integers."""
    methods, a, b = (np.array([call[k] for call in program], np.int64) for k in range(3))
    x, y = (np.array([call[k] for call in program], np.float64) for k in (3, 4))
    real, integer = np.zeros(len(program)), np.zeros(len(program), np.int64)
    kernel_(words, methods, a, b, x, y, p, cells, real, integer)
    return real, integer


def oracle(generator, table, program, p, cells):
    """Run the same program on a Generator; each result is a real or an integer, the other one being 0."""
    real, integer = np.zeros(len(program)), np.zeros(len(program), np.int64)
    for i, (method, a, b, x, y) in enumerate(program):
        value = table[method](generator, a, b, x, y, p, cells, None)
        (integer if isinstance(value, int | np.integer) else real)[i] = value
    return real, integer


SPANS = [1, 2, 3, 7, 2**8, 2**16 + 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**33, 3 * 2**61, 2**62, 2**63 - 1]


@st.composite
def programs(draw_, methods, largest_span=2**63 - 1):
    method = draw_(st.integers(0, methods - 1))
    span = draw_(st.sampled_from([s for s in SPANS if s <= largest_span]) | st.integers(1, largest_span))
    a = draw_(st.integers(max(-(2**62), -span), 0) | st.sampled_from([0, -1]))
    a = min(a, 2**63 - 1 - span)
    x = draw_(st.floats(-1e3, 1e3))
    y = draw_(st.floats(1e-3, 1e3))
    return method, a, a + span, x, y


seeds = st.integers(0, 2**64)
probabilities = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=9).filter(lambda p: sum(p) > 0.1)


# --- Compiled methods against NumPy ----------------------------------------------------------------------------------


@needs_jit
@given(seeds, st.lists(programs(13), min_size=1, max_size=60), probabilities, st.integers(0, 40))
@settings(max_examples=300, deadline=None)
def test_interleaved_calls_equal_numpy(seed, program, weights, num_cells):
    p = np.array(weights) / sum(weights)
    generator = fresh(seed)
    words = words_of(generator)
    cells, expected_cells = np.arange(num_cells), np.arange(num_cells)
    real, integer = run(interpret, words, program, p, cells)
    expected_real, expected_integer = oracle(generator, ORACLE, program, p, expected_cells)
    np.testing.assert_array_equal(real, expected_real)
    np.testing.assert_array_equal(integer, expected_integer)
    np.testing.assert_array_equal(cells, expected_cells)
    np.testing.assert_array_equal(words, words_of(generator))


@needs_jit
@given(seeds, st.lists(programs(12, 1000), min_size=1, max_size=60))
@settings(max_examples=200, deadline=None)
def test_further_distributions_equal_numpy(seed, program):
    program = [(method, abs(a), b, x, y) for method, a, b, x, y in program]
    generator = fresh(seed)
    words = words_of(generator)
    real, integer = run(interpret_more, words, program, np.array(P), np.arange(1))
    expected_real, expected_integer = oracle(generator, ORACLE_MORE, program, np.array(P), np.arange(1))
    np.testing.assert_array_equal(real, expected_real)
    np.testing.assert_array_equal(integer, expected_integer)
    np.testing.assert_array_equal(words, words_of(generator))


def bulk(kernel_, expected_of, method, a, b, x, y):
    generator = fresh(method)
    words = words_of(generator)
    real, integer = np.zeros(MILLION), np.zeros(MILLION, np.int64)

    def full(value, dtype):
        return np.full(MILLION, value, dtype)

    inputs = (full(method, np.int64), full(a, np.int64), full(b, np.int64), full(x, float), full(y, float))
    kernel_(words, *inputs, np.array(P), np.arange(1), real, integer)
    expected = expected_of[method](generator, a, b, x, y, np.array(P), np.arange(1), MILLION)
    np.testing.assert_array_equal(real if expected.dtype == np.float64 else integer, expected)
    np.testing.assert_array_equal(words, words_of(generator))


@kernel
def draw_betas(words, a, b, out):
    rng = rng_from_address(words.ctypes.data)
    for i in range(len(out)):
        out[i] = rng.beta(a, b)


@needs_jit
@pytest.mark.parametrize("a", [1.0, 0.5, 0.01, 1e-3, 1e-7, 1e-102, 1e-200, 1e-310, 5e-324])
@pytest.mark.parametrize("b", [1.5, 1.0, 0.02, 1e-3, 1e-104, 1e-320])
def test_beta_of_small_arguments_equals_numpy(a, b):
    generator = fresh(5)
    words, out = words_of(generator), np.zeros(20_000)
    draw_betas(words, a, b, out)
    np.testing.assert_array_equal(out, generator.beta(a, b, len(out)))
    np.testing.assert_array_equal(words, words_of(generator))


@kernel
def draw_outside(words, x, real, integer):
    rng = rng_from_address(words.ctypes.data)
    real[0], real[1], real[2] = rng.standard_gamma(x), rng.gamma(x, 2.0), rng.chisquare(x)
    real[3], real[4] = rng.beta(x, 1.0), rng.beta(0.5, x)
    integer[0], integer[1], integer[2] = rng.poisson(x), rng.geometric(x), rng.binomial(5, x)


@needs_jit
@pytest.mark.parametrize("x", [-1.0, -1e-310, -np.inf, np.nan])
def test_draws_that_numpy_refuses_are_nan(x):
    """Compiled code can neither raise nor go on for ever."""
    real, integer = np.zeros(5), np.zeros(3, np.int64)
    draw_outside(words_of(fresh()), x, real, integer)
    assert np.isnan(real).all() and (integer == -(2**63)).all()
    for name, arguments in (("poisson", (x,)), ("geometric", (x,)), ("binomial", (5, x))):
        with pytest.raises(ValueError):
            getattr(fresh(), name)(*arguments)


@kernel
def draw_geometric(words, p, out):
    rng = rng_from_address(words.ctypes.data)
    for i in range(len(out)):
        out[i] = rng.geometric(p)


@needs_jit
@pytest.mark.parametrize("p", [1e-310, 1e-19, 1e-18, 0.1, 1 / 3, 0.34, 1.0])
def test_geometric_saturates_as_numpy_does(p):
    generator = fresh(8)
    words, out = words_of(generator), np.zeros(2000, np.int64)
    draw_geometric(words, p, out)
    np.testing.assert_array_equal(out, generator.geometric(p, len(out)))


@needs_jit
@pytest.mark.parametrize("method", [k for k in range(13) if k != SHUFFLE])
def test_a_million_draws(method):
    bulk(interpret, ORACLE, method, -3, 14, -0.05, 0.1)


@needs_jit
@pytest.mark.parametrize("y", [0.4, 3.0, 40.0])
@pytest.mark.parametrize("method", range(11))
def test_a_million_draws_of_further_distributions(method, y):
    bulk(interpret_more, ORACLE_MORE, method, 200, 300, -0.5, y)


@needs_jit
@pytest.mark.parametrize("span", [1, 2**8, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, 2**62 + 1, 2**63 - 1])
def test_a_million_integers_of_each_kind_of_range(span):
    """A range of 1 draws nothing; 2**32 takes plain halves; 2**31 + 1 and 2**62 + 1 reject often."""
    bulk(interpret, ORACLE, 4, -(2**62) if span < 2**62 else -5, (-(2**62) if span < 2**62 else -5) + span, 0.0, 1.0)


class Kind(enum.IntEnum):
    COUNT = 6


@kernel
def integers_of_types(words, out):
    rng = rng_from_address(words.ctypes.data)
    out[0] = rng.integers(-(2**63), np.uint64(2**63))  # the whole of int64
    out[1] = rng.integers(np.uint64(2**63))
    out[2] = rng.integers(np.int8(-3), np.uint8(200))
    out[3] = rng.integers(low=5, high=None)
    out[4] = rng.integers(True, high=9)
    out[5] = rng.integers(-(2**63), 2**62)
    out[6] = rng.integers(3, 3 + 2**32)
    out[7] = rng.choice(np.uint8(7), None)
    out[8] = rng.integers(1)
    out[9] = rng.integers(Kind.COUNT)


@needs_jit
def test_integers_takes_every_integer_type():
    generator = fresh(5)
    words, out = words_of(generator), np.zeros(10, np.int64)
    integers_of_types(words, out)
    low = [-(2**63), 0, -3, 0, 1, -(2**63), 3, 0, 0, 0]
    high = [2**63, 2**63, 200, 5, 9, 2**62, 3 + 2**32, 7, 1, Kind.COUNT]
    assert out.tolist() == [int(generator.integers(*bounds)) for bounds in zip(low, high, strict=True)]
    np.testing.assert_array_equal(words, words_of(generator))


@kernel
def choose(words, p, out):
    rng = rng_from_address(words.ctypes.data)
    for i in range(len(out)):
        out[i] = rng.choice(len(p), p=p)


@needs_jit
@pytest.mark.parametrize(
    "p", [(1.0,), (0.0, 0.0, 1.0), (0.3, 0.7), np.array([0.25, 0.75], np.float32), np.array([0, 1, 0])], ids=str
)
def test_choice_takes_tuples_and_arrays(p):
    generator = fresh(6)
    words, out = words_of(generator), np.zeros(1000, np.int64)
    choose(words, p, out)
    np.testing.assert_array_equal(out, generator.choice(len(p), 1000, p=p))
    np.testing.assert_array_equal(words, words_of(generator))


@kernel
def shuffle_once(words, cells):
    rng_from_address(words.ctypes.data).shuffle(cells)


@needs_jit
@pytest.mark.parametrize("n", [0, 1, 2, 3, 64, 65, 100, MILLION])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32, np.bool_])
def test_shuffle_equals_numpy(n, dtype):
    generator = fresh(n)
    words = words_of(generator)
    cells, expected = np.arange(n).astype(dtype), np.arange(n).astype(dtype)
    shuffle_once(words, cells)
    generator.shuffle(expected)
    np.testing.assert_array_equal(cells, expected)
    np.testing.assert_array_equal(words, words_of(generator))


@needs_jit
def test_misuse_is_refused_when_compiled():
    def of(function):
        kernel(function)(words_of(fresh()))

    with pytest.raises(TypingError, match="low must be an integer"):
        of(lambda words: rng_from_address(words.ctypes.data).integers(5.0))
    with pytest.raises(TypingError, match="floats only"):
        of(lambda words: rng_from_address(words.ctypes.data).choice(2, (0, 1.0)))
    with pytest.raises(TypingError, match="without `size`"):
        of(lambda words: rng_from_address(words.ctypes.data).choice(2, (0.5, 0.5)))
    with pytest.raises(TypingError, match="one dimension"):
        of(lambda words: rng_from_address(words.ctypes.data).shuffle(np.zeros((2, 2))))


# --- Ziggurat: layers' edges and tails -------------------------------------------------------------------------------


def words_that_draw(value, increment):
    """Words of a stream whose next 64 bits are `value`: a new state with an upper half of 0 is output unrotated."""
    increment |= 1
    multiplier = (2549297995355413924 << 64) + 4865540595714422341
    state = (value - increment) * pow(multiplier, -1, 2**128) % 2**128
    low = 2**64 - 1
    return np.array([state & low, state >> 64, increment & low, increment >> 64, 0], np.uint64)


def check_forced(method, value, increment):
    words = words_that_draw(value, increment)
    assert int(generator_of(words).bit_generator.random_raw()) == value
    generator = generator_of(words)
    real, _ = run(interpret, words, [(method, 0, 1, 0.0, 1.0)], np.array(P), np.arange(1))
    expected = ORACLE[method](generator, 0, 1, 0.0, 1.0, None, None, None)
    assert real[0] == expected
    np.testing.assert_array_equal(words, words_of(generator))
    return expected


@needs_jit
def test_normal_in_every_layer_and_both_tails():
    increments = fresh(1).integers(0, 2**63, (40, 2)).tolist()
    tails = [0, 0]
    for layer in range(256):
        for sign in (0, 1):
            for high, low in increments[: 40 if layer == 0 else 4]:
                for magnitude in (int(ki_double[layer]) - 1, int(ki_double[layer]), 2**52 - 1):
                    value = max(magnitude, 0) << 9 | sign << 8 | layer
                    result = check_forced(9, value, high << 64 | low)
                    tails[sign] += layer == 0 and magnitude == 2**52 - 1 and abs(result) > 3.654
    assert sum(tails) == 80, "every draw beyond layer 0 must come from the tail"
    assert fi_double[255] < 0.002  # the tail begins at 3.65: layers are numbered from the outside in NumPy's tables


@needs_jit
def test_exponential_in_every_layer_and_the_tail():
    increments = fresh(2).integers(0, 2**63, (40, 2)).tolist()
    tails = 0
    for layer in range(256):
        for high, low in increments[: 40 if layer == 0 else 4]:
            for magnitude in (int(ke_double[layer]) - 1, int(ke_double[layer]), 2**53 - 1):
                result = check_forced(11, max(magnitude, 0) << 11 | layer << 3, high << 64 | low)
                tails += layer == 0 and magnitude == 2**53 - 1 and result > 7.69
    assert tails == 40


# --- Twins -----------------------------------------------------------------------------------------------------------


class Cells:
    """A container that is no registered Sequence."""

    def __init__(self, values):
        self.values = list(values)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return self.values[index]

    def __setitem__(self, index, value):
        self.values[index] = value


@pytest.mark.nojit
@given(seeds, st.integers(0, 5))
def test_load_and_store_keep_the_stream_and_its_buffered_half(seed, halves):
    source = fresh(seed)
    for _ in range(halves):
        source.integers(10)
    words = words_of(source)
    before = words.copy()
    generator = load(words)
    assert isinstance(generator, np.random.Generator)
    assert generator.bit_generator.state == source.bit_generator.state
    for _ in range(3):
        assert generator.integers(10) == source.integers(10)
    assert generator.random() == source.random()
    np.testing.assert_array_equal(words, before)  # only store moves them
    store(words, generator)
    np.testing.assert_array_equal(words, words_of(source))


@pytest.mark.nojit
def test_rows_loaded_at_once_are_independent():
    rows = np.array([words_of(fresh(seed)) for seed in range(50)])

    def play(row):
        generator = load(row)
        values = [generator.integers(100) for _ in range(200)]
        store(row, generator)
        return values

    first, second = load(rows[0]), load(rows[1])
    assert (first.random(), second.random()) == (fresh(0).random(), fresh(1).random())
    with ThreadPoolExecutor(4) as pool:
        played = list(pool.map(play, rows))
    assert played == [fresh(seed).integers(100, size=200).tolist() for seed in range(50)]


@pytest.mark.nojit
@pytest.mark.parametrize("twin", [lambda: load(words_of(fresh())), lambda: PolicyGenerator(np.zeros(2, np.uint64))])
def test_twins_return_numpy_scalars(twin):
    generator = twin()
    for real in (generator.random(), generator.uniform(0, 1), generator.normal(), generator.exponential(2.0)):
        assert type(real) is np.float64
    for integer in (generator.integers(5), generator.choice(5), generator.choice(2, p=(0.5, 0.5)), generator.poisson()):
        assert type(integer) is np.int64
    assert type(~(generator.random() < 0.5)) is np.bool_
    assert generator.random(3).shape == (3,)


@pytest.mark.nojit
@pytest.mark.parametrize("registered", [False, True])
def test_twin_shuffles_cells_as_arrays(registered):
    kind = type("Registered", (Cells,), {})
    if registered:
        collections.abc.MutableSequence.register(kind)
    cells, array = kind(range(100)), np.arange(100)
    generator, other = load(words_of(fresh(3))), fresh(3)
    generator.shuffle(cells)
    other.shuffle(array)
    assert cells.values == array.tolist()
    assert generator.bit_generator.state == other.bit_generator.state


# --- Policy stream ---------------------------------------------------------------------------------------------------


def policy_words(key, counter=0):
    return np.array([key, counter], np.uint64)


def splitmix_finalizer(z):
    for shift, multiplier in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ z >> shift) * multiplier % 2**64
    return z ^ z >> 31


@pytest.mark.nojit
def test_policy_stream_is_the_documented_function_of_key_and_counter():
    # First output of SplitMix64 seeded 0, a published test value: the inner mix of counter 1.
    assert splitmix_finalizer(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF
    for key in (0, 1, 2**63, 2**64 - 1):
        for start in (0, 41, 2**64 - 2):
            words = policy_words(key, start)
            generator = PolicyGenerator(words)
            for step in range(1, 4):
                counter = (start + step) % 2**64
                bits = splitmix_finalizer(splitmix_finalizer(counter * 0x9E3779B97F4A7C15 % 2**64) ^ key)
                assert generator.random() == (bits >> 11) / 2**53
                assert words.tolist() == [key, counter]
    words = policy_words(3)
    PolicyGenerator(words).integers(10)
    assert words[1] == 1  # a 32-bit draw consumes a whole one


@needs_jit
@given(st.integers(0, 2**64 - 1), st.lists(programs(13), min_size=1, max_size=40), st.integers(0, 20))
@settings(max_examples=100, deadline=None)
def test_policy_twin_equals_compiled(key, program, num_cells):
    words, twin_words = policy_words(key), policy_words(key)
    cells, twin_cells = np.arange(num_cells), np.arange(num_cells)
    real, integer = run(interpret_policy, words, program, np.array(P), cells)
    twin_real, twin_integer = oracle(PolicyGenerator(twin_words), ORACLE, program, np.array(P), twin_cells)
    np.testing.assert_array_equal(real, twin_real)
    np.testing.assert_array_equal(integer, twin_integer)
    np.testing.assert_array_equal(cells, twin_cells)
    np.testing.assert_array_equal(words, twin_words)


def policy_uniforms(words, n):
    real = np.zeros(n)
    zeros = np.zeros(n, np.int64)
    interpret_policy(words, zeros, zeros, zeros, real, real, np.array(P), np.arange(1), real, zeros.copy())
    return real


@needs_jit
@pytest.mark.parametrize("key", [0, 1, 2**64 - 1, 0x9E3779B97F4A7C15])
def test_policy_stream_is_uniform(key):
    u = policy_uniforms(policy_words(key), MILLION)
    assert abs(u.mean() - 0.5) < 5 / np.sqrt(12 * MILLION)
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 5 / np.sqrt(MILLION)
    for cells in (u, u * 1024 % 1):  # upper bits, lower bits
        counts = np.bincount((cells * 256).astype(int), minlength=256)
        chi2 = ((counts - MILLION / 256) ** 2).sum() / (MILLION / 256)
        assert abs(chi2 - 255) < 5 * np.sqrt(2 * 255)


@needs_jit
def test_policy_streams_of_neighbouring_keys_differ():
    """Also across draws: no stream is another one shifted."""
    streams = np.array([policy_uniforms(policy_words(key), 1000) for key in range(200)])
    assert len(np.unique(streams)) == streams.size
    assert np.abs(np.corrcoef(streams) - np.eye(200)).max() < 6 / np.sqrt(1000)
    first = streams[:, 0]
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 5 / np.sqrt(200)


@pytest.mark.nojit
def test_word_counts():
    assert (len(words_of(fresh())), len(policy_words(0))) == (WORDS, POLICY_WORDS)
