"""Column types, the author's classes, layouts, params. Oracle: NumPy views over the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecenv import B1, F4, F8, I1, I4, U1, U8, Array, Info, Options, Params, State, Table
from vecenv.kernels.soa import (
    ALIGNMENT,
    STAGGER,
    Column,
    ColumnType,
    Field,
    Layout,
    allocate,
    compute_dtype,
    convert_scalar,
    digest_params,
    resolve_params,
)

pytestmark = pytest.mark.nojit

columns = st.lists(
    st.tuples(st.sampled_from(["?", "i1", "u2", "f4", "i8", "f8"]), st.lists(st.integers(1, 5), max_size=3)), max_size=8
)


@given(columns, st.integers(0, 300))
def test_columns_are_aligned_apart_and_inside(kinds, num_rows):
    """Each starts on a cache line, at least `STAGGER` bytes after the one before; none overlaps another."""
    layout = Layout([Column(f"c{k}", np.dtype(kind), tuple(shape)) for k, (kind, shape) in enumerate(kinds)])
    offsets = layout.offsets(num_rows)
    arena = allocate(int(offsets[-1]))
    assert arena.ctypes.data % ALIGNMENT == 0 or not kinds
    views = layout.carve(arena, num_rows)
    for column, low, high in zip(layout.columns, offsets, offsets[1:], strict=False):
        view = views[column.name]
        assert view.shape == (num_rows, *column.shape) and view.dtype == column.dtype and view.flags.carray
        assert low % ALIGNMENT == 0 and high - low >= column.row_nbytes * num_rows + STAGGER
        if num_rows:
            assert view.ctypes.data == arena.ctypes.data + low
    for k, view in enumerate(views.values()):
        view.view(np.uint8).fill(k + 1)
    for k, view in enumerate(views.values()):
        assert (view.view(np.uint8) == k + 1).all()


def test_layouts_know_their_columns():
    a = Layout([Column("x", np.dtype("f8")), Column("y", np.dtype("f4"), (2, 3))])
    same = Layout([Column("x", np.dtype("f8")), Column("y", np.dtype("f4"), (2, 3))])
    other = Layout([Column("x", np.dtype("f8")), Column("y", np.dtype("f4"), (3, 2)), Column("z", np.dtype("?"))])
    swapped = Layout(a.columns[::-1])
    assert a.digest == same.digest
    assert len({a.digest, other.digest, swapped.digest}) == 3
    assert a.difference(other) == "y, z"
    assert a.difference(swapped) == "the order of columns"


def test_column_types():
    assert Array[U1, 2, 3] == ColumnType(np.dtype("u1"), (2, 3))
    assert compute_dtype(U8.dtype) == np.int64 and compute_dtype(F4.dtype) == np.float64
    assert compute_dtype(B1.dtype) == np.bool_ and compute_dtype(I1.dtype) == np.int64
    for wrong in (F8, (F8,), (float, 3), (F8, 0), (F8, -1), (F8, True), (F8, 2.0), (Array[F8, 2], 3)):
        with pytest.raises(TypeError, match=r"Array|size"):
            Array[wrong]
    for wrong in (F8, (F8, 0), (F8, "n"), (float, 2), (F8, 1, 2), (Array[F8, 2], 1)):
        with pytest.raises(TypeError, match="Table"):
            Table[wrong]


def test_classes_collect_fields_in_order_inherited_ones_first():
    class Base(State):
        b: F8
        a: Array[U1, 2]

    class Derived(Base):
        c: I4
        b: F4

    assert [(f.name, f.dtype.str) for f in Derived.fields] == [("b", "<f4"), ("a", "|u1"), ("c", "<i4")]
    assert [f.name for f in Base.fields] == ["b", "a"]


def _class(base, name="x", kind="F8", default=None):
    body = {"__annotations__": {name: eval(kind)} if kind else {}, "__module__": __name__}
    if default is not None:
        body[name] = default
    return type("Mine", (base,), body)


@pytest.mark.parametrize(
    ("base", "name", "kind", "default", "message"),
    [
        (State, "x", "F8", 1.0, "Mine.x: no default here"),
        (State, "x", "float", None, "Mine.x: expected a column type such as F8"),
        (State, "x", "Table[F8, 1]", None, "Mine.x: tables belong to Params"),
        (State, "elapsed", "F8", None, "Mine.elapsed: the name is reserved"),
        (State, "limit", "I4", None, "Mine.limit: the name is reserved"),
        (State, "_x", "F8", None, "must not start with an underscore"),
        (State, "x", "", 3, "Mine.x has no column type; write `x: F8"),
        (Params, "x", "Array[F8, 2]", None, "Mine.x: only scalar fields here"),
        (Info, "x", "F8", 1.0, "Mine.x: no default here"),
        (Options, "x", "Table[F8, 1]", None, "Mine.x: tables belong to Params"),
    ],
)
def test_wrong_fields(base, name, kind, default, message):
    with pytest.raises(TypeError, match=message):
        _class(base, name, kind, default)


def test_unresolvable_annotations():
    with pytest.raises(TypeError, match=r"Broken: cannot resolve its annotations: name 'F9'"):

        class Broken(State):
            x: F9  # noqa: F821


class Values(Params):
    f: F8 = 0.5
    small: F4 = 0.1
    n: U1 = 3
    flag: B1 = True
    table: Table[I1, 2]


GOOD = {"table": [[1, -2], [3, 4]]}


def test_resolved_params_have_their_storage_types():
    values = resolve_params(Values, GOOD | {"n": np.int64(255), "f": 3, "flag": np.True_}, "Mine")
    assert {name: value.dtype.str for name, value in values.items()} == {
        "f": "<f8", "small": "<f4", "n": "|u1", "flag": "|b1", "table": "|i1",
    }  # fmt: skip
    assert values["small"] == np.float32(0.1) and values["n"] == 255
    assert values["table"].tolist() == [[1, -2], [3, 4]]
    assert not values["table"].flags.writeable and values["table"].flags.c_contiguous


def test_tables_are_copies():
    mine = np.array([[1, 2]], np.int8)
    values = resolve_params(Values, {"table": mine}, "Mine")
    mine[0, 0] = 9
    assert values["table"].tolist() == [[1, 2]]
    assert resolve_params(Values, {"table": np.arange(6).reshape(3, 2).T}, "Mine")["table"].tolist() == [
        [0, 2, 4],
        [1, 3, 5],
    ]


@pytest.mark.parametrize(
    ("given_values", "kind", "message"),
    [
        ({}, ValueError, "Mine: param 'table' has no default and no value was given"),
        (GOOD | {"n": 256}, ValueError, "Mine: param 'n': 256 does not fit uint8"),
        (GOOD | {"n": -1}, ValueError, "Mine: param 'n': -1 does not fit uint8"),
        (GOOD | {"n": 1.0}, TypeError, "Mine: param 'n': expected one uint8, got 1.0"),
        (GOOD | {"f": "fast"}, TypeError, "Mine: param 'f': expected one float64, got 'fast'"),
        (GOOD | {"f": [1.0]}, TypeError, "Mine: param 'f': expected one float64"),
        (GOOD | {"flag": 1}, TypeError, "Mine: param 'flag': expected one bool, got 1"),
        ({"table": [1, 2]}, ValueError, r"'table': expected a non-empty 2-d array of int8, got shape \(2,\)"),
        ({"table": [[]]}, ValueError, "'table': expected a non-empty 2-d array"),
        ({"table": [["a"]]}, ValueError, "'table': expected a non-empty 2-d array of int8"),
        ({"table": [[300]]}, ValueError, "'table': some values do not fit int8"),
        ({"table": [[0.5]]}, ValueError, "'table': some values do not fit int8"),
    ],
)
def test_wrong_params(given_values, kind, message):
    with pytest.raises(kind, match=message):
        resolve_params(Values, given_values, "Mine")


def test_digest_of_params_sees_every_value():
    digests = {
        digest_params(resolve_params(Values, GOOD | change, "Mine"))
        for change in (
            {},
            {"f": 0.25},
            {"n": 4},
            {"flag": False},
            {"table": [[1, -2, 3, 4]]},
            {"table": [[1, 2], [3, 4]]},
        )
    }
    assert len(digests) == 6
    assert digest_params(resolve_params(Values, GOOD, "A")) == digest_params(resolve_params(Values, GOOD, "B"))


@given(st.integers(-(2**70), 2**70))
def test_integers_that_do_not_fit_are_refused(value):
    field = Field("n", I1)
    if -128 <= value <= 127:
        assert convert_scalar(field, value, "Mine:") == value
    else:
        with pytest.raises((ValueError, TypeError)):
            convert_scalar(field, value, "Mine:")
