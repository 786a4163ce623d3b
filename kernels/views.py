"""Whole observations inside kernels: Cells, or a record or tuple of Cells, taken apart and copied.

The same names compiled (`COMPILED`) and in plain Python (`PYTHON`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from vecenv.kernels.envdef import Leaf
from vecenv.kernels.row import CellsTwin, CellsType, RecordTwin, RecordType, RowTwin, cells_sizes, row_cells


def frame_names(leaves: tuple[Leaf, ...]) -> list[str]:
    """Names of the columns that keep observations of these leaves; `frames_of` reads their kind from the names."""
    return [
        "frames" if leaf.key is None else f"frames.{leaf.key}" if isinstance(leaf.key, str) else f"frames[{leaf.key}]"
        for leaf in leaves
    ]


def _key(name: str) -> str | None:
    """The key of a leaf in a Dict observation."""
    return name.removeprefix("frames.") if name.startswith("frames.") else None


def _frame_fields(names: Any) -> list[str]:
    return [name for name in names if name.startswith("frames")]


# --- compiled ---------------------------------------------------------------------------------------------------------


def _parts(context: Any, builder: Any, kind: Any, view: Any) -> list[tuple[CellsType, Any]]:
    """Type and struct of each Cells of a view."""
    if isinstance(kind, CellsType):
        found: list[tuple[Any, Any]] = [(kind, view)]
    elif isinstance(kind, RecordType):
        record = cgutils.create_struct_proxy(kind)(context, builder, value=view)
        found = [(part, getattr(record, name)) for name, part in kind.fields]
    else:
        found = list(zip(kind, cgutils.unpack_tuple(builder, view), strict=True))
    return [(part, cgutils.create_struct_proxy(part)(context, builder, value=value)) for part, value in found]


def _join(context: Any, builder: Any, kind: Any, parts: list[Any]) -> Any:
    if isinstance(kind, CellsType):
        return parts[0]
    if isinstance(kind, RecordType):
        record = cgutils.create_struct_proxy(kind)(context, builder)
        for (name, _), part in zip(kind.fields, parts, strict=True):
            setattr(record, name, part)
        return record._getvalue()
    return context.make_tuple(builder, kind, parts)


def _part_type(kind: Any) -> Any:
    """The type of one element of the leading axis; of a scalar, Cells of one."""
    if isinstance(kind, RecordType):
        return RecordType(tuple((name, _part_type(part)) for name, part in kind.fields))
    if not isinstance(kind, CellsType):
        return types.Tuple([_part_type(part) for part in kind])
    shape = None if kind.shape is None else kind.shape[1:] or (1,)
    return CellsType(kind.dtype.str, max(kind.ndim - 1, 1), shape, kind.writable, kind.scope, kind.scopes, kind.checked)


def _count(builder: Any, sizes: list[Any]) -> Any:
    count = ir.IntType(64)(1)
    for size in sizes:
        count = builder.mul(count, size, flags=["nsw"])
    return count


def _nbytes(builder: Any, kind: CellsType, sizes: list[Any]) -> Any:
    return builder.mul(_count(builder, sizes), ir.IntType(64)(kind.dtype.itemsize), flags=["nsw"])


@intrinsic
def _frames_of(typingctx: Any, row: Any) -> Any:
    """The observations that a row keeps, as one view with a leading axis."""
    names = _frame_fields(row.by_name)
    cells = [row.cells(name) for name in names]
    if names == ["frames"]:
        result: Any = cells[0]
    elif keys := [key for name in names if (key := _key(name)) is not None]:
        result = RecordType(tuple(zip(keys, cells, strict=True)))
    else:
        result = types.Tuple(cells)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
        return _join(
            context, builder, result, [row_cells(context, builder, sig.args[0], value, name) for name in names]
        )

    return result(row), codegen


@intrinsic
def _part_of(typingctx: Any, view: Any, index: Any) -> Any:
    """Element `index` of the leading axis of every Cells."""
    result = _part_type(view)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        index = context.cast(builder, args[1], sig.args[1], types.int64)
        parts = []
        for kind, struct in _parts(context, builder, sig.args[0], args[0]):
            sizes = cells_sizes(builder, kind, struct)[1:]
            part = cgutils.create_struct_proxy(_part_type(kind))(context, builder)
            offset = builder.mul(index, _count(builder, sizes), flags=["nsw"])
            part.pointer = builder.gep(struct.pointer, [offset], inbounds=True)
            if kind.shape is None:
                for axis, size in enumerate(sizes or [ir.IntType(64)(1)]):
                    setattr(part, f"n{axis}", size)
            parts.append(part._getvalue())
        return _join(context, builder, result, parts)

    return result(view, index), codegen


@intrinsic
def _copy_view(typingctx: Any, target: Any, source: Any) -> Any:
    """Copy every Cells of `source` to that of `target`, of the same type and size; they do not overlap."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        views = [_parts(context, builder, kind, view) for kind, view in zip(sig.args, args, strict=True)]
        for (kind, to), (_, of) in zip(*views, strict=True):
            nbytes = _nbytes(builder, kind, cells_sizes(builder, kind, to))
            cgutils.raw_memcpy(builder, to.pointer, of.pointer, nbytes, 1)
        return context.get_dummy_value()

    return types.none(target, source), codegen


COMPILED = {
    "frames_of": _frames_of,
    "part_of": _part_of,
    "copy_view": _copy_view,
}


# --- plain Python -----------------------------------------------------------------------------------------------------


def _twins(view: Any) -> list[CellsTwin]:
    if isinstance(view, CellsTwin):
        return [view]
    return list(view._values.values()) if isinstance(view, RecordTwin) else list(view)


def _frames_of_python(row: RowTwin) -> Any:
    cells = {name: CellsTwin(row._columns[name][row._i]) for name in _frame_fields(row._columns)}
    if list(cells) == ["frames"]:
        return cells["frames"]
    if all(_key(name) is not None for name in cells):
        return RecordTwin({str(_key(name)): part for name, part in cells.items()})
    return tuple(cells.values())


def _part_of_python(view: Any, index: int) -> Any:
    if isinstance(view, CellsTwin):
        part = view._array[index]
        return CellsTwin(view._array[index : index + 1] if np.ndim(part) == 0 else part, view._writable)
    if isinstance(view, RecordTwin):
        return RecordTwin({name: _part_of_python(part, index) for name, part in view._values.items()})
    return tuple(_part_of_python(part, index) for part in view)


def _copy_view_python(target: Any, source: Any) -> None:
    for to, of in zip(_twins(target), _twins(source), strict=True):
        to._array[...] = of._array


PYTHON = {
    "frames_of": _frames_of_python,
    "part_of": _part_of_python,
    "copy_view": _copy_view_python,
}
