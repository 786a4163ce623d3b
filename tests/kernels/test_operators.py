"""Compiled row functions compute what the same functions do as plain Python, or are refused.

Oracle: NumPy's int64, float64 and bool scalars under CPython, on random programs over special values.
"""

from __future__ import annotations

import dis
import enum
import itertools
import linecache
import math
import random
import sys
import types
from typing import Any

import envs as e
import numba
import numpy as np
import pytest
from gymnasium import spaces
from numba.core.errors import TypingError

from vecenv import B1, F8, I8, Array, BindError, EnvDef, State, jit
from vecenv.kernels import math as kernels_math
from vecenv.kernels.jit import DISABLED, Binder, without_debugging
from vecenv.vec_env import VecEnv

EXPRESSIONS = 24

# --- random programs, by the kind of each expression ------------------------------------------------------------------

INTS = ("n", "m", "0", "1", "2", "3", "7", "63", "64", "-1", "5", "LARGE", "ODD", "LOWEST", "i", "len(c)")
FLOATS = ("x", "y", "0.0", "-0.0", "1.0", "0.5", "-2.5", "3.0", "1e308", "9007199254740992.0", "f")
BOOLS = ("p", "q", "True", "False", "b")
FUNCTIONS = ("sqrt", "floor", "square", "f32", "sign", "abs", "float", "exp", "atan", "ceil")


