"""Struct of arrays: column types, the author's State/Params/Info/Options classes, layouts and the arena.

A *column* is one array over all rows. All columns of a batch live in one *arena*, a 64-byte-aligned run of bytes whose
division is a `Layout`; the same layout serves any number of rows. What belongs to one `VecEnv` and not to its rows
(number of rows, status, shared params, limits) lives in the *head*, a second run of bytes that is never snapshotted.
"""

from __future__ import annotations

import hashlib
import inspect
import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

ALIGNMENT = 64  # bytes: one cache line, one AVX-512 register
STAGGER = 192  # bytes between columns: at power-of-two N they would otherwise all fall into one L1 set
WORD = 8  # bytes of a head word

RESERVED = frozenset({"elapsed", "limit"})


# --- column types -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnType:
    """Storage of one field: an element type and the shape of one row (sizes may name options)."""

    dtype: np.dtype[Any]
    shape: tuple[int | str, ...] = ()


@dataclass(frozen=True)
class TableType:
    """A shared read-only array of params: an element type and a number of dimensions; the shape is a run-time value."""

    dtype: np.dtype[Any]
    ndim: int


class Array:
    """`Array[U1, 10, 10]`: an array field, `[10, 10]` uint8 per row, stored as one column `[N, 10, 10]`.

    A size may name one of `EnvDef(sizes=...)`: `Array[U1, "n"]`. Ruff's UP037 would strip the quotes: `# noqa: UP037`.
    """

    def __class_getitem__(cls, item: Any) -> ColumnType:
        scalar, *shape = item if isinstance(item, tuple) else (item,)
        if not isinstance(scalar, ColumnType) or scalar.shape:
            raise TypeError(f"Array[...] starts with a scalar column type such as F8, got {scalar!r}")
        if not shape:
            raise TypeError("Array[...] needs at least one size, for example Array[F8, 3]")
        for size in shape:
            if isinstance(size, bool) or not isinstance(size, (int, str)) or (isinstance(size, int) and size < 1):
                raise TypeError(f"a size in Array[...] is an int >= 1 or the name of an option, got {size!r}")
        return ColumnType(scalar.dtype, tuple(shape))


class Table:
    """`Table[U1, 2]`: a shared two-dimensional read-only array of params, of any shape."""

    def __class_getitem__(cls, item: Any) -> TableType:
        match item:
            case (ColumnType(dtype, ()), int(ndim)) if ndim >= 1 and ndim is not True:
                return TableType(dtype, ndim)
        raise TypeError(f"Table[...] takes a scalar column type and a number of dimensions, got {item!r}")


if TYPE_CHECKING:
    B1 = bool
    I1 = I2 = I4 = I8 = U1 = U2 = U4 = U8 = int
    F4 = F8 = float
else:
    # Named like NumPy's type codes: kind and number of bytes.
    B1 = ColumnType(np.dtype(np.bool_))
    I1, I2, I4, I8 = (ColumnType(np.dtype(f"i{size}")) for size in (1, 2, 4, 8))
    U1, U2, U4, U8 = (ColumnType(np.dtype(f"u{size}")) for size in (1, 2, 4, 8))
    F4, F8 = (ColumnType(np.dtype(f"f{size}")) for size in (4, 8))


