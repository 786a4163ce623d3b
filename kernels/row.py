"""`Row` and `Cells`: what an author's row function sees of the batch, in Numba and in plain Python.

`Row` is row i of a struct of arrays: `row.x` loads element i of column x, `row.x = v` stores it. `Cells` is the array
part of one row: an array field, observation, action or table. Both are pointers plus compile-time strides, because
general array indexing (negative-index wrap, run-time strides) does not vectorize. Every access says which column it
belongs to (LLVM alias scopes), because no two columns, inputs or outputs of a kernel overlap.

The Python twins below read and narrow exactly like the compiled forms, over NumPy views of the same bytes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import StructModel
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_untracked
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
    overload_method,
    register_model,
)
from numba.np.numpy_support import from_dtype

from vecenv.kernels.math_primitives import cast_int
from vecenv.kernels.soa import compute_dtype

Scope = str
Scopes = tuple[Scope, ...]

# --- Numba types ------------------------------------------------------------------------------------------------------


def _storage(dtype: np.dtype[Any]) -> Any:
    return types.uint8 if dtype.kind == "b" else from_dtype(dtype)


def _compute(dtype: np.dtype[Any]) -> Any:
    return from_dtype(compute_dtype(dtype))


class CellsType(types.Type):
    """C-contiguous array part of one row. `shape` holds ints (compile-time) or is None (run-time sizes)."""

    def __init__(
        self,
        dtype: str,
        ndim: int,
        shape: tuple[int, ...] | None,
        writable: bool,
        scope: Scope,
        scopes: Scopes,
        checked: bool = False,
    ) -> None:
        self.dtype, self.ndim, self.shape, self.writable = np.dtype(dtype), ndim, shape, writable
        self.scope, self.scopes, self.checked = scope, scopes, checked
        super().__init__(name=f"Cells({dtype}, {ndim}, {shape}, {writable}, {scope}, {scopes}, {checked})")


class RowType(types.Type):
    """Row i of some columns. A field is (name, element type, shape, scope, writable).

    A shape holds ints, or names of `sizes`, which are then run-time values of the row.
    """

    def __init__(
        self,
        fields: tuple[tuple[str, str, tuple[int | str, ...], Scope, bool], ...],
        scopes: Scopes,
        checked: bool = False,
    ) -> None:
        self.fields, self.scopes, self.checked = fields, scopes, checked
        self.by_name = {field[0]: field for field in fields}
        self.sizes = sorted({size for field in fields for size in field[2] if isinstance(size, str)})
        super().__init__(name=f"Row({fields}, {scopes}, {checked})")

    def cells(self, name: str) -> CellsType:
        _, dtype, shape, scope, writable = self.by_name[name]
        fixed = tuple(size for size in shape if isinstance(size, int))
        if len(fixed) < len(shape):
            return CellsType(dtype, len(shape), None, writable, scope, self.scopes, self.checked)
        return CellsType(dtype, len(shape), fixed, writable, scope, self.scopes, self.checked)


class ElementType(types.Type):
    """One element of a column, by pointer and row: a param with a value per row."""

    def __init__(self, dtype: str, scope: Scope, scopes: Scopes) -> None:
        self.dtype, self.scope, self.scopes = np.dtype(dtype), scope, scopes
        super().__init__(name=f"Element({dtype}, {scope}, {scopes})")


class RecordType(types.Type):
    """Named values without storage of their own: params, options, the leaves of a Dict observation.

    A field of `ElementType` reads as the number it points to.
    """

    def __init__(self, fields: tuple[tuple[str, types.Type], ...]) -> None:
        self.fields = fields
        self.by_name = dict(fields)
        super().__init__(name=f"Record({fields})")


@register_model(CellsType)
class _CellsModel(StructModel):
    def __init__(self, dmm: Any, fe_type: CellsType) -> None:
        members = [("pointer", types.CPointer(_storage(fe_type.dtype)))]
        if fe_type.shape is None:
            members += [(f"n{k}", types.int64) for k in range(fe_type.ndim)]
        super().__init__(dmm, fe_type, members)


@register_model(RowType)
class _RowModel(StructModel):
    def __init__(self, dmm: Any, fe_type: RowType) -> None:
        members = [("i", types.int64)]
        members += [(f"p_{name}", types.CPointer(_storage(np.dtype(dtype)))) for name, dtype, *_ in fe_type.fields]
        members += [(f"s_{size}", types.int64) for size in fe_type.sizes]
        super().__init__(dmm, fe_type, members)


@register_model(ElementType)
class _ElementModel(StructModel):
    def __init__(self, dmm: Any, fe_type: ElementType) -> None:
        super().__init__(dmm, fe_type, [("pointer", types.CPointer(_storage(fe_type.dtype))), ("i", types.int64)])


@register_model(RecordType)
class _RecordModel(StructModel):
    def __init__(self, dmm: Any, fe_type: RecordType) -> None:
        super().__init__(dmm, fe_type, list(fe_type.fields))


# --- loads and stores -------------------------------------------------------------------------------------------------


def mark_scope(builder: Any, instruction: Any, scope: Scope, scopes: Scopes) -> None:
    """Tell LLVM that this access touches `scope` and none of the other `scopes`.

    Without it LLVM gives up vectorizing when the pairwise run-time overlap checks pass about 128.
    """
    module = builder.module
    domain = module.add_metadata(["vecenv"])
    own = module.add_metadata([scope, domain])
    others = [module.add_metadata([other, domain]) for other in scopes if other != scope]
    instruction.set_metadata("alias.scope", module.add_metadata([own]))
    if others:
        instruction.set_metadata("noalias", module.add_metadata(others))


def load_scalar(context: Any, builder: Any, pointer: Any, dtype: np.dtype[Any], scope: Scope, scopes: Scopes) -> Any:
    """Load one element and widen it to bool, int64 or float64."""
    value = builder.load(pointer, align=dtype.itemsize)
    mark_scope(builder, value, scope, scopes)
    if dtype.kind == "b":
        return builder.icmp_unsigned("!=", value, ir.Constant(value.type, 0))
    if dtype.kind == "f":
        return value if dtype.itemsize == 8 else builder.fpext(value, ir.DoubleType())
    if dtype.itemsize == 8:
        return value
    extend = builder.zext if dtype.kind == "u" else builder.sext
    return extend(value, ir.IntType(64))


def converted(context: Any, builder: Any, value: Any, kind: Any, wanted: Any) -> Any:
    """A number as bool, int64 or float64. Numba's own cast of a float that has no int64 is undefined."""
    if isinstance(kind, types.Float) and isinstance(wanted, types.Integer):
        return cast_int(builder, context.cast(builder, value, kind, types.float64))
    return context.cast(builder, value, kind, wanted)


