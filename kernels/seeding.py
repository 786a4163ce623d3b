"""Seeds to streams: `numpy.random.SeedSequence` for many rows at once.

Row streams are those of `numpy.random.PCG64(numpy.random.SeedSequence(seed))`; policy keys are the first uint64 of
`SeedSequence(seed, spawn_key=(1,))`. Seeds below 2**64 are hashed in compiled code, larger ones by NumPy.

Source: M. E. O'Neill's seed_seq design, https://www.pcg-random.org/posts/developing-a-seed_seq-alternative.html, as in
https://numpy.org/doc/stable/reference/random/bit_generators/generated/numpy.random.SeedSequence.html.
"""

# Numba carries no type hints.
# mypy: disable-error-code="call-arg,no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba.core import config
from numba.np.random.generator_core import next_uint64
from numpy.typing import NDArray

from vecenv.kernels.jit import inline, kernel
from vecenv.kernels.rng import WORDS, pack_state, rng_from_address

_INIT_A, _MULTIPLIER_A = np.uint32(0x43B0D7E5), np.uint32(0x931E8875)
_INIT_B, _MULTIPLIER_B = np.uint32(0x8B51F9DD), np.uint32(0x58F38DED)
_MIX_L, _MIX_R = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_HALF = np.uint32(16)
_WORD_BYTES = 8


def normalize_seed(seed: Any) -> int:
    """`seed` as a Python int, or an error that says what was expected."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"seed must be an int >= 0, got {seed!r}")
    if seed < 0:
        raise ValueError(f"seed must be an int >= 0, got {seed!r}")
    return int(seed)


def seed_row_words(seed: int) -> NDArray[np.uint64]:
    """The words of the environment stream of `seed`, an int >= 0 of any size."""
    return np.array(pack_state(np.random.PCG64(np.random.SeedSequence(int(seed))).state), np.uint64)


def policy_key(seed: int) -> int:
    """The key of the policy stream of `seed`, an int >= 0 of any size."""
    return int(np.random.SeedSequence(int(seed), spawn_key=(1,)).generate_state(1, np.uint64)[0])


# Every operation is cast back to uint32: Numba widens uint32 arithmetic to 64 bits.


@inline
def _hash(value, constant, multiplier):
    """Hash one word; returns it and the next constant."""
    value = np.uint32(value ^ constant)
    constant = np.uint32(constant * multiplier)
    value = np.uint32(value * constant)
    return np.uint32(value ^ (value >> _HALF)), constant


@inline
def _absorb(value, a, b, c, constant):
    """Mix `value` into three words of the pool, hashed anew for each."""
    a, constant = _mix_hashed(a, value, constant)
    b, constant = _mix_hashed(b, value, constant)
    c, constant = _mix_hashed(c, value, constant)
    return a, b, c, constant


@inline
def _mix_hashed(word, value, constant):
    hashed, constant = _hash(value, constant, _MULTIPLIER_A)
    mixed = np.uint32(np.uint32(_MIX_L * word) - np.uint32(_MIX_R * hashed))
    return np.uint32(mixed ^ (mixed >> _HALF)), constant


@inline
def _pool(seed):
    """SeedSequence's pool of four words after absorbing `seed`, and the hash constant it arrived at."""
    a, constant = _hash(np.uint32(seed), _INIT_A, _MULTIPLIER_A)
    b, constant = _hash(np.uint32(seed >> np.uint64(32)), constant, _MULTIPLIER_A)
    c, constant = _hash(np.uint32(0), constant, _MULTIPLIER_A)
    d, constant = _hash(np.uint32(0), constant, _MULTIPLIER_A)
    b, c, d, constant = _absorb(a, b, c, d, constant)
    a, c, d, constant = _absorb(b, a, c, d, constant)
    a, b, d, constant = _absorb(c, a, b, d, constant)
    a, b, c, constant = _absorb(d, a, b, c, constant)
    return a, b, c, d, constant


@inline
def _generate64(low, high, constant):
    """The next 64 bits of `generate_state` from two words of the pool, and the next constant."""
    low, constant = _hash(low, constant, _MULTIPLIER_B)
    high, constant = _hash(high, constant, _MULTIPLIER_B)
    return np.uint64(low) | (np.uint64(high) << np.uint64(32)), constant


@kernel
def seed_rows(words, rows, seeds):
    """Set `words[rows[k]]` (uint64 [N, 5], contiguous) to the environment stream of `seeds[k]` (uint64)."""
    for k in range(len(rows)):
        row = rows[k]
        a, b, c, d, _ = _pool(seeds[k])
        state_hi, constant = _generate64(a, b, _INIT_B)
        state_lo, constant = _generate64(c, d, constant)
        sequence_hi, constant = _generate64(a, b, constant)
        sequence_lo, constant = _generate64(c, d, constant)
        # pcg_setseq_128_srandom: increment = 2 * sequence + 1; state = increment + initial state; one step.
        increment_lo = (sequence_lo << np.uint64(1)) | np.uint64(1)
        increment_hi = (sequence_hi << np.uint64(1)) | (sequence_lo >> np.uint64(63))
        state_lo += increment_lo
        words[row, 0] = state_lo
        words[row, 1] = state_hi + increment_hi + np.uint64(state_lo < increment_lo)
        words[row, 2] = increment_lo
        words[row, 3] = increment_hi
        words[row, 4] = 0
        next_uint64(rng_from_address(words.ctypes.data + row * (WORDS * _WORD_BYTES)))


@kernel
def seed_policy_rows(policy, rows, seeds):
    """Set `policy[rows[k]]` (uint64 [N, 2], contiguous) to the policy stream of `seeds[k]` (uint64)."""
    for k in range(len(rows)):
        a, b, c, d, constant = _pool(seeds[k])
        # The spawn key (1,) is a fifth word of entropy: mixed into the finished pool.
        a, b, c, constant = _absorb(np.uint32(1), a, b, c, constant)
        d, constant = _mix_hashed(d, np.uint32(1), constant)
        policy[rows[k], 0], constant = _generate64(a, b, _INIT_B)
        policy[rows[k], 1] = 0


if config.DISABLE_JIT:  # type: ignore[attr-defined]  # the compiled bodies use intrinsics and wrapping arithmetic

    def seed_rows(words, rows, seeds):
        for row, seed in zip(rows, seeds, strict=True):
            words[row] = seed_row_words(seed)

    def seed_policy_rows(policy, rows, seeds):
        for row, seed in zip(rows, seeds, strict=True):
            policy[row] = policy_key(seed), 0


def seed_streams(
    words: NDArray[np.uint64], policy: NDArray[np.uint64], rows: NDArray[np.int64], seeds: Sequence[int] | NDArray[Any]
) -> None:
    """Seed both streams of `rows`: row `rows[k]` from `seeds[k]`, checked ints >= 0 of any size."""
    rows = np.ascontiguousarray(rows, np.int64)
    try:
        small = np.ascontiguousarray(seeds, np.uint64)
    except OverflowError:
        fits = np.fromiter((seed <= 0xFFFFFFFFFFFFFFFF for seed in seeds), bool, len(seeds))
        for k in np.flatnonzero(~fits).tolist():
            words[rows[k]] = seed_row_words(seeds[k])
            policy[rows[k]] = policy_key(seeds[k]), 0
        small = np.array([int(seeds[k]) for k in np.flatnonzero(fits).tolist()], np.uint64)
        rows = rows[fits]
    seed_rows(words, rows, small)
    seed_policy_rows(policy, rows, small)