def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which a stored scalar is read: bool, int64 or float64 (uint64 reads as int64, same bits)."""
    return np.dtype({"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}[dtype.kind])


# --- the author's classes ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """One annotated field of a State, Params, Info or Options class."""

    name: str
    type: ColumnType | TableType
    default: Any = None

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.type.dtype


class _Struct:
    """Base of the annotated classes: collects the fields of a class in order of declaration, inherited ones first."""

    fields: ClassVar[tuple[Field, ...]] = ()
    _tables: ClassVar[bool] = False
    _arrays: ClassVar[bool] = False
    _defaults: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        fields = {field.name: field for field in cls.fields}
        try:
            annotations = inspect.get_annotations(cls, eval_str=True)
        except NameError as error:
            raise TypeError(f"{cls.__name__}: cannot resolve its annotations: {error}") from error
        own = vars(cls)
        for name, kind in annotations.items():
            fields[name] = cls._field(name, kind, own.get(name))
        for name in own:
            if not name.startswith("_") and name != "fields" and name not in annotations:
                raise TypeError(f"{cls.__name__}.{name} has no column type; write `{name}: F8 = ...`")
        cls.fields = tuple(fields.values())

    @classmethod
    def _field(cls, name: str, kind: Any, default: Any) -> Field:
        where = f"{cls.__name__}.{name}"
        if name.startswith("_") or keyword.iskeyword(name):
            raise TypeError(f"{where}: a field name must not start with an underscore")
        if name in RESERVED:
            raise TypeError(f"{where}: the name is reserved; `state.{name}` already exists, read-only")
        match kind:
            case TableType() if not cls._tables:
                raise TypeError(f"{where}: tables belong to Params")
            case ColumnType(shape=(_, *_)) if not cls._arrays:
                raise TypeError(f"{where}: only scalar fields here")
            case ColumnType() | TableType():
                pass
            case _:
                raise TypeError(f"{where}: expected a column type such as F8, I4, B1 or Array[U1, 10], got {kind!r}")
        if default is not None and not cls._defaults:
            raise TypeError(f"{where}: no default here; a row starts from zeros, `reset` sets it")
        return Field(name, kind, default)


class State(_Struct):
    """Fields of one environment's state; the engine keeps each as a column over all rows."""

    _arrays = True


class Params(_Struct):
    """Numbers and tables of the dynamics, with their defaults. Tables get their value from `EnvDef(params={...})`."""

    _tables = True
    _defaults = True


class Info(_Struct):
    """Fields that an `info(state, params, out)` function fills; each becomes an array `[N, ...]` in `infos`."""

    _arrays = True


class Options(_Struct):
    """Options of an explicit `reset(options={...})`, with the defaults that auto-resets use."""

    _defaults = True


# --- layouts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """One column: `[N, *shape]` of `dtype`, known to kernels and error messages by its dotted name."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()

    @property
    def row_nbytes(self) -> int:
        return int(self.dtype.itemsize * np.prod(self.shape, dtype=np.int64))