class Writer:
    """Writes random expressions in which every operator has operands of the kinds that it takes."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def write(self, kind: str, depth: int) -> str:
        if depth == 0:
            return self.draw.choice({"int": INTS, "float": FLOATS, "bool": BOOLS}[kind])
        while True:
            text = getattr(self, f"_{kind}")(depth - 1)
            folded = compile(text, "", "eval").co_consts  # CPython computes with literals, beyond int64 too
            if all(not isinstance(value, int) or -(2**63) <= value < 2**63 for value in folded):
                return text

    def _any(self, depth: int) -> str:
        return self.write(self.draw.choice(("int", "float", "bool")), depth)

    def _mixed(self, depth: int, of: str, operators: tuple[str, ...]) -> str:
        """A binary operator with one operand of a kind and the other of that kind or a narrower one."""
        narrower = {"int": ("int", "int", "bool"), "float": ("float", "float", "int", "bool")}[of]
        sides = [self.write(of, depth), self.write(self.draw.choice(narrower), depth)]
        self.draw.shuffle(sides)
        return f"({sides[0]} {self.draw.choice(operators)} {sides[1]})"

    def _int(self, depth: int) -> str:
        form = self.draw.randrange(10)
        if form < 4:
            return self._mixed(depth, "int", ("+", "-", "*", "//", "%", "&", "|", "^"))
        if form < 5:
            return f"({self.write('int', depth)} {self.draw.choice(('<<', '>>'))} {self.write('int', depth)})"
        a, b = self.write("int", depth), self.write("int", depth)
        return (
            f"({self.draw.choice('-~+')}{a})",
            f"{self.draw.choice(('min', 'max'))}({a}, {b})",
            f"({a} if {self.write('bool', depth)} else {b})",
            f"{self.draw.choice(('int', 'round', 'abs'))}({a})",
            f"{self.draw.choice(('int', 'round'))}({self.write('float', depth)})",
            f"int({self.write('bool', depth)})",
            f"divmod({a}, {b})[{self.draw.randrange(2)}]",
        )[self.draw.randrange(7)]

    def _float(self, depth: int) -> str:
        form = self.draw.randrange(10)
        if form < 5:
            return self._mixed(depth, "float", ("+", "-", "*", "/", "//", "%"))
        if form == 5:
            return f"({self.write('int', depth)} / {self.write('int', depth)})"
        a, b = self.write("float", depth), self.write("float", depth)
        return (
            f"(-{a})",
            f"{self.draw.choice(('min', 'max'))}({a}, {self.write(self.draw.choice(('float', 'int')), depth)})",
            f"({a} if {self.write('bool', depth)} else {b})",
            f"{self.draw.choice(FUNCTIONS)}({a})",
            f"float({self.write('int', depth)})",
        )[self.draw.randrange(5)]

    def _bool(self, depth: int) -> str:
        form = self.draw.randrange(6)
        if form < 3:
            comparison = self.draw.choice(("==", "!=", "<", "<=", ">", ">="))
            return f"({self._any(depth)} {comparison} {self._any(depth)})"
        a, b = self.write("bool", depth), self.write("bool", depth)
        return (
            f"({a} {self.draw.choice(('&', '|', '^', 'and', 'or', '==', '!='))} {b})",
            f"(not {a})",
            f"({self.write('int', depth)} < {self.write('int', depth)} <= {self.write('float', depth)})",
            f"bool({self._any(depth)})",
        )[self.draw.randrange(4)]

    def program(self) -> str:
        """`step`, with one random expression per element of the three outputs, some of them in loops."""
        lines = [
            "def program_step(state, action, params, rng):",
            "    n, m, x, y, p, q = state.n, state.m, state.x, state.y, state.p, state.q",
            "    c, i, f, b = state.ints, 0, 0.0, False",
            "    for j in range(3):",
        ]
        lines += [f"        {name} = {self.write(kind, 2)}" for name, kind in (("i", "int"), ("f", "float"))]
        lines += [f"        b = {self.write('bool', 2)}"]
        for array, kind in (("ints", "int"), ("reals", "float"), ("flags", "bool")):
            lines += [f"    state.{array}[{k}] = {self.write(kind, 1 + k % 4)}" for k in range(EXPRESSIONS)]
        return "\n".join([*lines, "    return 0.0, False\n"])


class ProgramState(State):
    n: I8
    m: I8
    x: F8
    y: F8
    p: B1
    q: B1
    ints: Array[I8, EXPRESSIONS]
    reals: Array[F8, EXPRESSIONS]
    flags: Array[B1, EXPRESSIONS]


@jit
def program_reset(state, params, rng):
    state.n = 0


@jit
def program_observe(state, params, obs):
    obs[0] = state.n


def definition(source: str, name: str, **names: Any) -> EnvDef:
    """An environment whose `step` is made of `source`, a file that errors and debuggers can show."""
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope = {word: getattr(kernels_math, word) for word in FUNCTIONS if hasattr(kernels_math, word)}
    scope |= {"__name__": __name__, "jit": jit, "LARGE": 2**62, "ODD": 2**53 + 1, "LOWEST": -(2**63), **names}
    exec(compile(source, file, "exec"), scope)
    return EnvDef(
        "Program-v0", ProgramState, e.NoParams, program_reset, jit(scope["program_step"]), program_observe,
        observation_space=spaces.Box(-np.inf, np.inf, (1,)), action_space=spaces.Discrete(1),
    )  # fmt: skip


SPECIAL_INTS = [0, 1, -1, 2, -3, 7, 63, 64, 65, -64, 2**31, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63)]
SPECIAL_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.7, 1e-310, 2.0**53, 2.0**63, -(2.0**63), 1e308, -1e308]
SPECIAL_FLOATS += [np.inf, -np.inf, np.nan]


def read(envs: VecEnv) -> dict[str, np.ndarray]:
    return {array: getattr(envs.state, array).copy() for array in ("ints", "reals", "flags")}


def signs(values: np.ndarray) -> np.ndarray:
    return np.signbit(values.astype(np.float64))


def assert_same_as_python(source: str, name: str, **names: Any) -> None:
    rows = 64
    values = random.Random(name)
    envs = VecEnv(definition(source, name, **names), rows)
    envs.reset(seed=0)
    for field, pool in (("n", SPECIAL_INTS), ("m", SPECIAL_INTS), ("x", SPECIAL_FLOATS), ("y", SPECIAL_FLOATS)):
        getattr(envs.state, field)[:] = values.choices(pool, k=rows)
    envs.state.p[:], envs.state.q[:] = values.choices((False, True), k=rows), values.choices((False, True), k=rows)
    before = envs.snapshot()
    envs.step(np.zeros(rows, np.int64))
    compiled = read(envs)
    envs.restore(before)
    for row in range(rows):
        envs.view(row).step(0, jit=False)
    for array, python in read(envs).items():
        expected = compiled[array]
        same = ((python == expected) & (signs(python) == signs(expected))) | (np.isnan(python) & np.isnan(expected))
        for row, k in np.argwhere(~same)[:1]:
            line = next(line.strip() for line in source.splitlines() if f"state.{array}[{k}] =" in line)
            fields = {field: getattr(envs.state, field)[row].item() for field in "nmxypq"}
            raise AssertionError(f"{line}: compiled {expected[row, k]}, Python {python[row, k]}, {fields}")


@pytest.mark.parametrize("seed", range(2))
def test_random_programs(seed, jit_only):
    assert_same_as_python(Writer(seed).program(), f"program-{seed}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_programs(seed, jit_only):
    assert_same_as_python(Writer(seed).program(), f"program-{seed}")


def called(function: Any) -> Any:
    """The compiled form, to be called from Python: by itself it has no address."""
    clone = Binder("portable", compiled=True).clone(function)
    return numba.njit(lambda *args: clone(*args))


# --- what has no common meaning is refused, with the line ------------------------------------------------------------

REFUSED = {
    "return (n == 1) + (n < 3)": "`+` on two bools; write int(...) to count, or & | ^ for logic",
    "return (n == 1) - p": "`-` on two bools",
    "return p * q": "`*` on two bools",
    "p += not q": "`+` on two bools",
    "return (not p) // q": "`//` on two bools",
    "return p / q": "`/` on two bools",
    "return p << 3": "`<<` of or by a bool; write int(...)",
    "return 3 >> p": "`>>` of or by a bool; write int(...)",
    "return -p": "`-` on a bool; write int(...), or `not` for the opposite",
    "return ~(n == 1)": "`~` on a bool; write int(...), or `not` for the opposite",
    "return abs(p)": "`abs` of a bool; write int(...)",
    "v = n\n  if p: v = 2.5\n  return v": (
        "`v` is an int on one path and a float on another; write float(...) for the int"
    ),
    "return n if p else 2.5": "a value is an int on one path and a float on another",
    "v = False\n  for k in range(3): v = v + (k == n)\n  return v": (
        "`v` is a bool on one path and an int on another; write int(...) for the bool"
    ),
    "v = p\n  if q: v = 2.5\n  return v": (
        "`v` is a bool on one path and a float on another; write float(...) for the bool"
    ),
    "if p: return n\n  return 0.5": "what is returned is an int on one path and a float on another; write float(...)",
    "if p: return n, 1\n  return 0.5, 2": "what is returned is an int on one path and a float on another",
    "v = 0\n  if p: v = 2.5\n  return v": "`v` is an int on one path and a float on another; write float(...)",
    "return 1 if p else 2.5": "a value is an int on one path and a float on another",
    "v = (0, (p, 0))\n  if q: v = (1, (n, 1))\n  return v[1][0]": "`v` is a bool on one path and an int on another",
    "v = None\n  if p: v = n\n  return 1 if v is None else 2": "is None on one path and not on another; give it a",
    "return [n, 5][0]": "lists, sets and dicts are not possible in row functions; use tuples, or an Array field",
    "return {n: 5}[1]": "lists, sets and dicts are not possible",
    "return x in {1, 2}": "lists, sets and dicts are not possible",
    "return [k for k in (1, 2)][0]": "functions, lambdas and comprehensions are not possible in row functions",
    "return apply(lambda a: a + 1, n)": "functions, lambdas and comprehensions are not possible in row functions",
    "v = f'{n}'\n  return 1": "text is not possible in row functions",
    "return n is 2 + n": "`is` between numbers; write ==",
    "t = 0\n  for k in range(x): t += k\n  return t": "`range` takes ints; write int(...)",
    "t = 0\n  for k in range(p): t += k\n  return t": "`range` takes ints; write int(...)",
    "t = 0\n  for k in range(0, 9, n): t += k\n  return t": "the step of `range` is a number written there, and not 0",
    "t = 0\n  for k in range(0, 9, 0): t += k\n  return t": "the step of `range` is a number written there, and not 0",
    "t = 0\n  for k in range(0, n, 2097152): t += k\n  return t": "the step of `range` is at most 2**20",
    "return len(range(n))": "`len` of a range; write max(stop - start, 0)",
    "return range(2, n).start": "`.start` of a range; row functions loop over ranges",
    "return (n, 3).index(5)": "`.index` of a tuple; row functions index and loop over tuples",
    "t = 0\n  for k in range(start=1, stop=3): t += k\n  return t": "`range` takes no keyword `start`",
    "t = 0\n  for a, b in zip((1, 2), (n, n), strict=True): t += a * b\n  return t": "`zip` takes no keyword `strict`",
    "t = 0\n  for k, v in enumerate((1, 2), iterable=(3, n)): t += k * v\n  return t": "`enumerate` takes no keyword",
    "t = 0\n  for k, v in enumerate(start=n): t += k * v\n  return t": "`enumerate` takes at least 1 argument",
    "t = 0\n  for k, v in enumerate((1, 2), n, 3): t += k * v\n  return t": "`enumerate` takes at most 2 arguments",
    "return bool()": "`bool` takes at least 1 argument",
    "return bool(x=n)": "`bool` takes no keyword `x`",
    "return len((1, n), 3)": "`len` takes at most 1 argument",
    "return len(*((1, n),))": "`len` takes no `*` in row functions",
    "return abs()": "`abs` takes at least 1 argument",
    "return (4, n)[True]": "an index is an int; write int(...) for the bool",
    "return ARRAY.sum()": "`.sum` of an array; row functions read arrays element by element",
    "return (ARRAY // n)[0]": "operators on whole arrays; row functions read arrays element by element",
    "return cfg.A": "`cfg.A` is read through a module; write `from cfg import A`",
    "if p: v = 2.5\n  return v": "`v` has no value on one path; give it one before",
    "for k in range(n): v = k\n  return v": "`v` has no value on one path; give it one before",
    "return (x, 1.0) == (1.0, x)": "tuples of floats are not compared",
    "return (n, (x, 1)) < (n, (x, 2))": "tuples of floats are not compared",
    "return x in (x, 1.0)": "tuples of floats are not compared",
    "a, b = MATRIX[n]\n  return a": "2 names for 3 elements",
    "a, b = ARRAY\n  return a": "2 names for 3 elements",
    "a, b, c = apply(lambda_, MATRIX)\n  return a": "only arrays that this function reads by name are unpacked",
    "return MAP[n] == 'G'": "text is not possible in row functions; use numbers, an IntEnum, or an array of numbers",
    "return MAP": "text is not possible in row functions",
    "return LETTERS[n]": "'LETTERS' is b'SFFH'; row functions may read numbers",
    "return len(WORDS)": "text is not possible in row functions",
    "return b'ABC'[n]": "text is not possible in row functions",
    "return ('a', 'b')[n] == 'a'": "text is not possible in row functions",
    "v = print(n)\n  return 1": "`print` is a statement of its own, which only plain Python runs",
    "p and print(n)\n  return 1": "`print` is a statement of its own, which only plain Python runs",
    "return starred(n)": "arguments after `*` are not possible in row functions",
    "return named(k=n)": "`**` arguments are not possible in row functions",
    "return with_dict(n)": "a default is {}; defaults are numbers, tuples and small arrays",
    "return with_function(n)": "a default is <function",
    "return Hidden.A": "Hidden._B begins with an underscore",
    "return Large.A": "Large.A is 18446744073709551616, which does not fit int64",
    "return n & 18446744073709551615": "18446744073709551615 does not fit int64",
    "return n & HUGE": "HUGE is 18446744073709551615, which does not fit int64",
    "return PAIRS[0][1]": "PAIRS is 9223372036854775808, which does not fit int64",
}


def starred(a, *, b=1):
    return a + b


def named(**numbers):
    return 1


def with_dict(a, b={}):  # noqa: B006
    return a


def with_function(a, b=starred):
    return a


class Hidden(enum.IntEnum):
    A = 1
    _B = 2


class Large(enum.IntEnum):
    A = 2**64


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_refused(body, jit_only):
    scope = {"HUGE": 2**64 - 1, "PAIRS": ((1, 2**63), (0, 0)), "ARRAY": np.arange(3), "apply": jit(lambda f, a: f(a))}
    scope |= {"MATRIX": np.zeros((4, 3), np.int64), "MAP": "SFFH", "LETTERS": b"SFFH", "WORDS": (1, "a")}
    scope |= {"starred": jit(starred), "named": jit(named), "lambda_": jit(lambda rows: rows[0])}
    scope |= {"with_dict": jit(with_dict), "with_function": jit(with_function), "Hidden": Hidden, "Large": Large}
    scope["cfg"] = types.ModuleType("cfg")
    scope["cfg"].A = 1
    exec(f"def f(n, x, p, q):\n  {body}\n", scope)
    with pytest.raises((BindError, TypingError)) as refused:
        called(jit(scope["f"]))(1, 1.5, True, False)
    assert REFUSED[body] in str(refused.value)


LOOPS = """
def f(n, m):
    t = 0
    for k, v in enumerate((3, n, m), start=1): t = t * 3 + k * v
    for k, v in enumerate(iterable=(3, n, m), start=n): t = t * 3 + k * v
    for k, v in enumerate(start=m, iterable=(3, n)): t = t * 3 + k * v
    for k, v in enumerate((3, n), m): t = t * 3 + k * v
    for k, v in enumerate(iterable=(3, n)): t = t * 3 + k * v
    for k, v in enumerate(range(*(1, 5)), 2): t = t * 3 + k * v
    for a, b, c in zip((1, n), range(5), enumerate((m, n), start=7)): t = t * 3 + a * b - c[0] * c[1]
    return t
