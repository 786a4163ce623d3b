"""What the templates in `batch.py` do to memory, compiled: Numba intrinsics over raw pointers.

Offsets are loaded from the head once per kernel, before any loop. Every access says which column, input or output it
touches (`mark_scope`). `access_python.py` has the same names in plain Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

from vecenv.kernels import rng as streams
from vecenv.kernels.envdef import Leaf, flat_leaves
from vecenv.kernels.jit import inline
from vecenv.kernels.row import (
    CellsType,
    ElementType,
    RecordType,
    RowType,
    load_scalar,
    mark_scope,
    row_nbytes,
    row_pointer,
    store_scalar,
)
from vecenv.kernels.soa import ColumnType, Field, TableType, compute_dtype
from vecenv.kernels.wiring import Slot, Wiring


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
    """A word of the head. No kernel writes there, so LLVM may move the load out of a loop."""
    words = builder.bitcast(head_data, ir.IntType(64).as_pointer())
    word = builder.load(builder.gep(words, [ir.Constant(ir.IntType(64), k)], inbounds=True), align=8)
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


def _column_pointer(context: Any, builder: Any, bases: dict[str, Any], slot: Slot, word: dict[str, int]) -> Any:
    offset = _load_word(builder, bases["head"], word[slot.column.name])
    pointer = builder.gep(_bytes_pointer(builder, bases[slot.base]), [offset], inbounds=True)
    return _typed(builder, context, pointer, slot.column.dtype)


class CompiledAccessors:
    def __init__(self, wiring: Wiring, checked: bool = False) -> None:
        self.wiring, self.checked = wiring, checked
        self.scopes = wiring.scopes

    def table(self) -> dict[str, Any]:
        wiring, definition = self.wiring, self.wiring.definition
        observations, actions = definition.observation_leaves, definition.step_leaves
        discrete = isinstance(definition.action_space, spaces.Discrete) and definition.num_agents == 1
        return {
            "state_columns": self.columns(wiring.state_slots()),
            "engine_columns": self.columns(wiring.engine_slots()),
            "borrow": _borrow,
            "enter": self.enter(),
            "leave": self.leave(),
            "note_step": self.note_step(),
            "row_at": _row_at,
            "rng_at": self.rng_at(),
            "rng_done": _nothing,
            "zero_state": self.zero_row([slot.name for slot in wiring.state_slots() if slot.writable]),
            **self.transforms(),
            "flag_bits": self.flag_bits(),
            "lowest_bit": _lowest_bit,
            "head_word": self.head_word(),
            "params_of": self.params(),
            "params_at": _params_at if wiring.row_params else _same_params,
            "draw_params": self.draw_params(),
            "options_of": self.record("option", definition.options_type.fields),
            "action_at": self.leaf_views("action", "action", actions, False, scalar=discrete),
            "flat_action_at": self.leaf_views("action", "action", flat_leaves(actions), False),
            "action_bounds": self.bounds(),
            "observation_at": self.leaf_views("obs", "obs", observations, True),
            "final_observation_at": self.leaf_views("final_obs", "obs", observations, True),
            "zero_final": self.zero_leaves(observations),
            "info_at": self.info_row("info"),
            "final_info_at": self.info_row("final_info"),
            "mask_at": self.mask("info"),
            "final_mask_at": self.mask("final_info"),
            "load_row": self.load_element("rows"),
            "store_reward": self.store_element("rewards"),
            "store_terminated": self.store_element("terminated"),
            "store_truncated": self.store_element("truncated"),
            "rewards_at": self.agent_values("rewards"),
            "terminated_at": self.agent_values("terminated"),
            "truncated_at": self.agent_values("truncated"),
            "unpack": _unpack,
        }

    def row_type(self, slots: list[Slot]) -> RowType:
        fields = tuple((s.name, s.column.dtype.str, s.shape, s.column.name, s.writable) for s in slots)
        return RowType(fields, self.scopes, self.checked)

    def columns(self, slots: list[Slot]) -> Any:
        """`f(head, arena)`: pointers to the columns, as row 0."""
        row_type, word = self.row_type(slots), self.wiring.word

        @intrinsic
        def columns(typingctx: Any, head: Any, arena: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                bases = {
                    "head": _data(context, builder, sig.args[0], args[0]),
                    "arena": _data(context, builder, sig.args[1], args[1]),
                }
                row = cgutils.create_struct_proxy(row_type)(context, builder)
                row.i = ir.IntType(64)(0)
                for slot in slots:
                    pointer = _column_pointer(context, builder, bases, slot, word)
                    setattr(row, f"p_{slot.name}", pointer)
                for size in row_type.sizes:
                    setattr(row, f"s_{size}", _load_word(builder, bases["head"], word[f"size.{size}"]))
                return row._getvalue()

            return row_type(head, arena), codegen

        return columns

    def transforms(self) -> dict[str, Any]:
        """Columns of all transforms: a pair of the last one's row and of the pair before, which is `()` at first.

        Without transforms, kernels are the same to the instruction as if there were no such thing: a call in the place
        of `_same_params` or `_record_nothing` makes LLVM allot the registers of CartPole's loop in another way.
        """

        @inline
        def columns(head: Any, arena: Any) -> Any:
            return ()

        @inline
        def zero(own: Any) -> None:
            return

        nested: tuple[Any, Any, Any] = columns, _same_params, zero
        for slots in self.wiring.transform_slots():
            nested = self._with_transform(slots, *nested)
        names = "transform_columns", "transform_rows", "zero_transforms"
        return {**dict(zip(names, nested, strict=True)), "record_steps": _record_nothing}

    def _with_transform(self, slots: list[Slot], columns_below: Any, rows_below: Any, zero_below: Any) -> Any:
        own_columns, zero_own = self.columns(slots), self.zero_row([slot.name for slot in slots])
        row_at = _row_at

        @inline
        def columns(head: Any, arena: Any) -> Any:
            return own_columns(head, arena), columns_below(head, arena)

        @inline
        def rows(own: Any, i: Any) -> Any:
            return row_at(own[0], i), rows_below(own[1], i)

        @inline
        def zero(own: Any) -> None:
            zero_own(own[0])
            zero_below(own[1])

        return columns, rows, zero

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
                    typ = sig.args[0]
                    _, _, shape, scope, _ = typ.by_name[name]
                    pointer = row_pointer(builder, typ, value, name)
                    if shape:
                        cgutils.memset(builder, pointer, row_nbytes(builder, typ, value, name), 0)
                    else:
                        store = builder.store(ir.Constant(pointer.type.pointee, None), pointer)
                        mark_scope(builder, store, scope, typ.scopes)
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
        """`f(head)`: scalars by value and tables by pointer."""
        record_type = RecordType(tuple(self._word_types(fields)))

        @intrinsic
        def record(typingctx: Any, head: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                value = cgutils.create_struct_proxy(record_type)(context, builder)
                self._fill(context, builder, value, record_type, prefix, _data(context, builder, sig.args[0], args[0]))
                return value._getvalue()

            return record_type(head), codegen

        return record

    def params(self) -> Any:
        """`f(head, arena)`: shared params by value or pointer, those per row as pointers to their columns."""
        slots, word = self.wiring.param_slots(), self.wiring.word
        elements = [(s.name, ElementType(s.column.dtype.str, s.column.name, self.scopes)) for s in slots]
        record_type = RecordType((*self._word_types(self.wiring.shared_params), *elements))

        @intrinsic
        def params_of(typingctx: Any, head: Any, arena: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                bases = {
                    "head": _data(context, builder, sig.args[0], args[0]),
                    "arena": _data(context, builder, sig.args[1], args[1]),
                }
                value = cgutils.create_struct_proxy(record_type)(context, builder)
                self._fill(context, builder, value, record_type, "param", bases["head"])
                for slot in slots:
                    element = cgutils.create_struct_proxy(record_type.by_name[slot.name])(context, builder)
                    element.pointer = _column_pointer(context, builder, bases, slot, word)
                    element.i = ir.IntType(64)(0)
                    setattr(value, slot.name, element._getvalue())
                return value._getvalue()

            return record_type(head, arena), codegen

        return params_of

    def draw_params(self) -> Any:
        """`f(head, params, rng)`: draw the random params of a row in the order of their declaration."""
        word = self.wiring.word
        head_word = self.head_word()

        @inline
        def nothing(head: Any, params: Any, rng: Any) -> None:
            return

        draw: Any = nothing
        for k, field in reversed(list(enumerate(self.wiring.random_params))):
            bounds = self.record_pair(word[f"low.{field.name}"], word[f"high.{field.name}"])
            draw = self._draw_one(head_word, bounds, self.store_param(field.name), 1 << k, draw)
        return draw

    @staticmethod
    def _draw_one(head_word: Any, bounds: Any, store: Any, bit: int, rest: Any) -> Any:
        @inline
        def draw(head: Any, params: Any, rng: Any) -> None:
            if head_word(head, "given_params") & bit == 0:
                low, high = bounds(head)
                store(params, rng.uniform(low, high))
            rest(head, params, rng)

        return draw

    def _place_of(self, name: str, context: Any, builder: Any, sig: Any, args: Any) -> Any:
        words = builder.bitcast(_data(context, builder, sig.args[0], args[0]), ir.IntType(64).as_pointer())
        return builder.gep(words, [ir.IntType(64)(self.wiring.word[name])], inbounds=True)

    def enter(self) -> Any:
        """`f(head)`: claim the rows; False if another call has them."""

        @intrinsic
        def enter(typingctx: Any, head: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                word = self._place_of("busy", context, builder, sig, args)
                free, taken = ir.IntType(64)(0), ir.IntType(64)(1)
                return builder.extract_value(builder.cmpxchg(word, free, taken, "acquire", "acquire"), 1)

            return types.boolean(head), codegen

        return enter

    def leave(self) -> Any:
        @intrinsic
        def leave(typingctx: Any, head: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                word = self._place_of("busy", context, builder, sig, args)
                builder.store_atomic(ir.IntType(64)(0), word, "release", align=8)
                return context.get_dummy_value()

            return types.none(head), codegen

        return leave

    def note_step(self) -> Any:
        """`f(head, number)`: rows were moved by this step."""

        @intrinsic
        def note_step(typingctx: Any, head: Any, number: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                builder.store(args[1], self._place_of("last_step", context, builder, sig, args))
                return context.get_dummy_value()

            return types.none(head, types.int64), codegen

        return note_step

    def record_pair(self, low: int, high: int) -> Any:
        """`f(head)`: two float64 words."""

        @intrinsic
        def pair(typingctx: Any, head: Any) -> Any:
            result = types.UniTuple(types.float64, 2)

            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                data = _data(context, builder, sig.args[0], args[0])
                words = [builder.bitcast(_load_word(builder, data, k), ir.DoubleType()) for k in (low, high)]
                return context.make_tuple(builder, result, words)

            return result(head), codegen

        return pair

    def store_param(self, name: str) -> Any:
        """`f(params, value)`: write a param of this row."""

        @intrinsic
        def store(typingctx: Any, params: Any, value: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                record = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
                field = sig.args[0].by_name[name]
                element = cgutils.create_struct_proxy(field)(context, builder, value=getattr(record, name))
                pointer = builder.gep(element.pointer, [element.i], inbounds=True)
                store_scalar(context, builder, args[1], pointer, field.dtype, field.scope, field.scopes)
                return context.get_dummy_value()

            return types.none(params, types.float64), codegen

        return store

    def _word_types(self, fields: tuple[Field, ...]) -> list[tuple[str, Any]]:
        kinds: list[tuple[str, Any]] = []
        for field in fields:
            if isinstance(field.type, TableType):
                table = CellsType(field.dtype.str, field.type.ndim, None, False, "tables", self.scopes, self.checked)
                kinds.append((field.name, table))
            else:
                kinds.append((field.name, from_dtype(compute_dtype(field.dtype))))
        return kinds

    def _fill(self, context: Any, builder: Any, value: Any, record_type: RecordType, prefix: str, head: Any) -> None:
        """Load the fields of a record that lie in the head."""
        for name, kind in record_type.fields:
            if isinstance(kind, ElementType):
                continue
            k = self.wiring.word[f"{prefix}.{name}"]
            bits = _load_word(builder, head, k)
            if isinstance(kind, CellsType):
                cells = cgutils.create_struct_proxy(kind)(context, builder)
                cells.pointer = builder.inttoptr(bits, cells.pointer.type)
                for axis in range(kind.ndim):
                    setattr(cells, f"n{axis}", _load_word(builder, head, k + 1 + axis))
                bits = cells._getvalue()
            elif kind == types.float64:
                bits = builder.bitcast(bits, ir.DoubleType())
            elif kind == types.boolean:
                bits = builder.icmp_unsigned("!=", bits, bits.type(0))
            setattr(value, name, bits)

    def leaf_views(self, scope: str, kind: str, leaves: tuple[Leaf, ...], writable: bool, scalar: bool = False) -> Any:
        """`f(head, arrays, j)`: what a row function sees of row j: a number, Cells, a record or a tuple of Cells."""
        sized = bool(self.wiring.definition.sizes)
        word = self.wiring.word
        cells_types = [
            CellsType(
                leaf.dtype.str,
                len(leaf.cells),
                None if sized else leaf.cells,
                writable,
                f"{scope}.{k}",
                self.scopes,
                self.checked,
            )
            for k, leaf in enumerate(leaves)
        ]
        single = leaves[0].key is None
        named = isinstance(leaves[0].key, str)
        if scalar:
            result: Any = types.int64
        elif single:
            result = cells_types[0]
        elif named:
            result = RecordType(tuple((str(leaf.key), cells) for leaf, cells in zip(leaves, cells_types, strict=True)))
        else:
            result = types.Tuple(cells_types)

        def cells_at(context: Any, builder: Any, head: Any, array_type: Any, array: Any, k: int, j: Any) -> Any:
            cells_type, leaf = cells_types[k], leaves[k]
            sizes = [ir.IntType(64)(size) for size in leaf.cells]
            if sized:
                # The flat view of a leaf (`flat_leaves`) has one axis: the product of those in the head.
                axes = len(self.wiring.definition.step_leaves[k].cells) if kind == "action" else len(leaf.cells)
                loaded = [_load_word(builder, head, word[f"{kind}.{k}.{axis}"]) for axis in range(axes)]
                sizes = loaded
                if len(leaf.cells) < axes:
                    total = loaded[0]
                    for size in loaded[1:]:
                        total = builder.mul(total, size, flags=["nsw"])
                    sizes = [total]
            index = j
            for size in sizes:
                index = builder.mul(index, size, flags=["nsw"])
            pointer = _bytes_pointer(builder, _data(context, builder, array_type, array))
            pointer = _typed(builder, context, pointer, cells_type.dtype)
            cells = cgutils.create_struct_proxy(cells_type)(context, builder)
            cells.pointer = builder.gep(pointer, [index], inbounds=True)
            if sized:
                for axis, size in enumerate(sizes):
                    setattr(cells, f"n{axis}", size)
            return cells._getvalue()

        @intrinsic
        def views(typingctx: Any, head: Any, arrays: Any, j: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                head_data = _data(context, builder, sig.args[0], args[0])
                index = context.cast(builder, args[2], sig.args[2], types.int64)
                if scalar:
                    pointer = builder.gep(_data(context, builder, sig.args[1], args[1]), [index], inbounds=True)
                    return load_scalar(context, builder, pointer, leaves[0].dtype, f"{scope}.0", self.scopes)
                if single:
                    return cells_at(context, builder, head_data, sig.args[1], args[1], 0, index)
                parts = [
                    cells_at(context, builder, head_data, array_type, builder.extract_value(args[1], k), k, index)
                    for k, array_type in enumerate(sig.args[1])
                ]
                if not named:
                    return context.make_tuple(builder, result, parts)
                record = cgutils.create_struct_proxy(result)(context, builder)
                for leaf, part in zip(leaves, parts, strict=True):
                    setattr(record, str(leaf.key), part)
                return record._getvalue()

            return result(head, arrays, j), codegen

        return views

    def bounds(self) -> Any:
        """`f(head)`: lowest and highest value of each action element, Cells `[2, K]`."""
        cells_type = CellsType("<i8", 2, None, False, "tables", self.scopes)
        word = self.wiring.word

        @intrinsic
        def bounds_at(typingctx: Any, head: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                data = _data(context, builder, sig.args[0], args[0])
                cells = cgutils.create_struct_proxy(cells_type)(context, builder)
                cells.pointer = builder.inttoptr(_load_word(builder, data, word["action_bounds"]), cells.pointer.type)
                cells.n0 = ir.IntType(64)(2)
                cells.n1 = _load_word(builder, data, word["action_count"])
                return cells._getvalue()

            return cells_type(head), codegen

        return bounds_at

    def zero_leaves(self, leaves: tuple[Leaf, ...]) -> Any:
        """`f(head, arrays, low, high)`: zero rows low to high of every observation leaf."""
        single = leaves[0].key is None
        word = self.wiring.word

        @intrinsic
        def zero(typingctx: Any, head: Any, arrays: Any, low: Any, high: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                data = _data(context, builder, sig.args[0], args[0])
                low = context.cast(builder, args[2], sig.args[2], types.int64)
                high = context.cast(builder, args[3], sig.args[3], types.int64)
                array_types = [sig.args[1]] if single else list(sig.args[1])
                for k, (leaf, array_type) in enumerate(zip(leaves, array_types, strict=True)):
                    array = args[1] if single else builder.extract_value(args[1], k)
                    pointer = _bytes_pointer(builder, _data(context, builder, array_type, array))
                    nbytes = ir.IntType(64)(leaf.dtype.itemsize)
                    for axis in range(len(leaf.cells)):
                        nbytes = builder.mul(nbytes, _load_word(builder, data, word[f"obs.{k}.{axis}"]))
                    start = builder.gep(pointer, [builder.mul(low, nbytes)], inbounds=True)
                    cgutils.memset(builder, start, builder.mul(builder.sub(high, low), nbytes), 0)
                return context.get_dummy_value()

            return types.none(head, arrays, low, high), codegen

        return zero

    def info_row(self, scope: str) -> Any:
        """`f(head, arrays, j)`: the fields of an Info class as a writable row j of the arrays."""
        fields = self.wiring.definition.info_type.fields
        shapes = [field.type.shape for field in fields if isinstance(field.type, ColumnType)]
        row_type = RowType(
            tuple(
                (f.name, f.dtype.str, shape, f"{scope}.{f.name}", True) for f, shape in zip(fields, shapes, strict=True)
            ),
            self.scopes,
            self.checked,
        )
        word = self.wiring.word

        @intrinsic
        def info_at(typingctx: Any, head: Any, arrays: Any, j: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                head_data = _data(context, builder, sig.args[0], args[0])
                row = cgutils.create_struct_proxy(row_type)(context, builder)
                row.i = context.cast(builder, args[2], sig.args[2], types.int64)
                for k, field in enumerate(fields):
                    data = _data(context, builder, sig.args[1][k], builder.extract_value(args[1], k))
                    pointer = _bytes_pointer(builder, data)
                    setattr(row, f"p_{field.name}", _typed(builder, context, pointer, field.dtype))
                for size in row_type.sizes:
                    setattr(row, f"s_{size}", _load_word(builder, head_data, word[f"size.{size}"]))
                return row._getvalue()

            return row_type(head, arrays, j), codegen

        return info_at

    def mask(self, scope: str) -> Any:
        """`f(head, arrays, j)`: the action mask of row j, the last of the info arrays."""
        definition, word = self.wiring.definition, self.wiring.word
        shape = None if definition.sizes or definition.action_mask is None else definition.info_arrays[-1][2]
        cells_type = CellsType("|i1", 1, shape, True, f"{scope}.action_mask", self.scopes, self.checked)

        @intrinsic
        def mask_at(typingctx: Any, head: Any, arrays: Any, j: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                k = len(sig.args[1]) - 1
                data = _data(context, builder, sig.args[1][k], builder.extract_value(args[1], k))
                size = ir.IntType(64)(shape[0]) if shape else None
                if size is None:
                    size = _load_word(builder, _data(context, builder, sig.args[0], args[0]), word["mask_size"])
                index = builder.mul(context.cast(builder, args[2], sig.args[2], types.int64), size)
                cells = cgutils.create_struct_proxy(cells_type)(context, builder)
                cells.pointer = builder.gep(data, [index], inbounds=True)
                if not shape:
                    cells.n0 = size
                return cells._getvalue()

            return cells_type(head, arrays, j), codegen

        return mask_at

    def load_element(self, scope: str) -> Any:
        @intrinsic
        def load(typingctx: Any, array: Any, j: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                index = context.cast(builder, args[1], sig.args[1], types.int64)
                pointer = builder.gep(_data(context, builder, sig.args[0], args[0]), [index], inbounds=True)
                return load_scalar(context, builder, pointer, np.dtype(np.int64), scope, self.scopes)

            return types.int64(array, j), codegen

        return load

    def agent_values(self, scope: str) -> Any:
        """`f(array, j)`: rewards or flags of the agents of row j, Cells `[A]`."""
        agents = self.wiring.definition.num_agents
        dtype: np.dtype[Any] = np.dtype(np.float64 if scope == "rewards" else np.bool_)
        cells_type = CellsType(dtype.str, 1, (agents,), True, scope, self.scopes, self.checked)

        @intrinsic
        def values_at(typingctx: Any, array: Any, j: Any) -> Any:
            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                pointer = _bytes_pointer(builder, _data(context, builder, sig.args[0], args[0]))
                index = builder.mul(context.cast(builder, args[1], sig.args[1], types.int64), ir.IntType(64)(agents))
                cells = cgutils.create_struct_proxy(cells_type)(context, builder)
                cells.pointer = builder.gep(_typed(builder, context, pointer, dtype), [index], inbounds=True)
                return cells._getvalue()

            return cells_type(array, j), codegen

        return values_at

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
def _same_params(typingctx: Any, params: Any, i: Any) -> Any:
    """All rows have the same params, or none."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return args[0]

    return params(params, i), codegen


@intrinsic
def _params_at(typingctx: Any, params: Any, i: Any) -> Any:
    """The params of row i."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        record = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
        for name, kind in sig.args[0].fields:
            if isinstance(kind, ElementType):
                element = cgutils.create_struct_proxy(kind)(context, builder, value=getattr(record, name))
                element.i = context.cast(builder, args[1], sig.args[1], types.int64)
                setattr(record, name, element._getvalue())
        return record._getvalue()

    return params(params, i), codegen


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
def _record_nothing(
    typingctx: Any, state: Any, engine: Any, params: Any, own: Any, rows: Any, low: Any, high: Any
) -> Any:
    """No transform has an `after_step`."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.get_dummy_value()

    return types.none(state, engine, params, own, rows, low, high), codegen


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
