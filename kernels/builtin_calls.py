"""Calls of Python's builtins in row functions, looked at before types are known.

Numba's builtins take what they take by position; anything else it answers with a bare AssertionError or ValueError that
names no line. `enumerate(..., start=1)` is brought into that form, the rest is refused with its line.
"""

from __future__ import annotations

from typing import Any

from numba.core import ir
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import TypingError
from numba.core.ir_utils import get_definition, guard

#: builtin -> how many arguments it takes, at least and at most; None for any number
_TAKES: dict[Any, tuple[int, int | None]] = {
    abs: (1, 1), bool: (1, 1), enumerate: (1, 2), len: (1, 1), range: (1, 3), tuple: (0, 1), zip: (0, None),
}  # fmt: skip
#: builtin -> its arguments by name
_NAMES: dict[Any, tuple[str, ...]] = {enumerate: ("iterable", "start")}

#: What a row function writes instead of a builtin that it cannot call.
INSTEAD: dict[str, str] = {
    "sum": "add up in a loop: `for x in values: total += x`",
    "any": "write `a or b`, or set a bool in a loop",
    "all": "write `a and b`, or set a bool in a loop",
    "sorted": "keep an Array field and exchange its elements, or take min(a, b) and max(a, b)",
    "reversed": "count down: `for k in range(len(values) - 1, -1, -1)`",
    "map": "call the function in a loop",
    "filter": "write an `if` in a loop",
    "iter": "write `for x in values`",
    "next": "write `for x in values`",
    "pow": "import pow or square from vecenv.kernels.math",
    "list": "use tuples, or an Array field",
    "set": "use tuples, or an Array field",
    "frozenset": "use tuples, or an Array field",
    "dict": "use tuples, or an Array field",
    "isinstance": "a value has one type here; IntEnums and ints tell cases apart",
    "type": "a value has one type here; IntEnums and ints tell cases apart",
}


@register_pass(mutates_CFG=False, analysis_only=False)
class BuiltinCalls(FunctionPass):  # type: ignore[misc]
    """See the module's docstring."""

    _name = "vecenv_builtin_calls"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            for value in block.find_exprs():
                if value.op == "call":
                    callee = guard(get_definition, state.func_ir, value.func)
                    if isinstance(callee, ir.Global | ir.FreeVar) and callee.value in _TAKES:
                        _check_call(value, callee.value)
                elif value.op == "getitem":
                    index = guard(get_definition, state.func_ir, value.index)
                    if isinstance(index, ir.Const) and isinstance(index.value, bool):
                        raise TypingError("an index is an int; write int(...) for the bool", value.loc)
        return True


def _check_call(value: Any, callee: Any) -> None:
    """Put keywords in their places; refuse those that have none, and a wrong number of arguments."""
    name, (least, most) = callee.__name__, _TAKES[callee]
    given = dict(value.kws)
    order = _NAMES.get(callee, ())[len(value.args) :]
    if value.vararg is not None:
        if callee in (range, zip):  # Numba's take it
            return
        raise TypingError(f"`{name}` takes no `*` in row functions; write every argument", value.loc)
    if set(given) - set(order):
        raise TypingError(f"`{name}` takes no keyword `{min(set(given) - set(order))}` in row functions", value.loc)
    value.args, value.kws = (*value.args, *(given[key] for key in order if key in given)), ()
    if order[: len(given)] != tuple(key for key in order if key in given) or not least <= len(value.args):
        raise TypingError(f"`{name}` takes at least {least} argument{'s' * (least > 1)}", value.loc)
    if most is not None and len(value.args) > most:
        raise TypingError(f"`{name}` takes at most {most} argument{'s' * (most > 1)}", value.loc)
