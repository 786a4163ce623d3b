"""The one place that compiles.

`@jit` marks a row function and leaves it plain Python. `Binder` clones a tree of marked functions, once for Numba and
once for plain Python, with the math of one kind in place of `kernels.math` and the functions of one definition in place
of a template's. `@kernel` compiles a standalone batch function.

Numba's disk cache looks at a function's bytecode and closure, not at its globals, its options or other files. So every
compiled function gets a cache folder named by a digest of all it is made of: two bindings of one template never meet,
and editing a helper or a constant compiles again.
"""

from __future__ import annotations

import builtins
import dis
import enum
import functools
import hashlib
import importlib
import inspect
import os
import re
import sys
import tempfile
import threading
import types
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import llvmlite
import numba
import numpy as np
from numba.core.compiler import Compiler

from vecenv.kernels.builtin_calls import INSTEAD
from vecenv.kernels.inlining import InlineCompiler
from vecenv.kernels.never_raises import BatchCompiler
from vecenv.kernels.operators import TEXT, AuthorCompiler, CheckedAuthorCompiler
from vecenv.kernels.soa import compute_dtype
from vecenv.kernels.stored import StoredCache

F = TypeVar("F", bound=Callable[..., Any])

#: error_model="numpy": the default division check costs 5x; nogil: threads run kernels side by side.
NUMBA_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}

DISABLED = bool(numba.config.DISABLE_JIT)


def inline(function: F, pipeline_class: type[InlineCompiler] = InlineCompiler, **options: Any) -> Any:
    """A compiled function that is always inlined into its caller; it cannot be called from Python.

    Without forced inlining LLVM leaves a `step` out of line: 44 M steps per second instead of 295 M.
    """
    return numba.njit(**NUMBA_OPTIONS, forceinline=True, pipeline_class=pipeline_class, **options)(function)


def jit(function: F) -> F:
    """Mark `function` as callable from row functions. Called directly it is plain Python."""
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"@jit marks a plain function, got {function!r}")
    function.__vecenv_jit__ = True  # type: ignore[attr-defined]
    return function


def is_jit(function: Any) -> bool:
    return getattr(function, "__vecenv_jit__", False) is True


class BindError(TypeError):
    """An author's function uses something that a row function cannot; the message names file and line."""


# --- what a function reads --------------------------------------------------------------------------------------------

_NUMPY_ALLOWED = frozenset(["pi", "e", "inf", "nan"])
_MATH_ALLOWED = frozenset(["pi", "e", "tau", "inf", "nan"])
_BUILTINS_ALLOWED = frozenset({abs, len, range, bool, enumerate, zip, tuple})


@jit
def _divmod(a, b):  # type: ignore[no-untyped-def]
    return a // b, a % b


class _Range:
    """`range` of int64."""

    def __init__(self, *limits: int) -> None:
        self._range = range(*limits)

    def __len__(self) -> int:
        return len(self._range)

    def __iter__(self) -> Iterator[np.int64]:
        return map(np.int64, self._range)


#: In plain Python too, what counts is int64: Python's ints have no size, and divided by zero they raise.
_COUNTING: dict[Any, Callable[..., Any]] = {
    len: lambda sized: np.int64(len(sized)),
    range: _Range,
    enumerate: lambda iterable, start=0: ((np.int64(k), item) for k, item in enumerate(iterable, start)),
}


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those nested in it (comprehensions, lambdas)."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _where(code: types.CodeType, line: int | None) -> str:
    return f'{code.co_name} (file "{code.co_filename}", line {line or code.co_firstlineno})'


def _instructions(code: types.CodeType) -> Iterator[tuple[dis.Instruction, int | None]]:
    line = None
    for instruction in dis.get_instructions(code):
        if instruction.positions is not None and instruction.positions.lineno is not None:
            line = instruction.positions.lineno
        yield instruction, line


#: What stops or shows a row in plain Python, and does nothing when compiled.
_DEBUGGING = {"print": print, "breakpoint": breakpoint}