"""


def test_loops_over_what_is_counted_by_name_or_place(jit_only):
    """Oracle: the same source without `@jit`."""
    scope: dict[str, Any] = {}
    exec(LOOPS, scope)
    plain, marked = scope["f"], jit(scope["f"])
    for n, m in ((0, 0), (2, 5), (-3, 11)):
        assert called(marked)(n, m) == Binder("portable", False).clone(marked)(n, m) == plain(n, m)


@pytest.mark.parametrize("step", [1, 2, 7, -1, -3, 2**20, -(2**20)])
def test_a_range_with_far_ends(step, jit_only):
    """Oracle: Python's `range`. The first five numbers and how many there are, up to five."""
    scope = {"STEP": step}
    loop = "  t, count = 0, 0\n  for k in {}:\n    t, count = t * 3 + k, count + 1\n    if count == 5: break\n"
    for name, call in (("two", "range(a, b)"), ("three", "range(a, b, STEP)"), ("one", "range(b)")):
        exec(f"def {name}(a, b):\n{loop.format(call)}  return t, count\n", scope)
    ends = [-(2**63), -(2**63) + 1, -(2**63) + 3, -(2**62) - 1, -4, -1, 0, 1, 4, 2**62 + 1, 2**63 - 3, 2**63 - 1]
    for name in ("two", "three", "one") if step == 1 else ("three",):
        compiled = called(jit(scope[name]))
        for a, b in itertools.product(ends, ends):
            numbers = list(range(0 if name == "one" else a, b, step)[:5])
            total = 0
            for k in numbers:
                total = (total * 3 + k + 2**63) % 2**64 - 2**63
            assert compiled(a, b) == (total, len(numbers)), (name, a, b)


