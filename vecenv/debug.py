"""What went wrong, in the author's terms: which row, which line, and Numba's typing errors as a sentence."""

from __future__ import annotations

import contextlib
import linecache
import re
import traceback
from collections.abc import Iterator
from pathlib import Path

from numba.core.errors import NumbaError

from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.jit import Binder, BindError
from vecenv.kernels.row import __file__ as ROW_FILE


@contextlib.contextmanager
def replay_to_find_row(row: int) -> Iterator[None]:
    """Steps of `row` as plain Python: an IndexError comes out with the row, the author's file and line."""
    try:
        yield
    except IndexError as found:
        author = [frame for frame in traceback.extract_tb(found.__traceback__) if frame.filename != ROW_FILE][-1]
        where = f'{author.name} (file "{author.filename}", line {author.lineno})'
        raise IndexError(f"row {row}: {found} in {where}; no row has moved") from found


# --- Numba's typing errors --------------------------------------------------------------------------------------------

_PLACE = re.compile(r"(?:typing of [^\n]*?|lowering \"[^\n]*\") at ([^\n]+?) \((\d+)\)")
_OWN_REASON = re.compile(r"(?:TypingError|NumbaError|LoweringError): ([^\n]+)\n\s+raised from")
_SOURCE = re.compile(r'File "([^"\n]+)", line (\d+)')
_UNIMPLEMENTED = re.compile(r"No implementation of function Function\(<(?:built-in )?(?:function|class) '?(\w+)")
#: What Numba says, and what it means to somebody who wrote a row function.
_SENTENCES = (
    (r"Cannot cast .* to Cells.*", "an array field is written by element: `field[...] = v`, or fill(v), copy_from(c)"),
    (r"Cannot cast (.*?) to (\w+)(?::.*|$)", r"\1 is no \2: only numbers and bools can be stored"),
    (r"Invalid use of getiter with parameters \(Cells\)", "loop over an array by index: `for i in range(len(a))`"),
    (r"failed to unpack Cells", "an array is not unpacked; write `a[0], a[1]`"),
    (r"too many positional arguments", "too many arguments; methods of rng give one value, without `size`"),
    (
        r"Invalid use of getiter with parameters \(Tuple\((.*)\)\)",
        r"a tuple of (\1) cannot be looped over; give all its elements one type: 1.0 for 1",
    ),
    (r"Invalid use of getiter with parameters \((.*)\)", r"\1 cannot be looped over"),
    (r"Invalid use of (\w+)\(int64 x \d+\) with parameters .*", r"\1 makes no members; compare numbers with \1's"),
    (r"No conversion from Tuple\(.*", "tuples have no methods here; loop over them"),
    (r"Unknown attribute '(?:value|name)' of type int64", "a member of an IntEnum is its number already"),
    (r"Invalid use of (\w+) with parameters \(.*", r"\1 is not a function that can be called"),
    (r"\('wrong tuple length for .*', 'expected (\d+), got (\d+)'\)", r"\1 names for a tuple of \2 parts"),
    (r"Cannot bind .* to signature '(.*)' due to \"TypeError: (.*)\"\.", r"the function takes \1: \2"),
    (r"Type of variable '.*", "a value has no type here: is it set on every path before?"),
    (r"Can't unify return type from the following types: (.*)", r"`return` gives different types: \1"),
    (r"Cannot unify (.*) and (.*) for '(\w+)(?:\.\d+)?', defined.*", r"`\3` is \1 on one path and \2 on another"),
    (r"Cannot unify (.*) and (.*) for '.*", r"a value is \1 on one path and \2 on another"),
    (r"Unknown attribute '(\w+)' of type vecenv\.\w*Rng", r"rng has no method '\1'"),
    (r"Unknown attribute '(\w+)' of type (.*)", r"\2 has no attribute '\1'"),
    (r"Cannot resolve setattr: \((.*)\)\.(\w+) = .*", r"\1 has no field '\2' that can be written"),
)
#: What authors wrote for what Numba calls these.
_WRITTEN = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "matmul": "@", "pow": "**",
    "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "invert": "~", "neg": "-", "pos": "+",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "contains": "in", "truth": "bool",
    "getitem": "[]", "setitem": "[] =", "delitem": "del", "static_getitem": "[]", "static_setitem": "[] =",
    "to_int": "int", "to_float": "float", "round_even": "round", "minimum": "min", "maximum": "max",
}  # fmt: skip
_ADVICE = {
    "round": "`round(x)` takes one number; for two decimals write `round(x * 100) / 100`",
    "min": "`min` takes two or more numbers, `min(a, b)`, and no tuple or array",
    "max": "`max` takes two or more numbers, `max(a, b)`, and no tuple or array",
    "int": "`int(x)` takes one number",
    "float": "`float(x)` takes one number",
}


