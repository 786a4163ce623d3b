"""Gathering and the sum tree. Oracles: NumPy's indexing, cumulative sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vecenv.kernels import replay


@pytest.mark.nojit
def test_gather():
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.uint8, np.bool_, np.int64):
        source = rng.integers(0, 2, (12, 3)).astype(dtype)
        indices = rng.integers(0, 12, 7)
        out = np.empty((7, 3), dtype)
        replay.gather(source, indices, out)
        np.testing.assert_array_equal(out, source[indices])


@pytest.mark.nojit
def test_gather_next():
    """Four slots of three rows."""
    obs, final = np.arange(12.0)[:, np.newaxis], np.arange(100.0, 112.0)[:, np.newaxis]
    apart = np.zeros(12, bool)
    apart[[4, 11]] = True
    indices, out = np.array([0, 4, 5, 9, 11]), np.empty((5, 1))
    replay.gather_next(obs, final, apart, indices, 3, out)
    assert out[:, 0].tolist() == [3, 104, 8, 0, 111]


def built(values, size):
    tree = np.zeros(2 * size)
    tree[size : size + len(values)] = values
    for i in range(size - 1, 0, -1):
        tree[i] = tree[2 * i] + tree[2 * i + 1]
    return tree


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_sum_tree(data):
    """Whatever is written in whatever order, the tree is the one built from its leaves, bit for bit."""
    size = 2 ** data.draw(st.integers(1, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    tree, values = np.zeros(2 * size), np.zeros(size)
    for _ in range(6):
        if rng.random() < 0.5:
            first = rng.integers(size)
            part = rng.exponential(size=rng.integers(0, size - first + 1)) * (rng.random() < 0.8)
            replay.write_range(tree, int(first), part)
            values[first : first + len(part)] = part
        else:
            leaves = rng.integers(0, size, rng.integers(0, 8))
            part = rng.exponential(size=len(leaves)) * (rng.random(len(leaves)) < 0.7)
            replay.write(tree, leaves, part)
            for leaf, value in zip(leaves, part, strict=True):
                values[leaf] = value
        np.testing.assert_array_equal(tree, built(values, size))
    if tree[1] > 0:
        uniforms = rng.random(50)
        chosen = np.empty(50, np.int64)
        replay.draw(tree, uniforms, chosen)
        assert (values[chosen] > 0).all()
        cumulated = np.cumsum(values)
        clear = np.abs(cumulated[np.newaxis] - uniforms[:, np.newaxis] * tree[1]).min(axis=1) > 1e-9  # not by rounding
        expected = np.searchsorted(cumulated, uniforms * tree[1], side="right")
        np.testing.assert_array_equal(chosen[clear], expected[clear])


@pytest.mark.nojit
def test_draws_at_the_ends_of_the_range():
    """Leaves of 0 are never drawn, even where rounding reaches the sum."""
    tree = built([0.0, 0.1, 0.0, 0.0, 0.2, 0.3, 0.0, 0.0], 8)
    chosen = np.empty(2, np.int64)
    replay.draw(tree, np.array([0.0, np.nextafter(1.0, 0.0)]), chosen)
    assert chosen.tolist() == [1, 5]