def test_a_refusal_names_the_line(jit_only):
    source = """
def program_step(state, action, params, rng):
    state.n = helper(state)
    return 0.0, False

@jit
def helper(state):
    return state.p + state.q
"""
    words = r'helper \(file "<refused>", line 8\): `\+` on two bools'
    with pytest.raises(BindError, match=words):
        VecEnv(definition(source, "refused"), 1)


def test_whole_numbers_of_plain_python_have_64_bits():
    source = """
def program_step(state, action, params, rng):
    h = 5381
    for k in range(40):
        h = h * 33 + k
    state.ints[0] = h
    for k, size in enumerate((7, 0)):
        state.ints[1 + k] = len(state.ints) // size + k // size
        state.ints[3 + k] = len(state.ints) << 64 - k
    state.ints[5] = state.ints.shape[0] // k0(0)
    state.reals[0] = 1 / k0(0)
    state.reals[1] = 1.0 / k0(0.0)
    state.reals[2] = k0(0) % 0.0
    return 0.0, False

@jit
def k0(zero, one=1):
    return zero // one
"""
    assert_same_as_python(source, "numbers")


class Act(enum.IntEnum):
    UP = 0
    DOWN = 1
    LEFT = -1
    BIT = 64
    BIG = 2**62


def test_members_of_enums_are_int64():
    source = """
def program_step(state, action, params, rng):
    n, x = state.n, state.x
    state.ints[0] = n >> Act.BIT
    state.ints[1] = Act.DOWN << n
    state.ints[2] = 1 if n + Act.DOWN > n else 0
    state.ints[3] = n // Act.LEFT
    state.ints[4] = Act.BIG + Act.BIG
    state.ints[5] = Act.DOWN // Act.UP
    state.ints[6] = min(n, Act.DOWN) + int(Act.DOWN) + MOVES[Act.DOWN][Act.UP]
    state.ints[Act.DOWN + 6] = 7
    state.reals[0] = Act.DOWN / Act.UP
    state.reals[1] = x * Act.DOWN
    state.reals[2] = Act.BIG
    state.flags[0] = bool(Act.DOWN) and x > Act.DOWN
    return 0.0, False
"""
    assert_same_as_python(source, "enums", Act=Act, MOVES=((0, 1), (Act.LEFT, 0)))