def without_debugging(function: types.FunctionType) -> types.CodeType:
    """The code without its statements `print(...)` and `breakpoint()`: instructions that do nothing in their place."""
    code = function.__code__
    if not any(_is_debugging(function, name) for name in code.co_names):
        return code
    instructions = list(dis.get_instructions(code))
    words = bytearray(code.co_code)
    for k, instruction in enumerate(instructions):
        if instruction.opname not in ("LOAD_GLOBAL", "LOAD_NAME") or not _is_debugging(function, instruction.argval):
            continue
        first = k
        while instructions[first - 1].opname in ("EXTENDED_ARG", "PUSH_NULL"):
            first -= 1
        end = _end_of_statement(instructions, k)
        if end is not None:
            start, stop = instructions[first].offset, instructions[end].offset + 2
            words[start:stop] = bytes([dis.opmap["NOP"], 0]) * ((stop - start) // 2)
    return code.replace(co_code=bytes(words))


def _is_debugging(function: types.FunctionType, name: str) -> bool:
    return name in _DEBUGGING and name not in function.__globals__


def _end_of_statement(instructions: Sequence[dis.Instruction], k: int) -> int | None:
    """Where the result of the call that begins with instruction `k` is dropped; None if it is used."""
    called: Any = None
    for end in range(k + 1, len(instructions)):
        name, at = instructions[end].opname, instructions[end].positions
        if name == "POP_TOP" and called is not None:
            return None if instructions[end].is_jump_target else end  # `a and print(a)` comes here without a call
        if name not in ("CACHE", "EXTENDED_ARG"):
            # A call is where its name is, and goes on to its closing bracket.
            called = at if name.startswith("CALL") and _begins_with(at, instructions[k].positions) else None
    return None


def _begins_with(call: Any, name: Any) -> bool:
    return bool((call.lineno, call.col_offset) == (name.lineno, name.col_offset))


#: Instructions that make or change a list, a set or a dict.
_CONTAINERS = frozenset(
    ["BUILD_LIST", "BUILD_SET", "BUILD_MAP", "BUILD_CONST_KEY_MAP", "LIST_EXTEND", "LIST_APPEND", "SET_ADD", "MAP_ADD"]
)


def refuse_forbidden(whole: types.CodeType) -> None:
    """Raise a BindError where a row function raises, slices, imports, yields, writes globals or uses `**`."""
    if whole.co_kwonlyargcount:
        words = "arguments after `*` are not possible in row functions; leave the `*` out"
        raise BindError(f"{_where(whole, None)}: {words}")
    if whole.co_flags & inspect.CO_VARKEYWORDS:
        raise BindError(f"{_where(whole, None)}: `**` arguments are not possible in row functions; name them")
    for code in _codes(whole):
        for instruction, line in _instructions(code):
            if instruction.opname in ("RAISE_VARARGS", "LOAD_ASSERTION_ERROR"):  # pytest makes lists of an assert
                words = "`raise` and `assert` are not possible in row functions: a batch cannot stop in the middle"
                raise BindError(f"{_where(code, line)}: {words}")
        for instruction, line in _instructions(code):
            name = instruction.opname
            problem = None
            if name == "BINARY_OP" and instruction.argrepr in ("**", "**="):
                problem = "`**` rounds differently when compiled; use square(x) or pow(x, y) of vecenv.kernels.math"
            elif name in ("BUILD_SLICE", "BINARY_SLICE", "STORE_SLICE"):
                problem = "slices are not possible in row functions; index single elements, or use fill and copy_from"
            elif name == "IMPORT_NAME":
                problem = "imports belong to the top of the module"
            elif name in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                problem = f"`global {instruction.argval}` cannot be written; keep values in the state"
            elif name.startswith("DELETE_"):
                problem = "`del` is not possible in row functions; a name may be given another value of its type"
            elif name in ("UNPACK_EX", "MATCH_SEQUENCE", "MATCH_MAPPING", "MATCH_CLASS"):
                problem = "patterns and `*` in assignments are not possible in row functions; name every part"
            elif name in ("BEFORE_WITH", "PUSH_EXC_INFO"):
                problem = "`with` and `try` are not possible in row functions; nothing can be raised there"
            elif isinstance(instruction.argval, complex):
                problem = "complex numbers are not possible in row functions; keep two floats"
            elif name in _CONTAINERS or isinstance(instruction.argval, frozenset):
                problem = "lists, sets and dicts are not possible in row functions; use tuples, or an Array field"
            elif name in ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "BUILD_STRING"):
                problem = TEXT
            elif name == "MAKE_FUNCTION":
                problem = "functions, lambdas and comprehensions are not possible in row functions; use @jit helpers"
            elif name in ("YIELD_VALUE", "RETURN_GENERATOR"):
                problem = "generators and async functions are not possible in row functions"
            elif name == "LOAD_CONST" and (huge := _beyond_int64(instruction.argval)) is not None:
                problem = f"{huge} does not fit int64; row functions compute with int64"
            if problem:
                raise BindError(f"{_where(code, line)}: {problem}")


