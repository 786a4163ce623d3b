"""Random streams: `rng` inside row functions, one stream per row, and their Python twins.

*Environment stream*: NumPy's PCG64 (XSL-RR 128/64), bit for bit, with `numpy.random.Generator`'s scalar methods on top.
*Policy stream*: counter-based, 16 bytes per row, with the same methods.

Numba ships translations of NumPy's distributions (`numba.np.random.distributions`) that draw through three functions,
`next_uint64`, `next_uint32` and `next_double`; overloading those for our types makes all of them run on our streams.
That module is private: Numba is pinned and tests/kernels/test_rng.py compares every method with NumPy.

Compiled code cannot raise. Where NumPy would for an argument, as the twins do, the result is NaN, or -2**63 (NaN as an
int) if there is no end to the draw; an empty range or a negative scale give some number.

Sources: M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number
Generation", https://www.pcg-random.org/paper.html; https://numpy.org/doc/stable/reference/random/bit_generators/pcg64.html.
"""

# Numba carries no type hints, and an overload must have exactly its implementation's signature.
# mypy: disable-error-code="call-arg,no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, MutableSequence
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.extending import (
    intrinsic,
    make_attribute_wrapper,
    models,
    overload,
    overload_method,
    register_model,
)
from numba.np.random import distributions
from numba.np.random.generator_core import next_double, next_uint32, next_uint64
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

from vecenv.kernels.jit import NUMBA_OPTIONS, inline
from vecenv.kernels.row import mark_scope

#: uint64 words of an environment stream: state lo, state hi, increment lo, increment hi, buffer. The buffer is NumPy's
#: `uinteger` in the low 32 bits and its `has_uint32` in bit 32.
WORDS = 5
#: uint64 words of a policy stream: key, counter.
POLICY_WORDS = 2

_PCG64_MULTIPLIER = (2549297995355413924 << 64) + 4865540595714422341
_MASK64 = (1 << 64) - 1
# Typed constants: in Numba, uint64 with an int64 literal would become float64.
_ONE = np.uint64(1)
_LOW32 = np.uint64(0xFFFFFFFF)
_ALL64 = np.uint64(_MASK64)
_HAS_UINT32 = np.uint64(1 << 32)
# SplitMix64's increment and multipliers, see `_mix`.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


# --- Numba types -----------------------------------------------------------------------------------------------------


class StreamType(types.Type):
    """What both streams share: the methods."""


class RngType(StreamType):
    """An environment stream: a pointer to a row's `WORDS` words."""

    def __init__(self) -> None:
        super().__init__(name="vecenv.Rng")


class PolicyRngType(StreamType):
    """A policy stream: a pointer to a row's `POLICY_WORDS` words."""

    def __init__(self) -> None:
        super().__init__(name="vecenv.PolicyRng")


rng_type = RngType()
policy_rng_type = PolicyRngType()


@register_model(RngType)
@register_model(PolicyRngType)
class _StreamModel(models.StructModel):
    def __init__(self, manager: Any, stream: StreamType) -> None:
        super().__init__(manager, stream, [("words", types.CPointer(types.uint64))])


make_attribute_wrapper(RngType, "words", "_words")
make_attribute_wrapper(PolicyRngType, "words", "_words")


def _from_address(stream: StreamType, address: Any) -> Any:
    """Typing and code of an intrinsic that makes a stream of the address of its first word."""
    if not isinstance(address, types.Integer):
        raise TypingError(f"an address must be an integer, got {address}")

    def codegen(context, builder, signature, args):
        value = cgutils.create_struct_proxy(stream)(context, builder)
        value.words = builder.inttoptr(args[0], value.words.type)
        return value._getvalue()

    return stream(types.intp), codegen


@intrinsic
def rng_from_address(typingctx, address):
    """The environment stream whose first word is at `address`."""
    return _from_address(rng_type, address)


@intrinsic
def policy_rng_from_address(typingctx, address):
    """The policy stream whose first word is at `address`."""
    return _from_address(policy_rng_type, address)


# --- 64 bits, 32 bits, a double --------------------------------------------------------------------------------------