def test_what_has_no_place_in_a_field_is_stored_the_same():
    """Literals, which a compiler folds: an undefined conversion would leave anything."""
    source = """
def program_step(state, action, params, rng):
    state.n = -INF
    state.ints[0] = INF
    state.ints[1] = INF if state.p else 3.0
    state.ints[2] = -1e20
    state.ints[3] = state.x
    state.ints[4] = 2.5
    if state.q:
        state.ints.fill(INF)
    return 0.0, False
"""
    assert_same_as_python(source, "stores", INF=np.inf)


def test_constants_of_defaults_and_modules_are_wide():
    source = """
@jit
def narrow(n, b=np.uint8(200), c=np.uint8(100), g=np.float32(0.1)):
    return b + c + n - n, g * g

def program_step(state, action, params, rng):
    state.ints[0], state.reals[0] = narrow(state.n)
    state.reals[1] = math.pi // (math.pi - math.pi) + np.pi
    return 0.0, False
"""
    assert_same_as_python(source, "defaults", np=np, math=math)


def test_an_index_outside_a_tuple_stops_no_batch(jit_only):
    """It is undefined, as outside an array; plain Python and checked indices name it."""
    source = """
MOVES = (10, 20, 30, 40)

def program_step(state, action, params, rng):
    state.m = MOVES[state.n]
    return 0.0, False
"""
    program = definition(source, "tuples")
    envs = VecEnv(program, 8)
    envs.reset(seed=0)
    envs.state.n[:] = [0, 1, 2, 3, -1, -4, 4, -5]
    envs.step(np.zeros(8, np.int64))
    assert envs.state.m[:6].tolist() == [10, 20, 30, 40, 40, 10]
    envs.step(np.zeros(8, np.int64))
    with pytest.raises(IndexError, match="tuple index out of range"):
        envs.view(6).step(0, jit=False)
    checked = VecEnv(program, 8, boundscheck=True)
    checked.reset(seed=0)
    checked.state.n[:] = [0, 1, 2, 3, -1, -4, 4, 0]
    before = e.checksum(checked)
    with pytest.raises(IndexError, match="row 6: tuple index out of range in program_step"):
        checked.step(np.zeros(8, np.int64))
    assert e.checksum(checked) == before
    checked.reset(seed=0)
    checked.step(np.zeros(8, np.int64))


