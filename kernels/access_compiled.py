"""What the templates in `batch.py` do to memory, compiled: Numba intrinsics over raw pointers.

Offsets are loaded from the head once per kernel, before any loop. Every access says which column, input or output it
touches (`mark_scope`). `access_python.py` has the same names in plain Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

from vecenv.kernels import rng as streams
from vecenv.kernels.envdef import Leaf, flat_leaves
from vecenv.kernels.jit import inline
from vecenv.kernels.row import CellsType, RecordType, RowType, load_scalar, mark_scope, store_scalar
from vecenv.kernels.soa import Column, Field, TableType, compute_dtype
from vecenv.kernels.wiring import Wiring


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


class CompiledAccessors:
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
            "flat_action_at": self.leaf_views("action", flat_leaves(definition.action_leaves), False),
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
            tuple(
                (name, column.dtype.str, column.shape, column.name, writable) for name, column, writable, _ in fields
            ),
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
        """`f(engine_columns, i, count, bit)`: bit k of the result tells whether row i + k has `bit` in its flags,
        for k < count <= 64.

        64 flag bytes become one 64-bit mask; columns are padded, so reading past the last row is harmless.
        """

        @intrinsic
        def flag_bits(typingctx: Any, columns: Any, i: Any, count: Any, bit: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                value = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
                index = context.cast(builder, args[1], sig.args[1], types.int64)
                wide = ir.VectorType(ir.IntType(8), 64)
                pointer = builder.bitcast(builder.gep(value.p_flags, [index]), wide.as_pointer())
                flags = builder.load(pointer, align=1)
                mask = builder.trunc(context.cast(builder, args[3], sig.args[3], types.int64), ir.IntType(8))
                splat = builder.insert_element(ir.Constant(wide, ir.Undefined), mask, ir.Constant(ir.IntType(32), 0))
                zeros = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
                splat = builder.shuffle_vector(splat, ir.Constant(wide, ir.Undefined), zeros)
                hit = builder.icmp_unsigned("!=", builder.and_(flags, splat), ir.Constant(wide, [0] * 64))
                word = ir.IntType(64)
                unused = builder.sub(word(64), context.cast(builder, args[2], sig.args[2], types.int64))
                return builder.and_(builder.bitcast(hit, word), builder.lshr(word(-1), unused))

            return types.int64(columns, i, count, bit), codegen

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
        dtype: np.dtype[Any] = np.dtype(np.float64 if scope == "rewards" else np.bool_)
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