@intrinsic
def _pcg64_next(typingctx, rng):
    """Advance the 128-bit LCG and return its XSL-RR output: 64 bits of the *new* state. In i128 arithmetic, which LLVM
    turns into three multiplications."""

    def codegen(context, builder, signature, args):
        i64, i128 = ir.IntType(64), ir.IntType(128)
        words = cgutils.create_struct_proxy(rng)(context, builder, value=args[0]).words
        pointer = builder.bitcast(words, i128.as_pointer())
        increment_pointer = builder.gep(pointer, [ir.Constant(i64, 1)])
        before, increment = builder.load(pointer, align=8), builder.load(increment_pointer, align=8)
        state = builder.add(builder.mul(before, ir.Constant(i128, _PCG64_MULTIPLIER)), increment)
        store = builder.store(state, pointer, align=8)
        for instruction in (before, increment, store):
            # Stores to the state between two draws leave the stream alone: it stays in registers.
            mark_scope(builder, instruction, "engine.rng", ())
        high = builder.trunc(builder.lshr(state, ir.Constant(i128, 64)), i64)
        folded = builder.xor(high, builder.trunc(state, i64))
        rotate = builder.module.declare_intrinsic("llvm.fshr", [i64], ir.FunctionType(i64, [i64] * 3))
        return builder.call(rotate, [folded, folded, builder.lshr(high, ir.Constant(i64, 58))])

    return types.uint64(rng), codegen


