"""Operators of row functions: compiled code computes what plain Python does, or is refused while it is typed.

In plain Python row functions compute with NumPy's int64, float64 and bool. Left alone, Numba differs from them: signed
overflow is undefined, so is a shift by 64 or more, booleans add up as ints, and a variable that is an int on one path
and a float on another is a float on both. `AuthorCompiler` is Numba's compiler with one pass more, right after types
are known: integer operators become the exact ones below, and what has no common meaning is refused with its line. So is
what could raise: compiled code must not stop in the middle of a batch.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir as llvm
from numba.core import ir, types
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import TypingError
from numba.core.imputils import lower_builtin
from numba.core.typed_passes import NopythonTypeInference
from numba.core.typing import templates
from numba.core.untyped_passes import IRProcessing

from vecenv.kernels.builtin_calls import BuiltinCalls
from vecenv.kernels.inlining import InlineCompiler
from vecenv.kernels.row import CellsType

_INT64 = llvm.IntType(64)
_ZERO, _ONE, _MINUS_ONE = (llvm.Constant(_INT64, value) for value in (0, 1, -1))

#: operator -> the function whose lowering is exact
_EXACT: dict[Any, Callable[[int, int], int]] = {}


def _exact(*operators: Any) -> Callable[[Any], Any]:
    """Register `emit(builder, a, b)` as the int64 form of some operators."""

    def decorate(emit: Any) -> Any:
        def exact(a: int, b: int) -> int:
            raise NotImplementedError("only a name for compiled code")

        class Template(templates.AbstractTemplate):  # type: ignore[misc]
            key = exact

            def generic(self, args: Any, kws: Any) -> Any:
                return templates.signature(types.int64, types.int64, types.int64)

        templates.infer_global(exact, types.Function(Template))
        lower_builtin(exact, types.int64, types.int64)(lambda context, builder, sig, args: emit(builder, *args))
        _EXACT.update(dict.fromkeys(operators, exact))
        return emit

    return decorate


# Numba marks these as never overflowing; wrapping costs nothing in code that does not index with the result.
@_exact(operator.add, operator.iadd)
def _add(builder: Any, a: Any, b: Any) -> Any:
    return builder.add(a, b)


@_exact(operator.sub, operator.isub)
def _subtract(builder: Any, a: Any, b: Any) -> Any:
    return builder.sub(a, b)


@_exact(operator.mul, operator.imul)
def _multiply(builder: Any, a: Any, b: Any) -> Any:
    return builder.mul(a, b)


@_exact(operator.lshift, operator.ilshift)
def _shift_left(builder: Any, a: Any, count: Any) -> Any:
    fits = builder.icmp_unsigned("<", count, llvm.Constant(_INT64, 64))
    return builder.select(fits, builder.shl(a, builder.select(fits, count, _ZERO)), _ZERO)


@_exact(operator.rshift, operator.irshift)
def _shift_right(builder: Any, a: Any, count: Any) -> Any:
    last = llvm.Constant(_INT64, 63)
    return builder.ashr(a, builder.select(builder.icmp_unsigned("<", count, last), count, last))


def _divide(builder: Any, a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
    """Quotient and remainder towards zero by a divisor that cannot trap, whether it is -1 or 0, and whether 0."""
    negates, is_zero = builder.icmp_signed("==", b, _MINUS_ONE), builder.icmp_signed("==", b, _ZERO)
    special = builder.or_(negates, is_zero)
    safe = builder.select(special, _ONE, b)
    return builder.sdiv(a, safe), builder.srem(a, safe), special, is_zero


def _rounds_down(builder: Any, remainder: Any, b: Any) -> Any:
    """Whether the quotient towards zero is one above the floor."""
    opposite = builder.icmp_signed("<", builder.xor(remainder, b), _ZERO)
    return builder.and_(opposite, builder.icmp_signed("!=", remainder, _ZERO))


@_exact(operator.floordiv, operator.ifloordiv)
def _floor_divide(builder: Any, a: Any, b: Any) -> Any:
    quotient, remainder, special, is_zero = _divide(builder, a, b)
    floor = builder.select(_rounds_down(builder, remainder, b), builder.sub(quotient, _ONE), quotient)
    return builder.select(special, builder.select(is_zero, _ZERO, builder.sub(_ZERO, a)), floor)


@_exact(operator.mod, operator.imod)
def _modulo(builder: Any, a: Any, b: Any) -> Any:
    _, remainder, special, _ = _divide(builder, a, b)
    floor = builder.select(_rounds_down(builder, remainder, b), builder.add(remainder, b), remainder)
    return builder.select(special, _ZERO, floor)


def _tuple_item(items: Any, index: int) -> Any:
    raise NotImplementedError("only a name for compiled code")


class _TupleItem(templates.AbstractTemplate):  # type: ignore[misc]
    key = _tuple_item

    def generic(self, args: Any, kws: Any) -> Any:
        return templates.signature(*_element_types(args[0]), args[0], types.int64)


def _element_types(items: Any) -> set[Any]:
    """What the elements of a tuple are, literals as what they are literals of."""
    return {types.unliteral(kind) for kind in items}


templates.infer_global(_tuple_item, types.Function(_TupleItem))


@lower_builtin(_tuple_item, types.BaseTuple, types.int64)  # type: ignore[untyped-decorator]
def _lower_tuple_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """items[index]; a negative index counts from the end, and one outside gives some element."""
    index, count = args[1], len(sig.args[0])
    items = [
        context.cast(builder, builder.extract_value(args[0], k), kind, sig.return_type)
        for k, kind in enumerate(sig.args[0])
    ]
    negative = builder.icmp_signed("<", index, _ZERO)
    index = builder.select(negative, builder.add(index, llvm.Constant(_INT64, count)), index)
    found = items[0]
    for k in range(1, count):
        found = builder.select(builder.icmp_signed("==", index, llvm.Constant(_INT64, k)), items[k], found)
    return found


#: With larger steps the loop of a range that `_lower_range` cuts would end within a day.
_LARGEST_STEP = 2**20


def _range(start: int, stop: int, step: int = 1) -> Any:
    raise NotImplementedError("only a name for compiled code")


class _RangeTemplate(templates.AbstractTemplate):  # type: ignore[misc]
    key = _range

    def generic(self, args: Any, kws: Any) -> Any:
        return templates.signature(types.range_state64_type, *[types.int64 for _ in args])


templates.infer_global(_range, types.Function(_RangeTemplate))


@lower_builtin(_range, types.int64)  # type: ignore[untyped-decorator]
@lower_builtin(_range, types.int64, types.int64)  # type: ignore[untyped-decorator]
@lower_builtin(_range, types.int64, types.int64, types.int64)  # type: ignore[untyped-decorator]
def _lower_range(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Numba's range, whose loop counts down from `stop - start`: a stop too far for int64 to count is brought nearer.

    That is 2**63 - 1 from the start, where no loop comes; without it such a loop would not run, or run backwards.
    """
    start, stop, step = {1: (_ZERO, *args, _ONE), 2: (*args, _ONE), 3: args}[len(args)]
    largest = llvm.Constant(_INT64, 2**63 - 1)
    upwards, distance = builder.icmp_signed(">", step, _ZERO), builder.sub(stop, start)
    runs = builder.select(upwards, builder.icmp_signed(">", stop, start), builder.icmp_signed("<", stop, start))
    magnitude = builder.select(upwards, distance, builder.sub(_ZERO, distance))
    is_far = builder.icmp_unsigned(">", magnitude, largest)
    farthest = builder.add(start, builder.select(upwards, largest, builder.sub(_ZERO, largest)))
    nearer = builder.select(runs, builder.select(is_far, farthest, stop), start)
    signature = templates.signature(sig.return_type, *[types.int64] * 3)
    numbas = context.get_function(range, signature)
    return numbas(builder, (start, nearer, step))


