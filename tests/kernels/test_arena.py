"""copy_rows: the only thing that moves state. Oracle: fancy indexing of NumPy, column by column."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vecenv.kernels.arena import copy_rows
from vecenv.kernels.soa import Column, Layout, allocate

pytestmark = pytest.mark.nojit

LAYOUT = Layout(
    [
        Column("a", np.dtype("f8")),
        Column("b", np.dtype("u1"), (3, 3)),
        Column("c", np.dtype("f4")),
        Column("d", np.dtype("i2"), (2,)),
        Column("e", np.dtype("u8"), (5,)),
        Column("f", np.dtype("?")),
        Column("g", np.dtype("u1"), (16,)),
    ]
)


def filled(num_rows: int, seed: int):
    arena = allocate(int(LAYOUT.offsets(num_rows)[-1]))
    arena[:] = np.random.default_rng(seed).integers(0, 256, len(arena), np.uint8)
    return arena


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_between_arenas_of_any_number_of_rows(data):
    n, m = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40))
    targets = data.draw(st.lists(st.integers(0, n - 1), unique=True))
    sources = data.draw(st.lists(st.integers(0, m - 1), min_size=len(targets), max_size=len(targets)))
    target, source = filled(n, 1), filled(m, 2)
    expected = target.copy()
    for name, column in LAYOUT.carve(expected, n).items():
        column[targets] = LAYOUT.carve(source, m)[name][sources]
    before = source.copy()
    copy_rows(LAYOUT, target, n, np.array(targets, np.int64), source, m, np.array(sources, np.int64))
    np.testing.assert_array_equal(target, expected)
    np.testing.assert_array_equal(source, before)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_within_one_arena_as_if_all_rows_were_read_first(data):
    """Swaps, cycles and one row to many."""
    n = data.draw(st.integers(1, 20))
    targets = data.draw(st.lists(st.integers(0, n - 1), unique=True))
    sources = data.draw(st.lists(st.integers(0, n - 1), min_size=len(targets), max_size=len(targets)))
    arena = filled(n, 3)
    expected = arena.copy()
    for column in LAYOUT.carve(expected, n).values():
        column[targets] = column[sources].copy()
    copy_rows(LAYOUT, arena, n, np.array(targets, np.int64), arena, n, np.array(sources, np.int64))
    np.testing.assert_array_equal(arena, expected)


def test_a_read_only_source():
    source = filled(3, 4)
    source.flags.writeable = False
    target = filled(2, 5)
    copy_rows(LAYOUT, target, 2, np.array([1]), source, 3, np.array([2]))
    for name, column in LAYOUT.carve(target, 2).items():
        np.testing.assert_array_equal(column[1], LAYOUT.carve(source, 3)[name][2])