def has_loops_or_lookups(function: types.FunctionType) -> bool:
    """Whether a function loops or indexes with anything but a constant.

    A function that does neither may run on any values: that is what lets a batched loop compute rows it will discard.
    """
    for code in _codes(function.__code__):
        previous = ""
        for instruction, _ in _instructions(code):
            if instruction.opname == "FOR_ITER" or "JUMP_BACKWARD" in instruction.opname:  # 3.11 has six of the latter
                return True
            is_lookup = "SUBSCR" in instruction.opname or instruction.argrepr == "[]"
            if is_lookup and previous not in ("LOAD_CONST", "LOAD_SMALL_INT"):
                return True
            if instruction.opname not in ("CACHE", "EXTENDED_ARG"):
                previous = instruction.opname
    return False


def reads_argument(function: types.FunctionType, position: int) -> bool:
    """Whether a function's code mentions its argument number `position`."""
    name = function.__code__.co_varnames[position]
    for code in _codes(function.__code__):
        for instruction, _ in _instructions(code):
            value = instruction.argval
            if value == name or (isinstance(value, tuple) and name in value):
                return True
    return False


_GLOBALS, _FREE = frozenset(["LOAD_GLOBAL", "LOAD_NAME"]), frozenset(["LOAD_DEREF"])


def _reads(code: types.CodeType, how: frozenset[str] = _GLOBALS) -> Iterator[tuple[str, str | None, int | None]]:
    """(name, attribute read from it or None, line) for every global, or other outer name, that the code reads."""
    for nested in _codes(code):
        pending: tuple[str, int | None] | None = None
        for instruction, line in _instructions(nested):
            if pending is not None and instruction.opname != "CACHE":
                is_attribute = instruction.opname in ("LOAD_ATTR", "LOAD_METHOD")
                yield pending[0], instruction.argval if is_attribute else None, pending[1]
                pending = None
            if instruction.opname in how:
                pending = (instruction.argval, line)


def global_names(roots: Iterable[types.FunctionType], replace: Mapping[str, Any]) -> set[str]:
    """Names of all globals that a tree of `@jit` functions reads, where `replace` stands for some of them."""
    names: set[str] = set()
    seen: set[types.FunctionType] = set()
    waiting = list(roots)
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        reads = {name for name, _, _ in _reads(function.__code__)}
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        values = [replace.get(name, function.__globals__.get(name)) for name in reads]
        waiting += filter(is_jit, values + cells)
        names |= reads
    return names


# --- digests ----------------------------------------------------------------------------------------------------------