# --- what is refused --------------------------------------------------------------------------------------------------

_ON_BOOLS = {
    operator.and_, operator.or_, operator.xor, operator.iand, operator.ior, operator.ixor,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.not_,
}  # fmt: skip
_SHIFTS = {operator.lshift, operator.rshift}
TEXT = "text is not possible in row functions; use numbers, an IntEnum, or an array of numbers for a map of letters"
_COMPARISONS = {
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.contains,
}  # fmt: skip
_MERGES = {
    (types.Boolean, types.Integer): "a bool on one path and an int on another; write int(...) for the bool",
    (types.Boolean, types.Float): "a bool on one path and a float on another; write float(...) for the bool",
    (types.Integer, types.Float): "an int on one path and a float on another; write float(...) for the int",
}


def _kind(type: Any) -> Any:
    type = types.unliteral(type)
    return next((kind for kind in (types.Boolean, types.Integer, types.Float) if isinstance(type, kind)), None)


def _holds_text(type: Any) -> bool:
    """Numba's text raises."""
    if isinstance(type, types.BaseTuple):
        return any(map(_holds_text, type))
    return isinstance(types.unliteral(type), types.UnicodeType | types.Bytes | types.UnicodeCharSeq)


def _holds_floats(type: Any) -> bool:
    return isinstance(type, types.BaseTuple) and any(_kind(k) is types.Float or _holds_floats(k) for k in type)