def explain_typing_error(error: Exception, definition: EnvDef) -> BindError:
    """A compiler's error as a BindError with the author's file and line and a plain sentence."""
    text = str(error) if isinstance(error, NumbaError) else f"Numba cannot compile this: {error!r}"
    engine = Path(ROW_FILE).parent
    found = sorted([*_PLACE.finditer(text), *_SOURCE.finditer(text)], key=lambda match: match.start())
    places = [(match[1], int(match[2])) for match in found]
    places = [(_absolute(file), line) for file, line in places if Path(file).resolve().parent != engine]
    lines = [line.strip() for line in text.splitlines()]
    reason = next((line for line in lines if line and not line.startswith("Failed in ")), text)
    own = _OWN_REASON.search(text)
    if own is not None and own[1].startswith("All arguments must be Sets"):  # Numba's last try of `==` and `&`
        own = None
    if own is None and (call := _UNIMPLEMENTED.match(reason)) is not None:
        signature = next((line for line in lines if line.startswith(">>> ")), "")
        reason = _unimplemented(_written(call[1]), _without_types(signature))
    else:
        reason = _without_types(reason if own is None else own[1])
        for pattern, sentence in _SENTENCES:
            reason, count = re.subn(pattern, sentence, reason, flags=re.DOTALL)
            if count:
                break
    code = definition.step.__code__
    file, line = places[0] if places else (code.co_filename, code.co_firstlineno)
    if ":=" in linecache.getline(file, line):
        reason = "`:=` does not work here; assign on a line of its own"
    return BindError(f'{definition.id}: {_function_at(definition, file, line)} (file "{file}", line {line}): {reason}')


def _written(name: str) -> str:
    """What the author wrote where Numba says `add`, `iadd` or `round_even`."""
    in_place = name[0] == "i" and name[1:] in _WRITTEN
    return f"{_WRITTEN[name[1:]]}=" if in_place else _WRITTEN.get(name, name)


def _unimplemented(written: str, signature: str) -> str:
    """What to say of an operation without an implementation; `signature` is Numba's `>>> add(Cells, int64)`."""
    types = re.sub(r"^>>> \w+\(|\)$", "", signature)
    if written in ("int", "float") and types == "str":
        return (
            f"`{written}(x)` takes a number and no text; write the number, import inf or nan from vecenv.kernels.math, "
            "or name it above the function: `INF = float('inf')`"
        )
    if written in _ADVICE:
        return _ADVICE[written]
    if written == "[]" and re.search(r"Tuple\(.*\), bool$", types):
        return "an index is an int; write int(...) for the bool"
    if written in ("[]", "in") and (mixed := re.match(r"Tuple\(([^()]*)\), ", types)):
        return f"`{written}` does not work on a tuple of ({mixed[1]}); give all its elements one type: 1.0 for 1"
    if "Cells" in types and written not in ("[]", "[] ="):
        return f"`{written}` does not work on whole arrays; loop over the elements: `for i in range(len(a))`, `a[i]`"
    return f"`{written}` does not work on ({types})"


def _absolute(file: str) -> str:
    """A file as an editor finds it; code from a prompt or a notebook has none, but a name such as <stdin>."""
    return file if file.startswith("<") else str(Path(file).resolve())


def _function_at(definition: EnvDef, file: str, line: int) -> str:
    """The name of the author's function that has this line."""
    roots = [definition.reset, definition.step, definition.observe, definition.info, definition.action_mask]
    if (model := definition.model) is not None:
        roots += [model.encode, model.decode, model.outcomes, model.start]
    binder = Binder("portable", compiled=False, replace=definition.functions, frozen=definition.frozen)
    for root in roots:
        if root is not None:
            binder.clone(root)
    for function in binder.functions:
        code = function.__code__
        lines = [number for _, _, number in code.co_lines() if number is not None]
        if _absolute(code.co_filename) == _absolute(file) and min(lines) <= line <= max(lines):
            return function.__name__
    return "a row function"


def _without_types(text: str) -> str:
    """Numba's names of our types, each a paragraph long, as words."""
    words = {"Row": "the state", "Cells": "Cells", "Record": "this", "Element": "a param"}
    for name, word in words.items():
        while (start := text.find(f"{name}(")) >= 0:
            depth, end = 0, start + len(name)
            for end in range(start + len(name), len(text)):
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                if depth == 0:
                    break
            text = text[:start] + f"<{word}>" + text[end + 1 :]
    text = re.sub(r"<(the state|Cells|this|a param)>", r"\1", text)
    text = re.sub(r"Literal\[(\w+)\]\([^()]*\)", r"\1", text).replace("unicode_type", "str")
    text = re.sub(r"(got|cast) none\b", r"\1 None", text)
    text = re.sub(r"Function\(<function (\w+) at \w+>\)", lambda found: f"`{_written(found[1])}`", text)
    return re.sub(r"Uni(Tuple\((\w+) x \d+\))", r"\1", text)