def store_scalar(
    context: Any, builder: Any, value: Any, pointer: Any, dtype: np.dtype[Any], scope: Scope, scopes: Scopes
) -> None:
    """Narrow a bool, int64 or float64 and store it."""
    if dtype.kind == "b":
        value = builder.zext(value, ir.IntType(8))
    elif dtype.kind == "f":
        value = value if dtype.itemsize == 8 else builder.fptrunc(value, ir.FloatType())
    elif dtype.itemsize < 8:
        value = builder.trunc(value, ir.IntType(8 * dtype.itemsize))
    mark_scope(builder, builder.store(value, pointer, align=dtype.itemsize), scope, scopes)


def _row_sizes(row: Any, shape: tuple[int | str, ...]) -> list[Any]:
    return [getattr(row, f"s_{size}") if isinstance(size, str) else ir.IntType(64)(size) for size in shape]


def row_pointer(builder: Any, typ: RowType, row: Any, name: str) -> Any:
    """Where row i of a column starts."""
    index = row.i
    shape = typ.by_name[name][2]
    if any(isinstance(size, str) for size in shape):
        for size in _row_sizes(row, shape):
            index = builder.mul(index, size, flags=["nsw"])
    else:
        for size in shape:
            index = builder.mul(index, index.type(size), flags=["nsw"])
    return builder.gep(getattr(row, f"p_{name}"), [index], inbounds=True)


def row_nbytes(builder: Any, typ: RowType, row: Any, name: str) -> Any:
    """Size of one row of a column."""
    _, dtype, shape, _, _ = typ.by_name[name]
    nbytes = ir.IntType(64)(np.dtype(dtype).itemsize)
    for size in _row_sizes(row, shape):
        nbytes = builder.mul(nbytes, size, flags=["nsw"])
    return nbytes


def row_cells(context: Any, builder: Any, typ: RowType, row: Any, name: str) -> Any:
    """The Cells of an array field."""
    cells_type = typ.cells(name)
    cells = cgutils.create_struct_proxy(cells_type)(context, builder)
    cells.pointer = row_pointer(builder, typ, row, name)
    if cells_type.shape is None:
        for k, size in enumerate(_row_sizes(row, typ.by_name[name][2])):
            setattr(cells, f"n{k}", size)
    return cells._getvalue()