@register_pass(mutates_CFG=False, analysis_only=False)
class ExactOperators(FunctionPass):  # type: ignore[misc]
    """See the module's docstring. Runs while joins of paths are still phi nodes."""

    _name = "vecenv_exact_operators"
    #: Whether an index outside a tuple is undefined. Numba raises, which would leave a batch half moved.
    unchecked_tuples = True

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        self._typemap, self._ir = state.typemap, state.func_ir
        self._exact_range = types.Function(_RangeTemplate)
        for count in (1, 2, 3):  # a name for `range` may be called with any number
            self._exact_range.get_call_type(state.typingctx, (types.int64,) * count, {})
        for block in self._ir.blocks.values():
            for statement in block.body:
                if isinstance(statement, ir.Return):
                    own = self._typemap[statement.value.name]
                    self._check_join("what is returned", own, state.return_type, statement.loc)
                elif isinstance(statement, ir.Assign):
                    self._visit(statement, state.calltypes)
                elif isinstance(statement, ir.SetAttr):
                    self._keep_float(statement, state.calltypes)
                elif isinstance(statement, ir.StaticSetItem):
                    self._check_place(statement.target, statement.index, statement.loc)
        return True

    def _visit(self, statement: Any, calltypes: Any) -> None:
        value, joined = statement.value, self._typemap[statement.target.name]
        if _holds_text(joined):
            raise TypingError(TEXT, statement.loc)
        if isinstance(value, ir.Var):
            self._check_join(_words(statement.target), self._typemap[value.name], joined, statement.loc)
        if not isinstance(value, ir.Expr):
            return
        if value.op == "cast":
            self._check_join("what is returned", self._typemap[value.value.name], joined, statement.loc)
        elif value.op == "phi":
            for part in value.incoming_values:
                if part is ir.UNDEFINED:
                    words = f"{_words(statement.target)} has no value on one path; give it one before"
                    raise TypingError(words, statement.loc)
                self._check_join(_words(statement.target), self._typemap[part.name], joined, part.loc)
        elif value.op in ("binop", "inplace_binop"):
            self._visit_binary(value, calltypes)
        elif value.op == "unary":
            if _kind(self._typemap[value.value.name]) is types.Boolean and value.fn not in _ON_BOOLS:
                raise _refusal(f"`{_SYMBOLS[value.fn]}` on a bool; write int(...), or `not` for the opposite", value)
        elif value.op == "call":
            self._visit_call(value)
        elif value.op == "getattr":
            own = self._typemap[value.value.name]
            if isinstance(own, types.Array) and value.attr not in ("shape", "ndim", "size"):
                raise _refusal(f"`.{value.attr}` of an array; row functions read arrays element by element", value)
            if isinstance(own, types.BaseTuple) and value.attr not in getattr(own, "fields", ()):
                raise _refusal(f"`.{value.attr}` of a tuple; row functions index and loop over tuples", value)
            if isinstance(own, types.RangeType):
                raise _refusal(f"`.{value.attr}` of a range; row functions loop over ranges", value)
        elif value.op == "static_getitem":
            self._check_place(value.value, value.index, value.loc)
        elif value.op == "exhaust_iter":
            self._check_unpacked(value)
        elif value.op == "getitem" and self.unchecked_tuples:
            own, index = self._typemap[value.value.name], _kind(self._typemap[value.index.name])
            if isinstance(own, types.BaseTuple) and len(_element_types(own)) == 1 and index is types.Integer:
                statement.value = self._unchecked_item(value, calltypes)

    def _visit_binary(self, value: Any, calltypes: Any) -> None:
        operands = [self._typemap[part.name] for part in (value.lhs, value.rhs)]
        kinds = [_kind(operand) for operand in operands]
        fn = value.immutable_fn if value.op == "inplace_binop" else value.fn
        if any(isinstance(operand, types.Array) for operand in operands):
            raise _refusal("operators on whole arrays; row functions read arrays element by element", value)
        if fn in _COMPARISONS and any(map(_holds_floats, operands)):
            raise _refusal("tuples of floats are not compared, for NaN's sake; compare their elements", value)
        if fn in (operator.is_, operator.is_not) and None not in kinds:
            raise _refusal("`is` between numbers; write ==, or nothing but the bool itself", value)
        if kinds == [types.Boolean, types.Boolean] and fn not in _ON_BOOLS:
            raise _refusal(
                f"`{_SYMBOLS.get(fn, fn.__name__)}` on two bools; write int(...) to count, or & | ^ for logic", value
            )
        if fn in _SHIFTS and types.Boolean in kinds:
            raise _refusal(f"`{_SYMBOLS[fn]}` of or by a bool; write int(...)", value)
        if fn in _EXACT and None not in kinds and calltypes[value].args == (types.int64, types.int64):
            value.fn = _EXACT[fn]
            if value.op == "inplace_binop":
                value.immutable_fn = _EXACT[fn]
            value.static_lhs = value.static_rhs = ir.UNDEFINED

    def _check_place(self, base: Any, index: Any, loc: Any) -> None:
        """Refuse a negative index of an array field: before its first element is another row."""
        places = index if isinstance(index, tuple) else (index,)
        if isinstance(self._typemap[base.name], CellsType) and any(isinstance(k, int) and k < 0 for k in places):
            raise TypingError("an array field has no negative indices; write `a[len(a) - 1]` for the last element", loc)

    def _check_unpacked(self, value: Any) -> None:
        """Refuse to unpack an array into as many names as it may not have elements."""
        if not isinstance(self._typemap[value.value.name], types.Array):
            return
        source = self._ir.get_definition(value.value)
        while isinstance(source, ir.Expr) and source.op in ("getitem", "static_getitem"):
            source = self._ir.get_definition(source.value)
        columns = source.value.shape[-1] if isinstance(source, ir.Global | ir.FreeVar) else None
        if columns is None:
            raise _refusal("only arrays that this function reads by name are unpacked; write `a[k, 0], a[k, 1]`", value)
        if columns != value.count:
            raise _refusal(f"{value.count} names for {columns} elements", value)

    def _check_join(self, what: str, own: Any, joined: Any, loc: Any) -> None:
        """Refuse a value that another path makes a wider number of, element by element if it is a tuple."""
        if isinstance(joined, types.Optional):
            raise TypingError(f"{what} is None on one path and not on another; give it a number, such as -1", loc)
        if isinstance(own, types.BaseTuple) and isinstance(joined, types.BaseTuple):
            for part, wide in zip(own, joined, strict=True):
                self._check_join(what, part, wide, loc)
        elif problem := _MERGES.get((_kind(own), _kind(joined))):
            raise TypingError(f"{what} is {problem}", loc)

    def _keep_float(self, statement: Any, calltypes: Any) -> None:
        """A float goes into an int field as it is: the field's store has a defined result for all of them."""
        signature, own = calltypes[statement], self._typemap[statement.value.name]
        if isinstance(signature.args[1], types.Integer) and isinstance(own, types.Float):
            calltypes.pop(statement)
            calltypes[statement] = templates.signature(types.void, signature.args[0], own)

    def _visit_call(self, value: Any) -> None:
        callee = getattr(self._typemap[value.func.name], "typing_key", None)
        callee = range if callee is _range else callee
        kinds = [_kind(self._typemap[part.name]) for part in value.args]
        if callee is abs and types.Boolean in kinds:
            raise _refusal("`abs` of a bool; write int(...)", value)
        if callee is range and not all(kind is types.Integer for kind in kinds):
            raise _refusal("`range` takes ints; write int(...)", value)
        if callee is range and len(kinds) == 3:
            step = self._ir._definitions.get(value.args[2].name, [None])[0]
            if not isinstance(step, ir.Const | ir.Global | ir.FreeVar) or step.value == 0:
                raise _refusal("the step of `range` is a number written there, and not 0", value)
            if abs(step.value) > _LARGEST_STEP:
                raise _refusal("the step of `range` is at most 2**20; multiply in the loop", value)
        if callee is range:
            self._typemap.pop(value.func.name)
            self._typemap[value.func.name] = self._exact_range
        if callee is len and isinstance(self._typemap[value.args[0].name], types.RangeType):
            raise _refusal("`len` of a range; write max(stop - start, 0)", value)

    def _unchecked_item(self, value: Any, calltypes: Any) -> Any:
        """An element of a tuple by a variable: compiled code cannot raise in the middle of a batch."""
        signature = calltypes.pop(value)
        item = ir.Expr.binop(operator.getitem, value.value, value.index, value.loc)
        item.fn = _tuple_item
        kinds = self._typemap[value.value.name], types.int64
        calltypes[item] = templates.signature(signature.return_type, *kinds)
        return item


@register_pass(mutates_CFG=False, analysis_only=False)
class CheckedOperators(ExactOperators):
    """The same where indices are checked: what raises is put back."""

    _name = "vecenv_checked_operators"
    unchecked_tuples = False


_SYMBOLS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.lshift: "<<", operator.rshift: ">>", operator.neg: "-", operator.pos: "+",
    operator.invert: "~",
}  # fmt: skip


def _words(var: Any) -> str:
    """A variable as its author wrote it; what has no name is the value of an expression."""
    return "a value" if var.name.startswith("$") else f"`{var.unversioned_name}`"


def _refusal(problem: str, value: Any) -> TypingError:
    return TypingError(problem, value.loc)


class AuthorCompiler(InlineCompiler):
    """Numba's compiler for row functions."""

    exact_operators: Any = ExactOperators

    def define_pipelines(self) -> list[Any]:
        [passes] = super().define_pipelines()
        passes.add_pass_after(BuiltinCalls, IRProcessing)
        passes.add_pass_after(self.exact_operators, NopythonTypeInference)
        passes.finalize()
        return [passes]


class CheckedAuthorCompiler(AuthorCompiler):
    """The same, for `boundscheck=True`."""

    exact_operators = CheckedOperators