@intrinsic
def _multiply_high(typingctx, a, b):
    """The upper 64 bits of the 128-bit product of two uint64."""

    def codegen(context, builder, signature, args):
        i128 = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], i128), builder.zext(args[1], i128))
        return builder.trunc(builder.lshr(product, ir.Constant(i128, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


@inline
def _mix(z):
    """SplitMix64's finalizer, a bijection of 64-bit words in which every input bit flips each output bit half the time:
    Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", https://doi.org/10.1145/2660193.2660195;
    multipliers by D. Stafford (variant 13)."""
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


@inline
def _policy_draw(key, counter):
    """Draw number `counter` (from 1) of stream `key`. The key enters between two mixes: as SplitMix64's mere
    offset, all keys would walk one sequence and long streams could overlap."""
    return _mix(_mix(counter * _GAMMA) ^ key)


_INLINE: Any = {**NUMBA_OPTIONS, "forceinline": True}


@overload(next_uint64, jit_options=_INLINE)
def _next_uint64(bitgen):
    if isinstance(bitgen, RngType):
        return lambda bitgen: _pcg64_next(bitgen)
    if isinstance(bitgen, PolicyRngType):

        def policy(bitgen):
            counter = bitgen._words[1] + _ONE
            bitgen._words[1] = counter
            return _policy_draw(bitgen._words[0], counter)

        return policy
    return None


@overload(next_uint32, jit_options=_INLINE)
def _next_uint32(bitgen):
    if isinstance(bitgen, RngType):

        def buffered(bitgen):
            buffer = bitgen._words[4]
            if buffer >= _HAS_UINT32:
                bitgen._words[4] = buffer & _LOW32  # NumPy keeps the used half too, so states compare equal
                return np.uint32(buffer)
            draw: Any = _pcg64_next(bitgen)
            bitgen._words[4] = _HAS_UINT32 | (draw >> np.uint64(32))
            return np.uint32(draw)

        return buffered
    if isinstance(bitgen, PolicyRngType):
        return lambda bitgen: np.uint32(next_uint64(bitgen) >> np.uint64(32))
    return None


@overload(next_double, jit_options=_INLINE)
def _next_double(bitgen):
    if isinstance(bitgen, StreamType):
        # Signed: converting an unsigned integer is slow without AVX-512.
        return lambda bitgen: np.int64(next_uint64(bitgen) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
    return None


# --- Methods ---------------------------------------------------------------------------------------------------------
# ns per draw, 8192 rows one after the other, Zen 5: random, uniform 1.5; integers, choice 1.1; choice of 3 with p 1.8;
# standard_normal, normal, exponential 3.7; policy stream: random 2.2, integers 2.4.


def _method(name: str) -> Any:
    """Register the decorated overload as a method of both streams."""
    return overload_method(StreamType, name, jit_options=_INLINE)


@inline
def _bounded(rng, low, span):
    """`low` + a uniform integer of [0, span], as `Generator.integers` draws one int64: D. Lemire, "Fast Random Integer
    Generation in an Interval", https://arxiv.org/abs/1805.10941, on the buffered 32-bit half where it fits.
    `low` is a uint64 (modulo 2**64): Numba promises LLVM that sums of signed integers never overflow."""
    if span == np.uint64(0):
        return np.int64(low)
    if span == _LOW32:
        return np.int64(low + np.uint64(next_uint32(rng)))
    if span == _ALL64:
        return np.int64(low + next_uint64(rng))
    width = span + _ONE
    if span < _LOW32:
        product = np.uint64(next_uint32(rng)) * width
        if (product & _LOW32) < width:
            threshold = (_LOW32 - span) % width
            while (product & _LOW32) < threshold:
                product = np.uint64(next_uint32(rng)) * width
        return np.int64(low + (product >> np.uint64(32)))
    draw = next_uint64(rng)
    if draw * width < width:
        threshold = (_ALL64 - span) % width
        while draw * width < threshold:
            draw = next_uint64(rng)
    return np.int64(low + _multiply_high(draw, width))


@inline
def _interval(rng, largest):
    """A uniform integer of [0, largest], 0 < largest < 2**32, by masked rejection: NumPy's `random_interval`, which its
    `shuffle` uses."""
    mask = largest | (largest >> _ONE)
    mask |= mask >> np.uint64(2)
    mask |= mask >> np.uint64(4)
    mask |= mask >> np.uint64(8)
    mask |= mask >> np.uint64(16)
    draw = np.uint64(next_uint32(rng)) & mask
    while draw > largest:
        draw = np.uint64(next_uint32(rng)) & mask
    return np.int64(draw)


def _is_none(argument: Any) -> bool:
    return argument is None or isinstance(argument, types.NoneType) or getattr(argument, "value", 0) is None


def _require_integer(method: str, **arguments: Any) -> None:
    for name, argument in arguments.items():
        if not isinstance(argument, types.Integer | types.Boolean | types.IntEnumMember):
            raise TypingError(f"rng.{method}: {name} must be an integer, got {argument}")


@_method("random")
def _random(rng):
    return lambda rng: next_double(rng)


@_method("uniform")
def _uniform(rng, low=0.0, high=1.0):
    def impl(rng, low=0.0, high=1.0):
        return distributions.random_uniform(rng, float(low), float(high) - float(low))

    return impl


@_method("integers")
def _integers(rng, low, high=None):
    if _is_none(high):
        _require_integer("integers", low=low)

        def below(rng, low, high=None):
            return _bounded(rng, np.uint64(0), np.uint64(low) - _ONE)

        return below
    _require_integer("integers", low=low, high=high)

    def between(rng, low, high=None):
        return _bounded(rng, np.uint64(low), np.uint64(high) - np.uint64(low) - _ONE)

    return between


@_method("choice")
def _choice(rng, a, size=None, replace=True, p=None):
    _require_integer("choice", a=a)
    if not _is_none(size):
        raise TypingError("rng.choice gives one value, without `size`; write p=... for probabilities")
    if _is_none(p):
        return lambda rng, a, size=None, replace=True, p=None: _bounded(rng, np.uint64(0), np.uint64(a) - _ONE)
    if isinstance(p, types.BaseTuple) and not isinstance(p, types.UniTuple):
        raise TypingError(f"rng.choice: a tuple p must hold floats only (0.0, not 0), got {p}")

    def weighted(rng, a, size=None, replace=True, p=None):
        # searchsorted(cumsum(p) / cumsum(p)[-1], u, side="right") as a count: no table, no unpredictable branch.
        last = len(p) - 1
        total = 0.0
        for k in range(last + 1):
            total += p[k]
        u = next_double(rng)
        cumulated = 0.0
        index = 0
        for k in range(last):
            cumulated += p[k]
            index += cumulated / total <= u
        return index

    return weighted


@_method("shuffle")
def _shuffle(rng, cells):
    if getattr(cells, "ndim", 1) != 1:
        raise TypingError(f"rng.shuffle: cells must have one dimension, got {cells}")

    def impl(rng, cells):
        for i in range(len(cells) - 1, 0, -1):
            j = _interval(rng, np.uint64(i))
            kept = cells[i]
            cells[i] = cells[j]
            cells[j] = kept

    return impl


@_method("standard_normal")
def _standard_normal(rng):
    return lambda rng: distributions.random_standard_normal(rng)


@_method("normal")
def _normal(rng, loc=0.0, scale=1.0):
    return lambda rng, loc=0.0, scale=1.0: distributions.random_normal(rng, float(loc), float(scale))


@_method("standard_exponential")
def _standard_exponential(rng):
    return lambda rng: distributions.random_standard_exponential(rng)


@_method("exponential")
def _exponential(rng, scale=1.0):
    return lambda rng, scale=1.0: distributions.random_exponential(rng, float(scale))


@inline
def _draw_gamma(rng, shape):
    return distributions.random_standard_gamma(rng, shape) if shape >= 0.0 else np.nan


@_method("standard_gamma")
def _standard_gamma(rng, shape):
    return lambda rng, shape: _draw_gamma(rng, float(shape))


@_method("gamma")
def _gamma(rng, shape, scale=1.0):
    return lambda rng, shape, scale=1.0: float(scale) * _draw_gamma(rng, float(shape))


_TINY = 3e-103  # for smaller a and b the result is 0 or 1


@inline
def _draw_beta(rng, a, b):
    """Johnk's algorithm where a and b are at most 1, as NumPy has it; Numba's loses results whose powers underflow."""
    if not ((a > 0.0) & (b > 0.0)):
        return np.nan
    if (a > 1.0) | (b > 1.0):
        first = distributions.random_standard_gamma(rng, a)
        return first / (first + distributions.random_standard_gamma(rng, b))
    if (a < _TINY) & (b < _TINY):
        return 1.0 if (a + b) * next_double(rng) < a else 0.0
    while True:
        u = next_double(rng)
        v = next_double(rng)
        x = u ** (1.0 / a)
        y = v ** (1.0 / b)
        if (x + y <= 1.0) & (u + v > 0.0):
            if (x > 0.0) & (y > 0.0):
                return x / (x + y)
            log_x = np.log(u) / a
            log_y = np.log(v) / b
            difference = log_x - log_y
            if difference > 0.0:
                return np.exp(-np.log1p(np.exp(-difference)))
            return np.exp(difference - np.log1p(np.exp(difference)))


@_method("beta")
def _beta(rng, a, b):
    return lambda rng, a, b: _draw_beta(rng, float(a), float(b))


@_method("chisquare")
def _chisquare(rng, df):
    return lambda rng, df: 2.0 * _draw_gamma(rng, float(df) / 2.0)


@_method("lognormal")
def _lognormal(rng, mean=0.0, sigma=1.0):
    return lambda rng, mean=0.0, sigma=1.0: distributions.random_lognormal(rng, float(mean), float(sigma))


@_method("laplace")
def _laplace(rng, loc=0.0, scale=1.0):
    return lambda rng, loc=0.0, scale=1.0: distributions.random_laplace(rng, float(loc), float(scale))


@_method("logistic")
def _logistic(rng, loc=0.0, scale=1.0):
    return lambda rng, loc=0.0, scale=1.0: distributions.random_logistic(rng, float(loc), float(scale))


@_method("triangular")
def _triangular(rng, left, mode, right):
    return lambda rng, left, mode, right: distributions.random_triangular(rng, float(left), float(mode), float(right))


#: NaN as an int.
_NO_INT = np.int64(-(2**63))
_LARGEST = np.int64(2**63 - 1)
_LARGEST_MEAN = 9.223372006484771e18  # NumPy's


@_method("poisson")
def _poisson(rng, lam=1.0):
    def impl(rng, lam=1.0):
        mean = float(lam)
        return np.int64(distributions.random_poisson(rng, mean)) if 0.0 <= mean <= _LARGEST_MEAN else _NO_INT

    return impl


@_method("geometric")
def _geometric(rng, p):
    def impl(rng, p):
        probability = float(p)
        if not 0.0 < probability <= 1.0:
            return _NO_INT
        trials = float(distributions.random_geometric(rng, probability))
        return np.int64(trials) if trials < 9.223372036854775807e18 else _LARGEST

    return impl


@_method("binomial")
def _binomial(rng, n, p):
    def impl(rng, n, p):
        trials, probability = np.int64(n), float(p)
        if not ((trials >= 0) & (0.0 <= probability <= 1.0)):
            return _NO_INT
        return np.int64(distributions.random_binomial(rng, trials, probability))

    return impl


# --- Python twins ----------------------------------------------------------------------------------------------------


def pack_state(state: Any) -> tuple[int, int, int, int, int]:
    """The five words of a `PCG64.state` dict."""
    value, increment = state["state"]["state"], state["state"]["inc"]
    buffer = state["has_uint32"] << 32 | state["uinteger"]
    return value & _MASK64, value >> 64, increment & _MASK64, increment >> 64, buffer


def unpack_state(words: NDArray[np.uint64]) -> Any:
    """The `PCG64.state` dict of five words."""
    state_lo, state_hi, increment_lo, increment_hi, buffer = words.tolist()
    return {
        "bit_generator": "PCG64",
        "state": {"state": state_hi << 64 | state_lo, "inc": increment_hi << 64 | increment_lo},
        "has_uint32": buffer >> 32,
        "uinteger": buffer & 0xFFFFFFFF,
    }


class TwinGenerator(np.random.Generator):
    """NumPy's Generator as row functions see it in Python: every scalar comes as np.float64 or np.int64, so that `~`,
    `/ 0` and overflow act as in compiled code, and `shuffle` takes anything with a length and items."""

    def shuffle(self, x: Any, axis: int = 0) -> None:
        if isinstance(x, np.ndarray | MutableSequence):
            super().shuffle(x, axis)  # type: ignore[arg-type]
            return
        # NumPy warns about other containers. The same draws permute an index array, then the items follow.
        order = np.arange(len(x))
        super().shuffle(order)
        for position, value in enumerate([x[k] for k in order]):
            x[position] = value


def _numpy_scalars(method: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(self: TwinGenerator, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        kind = type(result)
        return np.float64(result) if kind is float else np.int64(result) if kind is int else result

    wrapped.__name__, wrapped.__doc__ = method.__name__, method.__doc__
    return wrapped


# fmt: off
for _name in (
    "random", "uniform", "integers", "choice", "standard_normal", "normal", "standard_exponential", "exponential",
    "standard_gamma", "gamma", "beta", "chisquare", "lognormal", "laplace", "logistic", "triangular", "poisson",
    "geometric", "binomial",
):
# fmt: on
    setattr(TwinGenerator, _name, _numpy_scalars(getattr(np.random.Generator, _name)))


class _NoSeed(ISeedSequence):
    """Makes a PCG64 in 0.6 us instead of 7: its state is about to be set anyway."""

    _state = np.zeros(4, np.uint64)

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        return self._state


_NO_SEED = _NoSeed()


class RowGenerator(TwinGenerator):
    """A row's environment stream as a `numpy.random.Generator`; see `load` and `store`."""


def load(words: NDArray[np.uint64]) -> RowGenerator:
    """A generator of its own, set to the stream in `words`. It does not move them: `store` does."""
    bit_generator = np.random.PCG64(_NO_SEED)  # type: ignore[arg-type]
    bit_generator.state = unpack_state(words)
    return RowGenerator(bit_generator)


def store(words: NDArray[np.uint64], generator: np.random.Generator) -> None:
    """Write the stream of `generator` back into `words`."""
    words[:] = pack_state(generator.bit_generator.state)


# The C interface of NumPy's bit generators: https://numpy.org/doc/stable/reference/random/extending.html. `state` is
# the address of the two words, so one set of callbacks serves every stream.
_NEXT64 = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)
_NEXT32 = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)
_NEXT_DOUBLE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)


def _mix_python(z: int) -> int:
    z = (z ^ z >> 30) * int(_MIX1) & _MASK64
    z = (z ^ z >> 27) * int(_MIX2) & _MASK64
    return z ^ z >> 31


@_NEXT64
def _policy_next64(address: int) -> int:
    words = (ctypes.c_uint64 * POLICY_WORDS).from_address(address)
    words[1] = counter = words[1] + 1 & _MASK64
    return _mix_python(_mix_python(counter * int(_GAMMA) & _MASK64) ^ words[0])


@_NEXT32
def _policy_next32(address: int) -> int:
    return int(_policy_next64(address)) >> 32


@_NEXT_DOUBLE
def _policy_next_double(address: int) -> float:
    return (int(_policy_next64(address)) >> 11) * (1.0 / 9007199254740992.0)


class _BitGenerator(ctypes.Structure):
    _fields_ = (
        ("state", ctypes.c_void_p),
        ("next_uint64", _NEXT64),
        ("next_uint32", _NEXT32),
        ("next_double", _NEXT_DOUBLE),
        ("next_raw", _NEXT64),
    )


_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_CAPSULE_NAME = b"BitGenerator"


class _PolicyBitGenerator:
    """What `numpy.random.Generator` needs of a bit generator: a capsule of its C interface, and a lock."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words
        callbacks = (_policy_next64, _policy_next32, _policy_next_double, _policy_next64)
        self._interface = _BitGenerator(words.ctypes.data, *callbacks)
        self.capsule = _new_capsule(ctypes.addressof(self._interface), _CAPSULE_NAME, None)
        self.lock = threading.Lock()


class PolicyGenerator(TwinGenerator):
    """A row's policy stream as a `numpy.random.Generator`. Live: each draw moves `words`, nothing is stored back."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        super().__init__(_PolicyBitGenerator(words))  # type: ignore[arg-type]