def test_constants_stay_what_they_were_when_bound():
    """A notebook may assign a name again: every kernel of a definition goes on with the first value."""
    source = """
G = 1.25

def program_step(state, action, params, rng):
    state.x = G
    return 0.0, False
"""
    program = definition(source, "frozen")
    envs = VecEnv(program, 4)
    envs.reset(seed=0)
    program.step.__globals__["G"] = 7.5
    envs.step(np.zeros(4, np.int64))
    envs.step(np.zeros(2, np.int64), rows=[3, 1])
    envs.view(0).step(0, jit=False)
    assert envs.state.x.tolist() == [1.25] * 4
    later = VecEnv(program, 1, math="libm")
    later.reset(seed=0)
    later.step(np.zeros(1, np.int64))
    assert later.state.x.tolist() == [1.25]
    newer = VecEnv(definition(source.replace("1.25", "7.5"), "frozen-again"), 1)
    newer.reset(seed=0)
    newer.step(np.zeros(1, np.int64))
    assert newer.state.x.tolist() == [7.5]


def test_a_constant_array_is_checked_and_stays_as_it_was(jit_only):
    source = """
TABLE = np.array([10, 20, 30, 40])
MOVES = np.array([[1, 2], [3, 4]], np.int8)

def program_step(state, action, params, rng):
    a, b = MOVES[state.n & 1]
    state.m = TABLE[state.n] + a * b
    return 0.0, False
"""
    program = definition(source, "arrays", np=np)
    envs = VecEnv(program, 8, boundscheck=True)
    envs.reset(seed=0)
    envs.state.n[:] = [0, 1, 2, 3, -1, 2, 2**40, 0]
    before = e.checksum(envs)
    with pytest.raises(IndexError, match=f"row 6: index {2**40} is out of bounds .* line 7"):
        envs.step(np.zeros(8, np.int64))
    assert e.checksum(envs) == before
    with pytest.raises(IndexError, match="out of bounds"):
        envs.view(6).step(0, jit=False)
    program.step.__globals__["TABLE"][:] = 0
    program.step.__globals__["MOVES"][:] = 0
    envs.state.n[6] = 1
    before = envs.snapshot()
    envs.step(np.zeros(8, np.int64))
    assert envs.state.m.tolist() == [12, 32, 32, 52, 52, 32, 32, 12]
    envs.restore(before)
    for row in range(8):
        envs.view(row).step(0, jit=False)
    later = VecEnv(program, 8, math="libm")
    later.restore(before)
    later.step(np.zeros(8, np.int64))
    assert later.state.m.tolist() == envs.state.m.tolist() == [12, 32, 32, 52, 52, 32, 32, 12]


