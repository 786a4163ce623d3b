"""Seeding against its oracle, `numpy.random.SeedSequence` and `PCG64` of NumPy 2.4.6."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vecenv.kernels.rng import load
from vecenv.kernels.seeding import normalize_seed, policy_key, seed_policy_rows, seed_row_words, seed_rows, seed_streams

SEEDS = [0, 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 2**64, 2**96 + 5, 2**128, 2**200]

pytestmark = pytest.mark.nojit


def expected_policy(seed):
    return [int(np.random.SeedSequence(seed, spawn_key=(1,)).generate_state(1, np.uint64)[0]), 0]


def check(words, policy, seed):
    assert load(words).bit_generator.state == np.random.PCG64(np.random.SeedSequence(seed)).state
    assert policy.tolist() == expected_policy(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_seed(seed):
    words = seed_row_words(seed)
    assert (words.dtype, words.shape) == (np.uint64, (5,))
    check(words, np.array([policy_key(seed), 0], np.uint64), seed)


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 2**32) | st.integers(0, 2**200), max_size=20))
@example(SEEDS)
@example([2**64, 2**65])
@settings(deadline=None)  # the first call compiles
def test_any_seeds(seeds):
    words = np.full((len(seeds) + 3, 5), 7, np.uint64)
    policy = np.full((len(seeds) + 3, 2), 7, np.uint64)
    rows = np.arange(len(seeds))[::-1] + 2
    seed_streams(words, policy, rows, seeds)
    for row, seed in zip(rows, seeds, strict=True):
        check(words[row], policy[row], seed)
    untouched = [0, 1, len(seeds) + 2]
    assert (words[untouched] == 7).all() and (policy[untouched] == 7).all()


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32, np.uint8])
def test_arrays_of_seeds(dtype):
    seeds = np.array([0, 1, 5, 100], dtype)
    words, policy = np.zeros((4, 5), np.uint64), np.zeros((4, 2), np.uint64)
    seed_streams(words, policy, np.arange(4), seeds)
    for row, seed in enumerate(seeds.tolist()):
        check(words[row], policy[row], seed)


def test_a_range_that_crosses_64_bits():
    seeds = range(2**64 - 2, 2**64 + 2)
    words, policy = np.zeros((4, 5), np.uint64), np.zeros((4, 2), np.uint64)
    seed_streams(words, policy, np.arange(4), seeds)
    for row, seed in enumerate(seeds):
        check(words[row], policy[row], seed)


def test_bulk_kernels():
    seeds = np.random.default_rng(0).integers(0, 2**64, 300, np.uint64)
    words, policy = np.zeros((300, 5), np.uint64), np.zeros((300, 2), np.uint64)
    rows = np.random.default_rng(1).permutation(300)
    seed_rows(words, rows, seeds)
    seed_policy_rows(policy, rows, seeds)
    for row, seed in zip(rows, seeds.tolist(), strict=True):
        check(words[row], policy[row], seed)


@pytest.mark.parametrize("seed", [0, 7, 2**200, np.int64(3), np.uint8(4), np.uint64(2**64 - 1)])
def test_normalize_seed(seed):
    normalized = normalize_seed(seed)
    assert type(normalized) is int and normalized == seed


@pytest.mark.parametrize("seed", [True, np.True_, 1.0, np.float64(2), "1", None, [1]])
def test_normalize_seed_refuses_other_types(seed):
    with pytest.raises(TypeError, match="seed must be an int >= 0, got"):
        normalize_seed(seed)


@pytest.mark.parametrize("seed", [-1, np.int64(-5)])
def test_normalize_seed_refuses_negative(seed):
    with pytest.raises(ValueError, match="seed must be an int >= 0, got"):
        normalize_seed(seed)