@infer_getattr
class _RowAttributes(AttributeTemplate):
    key = RowType

    def generic_resolve(self, row: RowType, attr: str) -> Any:
        if attr not in row.by_name:
            raise TypingError(f"no field {attr!r} here; there are: {', '.join(row.by_name)}")
        _, dtype, shape, _, _ = row.by_name[attr]
        return row.cells(attr) if shape else _compute(np.dtype(dtype))


@lower_getattr_generic(RowType)
def _row_getattr(context: Any, builder: Any, typ: RowType, value: Any, attr: str) -> Any:
    row = cgutils.create_struct_proxy(typ)(context, builder, value=value)
    _, dtype, shape, scope, _ = typ.by_name[attr]
    if shape:
        return row_cells(context, builder, typ, row, attr)
    pointer = row_pointer(builder, typ, row, attr)
    return load_scalar(context, builder, pointer, np.dtype(dtype), scope, typ.scopes)


@lower_setattr_generic(RowType)
def _row_setattr(context: Any, builder: Any, sig: Any, args: Any, attr: str) -> None:
    typ = sig.args[0]
    row = cgutils.create_struct_proxy(typ)(context, builder, value=args[0])
    _, dtype, shape, scope, writable = typ.by_name[attr]
    if shape:
        raise TypingError(f"`{attr}` is an array field: write its elements, `{attr}[...] = v`, fill(v) or copy_from(c)")
    if not writable:
        raise TypingError(f"`{attr}` is read-only")
    pointer = row_pointer(builder, typ, row, attr)
    value = converted(context, builder, args[1], sig.args[1], _compute(np.dtype(dtype)))
    store_scalar(context, builder, value, pointer, np.dtype(dtype), scope, typ.scopes)


@infer_getattr
class _RecordAttributes(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, record: RecordType, attr: str) -> Any:
        field = record.by_name.get(attr)
        if field is None:
            raise TypingError(f"no field {attr!r} here; there are: {', '.join(record.by_name) or 'none'}")
        return _compute(field.dtype) if isinstance(field, ElementType) else field


@lower_getattr_generic(RecordType)
def _record_getattr(context: Any, builder: Any, typ: RecordType, value: Any, attr: str) -> Any:
    record = cgutils.create_struct_proxy(typ)(context, builder, value=value)
    field = typ.by_name[attr]
    if not isinstance(field, ElementType):
        return getattr(record, attr)
    element = cgutils.create_struct_proxy(field)(context, builder, value=getattr(record, attr))
    pointer = builder.gep(element.pointer, [element.i], inbounds=True)
    return load_scalar(context, builder, pointer, field.dtype, field.scope, field.scopes)


@lower_setattr_generic(RecordType)
def _record_setattr(context: Any, builder: Any, sig: Any, args: Any, attr: str) -> None:
    raise TypingError(f"`{attr}` is read-only here")


# --- Cells: element access, shape, len, fill, copy_from ---------------------------------------------------------------


def _index_types(index: types.Type) -> list[types.Type] | None:
    parts = list(index) if isinstance(index, types.BaseTuple) else [index]
    return parts if all(isinstance(part, (types.Integer, types.Boolean)) for part in parts) else None


def _check_index(cells: CellsType, index: types.Type) -> None:
    parts = _index_types(index)
    if parts is None or len(parts) != cells.ndim:
        raise TypingError(f"this array has {cells.ndim} dimension(s): index it with {cells.ndim} int(s)")


@infer_global(operator.getitem)
class _CellsGetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        cells, index = args
        if isinstance(cells, CellsType):
            _check_index(cells, index)
            return signature(_compute(cells.dtype), cells, index)
        return None


@infer_global(operator.setitem)
class _CellsSetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        cells, index, value = args
        if isinstance(cells, CellsType):
            _check_index(cells, index)
            if not cells.writable:
                raise TypingError("this array is read-only here")
            wanted = _compute(cells.dtype)  # a float comes as it is: see `converted`
            is_float = isinstance(value, types.Float) and isinstance(wanted, types.Integer)
            return signature(types.none, cells, index, types.float64 if is_float else wanted)
        return None


@infer_global(len)
class _CellsLen(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], CellsType):
            return signature(types.intp, args[0])
        return None


def cells_sizes(builder: Any, typ: CellsType, cells: Any) -> list[Any]:
    if typ.shape is None:
        return [getattr(cells, f"n{k}") for k in range(typ.ndim)]
    return [ir.Constant(ir.IntType(64), size) for size in typ.shape]


