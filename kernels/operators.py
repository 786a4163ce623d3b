"""Operators of row functions: compiled code computes what plain Python does, or is refused while it is typed.

In plain Python row functions compute with NumPy's int64, float64 and bool. Left alone, Numba differs from them: signed
overflow is undefined, so is a shift by 64 or more, booleans add up as ints, and a variable that is an int on one path
and a float on another is a float on both. `AuthorCompiler` is Numba's compiler with one pass more, right after types
are known: integer operators become the exact ones below, and what has no common meaning is refused with its line. One
difference stays: an int literal on one path and floats on another (`total = 0`) is the same number, but negating its
zero gives 0 in Python and -0.0 compiled.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir as llvm
from numba.core import ir, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import TypingError
from numba.core.imputils import lower_builtin
from numba.core.typed_passes import NopythonTypeInference
from numba.core.typing import templates

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


# --- what is refused --------------------------------------------------------------------------------------------------

_ON_BOOLS = {
    operator.and_, operator.or_, operator.xor, operator.iand, operator.ior, operator.ixor,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.not_,
}  # fmt: skip
_SHIFTS = {operator.lshift, operator.rshift}
_MERGES = {
    (types.Boolean, types.Integer): "a bool on one path and an int on another; write int(...) for the bool",
    (types.Boolean, types.Float): "a bool on one path and a float on another; write float(...) for the bool",
    (types.Integer, types.Float): "an int on one path and a float on another; write float(...) for the int",
}


def _kind(type: Any) -> Any:
    type = types.unliteral(type)
    return next((kind for kind in (types.Boolean, types.Integer, types.Float) if isinstance(type, kind)), None)


@register_pass(mutates_CFG=False, analysis_only=False)
class ExactOperators(FunctionPass):  # type: ignore[misc]
    """See the module's docstring. Runs while joins of paths are still phi nodes."""

    _name = "vecenv_exact_operators"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        self._typemap, self._ir = state.typemap, state.func_ir
        for block in self._ir.blocks.values():
            for statement in block.body:
                if isinstance(statement, ir.Return):
                    self._check_join("what is returned", statement.value, state.return_type, statement.loc)
                elif isinstance(statement, ir.Assign):
                    self._visit(statement, state.calltypes)
        return True

    def _visit(self, statement: Any, calltypes: Any) -> None:
        value, target = statement.value, statement.target
        if isinstance(value, ir.Var):
            self._check_join(_words(target), value, self._typemap[target.name], statement.loc)
        elif isinstance(value, ir.Expr) and value.op == "cast":
            self._check_join("what is returned", value.value, self._typemap[target.name], statement.loc)
        elif isinstance(value, ir.Expr) and value.op == "phi":
            for part in value.incoming_values:
                if part is ir.UNDEFINED:
                    raise TypingError(f"{_words(target)} has no value on one path; give it one before", statement.loc)
                self._check_join(_words(target), part, self._typemap[target.name], part.loc)
        elif isinstance(value, ir.Expr) and value.op in ("build_list", "build_set"):
            for part in value.items:
                self._check_join("an element", part, self._typemap[target.name].dtype, statement.loc)
        elif isinstance(value, ir.Expr) and value.op in ("binop", "inplace_binop"):
            self._visit_binary(value, calltypes)
        elif isinstance(value, ir.Expr) and value.op == "unary":
            if _kind(self._typemap[value.value.name]) is types.Boolean and value.fn not in _ON_BOOLS:
                raise _refusal(f"`{_SYMBOLS[value.fn]}` on a bool; write int(...), or `not` for the opposite", value)
        elif isinstance(value, ir.Expr) and value.op == "call":
            is_abs = getattr(self._typemap[value.func.name], "typing_key", None) is abs
            if is_abs and any(_kind(self._typemap[part.name]) is types.Boolean for part in value.args):
                raise _refusal("`abs` of a bool; write int(...)", value)

    def _visit_binary(self, value: Any, calltypes: Any) -> None:
        kinds = [_kind(self._typemap[part.name]) for part in (value.lhs, value.rhs)]
        fn = value.immutable_fn if value.op == "inplace_binop" else value.fn
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

    def _check_join(self, what: str, var: Any, joined: Any, loc: Any) -> None:
        """Refuse a value that another path makes a wider number of; a literal is the same number either way."""
        for part, wide in self._parts(var, joined):
            kind = _kind(part if isinstance(part, types.Type) else self._typemap[part.name])
            problem = _MERGES.get((kind, _kind(wide)))
            if problem and not (kind is types.Integer and self._is_literal(part)):
                raise TypingError(f"{what} is {problem}", loc)

    def _parts(self, var: Any, joined: Any) -> Iterator[tuple[Any, Any]]:
        """A value and what it becomes: elements one by one if it is a tuple."""
        own = self._typemap[var.name]
        if not isinstance(joined, types.BaseTuple):
            yield var, joined
        elif isinstance(own, types.BaseTuple) and len(own) == len(joined):
            made = self._definition(var)
            is_built = isinstance(made, ir.Expr) and made.op == "build_tuple"
            yield from zip(made.items if is_built else own, joined, strict=True)

    def _definition(self, var: Any) -> Any:
        """What a variable was assigned, through copies; None if that is not one thing."""
        for _ in range(len(self._typemap)):
            definitions = self._ir._definitions.get(var.name, [])
            if len(definitions) != 1:
                return None
            made = definitions[0]
            if isinstance(made, ir.Expr) and made.op == "cast":
                made = made.value
            if not isinstance(made, ir.Var):
                return made
            var = made
        return None

    def _is_literal(self, part: Any) -> bool:
        return isinstance(part, ir.Var) and isinstance(self._definition(part), ir.Const | ir.Global | ir.FreeVar)


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


class AuthorCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler for row functions."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(ExactOperators, NopythonTypeInference)
        passes.finalize()
        return [passes]