class Layout:
    """How a run of bytes is divided into columns, for any number of rows."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)
        self.index = {column.name: k for k, column in enumerate(self.columns)}
        self.row_nbytes: npt.NDArray[np.int64] = np.array([c.row_nbytes for c in self.columns], np.int64)
        description = [(c.name, c.dtype.str, c.shape) for c in self.columns]
        self.digest = hashlib.sha256(repr(description).encode()).hexdigest()[:16]

    def offsets(self, num_rows: int) -> npt.NDArray[np.int64]:
        """Start of each column in bytes, `[num_columns + 1]`; the last entry is the size of the whole."""
        offsets = np.zeros(len(self.columns) + 1, np.int64)
        for k, nbytes in enumerate(self.row_nbytes):
            used = -(-int(nbytes) * num_rows // ALIGNMENT) * ALIGNMENT
            offsets[k + 1] = offsets[k] + used + STAGGER
        return offsets

    def carve(self, data: Bytes, num_rows: int, offset: int = 0) -> dict[str, npt.NDArray[Any]]:
        """The columns of `data` as NumPy views by name, each `[num_rows, *shape]`."""
        views = {}
        for column, start in zip(self.columns, self.offsets(num_rows)[:-1], strict=True):
            low = offset + int(start)
            flat = data[low : low + column.row_nbytes * num_rows].view(column.dtype)
            views[column.name] = flat.reshape(num_rows, *column.shape)
        return views

    def difference(self, other: Layout) -> str:
        """The columns in which two layouts differ, in words."""
        mine = {c.name: c for c in self.columns}
        theirs = {c.name: c for c in other.columns}
        names = [n for n in {**mine, **theirs} if mine.get(n) != theirs.get(n)]
        return ", ".join(names) if names else "the order of columns"


def allocate(nbytes: int) -> Bytes:
    """Zeroed bytes that start on a cache line."""
    raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


# --- params -----------------------------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """`repr` for an error message: short, and also of what has none."""
    try:
        text = repr(value)
    except Exception:  # an int of too many digits, or an object of the user's
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 120 else f"{text[:117]}..."


def as_array(value: Any, what: str, expected: str) -> npt.NDArray[Any]:
    """`value` as NumPy reads it, or an error that says what was expected."""
    try:
        array = np.asarray(value)
    except Exception as error:
        if isinstance(error, ValueError) and isinstance(value, (list, tuple)):
            raise ValueError(f"{what}: expected {expected}, got a ragged sequence: {shown(value)}") from error
        raise TypeError(f"{what}: expected {expected}, got {shown(value)}, which NumPy cannot read") from error
    if array.dtype == object and isinstance(value, int):
        raise ValueError(f"{what}: expected {expected}, got {shown(value)}, which has more than 64 bits")
    return array


#: Kinds of values that a column takes, by its own kind.
TAKES = {"b": "b", "i": "bui", "u": "bui", "f": "buif"}


def cast(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """`array` as `dtype`, and where a value does not fit: an int out of range, a float that becomes infinite."""
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
    bad = np.isinf(converted) & np.isfinite(array) if dtype.kind == "f" else converted != array
    return converted, np.asarray(bad)


def convert_scalar(field: Field, value: Any, where: str) -> Any:
    """`value` as a scalar of the field's storage type, or a TypeError/ValueError that says what was expected."""
    dtype = field.dtype
    array = as_array(value, f"{where} {field.name!r}", f"one {dtype.name}")
    if array.shape != () or array.dtype.kind not in TAKES[dtype.kind]:
        raise TypeError(f"{where} {field.name!r}: expected one {dtype.name}, got {shown(value)}")
    converted, bad = cast(array, dtype)
    if bad:
        raise ValueError(f"{where} {field.name!r}: {shown(value)} does not fit {dtype.name}")
    return converted[()]


def convert_table(field: Field, value: Any, where: str) -> npt.NDArray[Any]:
    """`value` as a read-only C-contiguous array of the table's element type."""
    assert isinstance(field.type, TableType)
    array = as_array(value, f"{where} {field.name!r}", f"a non-empty {field.type.ndim}-d array of {field.dtype.name}")
    if array.ndim != field.type.ndim or array.dtype.kind not in "buif" or array.size == 0:
        raise ValueError(
            f"{where} {field.name!r}: expected a non-empty {field.type.ndim}-d array of {field.dtype.name}, "
            f"got shape {array.shape} of {array.dtype}"
        )
    with np.errstate(all="ignore"):
        table = np.array(array, dtype=field.dtype, order="C")
    if not np.array_equal(table, array, equal_nan=array.dtype.kind == "f"):
        raise ValueError(f"{where} {field.name!r}: some values do not fit {field.dtype.name}")
    table.flags.writeable = False
    return table


def resolve_params(params: type[Params], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Every param's value: what was given, else the default; scalars as NumPy scalars, tables as read-only arrays."""
    values: dict[str, Any] = {}
    for field in params.fields:
        value = given.get(field.name, field.default)
        if value is None:
            raise ValueError(f"{where}: param {field.name!r} has no default and no value was given")
        is_table = isinstance(field.type, TableType)
        values[field.name] = (convert_table if is_table else convert_scalar)(field, value, f"{where}: param")
    return values


def digest_params(values: Mapping[str, Any]) -> str:
    """A short hash of shared scalars and tables; snapshots carry it."""
    state = hashlib.sha256()
    for name in sorted(values):
        array = np.asarray(values[name])
        state.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        state.update(array.tobytes())
    return state.hexdigest()[:16]