def _cells_pointer(context: Any, builder: Any, typ: CellsType, cells: Any, index_type: Any, index: Any) -> Any:
    parts = cgutils.unpack_tuple(builder, index) if isinstance(index_type, types.BaseTuple) else [index]
    kinds = list(index_type) if isinstance(index_type, types.BaseTuple) else [index_type]
    flat = None
    for size, part, kind in zip(cells_sizes(builder, typ, cells), parts, kinds, strict=True):
        part = context.cast(builder, part, kind, types.int64)
        if typ.checked:  # unsigned: a negative index is out of range as well
            with builder.if_then(builder.icmp_unsigned(">=", part, size), likely=False):
                context.call_conv.return_user_exc(builder, IndexError, (f"index out of range in {typ.scope}",))
        flat = part if flat is None else builder.add(builder.mul(flat, size, flags=["nsw"]), part, flags=["nsw"])
    return builder.gep(cells.pointer, [flat], inbounds=True)


@lower_builtin(operator.getitem, CellsType, types.Any)
def _cells_getitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    typ, index_type = sig.args
    cells = cgutils.create_struct_proxy(typ)(context, builder, value=args[0])
    pointer = _cells_pointer(context, builder, typ, cells, index_type, args[1])
    return load_scalar(context, builder, pointer, typ.dtype, typ.scope, typ.scopes)


@lower_builtin(operator.setitem, CellsType, types.Any, types.Any)
def _cells_setitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    typ, index_type, value_type = sig.args
    cells = cgutils.create_struct_proxy(typ)(context, builder, value=args[0])
    pointer = _cells_pointer(context, builder, typ, cells, index_type, args[1])
    value = converted(context, builder, args[2], value_type, _compute(typ.dtype))
    store_scalar(context, builder, value, pointer, typ.dtype, typ.scope, typ.scopes)
    return context.get_dummy_value()


