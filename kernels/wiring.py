"""Wiring of one definition: its arena and head layouts, and the accessors that its batch kernels are bound to.

The templates in `batch.py` name accessors such as `state_columns`, `action_at` or `store_reward`. `Wiring.accessors`
makes them for one definition: as Numba intrinsics over raw pointers, or as plain Python over NumPy views of the same
bytes. Offsets and shared params are read from the head at run time, so one compiled kernel serves every N.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

from vecenv.kernels import rng as streams
from vecenv.kernels.envdef import EnvDef, Leaf
from vecenv.kernels.row import (
    CellsTwin,
    CellsType,
    RecordTwin,
    RecordType,
    RowTwin,
    RowType,
    load_scalar,
    mark_scope,
    store_scalar,
    widen,
)
from vecenv.kernels.soa import (
    ALIGNMENT,
    WORD,
    Bytes,
    Column,
    ColumnType,
    Field,
    Layout,
    TableType,
    allocate,
    compute_dtype,
)

# Bits of the flags column. NEXT_STEP resets a row with ENDED on its next call; RESETTING marks it during that call.
ENDED, TERMINATED, TRUNCATED, RESETTING, EPISODE_ENDED, UNRESET = 1, 2, 4, 8, 16, 128

ENGINE_COLUMNS = (
    Column("engine.rng", np.dtype(np.uint64), (streams.WORDS,)),
    Column("engine.policy", np.dtype(np.uint64), (streams.POLICY_WORDS,)),
    Column("engine.elapsed", np.dtype(np.int32)),
    Column("engine.episode", np.dtype(np.int64)),
    Column("engine.total", np.dtype(np.float64)),
    Column("engine.flags", np.dtype(np.uint8)),
)
#: What is kept per row beside the arena: it stays with the VecEnv and is never part of a snapshot.
SIDE_COLUMNS = (
    Column("side.limit", np.dtype(np.int32)),
    Column("side.final_total", np.dtype(np.float64)),
    Column("side.final_length", np.dtype(np.int32)),
)
HEAD_WORDS = ("num_rows", "closed", "validate", "action_start", "action_count", "action_bounds")


class Wiring:
    """Layouts and accessors of one definition."""

    def __init__(self, definition: EnvDef) -> None:
        self.definition = definition
        state = [_state_column(field, definition.id) for field in definition.state.fields]
        self.arena_layout = Layout([*state, *ENGINE_COLUMNS])
        self.side_layout = Layout(SIDE_COLUMNS)
        words = [*HEAD_WORDS]
        words += [column.name for column in (*self.arena_layout.columns, *SIDE_COLUMNS)]
        for field in definition.params.fields:
            sizes = field.type.ndim if isinstance(field.type, TableType) else 0
            words += [f"param.{field.name}", *(f"param.{field.name}.{k}" for k in range(sizes))]
        words += [f"option.{field.name}" for field in definition.options_type.fields]
        self.word = {name: k for k, name in enumerate(words)}
        self.scopes = self._scopes()
        self.action_bounds = _action_bounds(definition.action_space)

    # --- memory -------------------------------------------------------------------------------------------------------

    def head_nbytes(self, num_rows: int) -> tuple[int, int]:
        """(start of the side columns, size of the head) in bytes."""
        side = -(-len(self.word) * WORD // ALIGNMENT) * ALIGNMENT
        return side, side + int(self.side_layout.offsets(num_rows)[-1])

    def new_arena(self, num_rows: int) -> Bytes:
        """A zeroed arena whose rows were never reset."""
        arena = allocate(int(self.arena_layout.offsets(num_rows)[-1]))
        self.arena_layout.carve(arena, num_rows)["engine.flags"][:] = UNRESET
        return arena

    def new_head(self, num_rows: int) -> Bytes:
        side, nbytes = self.head_nbytes(num_rows)
        head = allocate(nbytes)
        words = head[: len(self.word) * WORD].view(np.int64)
        words[self.word["num_rows"]] = num_rows
        words[self.word["validate"]] = 1
        for layout, base in ((self.arena_layout, 0), (self.side_layout, side)):
            for column, offset in zip(layout.columns, layout.offsets(num_rows)[:-1], strict=True):
                words[self.word[column.name]] = base + offset
        space = self.definition.action_space
        if isinstance(space, spaces.Discrete):
            words[self.word["action_start"]] = space.start
            words[self.word["action_count"]] = space.n
        elif self.action_bounds is not None:
            words[self.word["action_bounds"]] = self.action_bounds.ctypes.data
        return head

    def side_columns(self, head: Bytes, num_rows: int) -> dict[str, npt.NDArray[Any]]:
        return self.side_layout.carve(head, num_rows, self.head_nbytes(num_rows)[0])

    def write_scalars(self, head: Bytes, prefix: str, fields: tuple[Field, ...], values: dict[str, Any]) -> None:
        """Put scalar params or options (8-byte words: int64 or float64) and addresses of tables into the head."""
        words = head[: len(self.word) * WORD].view(np.int64)
        for field in fields:
            k = self.word[f"{prefix}.{field.name}"]
            value = values[field.name]
            if isinstance(field.type, TableType):
                words[k] = value.ctypes.data
                words[k + 1 : k + 1 + value.ndim] = value.shape
            elif field.dtype.kind == "f":
                words[k : k + 1].view(np.float64)[0] = value
            else:
                words[k] = np.asarray(value).astype(np.int64)

    # --- names of memory that do not overlap --------------------------------------------------------------------------

    def _scopes(self) -> tuple[str, ...]:
        columns = [column.name for column in (*self.arena_layout.columns, *SIDE_COLUMNS)]
        leaves = [f"action.{k}" for k in range(len(self.definition.action_leaves))]
        for k in range(len(self.definition.observation_leaves)):
            leaves += [f"obs.{k}", f"final_obs.{k}"]
        for field in self.definition.info_type.fields:
            leaves += [f"info.{field.name}", f"final_info.{field.name}"]
        return (*columns, *leaves, "tables", "rewards", "terminated", "truncated", "rows")

    def description(self) -> Any:
        """All that compiled accessors depend on, for the cache digest."""
        definition = self.definition
        leaves = [
            [(leaf.key, leaf.dtype.str, leaf.shape, type(leaf.space).__name__) for leaf in leaves]
            for leaves in (definition.observation_leaves, definition.action_leaves)
        ]
        fields = [
            [(field.name, field.dtype.str, getattr(field.type, "ndim", None)) for field in struct.fields]
            for struct in (definition.params, definition.options_type, definition.info_type)
        ]
        containers = type(definition.observation_space).__name__, type(definition.action_space).__name__
        return [self.arena_layout.digest, leaves, fields, containers, definition.invalid_action]

    def env_digest(self) -> str:
        """Names the variant of the environment: its spaces, fields and functions. Snapshots carry it.

        Functions count by name, not by content: a snapshot outlives a new Python version or a mended comment.
        """
        definition = self.definition
        functions = [definition.reset, definition.step, definition.observe, definition.info]
        names = [getattr(function, "__qualname__", None) for function in functions]
        chosen = sorted((name, function.__qualname__) for name, function in definition.functions.items())
        return hashlib.sha256(repr([definition.id, self.description(), names, chosen]).encode()).hexdigest()[:16]

    # --- accessors ----------------------------------------------------------------------------------------------------

    def accessors(self, compiled: bool) -> dict[str, Any]:
        """Accessors for the templates by name."""
        return _CompiledAccessors(self).table() if compiled else _PythonAccessors(self).table()

    def state_fields(self) -> list[tuple[str, Column, bool, str]]:
        """(name, column, writable, base) of the fields an author sees in `state`."""
        columns = {c.name: c for c in (*self.arena_layout.columns, *SIDE_COLUMNS)}
        fields = [(f.name, columns[f"state.{f.name}"], True, "arena") for f in self.definition.state.fields]
        fields.append(("elapsed", columns["engine.elapsed"], False, "arena"))
        fields.append(("limit", columns["side.limit"], False, "head"))
        return fields

    def engine_fields(self) -> list[tuple[str, Column, bool, str]]:
        arena = [(c.name.split(".")[1], c, True, "arena") for c in ENGINE_COLUMNS]
        return arena + [(c.name.split(".")[1], c, True, "head") for c in SIDE_COLUMNS]


def _action_bounds(space: spaces.Space[Any]) -> npt.NDArray[np.int64] | None:
    """Lowest and highest value of each element of a MultiDiscrete or MultiBinary action, `[2, K]`."""
    if isinstance(space, spaces.MultiDiscrete):
        low = np.asarray(space.start, np.int64).ravel()
        return np.stack([low, low + np.asarray(space.nvec, np.int64).ravel() - 1])
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return np.stack([np.zeros(size, np.int64), np.ones(size, np.int64)])
    return None


def _state_column(field: Field, id: str) -> Column:
    assert isinstance(field.type, ColumnType)
    shape = []
    for size in field.type.shape:
        if isinstance(size, str):
            raise TypeError(f"{id}: field {field.name!r}: sizes that name options are not supported")
        shape.append(size)
    return Column(f"state.{field.name}", field.dtype, tuple(shape))


# --- compiled -----------------------------------------------------------------------------------------------------------


def _flat(leaves: tuple[Leaf, ...]) -> tuple[Leaf, ...]:
    """A single leaf as one dimension."""
    return tuple(Leaf(leaf.key, leaf.space, leaf.dtype, (int(np.prod(leaf.cells)),)) for leaf in leaves)


def _data(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    if isinstance(array_type, types.CPointer):
        return array
    return context.make_array(array_type)(context, builder, array).data


def _bytes_pointer(builder: Any, pointer: Any) -> Any:
    return builder.bitcast(pointer, cgutils.voidptr_t)


def _typed(builder: Any, context: Any, pointer: Any, dtype: np.dtype[Any]) -> Any:
    storage = types.uint8 if dtype.kind == "b" else from_dtype(dtype)
    return builder.bitcast(pointer, context.get_value_type(storage).as_pointer())


def _load_word(builder: Any, head_data: Any, k: int) -> Any:
    words = builder.bitcast(head_data, ir.IntType(64).as_pointer())
    return builder.load(builder.gep(words, [ir.Constant(ir.IntType(64), k)], inbounds=True), align=8)


class _CompiledAccessors:
    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self.scopes = wiring.scopes

    def table(self) -> dict[str, Any]:
        wiring, definition = self.wiring, self.wiring.definition
        action_kind = type(definition.action_space).__name__.lower()
        return {
            "state_columns": self.columns(wiring.state_fields()),
            "engine_columns": self.columns(wiring.engine_fields()),
            "borrow": _borrow,
            "row_at": _row_at,
            "rng_at": self.rng_at(),
            "rng_done": _nothing,
            "zero_state": self.zero_row([field[0] for field in wiring.state_fields() if field[2]]),
            "flag_bits": self.flag_bits(),
            "head_word": self.head_word(),
            "lowest_bit": _lowest_bit,
            "params_of": self.record("param", definition.params.fields),
            "options_of": self.record("option", definition.options_type.fields),
            "action_at": self.leaf_views("action", definition.action_leaves, False, scalar=action_kind == "discrete"),
            "flat_action_at": self.leaf_views("action", _flat(definition.action_leaves), False),
            "action_bounds": self.bounds(),
            "observation_at": self.leaf_views("obs", definition.observation_leaves, True),
            "final_observation_at": self.leaf_views("final_obs", definition.observation_leaves, True),
            "zero_final": self.zero_leaves("final_obs", definition.observation_leaves),
            "info_at": self.info_row("info"),
            "final_info_at": self.info_row("final_info"),
            "load_row": self.load_element("rows"),
            "store_reward": self.store_element("rewards"),
            "store_terminated": self.store_element("terminated"),
            "store_truncated": self.store_element("truncated"),
            "unpack": _unpack,
        }

    def columns(self, fields: list[tuple[str, Column, bool, str]]) -> Any:
        """`f(head, arena)`: pointers to the columns, as row 0."""
        row_type = RowType(
            tuple((name, column.dtype.str, column.shape, column.name, writable) for name, column, writable, _ in fields),
            self.scopes,
        )
        words = [self.wiring.word[column.name] for _, column, _, _ in fields]

        @intrinsic
        def columns(typingctx: Any, head: Any, arena: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                bases = {
                    "head": _data(context, builder, sig.args[0], args[0]),
                    "arena": _data(context, builder, sig.args[1], args[1]),
                }
                row = cgutils.create_struct_proxy(row_type)(context, builder)
                row.i = ir.Constant(ir.IntType(64), 0)
                for (name, column, _, base), k in zip(fields, words, strict=True):
                    offset = _load_word(builder, bases["head"], k)
                    pointer = builder.gep(_bytes_pointer(builder, bases[base]), [offset], inbounds=True)
                    setattr(row, f"p_{name}", _typed(builder, context, pointer, column.dtype))
                return row._getvalue()

            return row_type(head, arena), codegen

        return columns

    def rng_at(self) -> Any:
        """`f(engine_row)`: the row's environment stream."""

        @intrinsic
        def rng_address(typingctx: Any, row: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                value = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
                index = builder.mul(value.i, ir.Constant(ir.IntType(64), streams.WORDS), flags=["nsw"])
                return builder.ptrtoint(builder.gep(value.p_rng, [index], inbounds=True), ir.IntType(64))

            return types.int64(row), codegen

        from_address = streams.rng_from_address

        from vecenv.kernels.jit import inline

        @inline
        def rng_at(engine_row: Any) -> Any:
            return from_address(rng_address(engine_row))

        return rng_at

    def zero_row(self, names: list[str]) -> Any:
        """`f(row)`: zero the named columns of one row."""

        @intrinsic
        def zero(typingctx: Any, row: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                value = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
                for name in names:
                    _, dtype, shape, scope, _ = sig.args[0].by_name[name]
                    size = int(np.prod(shape, dtype=np.int64))
                    column = getattr(value, f"p_{name}")
                    index = builder.mul(value.i, ir.Constant(ir.IntType(64), size), flags=["nsw"])
                    pointer = builder.gep(column, [index], inbounds=True)
                    if shape:
                        nbytes = ir.Constant(ir.IntType(64), size * np.dtype(dtype).itemsize)
                        cgutils.memset(builder, pointer, nbytes, 0)
                    else:
                        store = builder.store(ir.Constant(pointer.type.pointee, None), pointer)
                        mark_scope(builder, store, scope, sig.args[0].scopes)
                return context.get_dummy_value()

            return types.none(row), codegen

        return zero

    def flag_bits(self) -> Any:
        """`f(engine_columns, i, bit)`: bit k of the result tells whether row i + k has `bit` in its flags, k < 64.

        64 flag bytes become one 64-bit mask; columns are padded, so reading past the last row is harmless.
        """

        @intrinsic
        def flag_bits(typingctx: Any, columns: Any, i: Any, bit: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                value = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
                index = context.cast(builder, args[1], sig.args[1], types.int64)
                wide = ir.VectorType(ir.IntType(8), 64)
                pointer = builder.bitcast(builder.gep(value.p_flags, [index]), wide.as_pointer())
                flags = builder.load(pointer, align=1)
                mask = builder.trunc(context.cast(builder, args[2], sig.args[2], types.int64), ir.IntType(8))
                splat = builder.insert_element(ir.Constant(wide, ir.Undefined), mask, ir.Constant(ir.IntType(32), 0))
                zeros = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
                splat = builder.shuffle_vector(splat, ir.Constant(wide, ir.Undefined), zeros)
                hit = builder.icmp_unsigned("!=", builder.and_(flags, splat), ir.Constant(wide, [0] * 64))
                return builder.bitcast(hit, ir.IntType(64))

            return types.int64(columns, i, bit), codegen

        return flag_bits

    def head_word(self) -> Any:
        word = self.wiring.word

        @intrinsic(prefer_literal=True)
        def head_word(typingctx: Any, head: Any, name: Any) -> Any:
            k = word[name.literal_value]

            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                return _load_word(builder, _data(context, builder, sig.args[0], args[0]), k)

            return types.int64(head, name), codegen

        return head_word

    def record(self, prefix: str, fields: tuple[Field, ...]) -> Any:
        """`f(head)`: shared scalars by value and tables by pointer."""
        parts: list[tuple[str, types.Type]] = []
        for field in fields:
            if isinstance(field.type, TableType):
                table = CellsType(field.dtype.str, field.type.ndim, None, False, "tables", self.scopes)
                parts.append((field.name, table))
            else:
                parts.append((field.name, from_dtype(compute_dtype(field.dtype))))
        record_type = RecordType(tuple(parts))
        word = self.wiring.word

        @intrinsic
        def record(typingctx: Any, head: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                data = _data(context, builder, sig.args[0], args[0])
                value = cgutils.create_struct_proxy(record_type)(context, builder)
                for field in fields:
                    k = word[f"{prefix}.{field.name}"]
                    bits = _load_word(builder, data, k)
                    part = record_type.by_name[field.name]
                    if isinstance(part, CellsType):
                        cells = cgutils.create_struct_proxy(part)(context, builder)
                        cells.pointer = builder.inttoptr(bits, cells.pointer.type)
                        for axis in range(part.ndim):
                            setattr(cells, f"n{axis}", _load_word(builder, data, k + 1 + axis))
                        setattr(value, field.name, cells._getvalue())
                    elif part == types.float64:
                        setattr(value, field.name, builder.bitcast(bits, ir.DoubleType()))
                    elif part == types.boolean:
                        setattr(value, field.name, builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0)))
                    else:
                        setattr(value, field.name, bits)
                return value._getvalue()

            return record_type(head), codegen

        return record

    def _cells(self, context: Any, builder: Any, array_type: Any, array: Any, j: Any, cells_type: CellsType) -> Any:
        assert cells_type.shape is not None
        pointer = _data(context, builder, array_type, array)
        size = int(np.prod(cells_type.shape, dtype=np.int64))
        index = builder.mul(j, ir.Constant(j.type, size), flags=["nsw"])
        pointer = _typed(builder, context, _bytes_pointer(builder, pointer), cells_type.dtype)
        cells = cgutils.create_struct_proxy(cells_type)(context, builder)
        cells.pointer = builder.gep(pointer, [index], inbounds=True)
        return cells._getvalue()

    def leaf_views(self, scope: str, leaves: tuple[Leaf, ...], writable: bool, scalar: bool = False) -> Any:
        """`f(arrays, j)`: what a row function sees of row j: a number, Cells, a record of Cells or a tuple of them."""
        kinds = [
            CellsType(leaf.dtype.str, len(leaf.cells), leaf.cells, writable, f"{scope}.{k}", self.scopes)
            for k, leaf in enumerate(leaves)
        ]
        single = leaves[0].key is None if leaves else False
        named = bool(leaves) and isinstance(leaves[0].key, str)
        if scalar:
            result: types.Type = types.int64
        elif single:
            result = kinds[0]
        elif named:
            result = RecordType(tuple((str(leaf.key), kind) for leaf, kind in zip(leaves, kinds, strict=True)))
        else:
            result = types.Tuple(kinds)

        @intrinsic
        def views(typingctx: Any, arrays: Any, j: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                index = context.cast(builder, args[1], sig.args[1], types.int64)
                if scalar:
                    pointer = builder.gep(_data(context, builder, sig.args[0], args[0]), [index], inbounds=True)
                    return load_scalar(context, builder, pointer, leaves[0].dtype, f"{scope}.0", self.scopes)
                if single:
                    return self._cells(context, builder, sig.args[0], args[0], index, kinds[0])
                parts = [
                    self._cells(context, builder, array_type, builder.extract_value(args[0], k), index, kinds[k])
                    for k, array_type in enumerate(sig.args[0])
                ]
                if not named:
                    return context.make_tuple(builder, result, parts)
                record = cgutils.create_struct_proxy(result)(context, builder)
                for leaf, part in zip(leaves, parts, strict=True):
                    setattr(record, str(leaf.key), part)
                return record._getvalue()

            return result(arrays, j), codegen

        return views

    def bounds(self) -> Any:
        """`f(head)`: lowest and highest value of each action element, Cells `[2, K]`."""
        bounds = self.wiring.action_bounds
        shape = (2, 1) if bounds is None else bounds.shape
        cells_type = CellsType("<i8", 2, shape, False, "tables", self.scopes)
        k = self.wiring.word["action_bounds"]

        @intrinsic
        def bounds_at(typingctx: Any, head: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                cells = cgutils.create_struct_proxy(cells_type)(context, builder)
                bits = _load_word(builder, _data(context, builder, sig.args[0], args[0]), k)
                cells.pointer = builder.inttoptr(bits, cells.pointer.type)
                return cells._getvalue()

            return cells_type(head), codegen

        return bounds_at

    def zero_leaves(self, scope: str, leaves: tuple[Leaf, ...]) -> Any:
        """`f(arrays, low, high)`: zero rows low to high of every leaf."""
        single = bool(leaves) and leaves[0].key is None

        @intrinsic
        def zero(typingctx: Any, arrays: Any, low: Any, high: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                low = context.cast(builder, args[1], sig.args[1], types.int64)
                high = context.cast(builder, args[2], sig.args[2], types.int64)
                array_types = [sig.args[0]] if single else list(sig.args[0])
                for k, (leaf, array_type) in enumerate(zip(leaves, array_types, strict=True)):
                    array = args[0] if single else builder.extract_value(args[0], k)
                    pointer = _bytes_pointer(builder, _data(context, builder, array_type, array))
                    nbytes = ir.Constant(ir.IntType(64), leaf.dtype.itemsize * int(np.prod(leaf.cells)))
                    start = builder.gep(pointer, [builder.mul(low, nbytes)], inbounds=True)
                    cgutils.memset(builder, start, builder.mul(builder.sub(high, low), nbytes), 0)
                return context.get_dummy_value()

            return types.none(arrays, low, high), codegen

        return zero

    def info_row(self, scope: str) -> Any:
        """`f(arrays, j)`: the fields of an Info class as a writable row j of the arrays."""
        fields = self.wiring.definition.info_type.fields
        row_type = RowType(
            tuple((field.name, field.dtype.str, (), f"{scope}.{field.name}", True) for field in fields), self.scopes
        )

        @intrinsic
        def info_at(typingctx: Any, arrays: Any, j: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                row = cgutils.create_struct_proxy(row_type)(context, builder)
                row.i = context.cast(builder, args[1], sig.args[1], types.int64)
                for k, (field, array_type) in enumerate(zip(fields, sig.args[0], strict=True)):
                    data = _data(context, builder, array_type, builder.extract_value(args[0], k))
                    setattr(row, f"p_{field.name}", _typed(builder, context, data, field.dtype))
                return row._getvalue()

            return row_type(arrays, j), codegen

        return info_at

    def load_element(self, scope: str) -> Any:
        @intrinsic
        def load(typingctx: Any, array: Any, j: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                index = context.cast(builder, args[1], sig.args[1], types.int64)
                pointer = builder.gep(_data(context, builder, sig.args[0], args[0]), [index], inbounds=True)
                return load_scalar(context, builder, pointer, np.dtype(np.int64), scope, self.scopes)

            return types.int64(array, j), codegen

        return load

    def store_element(self, scope: str) -> Any:
        dtype = np.dtype(np.float64 if scope == "rewards" else np.bool_)
        value_type = from_dtype(dtype)

        @intrinsic
        def store(typingctx: Any, array: Any, j: Any, value: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                index = context.cast(builder, args[1], sig.args[1], types.int64)
                pointer = _data(context, builder, sig.args[0], args[0])
                pointer = _typed(builder, context, _bytes_pointer(builder, pointer), dtype)
                value = context.cast(builder, args[2], sig.args[2], value_type)
                pointer = builder.gep(pointer, [index], inbounds=True)
                store_scalar(context, builder, value, pointer, dtype, scope, self.scopes)
                return context.get_dummy_value()

            return types.none(array, j, value), codegen

        return store


@intrinsic
def _borrow(typingctx: Any, arrays: Any) -> Any:
    """The data pointer of an array, or of each array of a tuple.

    Passing an array to another compiled function counts references, atomically: 30 ns per row inside a loop.
    """

    def pointer_type(kind: Any) -> Any:
        return types.CPointer(types.uint8 if kind.dtype == types.boolean else kind.dtype)

    if isinstance(arrays, types.Array):
        result: types.Type = pointer_type(arrays)
    elif isinstance(arrays, types.BaseTuple):
        result = types.Tuple([pointer_type(kind) for kind in arrays])
    else:
        result = arrays  # a number in place of what a definition does not have

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def pointer(kind: Any, array: Any) -> Any:
            return builder.bitcast(_data(context, builder, kind, array), context.get_value_type(pointer_type(kind)))

        if isinstance(arrays, types.Array):
            return pointer(arrays, args[0])
        if isinstance(arrays, types.BaseTuple):
            parts = [pointer(kind, builder.extract_value(args[0], k)) for k, kind in enumerate(arrays)]
            return context.make_tuple(builder, result, parts)
        return args[0]

    return result(arrays), codegen


@intrinsic
def _row_at(typingctx: Any, columns: Any, i: Any) -> Any:
    """Row i of some columns."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
        row.i = context.cast(builder, args[1], sig.args[1], types.int64)
        return row._getvalue()

    return columns(columns, i), codegen


@intrinsic
def _lowest_bit(typingctx: Any, bits: Any) -> Any:
    """Position of the lowest set bit of a non-zero int64."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@intrinsic
def _nothing(typingctx: Any, first: Any, second: Any) -> Any:
    """What the compiled form does not need to do."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.get_dummy_value()

    return types.none(first, second), codegen


@intrinsic
def _unpack(typingctx: Any, result: Any) -> Any:
    """`(reward, terminated, truncated)` from what an author's step returned."""
    numbers = (types.Number, types.Boolean)
    ok = isinstance(result, types.BaseTuple) and len(result) in (2, 3)
    ok = ok and isinstance(result[0], numbers) and all(isinstance(flag, numbers) for flag in result.types[1:])
    if not ok:
        raise TypingError(f"`step` returns (reward, terminated) or (reward, terminated, truncated), got {result}")
    wanted = types.Tuple([types.float64, types.boolean, types.boolean])

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        parts = cgutils.unpack_tuple(builder, args[0])
        values = [context.cast(builder, parts[0], result[0], types.float64)]
        for part, kind in zip(parts[1:], result.types[1:], strict=True):
            values.append(context.cast(builder, part, kind, types.boolean))
        while len(values) < 3:
            values.append(ir.Constant(ir.IntType(1), 0))
        return context.make_tuple(builder, wanted, values)

    return wanted(result), codegen


# --- plain Python -------------------------------------------------------------------------------------------------------


class _PythonAccessors:
    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring

    def table(self) -> dict[str, Any]:
        wiring, definition = self.wiring, self.wiring.definition
        discrete = isinstance(definition.action_space, spaces.Discrete)
        return {
            "state_columns": self.columns(wiring.state_fields()),
            "engine_columns": self.columns(wiring.engine_fields()),
            "borrow": lambda arrays: arrays,
            "row_at": lambda row, i: RowTwin(row._columns, row._readonly, int(i)),
            "rng_at": lambda row: streams.load(row._columns["rng"][row._i]),
            "rng_done": lambda rng, row: streams.store(row._columns["rng"][row._i], rng),
            "zero_state": _zero_state,
            "flag_bits": _flag_bits,
            "head_word": lambda head, name: int(self.words(head)[wiring.word[name]]),
            "lowest_bit": lambda bits: (bits & -bits).bit_length() - 1,
            "params_of": self.record("param", definition.params.fields),
            "options_of": self.record("option", definition.options_type.fields),
            "action_at": (lambda arrays, j: widen(arrays[j])) if discrete else _views(definition.action_leaves, False),
            "flat_action_at": _views(_flat(definition.action_leaves), False),
            "action_bounds": lambda head: CellsTwin(wiring.action_bounds, False),
            "observation_at": _views(definition.observation_leaves, True),
            "final_observation_at": _views(definition.observation_leaves, True),
            "zero_final": _zero_final,
            "info_at": self.info_row(),
            "final_info_at": self.info_row(),
            "load_row": lambda rows, j: int(rows[j]),
            "store_reward": _set_element,
            "store_terminated": _set_element,
            "store_truncated": _set_element,
            "unpack": _unpack_python,
        }

    def words(self, head: Bytes) -> npt.NDArray[np.int64]:
        return head[: len(self.wiring.word) * WORD].view(np.int64)

    def columns(self, fields: list[tuple[str, Column, bool, str]]) -> Callable[[Bytes, Bytes], RowTwin]:
        readonly = frozenset(name for name, _, writable, _ in fields if not writable)

        def columns(head: Bytes, arena: Bytes) -> RowTwin:
            num_rows = int(self.words(head)[self.wiring.word["num_rows"]])
            views = self.wiring.arena_layout.carve(arena, num_rows)
            views |= self.wiring.side_columns(head, num_rows)
            return RowTwin({name: views[column.name] for name, column, _, _ in fields}, readonly)

        return columns

    def record(self, prefix: str, fields: tuple[Field, ...]) -> Callable[[Bytes], RecordTwin]:
        word = self.wiring.word

        def record(head: Bytes) -> RecordTwin:
            words = self.words(head)
            values: dict[str, Any] = {}
            for field in fields:
                k = word[f"{prefix}.{field.name}"]
                if isinstance(field.type, TableType):
                    shape = tuple(int(size) for size in words[k + 1 : k + 1 + field.type.ndim])
                    values[field.name] = CellsTwin(_array_at(int(words[k]), field.dtype, shape), False)
                else:
                    view = words[k : k + 1].view(np.float64) if field.dtype.kind == "f" else words[k : k + 1]
                    values[field.name] = view.astype(compute_dtype(field.dtype))[0]
            return RecordTwin(values)

        return record

    def info_row(self) -> Callable[[Any, int], RowTwin]:
        names = [field.name for field in self.wiring.definition.info_type.fields]
        return lambda arrays, j: RowTwin(dict(zip(names, arrays, strict=True)), frozenset(), int(j))


def _array_at(address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A read-only view of a table that the VecEnv keeps alive."""
    nbytes = dtype.itemsize * int(np.prod(shape))
    import ctypes

    buffer = (ctypes.c_uint8 * nbytes).from_address(address)
    array = np.frombuffer(buffer, dtype=dtype).reshape(shape)
    array.flags.writeable = False
    return array


def _views(leaves: tuple[Leaf, ...], writable: bool) -> Callable[[Any, int], Any]:
    def view(leaf: Leaf, array: npt.NDArray[Any], j: int) -> CellsTwin:
        return CellsTwin(array.reshape(len(array), *leaf.cells)[j], writable)

    def views(arrays: Any, j: int) -> Any:
        if leaves[0].key is None:
            return view(leaves[0], arrays, j)
        parts = [view(leaf, array, j) for leaf, array in zip(leaves, arrays, strict=True)]
        if isinstance(leaves[0].key, str):
            return RecordTwin({str(leaf.key): part for leaf, part in zip(leaves, parts, strict=True)})
        return tuple(parts)

    return views


def _zero_state(row: RowTwin) -> None:
    for name, column in row._columns.items():
        if name not in row._readonly:
            column[row._i] = 0


def _flag_bits(columns: RowTwin, i: int, bit: int) -> int:
    hits = columns._columns["flags"][i : i + 64] & bit
    return sum(1 << k for k, hit in enumerate(hits) if hit)


def _zero_final(arrays: Any, low: int, high: int) -> None:
    for array in arrays if isinstance(arrays, tuple) else (arrays,):
        array[low:high] = 0


def _set_element(array: npt.NDArray[Any], j: int, value: Any) -> None:
    array[j] = value


def _unpack_python(result: Any) -> tuple[Any, Any, Any]:
    if not isinstance(result, tuple) or len(result) not in (2, 3):
        raise TypeError(f"`step` returns (reward, terminated) or (reward, terminated, truncated), got {result!r}")
    reward, terminated, *truncated = result
    return np.float64(reward), np.bool_(terminated), np.bool_(truncated[0] if truncated else False)