def test_a_kernel_that_could_raise_is_refused(jit_only):
    """Whatever the checks by type do not know is found in the optimized code."""
    source = """
def program_step(state, action, params, rng):
    for k in range(*(0, 5, state.n)):
        state.m += k
    return 0.0, False
"""
    words = r"program_step \(file \"<raising>\", line .\): this could raise ValueError: range\(\) arg 3"
    with pytest.raises(BindError, match=words):
        VecEnv(definition(source, "raising"), 1)


def test_negative_indices_of_fields_are_refused(jit_only):
    for index, statement in (("-1", "state.ints[-1] = 3"), ("-2", "state.n = state.ints[-2]")):
        source = f"\ndef program_step(state, action, params, rng):\n    {statement}\n    return 0.0, False\n"
        with pytest.raises(BindError, match=r"line 3.*no negative indices; write `a"):
            VecEnv(definition(source, f"negative{index}"), 1)


def test_print_and_breakpoint_run_in_plain_python_only(monkeypatch, capsys):
    """Oracle: pdb's own hook. Compiled kernels are those without the statements."""
    source = """
def program_step(state, action, params, rng):
    print("n is", state.n, f"and x {state.x:.2f}", end="!")
    breakpoint()
    if state.n > 0:
        print(state.n if state.p else helper(state.n))
    state.n += 1
    return 0.0, False

@jit
def helper(n):
    breakpoint(); print(n); return n
"""
    stops = []
    monkeypatch.setattr("sys.breakpointhook", lambda: stops.append(sys._getframe(1).f_lineno))
    envs = VecEnv(definition(source, "debugging"), 3)
    envs.reset(seed=0)
    envs.step(np.zeros(3, np.int64))
    assert envs.state.n.tolist() == [1, 1, 1]
    if not DISABLED:
        assert not stops and capsys.readouterr().out == ""
        silent = [line for line in source.splitlines() if "print" not in line and "breakpoint" not in line]
        assert without_debugging(envs.definition.step).co_code.count(dis.opmap["NOP"]) > len(silent)
    stops.clear()
    capsys.readouterr()
    envs.view(1).step(0, jit=False)
    assert envs.state.n.tolist() == [1, 2, 1]
    assert stops == [4, 12] and capsys.readouterr().out == "n is 1 and x 0.00!1\n1\n"