@lower_builtin(len, CellsType)
def _cells_len(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    cells = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
    return cells_sizes(builder, sig.args[0], cells)[0]


@infer_getattr
class _CellsAttributes(AttributeTemplate):
    key = CellsType

    def generic_resolve(self, cells: CellsType, attr: str) -> Any:
        return types.UniTuple(types.int64, cells.ndim) if attr == "shape" else None


@lower_getattr_generic(CellsType)
def _cells_getattr(context: Any, builder: Any, typ: CellsType, value: Any, attr: str) -> Any:
    cells = cgutils.create_struct_proxy(typ)(context, builder, value=value)
    sizes = context.make_tuple(builder, types.UniTuple(types.int64, typ.ndim), cells_sizes(builder, typ, cells))
    return impl_ret_untracked(context, builder, types.UniTuple(types.int64, typ.ndim), sizes)


@intrinsic(prefer_literal=False)
def _flatten(typingctx: Any, cells: Any) -> Any:
    """The same cells as one dimension."""
    size = None if cells.shape is None else (int(np.prod(cells.shape, dtype=np.int64)),)
    flat_type = CellsType(cells.dtype.str, 1, size, cells.writable, cells.scope, cells.scopes, cells.checked)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        source = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
        flat = cgutils.create_struct_proxy(flat_type)(context, builder)
        flat.pointer = source.pointer
        if size is None:
            total = ir.Constant(ir.IntType(64), 1)
            for part in cells_sizes(builder, sig.args[0], source):
                total = builder.mul(total, part, flags=["nsw"])
            flat.n0 = total
        return flat._getvalue()

    return flat_type(cells), codegen


@overload_method(CellsType, "fill", inline="always")
def _cells_fill(cells: Any, value: Any) -> Any:
    if not cells.writable:
        raise TypingError("this array is read-only here")

    def fill(cells: Any, value: Any) -> None:
        flat = _flatten(cells)
        for k in range(len(flat)):
            flat[k] = value

    return fill


@overload_method(CellsType, "copy_from", inline="always")
def _cells_copy_from(cells: Any, other: Any) -> Any:
    if not cells.writable:
        raise TypingError("this array is read-only here")
    if not isinstance(other, CellsType) or other.ndim != cells.ndim:
        raise TypingError("copy_from takes an array of the same shape")
    if None not in (cells.shape, other.shape) and cells.shape != other.shape:
        raise TypingError(f"copy_from takes an array of the same shape, {cells.shape}, got {other.shape}")

    if cells.checked:

        def checked_copy_from(cells: Any, other: Any) -> None:
            if cells.shape != other.shape:
                raise IndexError("copy_from takes an array of the same shape")
            target, source = _flatten(cells), _flatten(other)
            for k in range(len(target)):
                target[k] = source[k]

        return checked_copy_from

    def copy_from(cells: Any, other: Any) -> None:
        target, source = _flatten(cells), _flatten(other)
        for k in range(len(target)):
            target[k] = source[k]

    return copy_from


# --- Python twins -----------------------------------------------------------------------------------------------------


def widen(value: Any) -> Any:
    """A stored scalar as np.bool_, np.int64 (wrapping for uint64) or np.float64."""
    return value.astype(compute_dtype(value.dtype))


def narrow(value: Any, dtype: np.dtype[Any]) -> Any:
    """A scalar as it is stored: cast to bool, int64 or float64, then wrapped or rounded to the storage type."""
    return np.asarray(value).astype(compute_dtype(dtype)).astype(dtype)


class CellsTwin:
    """`Cells` over a NumPy view of one row; refuses indices that the compiled form leaves undefined."""

    __slots__ = ("_array", "_writable")

    def __init__(self, array: npt.NDArray[Any], writable: bool = True) -> None:
        self._array, self._writable = array, writable

    @property
    def shape(self) -> tuple[np.int64, ...]:
        return tuple(map(np.int64, self._array.shape))

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def _index(self, index: Any) -> tuple[int, ...]:
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) != self._array.ndim:
            raise IndexError(f"this array has {self._array.ndim} dimension(s): index it with {self._array.ndim} int(s)")
        checked = tuple(int(operator.index(part.item() if isinstance(part, np.bool_) else part)) for part in parts)
        for part, size in zip(checked, self._array.shape, strict=True):
            if not 0 <= part < size:
                raise IndexError(f"index {index} is out of bounds for shape {self._array.shape}")
        return checked

    def __getitem__(self, index: Any) -> Any:
        return widen(self._array[self._index(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check_writable()
        self._array[self._index(index)] = narrow(value, self._array.dtype)

    def fill(self, value: Any) -> None:
        self._check_writable()
        self._array[...] = narrow(value, self._array.dtype)

    def copy_from(self, other: CellsTwin) -> None:
        self._check_writable()
        here, there = self._array.shape, other._array.shape
        if here != there:
            raise ValueError(f"copy_from takes an array of the same shape, {here}, got {there}")
        wide = other._array.astype(compute_dtype(other._array.dtype))
        self._array[...] = wide.astype(compute_dtype(self._array.dtype)).astype(self._array.dtype)

    def _check_writable(self) -> None:
        if not self._writable:
            raise TypeError("this array is read-only here")

    def __repr__(self) -> str:
        return f"Cells({self._array.tolist()!r})"


class RowTwin:
    """`Row` over NumPy columns: `row.x` reads column x at row i, `row.x = v` writes it."""

    __slots__ = ("_columns", "_i", "_readonly")

    def __init__(self, columns: dict[str, npt.NDArray[Any]], readonly: frozenset[str], i: int = 0) -> None:
        object.__setattr__(self, "_columns", columns)
        object.__setattr__(self, "_readonly", readonly)
        object.__setattr__(self, "_i", i)

    def __getattr__(self, name: str) -> Any:
        try:
            column = self._columns[name]
        except KeyError:
            raise AttributeError(f"no field {name!r}; there are: {', '.join(self._columns)}") from None
        if column.ndim > 1:
            return CellsTwin(column[self._i], name not in self._readonly)
        return widen(column[self._i])

    def __setattr__(self, name: str, value: Any) -> None:
        column = self._columns.get(name)
        if column is None or name in self._readonly:
            what = "is read-only" if column is not None else f"is no field; there are: {', '.join(self._columns)}"
            raise AttributeError(f"`{name}` {what}")
        if column.ndim > 1:
            raise AttributeError(f"`{name}` is an array field: write its elements, fill(v) or copy_from(c)")
        column[self._i] = narrow(value, column.dtype)

    def __dir__(self) -> list[str]:
        return list(self._columns)

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={getattr(self, name)!r}' for name in self._columns)})"


class RecordTwin:
    """Named values: params, options, the leaves of a Dict observation. Params per row read row `i` of their column."""

    __slots__ = ("_columns", "_i", "_values")

    def __init__(self, values: dict[str, Any], columns: dict[str, npt.NDArray[Any]] | None = None, i: int = 0) -> None:
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_columns", columns or {})
        object.__setattr__(self, "_i", i)

    def _at(self, i: int) -> RecordTwin:
        """The same record for row i."""
        return RecordTwin(self._values, self._columns, i)

    def __getattr__(self, name: str) -> Any:
        if name in self._columns:
            return widen(self._columns[name][self._i])
        try:
            return self._values[name]
        except KeyError:
            names = ", ".join([*self._values, *self._columns])
            raise AttributeError(f"no field {name!r}; there are: {names}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"`{name}` is read-only here")

    def __repr__(self) -> str:
        names = [*self._values, *self._columns]
        return f"Record({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"