def _describe_code(code: types.CodeType) -> list[Any]:
    constants = [_describe_code(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return [code.co_code.hex(), constants, code.co_names, code.co_varnames, code.co_freevars, code.co_flags]


def _describe_constant(value: Any) -> Any | None:
    """A stable description of a constant that compiled code may freeze, or None if it is something else."""
    if isinstance(value, type) and issubclass(value, enum.IntEnum):
        return ["enum", [(member.name, int(member)) for member in value]]
    if isinstance(value, (bool, int, float, str, np.generic)):
        return [type(value).__name__, repr(value)]
    if isinstance(value, tuple):
        parts = [_describe_constant(part) for part in value]
        return None if None in parts else ["tuple", getattr(value, "_fields", None), parts]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return [
            "array",
            value.dtype.str,
            value.shape,
            hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest(),
        ]
    return None


def _widen_constant(value: Any, compiled: bool) -> Any:
    """A constant as a row function reads it: NumPy scalars and elements of arrays as bool, int64 or float64.

    Otherwise `uint8 + uint8` would wrap in Python and not when compiled. In plain Python numbers are NumPy's as well:
    Python's own do not wrap, and raise where IEEE has an answer.
    """
    if isinstance(value, tuple):
        parts = [_widen_constant(part, compiled) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "biuf":
        return value.astype(compute_dtype(value.dtype))
    if isinstance(value, enum.IntEnum):
        value = int(value)
    if not compiled and type(value) in (int, float):
        return np.int64(value) if isinstance(value, int) else np.float64(value)
    return value


def _kept(value: Any) -> Any:
    """A constant that stays as it is, whatever happens to the array it was."""
    if isinstance(value, tuple):
        parts = [_kept(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
    return value


def _as_numbers(members: type[enum.IntEnum], compiled: bool) -> Any:
    """An IntEnum as a named tuple: its members are int64 like all ints, compiled and in plain Python."""
    names = members.__members__
    for name, member in names.items():
        if name.startswith("_") or _beyond_int64(int(member)) is not None:
            problem = f"is {int(member)}, which does not fit int64"
            words = "begins with an underscore" if name.startswith("_") else problem
            raise BindError(f"{members.__name__}.{name} {words}; row functions cannot read this IntEnum")
    return namedtuple(members.__name__, names)(*(_widen_constant(int(value), compiled) for value in names.values()))


def _beyond_int64(value: Any) -> int | None:
    """An int, or one in a tuple, that int64 cannot hold."""
    if isinstance(value, tuple):
        return next((huge for part in value if (huge := _beyond_int64(part)) is not None), None)
    if isinstance(value, int | np.integer) and not -(2**63) <= value < 2**63:
        return int(value)
    return None


def _with_wide_constants(code: types.CodeType) -> types.CodeType:
    """The same code with NumPy's numbers for literals."""
    constants = [
        _with_wide_constants(constant) if isinstance(constant, types.CodeType) else _widen_constant(constant, False)
        for constant in code.co_consts
    ]
    return code.replace(co_consts=tuple(constants))


@functools.cache
def engine_digest() -> str:
    """Hash of what every kernel depends on: the versions that compile it and the sources of the compiled layer."""
    state = hashlib.sha256()
    options = [NUMBA_OPTIONS, numba.config.BOUNDSCHECK]
    for part in (numba.__version__, llvmlite.__version__, np.__version__, sys.version, repr(options)):
        state.update(part.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        state.update(path.name.encode() + path.read_bytes())
    return state.hexdigest()


# --- binding ----------------------------------------------------------------------------------------------------------


class Binder:
    """Clones trees of `@jit` functions for one kind of math, compiled or not.

    Args:
        math: "portable" or "libm".
        compiled: True for Numba, False for plain Python with the same bits.
        replace: global names that mean something else in every author's function of the tree (`EnvDef(functions=...)`).
            Values that are `@jit` functions are cloned too; anything else is used as it is and must be described by
            `salt`.
        salt: what the digest must know about the values in `replace` and `bound`.
        bound: the same for the functions of some modules, those of templates, and for them only: an author's helper may
            have the name of an accessor.
        modules: globals of these modules.
        frozen: what names meant when they were first read, by (function, name): later bindings of one definition read
            the same, whatever a notebook has assigned since. It is added to.
        checked: an index outside a tuple raises; else it is undefined.
        inlined: compiled clones of binders for the same math and checking: a function that reads the same objects as
            one of them is the same, and not compiled again. It is added to.
    """

    def __init__(
        self,
        math: str,
        compiled: bool,
        replace: Mapping[str, Any] | None = None,
        salt: Any = None,
        bound: Mapping[str, Any] | None = None,
        modules: Sequence[Mapping[str, Any]] = (),
        frozen: dict[Any, Any] | None = None,
        checked: bool = False,
        inlined: dict[Any, Any] | None = None,
    ) -> None:
        self.math, self.compiled = math, compiled and not DISABLED
        self.replace, self.bound, self.modules = dict(replace or {}), dict(bound or {}), modules
        self.frozen, self.checked = {} if frozen is None else frozen, checked
        self._inlined = {} if inlined is None else inlined
        self._descriptions: list[Any] = [math, repr(salt)]
        self._clones: dict[types.FunctionType, Any] = {}

    @property
    def functions(self) -> list[types.FunctionType]:
        """All functions cloned so far."""
        return list(self._clones)

    def digest(self) -> str:
        text = engine_digest() + repr(self._descriptions)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def constants(self) -> list[str]:
        """The numbers, tuples, enums and arrays that the functions cloned so far read by name, sorted.

        Unlike the digest they are the same in every version of Python.
        """
        found = set()
        for _, defaults, reads in self._descriptions[2:]:
            found |= {repr((name, what)) for name, _, what in reads if isinstance(what, list) and what[0] != "jit"}
            found |= {repr(what) for what in defaults}
        return sorted(found)

    def clone(self, function: types.FunctionType) -> Any:
        """The function with every global it reads resolved; compiled (inlined into its caller) if asked for."""
        if function not in self._clones:
            self._clones[function] = None  # marks a function that is being cloned
            python = self.clone_python(function)
            self._clones[function] = self._compile(function, python) if self.compiled else python
        elif self._clones[function] is None:
            raise BindError(f"{_where(function.__code__, None)}: recursion is not possible in row functions")
        return self._clones[function]

    def _is_authors(self, function: types.FunctionType) -> bool:
        return not any(function.__globals__ is module for module in self.modules)

    def _compile(self, function: types.FunctionType, python: types.FunctionType) -> Any:
        reads = [*python.__globals__.values(), *(python.__defaults__ or ())]
        reads += [cell.cell_contents for cell in python.__closure__ or ()]
        key = function, *map(id, reads)  # what is kept keeps them alive; six kernels: 54 functions instead of 131
        if key not in self._inlined:
            self._inlined[key] = self._inline(function, python)
        return self._inlined[key]

    def _inline(self, function: types.FunctionType, python: types.FunctionType) -> Any:
        if not self._is_authors(function):
            return inline(python)
        if self.checked:
            return inline(python, CheckedAuthorCompiler, boundscheck=True)  # for arrays read by name
        return inline(python, AuthorCompiler)

    def _clone_described(self, function: Any) -> tuple[Any, Any]:
        """The clone, and which of all clones it is: two names may swap what they stand for."""
        return self.clone(function), ["jit", list(self._clones).index(function)]

    def clone_python(self, function: types.FunctionType) -> types.FunctionType:
        code = without_debugging(function)
        refuse_forbidden(code)
        if not self.compiled:
            code = function.__code__
        # Numba's cache imports the module of what it loads; an author's may have no importable name, or another today.
        module = __name__ if self.compiled else function.__module__
        namespace: dict[str, Any] = {"__name__": module, "__builtins__": builtins}
        reads: list[Any] = []
        for name, attribute, line in _reads(code):
            value, description = self._resolve(function, name, attribute, line)
            reads.append((name, attribute, description))
            namespace[name] = self._readable(namespace.get(name), value, attribute)
        cells = []
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            outer = self.frozen.setdefault((function, "closure", name), _kept(cell.cell_contents))
            found: Any = None
            uses = [read[1:] for read in _reads(code, _FREE) if read[0] == name]
            for attribute, line in uses or [(None, None)]:  # a nested function's own use is none of these
                value, description = self._resolve_value(function, name, outer, attribute, line)
                reads.append((name, "closure", description))
                found = self._readable(found, value, attribute)
            cells.append(types.CellType(found))
        given = function.__defaults__ or ()
        for value in given:
            if value is not None and _describe_constant(value) is None:
                words = f"a default is {value!r:.80}; defaults are numbers, tuples and small arrays"
                raise BindError(f"{_where(code, None)}: {words}")
        described = [_describe_constant(value) or repr(value) for value in given]
        self._descriptions.append([_describe_code(code), described, reads])
        if (huge := _beyond_int64(given)) is not None:
            raise BindError(f"{_where(code, None)}: {huge} does not fit int64; row functions compute with int64")
        if self._is_authors(function):
            code = code if self.compiled else _with_wide_constants(code)
            given = _widen_constant(given, self.compiled)
        clone = types.FunctionType(code, namespace, function.__name__, given, tuple(cells))
        clone.__kwdefaults__ = function.__kwdefaults__
        clone.__qualname__ = function.__qualname__
        return clone

    def _readable(self, before: Any, value: Any, attribute: str | None) -> Any:
        """What a name stands for in a clone. In plain Python a module is the numbers read from it, NumPy's."""
        if not isinstance(value, types.ModuleType) or self.compiled:
            return value
        numbers = types.SimpleNamespace() if before is None else before
        setattr(numbers, attribute or "", _widen_constant(getattr(value, attribute or ""), False))
        return numbers

    def _resolve(
        self, function: types.FunctionType, name: str, attribute: str | None, line: int | None
    ) -> tuple[Any, Any]:
        replace = self.replace if self._is_authors(function) else self.bound
        if name in replace:
            value = replace[name]
            return self._clone_described(value) if is_jit(value) else (value, "replaced")
        if (function, name) in self.frozen:
            value = self.frozen[function, name]
        elif name in function.__globals__:
            if getattr(builtins, name, None) in _BUILTINS_ALLOWED and not callable(function.__globals__[name]):
                words = f"the constant {name!r} hides Python's `{name}`; give it another name"
                raise BindError(f"{_where(function.__code__, line)}: {words}")
            value = self.frozen[function, name] = _kept(function.__globals__[name])
        elif hasattr(builtins, name):
            value = getattr(builtins, name)
        else:
            raise BindError(f"{_where(function.__code__, line)}: name {name!r} is not defined")
        return self._resolve_value(function, name, value, attribute, line)

    def _resolve_value(
        self, function: types.FunctionType, name: str, value: Any, attribute: str | None, line: int | None
    ) -> tuple[Any, Any]:
        where = _where(function.__code__, line)
        math = importlib.import_module("vecenv.kernels.math")
        if is_jit(value):
            return self._clone_described(value)
        if (math_name := getattr(value, "__vecenv_math__", None)) is not None:
            return math.implementation(math_name, self.math, self.compiled), f"math {math_name}"
        if isinstance(value, types.BuiltinFunctionType | type):
            if value in math.BUILTINS:
                return math.implementation(math.BUILTINS[value], self.math, self.compiled), f"math {name}"
            if value is divmod:
                return self._clone_described(_divmod)
            if value in _BUILTINS_ALLOWED:
                is_counting = not self.compiled and self._is_authors(function)
                return _COUNTING.get(value, value) if is_counting else value, f"builtin {name}"
        if isinstance(value, type) and issubclass(value, enum.IntEnum):
            return _as_numbers(value, self.compiled), _describe_constant(value)
        if isinstance(value, types.ModuleType):
            return value, self._module_read(value, name, attribute, where)
        if (huge := _beyond_int64(value)) is not None:
            raise BindError(f"{where}: {name} is {huge}, which does not fit int64; row functions compute with int64")
        if (description := _describe_constant(value)) is not None:
            return _widen_constant(value, self.compiled), description
        if any(value is known for known in _DEBUGGING.values()):
            if not self.compiled:
                return value, f"builtin {name}"
            raise BindError(f"{where}: `{name}` is a statement of its own, which only plain Python runs")
        if isinstance(value, types.FunctionType):
            raise BindError(f"{where}: helper {name!r} is not marked; put @jit above `def {value.__name__}`")
        if getattr(value, "__module__", None) == "builtins" and getattr(value, "__name__", None) in INSTEAD:
            raise BindError(f"{where}: `{value.__name__}` is not possible in row functions; {INSTEAD[value.__name__]}")
        raise BindError(
            f"{where}: {name!r} is {value!r:.80}; row functions may read numbers, tuples, IntEnums and small arrays, "
            "and call @jit functions and those of vecenv.kernels.math"
        )

    def _module_read(self, module: types.ModuleType, name: str, attribute: str | None, where: str) -> Any:
        allowed = {"numpy": _NUMPY_ALLOWED, "math": _MATH_ALLOWED}.get(module.__name__)
        if allowed is not None:
            if attribute in allowed:
                return f"{module.__name__}.{attribute}"
            if isinstance(getattr(module, attribute or "", None), type):
                raise BindError(
                    f"{where}: `{name}.{attribute}` computes otherwise compiled than in Python; write int(x), "
                    "float(x), bool(x), or f32(x) of vecenv.kernels.math"
                )
            if attribute == "random":
                raise BindError(f"{where}: `{name}.random` is not possible in row functions; draw from `rng`")
            if not hasattr(importlib.import_module("vecenv.kernels.math"), attribute or ""):
                raise BindError(
                    f"{where}: `{name}.{attribute}` is not possible in row functions; there are numbers, the arrays of "
                    "fields, and the functions of vecenv.kernels.math"
                )
            raise BindError(
                f"{where}: `{name}.{attribute}` gives other bits on other machines or when vectorized; "
                f"import it from vecenv.kernels.math"
            )
        raise BindError(
            f"{where}: `{name}.{attribute}` is read through a module; write `from {name} import {attribute}`"
        )


# --- compiling with a disk cache --------------------------------------------------------------------------------------

_cache_lock = threading.Lock()


@functools.cache
def _writable_root(configured: str) -> Path | None:
    if configured:
        candidates = [Path(configured)]
    else:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        user = str(os.getuid()) if hasattr(os, "getuid") else "user"
        candidates = [Path(home) / "vecenv", Path(tempfile.gettempdir()) / f"vecenv-{user}"]
    for place in candidates:
        try:
            place.mkdir(parents=True, exist_ok=True)
            if not configured and hasattr(os, "getuid") and place.stat().st_uid != os.getuid():
                continue  # machine code of somebody else is not to be trusted
            with tempfile.TemporaryFile(dir=place):
                return place
        except OSError:
            continue
    warnings.warn(
        f"no writable cache folder ({', '.join(map(str, candidates))}): kernels compile again in every process; "
        "set NUMBA_CACHE_DIR to a writable folder",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def cache_root() -> Path | None:
    """Where compiled kernels are kept: `NUMBA_CACHE_DIR`, else the user's cache, else a temporary folder.

    None, with one warning, if no such place is writable.
    """
    return _writable_root(numba.config.CACHE_DIR or "")


def _stored(name: str) -> Path | None:
    """The configured cache folder if it has these kernels and cannot be written."""
    root = Path(numba.config.CACHE_DIR or "")
    if not numba.config.CACHE_DIR or os.access(root, os.W_OK) or not (root / name).is_dir():
        return None
    return root if any((root / name).rglob("*.nbc")) else None


def compile_cached(function: types.FunctionType, digest: str, label: str, may_raise: bool = True) -> tuple[Any, bool]:
    """A lazily compiled dispatcher, and whether its machine code is on disk already (under `label`-`digest`)."""
    if DISABLED:
        return function, True
    may_raise = may_raise or numba.config.BOUNDSCHECK
    dispatcher = numba.njit(**NUMBA_OPTIONS, pipeline_class=Compiler if may_raise else BatchCompiler)(function)
    name = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', label)}-{digest}"
    stored = _stored(name)
    root = stored or cache_root()
    if root is None:
        return dispatcher, False
    folder = root / name
    known = folder.is_dir() and any(folder.rglob("*.nbc"))
    with _cache_lock:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)
        try:
            if stored:
                dispatcher._cache = StoredCache(function)
            else:
                dispatcher.enable_caching()
        except (RuntimeError, OSError):
            pass  # a source without a file (zipped package): compiled again in every process
        finally:
            numba.config.CACHE_DIR = before
    return dispatcher, known


def kernel(function: F) -> F:
    """A standalone batch function (GAE, sum tree, dynamic programming): compiled on its first call, cached on disk."""
    if DISABLED:
        return function

    @functools.cache
    def compiled() -> Any:
        description = _describe_code(function.__code__)  # type: ignore[attr-defined]
        digest = hashlib.sha256((engine_digest() + repr(description)).encode()).hexdigest()[:24]
        return compile_cached(function, digest, function.__name__)[0]  # type: ignore[arg-type]

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return compiled()(*args)

    return call  # type: ignore[return-value]