def test_a_module_imported_in_a_function_is_read_as_one_at_the_top():
    def build():
        import math

        import numpy as np

        @jit
        def f(x):
            return x + np.pi - math.e

        return f

    function = build()
    assert Binder("portable", False).clone(function)(1.5) == 1.5 + np.pi - np.e
    if not DISABLED:
        assert called(function)(1.5) == 1.5 + np.pi - np.e


def test_math_takes_arguments_by_name(jit_only):
    scope = {name: getattr(kernels_math, name) for name in ("atan2", "sin", "clip", "fmod", "pow", "sqrt", "hypot")}
    exec(
        "def f(a, b): return (atan2(y=a, x=b), atan2(x=a, y=b), sin(x=a), clip(a, hi=0.5, lo=0.25), "
        "fmod(y=b, x=a), pow(x=b, y=a), sqrt(x=b), hypot(y=a, x=b))",
        scope,
    )
    expected = [np.arctan2(1.25, 3.5), np.arctan2(3.5, 1.25), np.sin(1.25), 0.5]
    expected += [1.25, 3.5**1.25, np.sqrt(3.5), np.hypot(3.5, 1.25)]
    for kind in ("portable", "libm"):
        clone, python = (Binder(kind, compiled).clone(jit(scope["f"])) for compiled in (True, False))
        found = numba.njit(lambda a, b, clone=clone: clone(a, b))(1.25, 3.5)
        assert found == python(1.25, 3.5)
        np.testing.assert_allclose(found, expected, rtol=1e-15)  # other libraries' last bit


def test_defaults_count_in_the_digest():
    """All of a large array, of which NumPy prints the ends only."""

    def digest(value: int) -> str:
        table = np.zeros(2000, np.int64)
        table[500] = value
        scope = {"table": table}
        exec("def f(a, t=table):\n    return a + t[500]\n", scope)
        binder = Binder("portable", compiled=False)
        binder.clone(jit(scope["f"]))
        return binder.digest()

    assert digest(5) == digest(5) != digest(6)
