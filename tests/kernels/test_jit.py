"""Binding and the disk cache.

Oracles: the source line of a refused expression; a second process and Numba's own cache statistics (0.68) for what was
compiled; plain Python for what allowed functions compute.
"""

from __future__ import annotations

import enum
import inspect
import json
import math
import random
import types
from pathlib import Path

import envs as e
import numba
import numpy as np
import pytest
from gymnasium import spaces

from vecenv import B1, F8, I8, Array, BindError, EnvDef, State, jit
from vecenv.kernels import jit as engine
from vecenv.kernels import math as kernels_math
from vecenv.kernels.jit import Binder, has_loops_or_lookups, reads_argument
from vecenv.kernels.math import sin as sine
from vecenv.kernels.math import square
from vecenv.vec_env import VecEnv

NUMBERS = [1, 2, 3]
SETTINGS = {"speed": 3}
TABLE = np.array([200, 100, 7], np.uint8)
GRID = np.array([[1.5, -2.5], [0.1, 4.0]], np.float32)
SINGLE = np.float32(0.1)
PAIR = (3, 0.5, (True, np.int8(100)))
calls = 0


class Color(enum.IntEnum):
    RED = 3
    BLUE = 7


class Speed(enum.Enum):
    SLOW = 1


def unmarked(x):
    return x + 1


@jit
def marked(x):
    return x + 1


# --- what is refused, and where ---------------------------------------------------------------------------------------


@jit
def raises(state):
    if state.x > 3:
        raise ValueError  # here
    return 0.0


@jit
def asserts(state):
    y = state.x
    assert y > 3  # here
    return y


@jit
def opens(state):
    open(state.x)  # here  # noqa: SIM115


@jit
def powers(state):
    return state.x**2  # here


@jit
def powers_in_place(state):
    y = state.x
    y **= 2  # here
    return y


@jit
def numpy_function(state):
    return np.sin(state.x)  # here


@jit
def numpy_array(state):
    y = np.zeros(3)  # here
    return y[0]


@jit
def numpy_type(state):
    return np.float32(state.x) * 0.3  # here


@jit
def numpy_random(state):
    return np.random.random()  # here


@jit
def math_function(state):
    return math.sin(state.x)  # here


@jit
def slices(state):
    return state.board[1:]  # here


@jit
def slices_in_two_dimensions(state):
    state.board[0, :] = 1  # here


@jit
def unmarked_helper(state):
    return unmarked(state.x)  # here


@jit
def undefined_name(state):
    return nowhere(state.x)  # here  # noqa: F821


@jit
def list_global(state):
    return NUMBERS[0]  # here


@jit
def dict_global(state):
    return SETTINGS["speed"]  # here


@jit
def other_enum(state):
    return Speed.SLOW  # here


@jit
def module_helper(state):
    return e.hottest(state.heat)  # here


@jit
def module_array(state):
    return e.LAKE[0, 0]  # here


@jit
def module_of_math(state):
    return kernels_math.sin(state.x)  # here


@jit
def standard_library(state):
    return random.random()  # here


@jit
def sums(state):
    return sum((state.x, 1.0))  # here


@jit
def imports(state):
    import cmath  # here

    return cmath.pi


@jit
def writes_a_global(state):
    global calls
    calls = 3  # here


@jit
def yields(state):
    yield state.x  # here


@jit
def recursion(state):  # here
    return recursion(state)


REFUSED = {
    raises: "`raise` and `assert` are not possible",
    asserts: "`raise` and `assert` are not possible",
    opens: "'open' is",
    powers: r"`\*\*` rounds differently.*square\(x\) or pow\(x, y\)",
    powers_in_place: r"`\*\*` rounds differently",
    numpy_function: r"`np.sin`.*vecenv.kernels.math",
    numpy_array: "`np.zeros`",
    numpy_type: r"`np.float32`.*f32\(x\)",
    numpy_random: "`np.random`",
    math_function: r"`math.sin`.*vecenv.kernels.math",
    slices: "slices are not possible",
    slices_in_two_dimensions: "slices are not possible",
    unmarked_helper: "helper 'unmarked' is not marked; put @jit above `def unmarked`",
    undefined_name: "name 'nowhere' is not defined",
    list_global: r"'NUMBERS' is \[1, 2, 3\]",
    dict_global: "'SETTINGS' is",
    other_enum: "'Speed' is",
    module_helper: "read through a module; write `from e import hottest`",
    module_array: "read through a module; write `from e import LAKE`",
    module_of_math: "read through a module",
    standard_library: "read through a module",
    sums: "`sum` is not possible in row functions; add up in a loop",
    imports: "imports belong to the top of the module",
    writes_a_global: "`global calls` cannot be written",
    yields: "generators",
    recursion: "recursion is not possible",
}


def line_of(function: types.FunctionType) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(k for k, line in enumerate(lines) if "# here" in line)


@pytest.mark.nojit
@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_refused(function):
    with pytest.raises(BindError, match=REFUSED[function]) as caught:
        Binder("portable", compiled=False).clone(function)
    assert isinstance(caught.value, TypeError)
    if function is yields:  # its code starts before its first line
        assert f'file "{__file__}"' in str(caught.value)
    elif function is recursion:
        assert f'file "{__file__}", line {line_of(function) - 1}' in str(caught.value)
    else:
        assert f'{function.__name__} (file "{__file__}", line {line_of(function)})' in str(caught.value)


@pytest.mark.nojit
def test_refused_inside_helpers_closures_and_functions():
    @jit
    def through_a_helper(state):
        return opens(state)

    @jit
    def through_a_closure(state):
        return local(state)

    local = asserts
    for function, line in ((through_a_helper, line_of(opens)), (through_a_closure, line_of(asserts))):
        with pytest.raises(BindError, match=f"line {line}"):
            Binder("portable", compiled=False).clone(function)
    with pytest.raises(BindError, match=f"line {line_of(opens)}"):
        Binder("portable", compiled=False, replace={"marked": opens}).clone(calls_marked)
    local = NUMBERS
    with pytest.raises(BindError, match="'local' is"):
        Binder("portable", compiled=False).clone(through_a_closure)


@jit
def calls_marked(state):
    return marked(state)


@jit
def mutual_a(x):
    return mutual_b(x)


@jit
def mutual_b(x):
    return mutual_a(x)


@pytest.mark.nojit
def test_mutual_recursion_is_refused_and_leaves_a_usable_function():
    with pytest.raises(BindError, match="recursion"):
        Binder("portable", compiled=False).clone(mutual_a)
    assert Binder("portable", compiled=False).clone(calls_marked)(2) == 3


@pytest.mark.nojit
def test_a_refused_function_stops_make_vec():
    @jit
    def step(state, action, params, rng):
        return np.sin(state.x), False

    definition = EnvDef(
        "Refused-v0", e.DriftState, e.NoParams, e.drift_reset, step, e.drift_observe,
        observation_space=spaces.Box(-1, 1, (1,)), action_space=spaces.Discrete(2),
    )  # fmt: skip
    with pytest.raises(BindError, match=r"np\.sin"):
        VecEnv(definition, 3)


@pytest.mark.nojit
def test_jit_marks_and_leaves_plain_python():
    assert marked(3) == 4 and marked.__name__ == "marked"
    for wrong in (3, len, np.sin, type):
        with pytest.raises(TypeError, match="plain function"):
            jit(wrong)


# --- what is allowed: the same numbers compiled, in the twin and in plain Python --------------------------------------


class AllowedState(State):
    x: F8
    n: I8
    flag: B1
    out: Array[F8, 16]


def _offset(by):
    inner = 0.25

    @jit
    def helper(x):
        return x + by + inner

    return helper


offset = _offset(3)


@jit
def choice_of_functions(x):
    return x


@jit
def row_index(x):
    """Named like an accessor of the engine: nothing but this function is meant."""
    return x + 1000.0


@jit
def with_default(x, scale=2.5):
    return x * scale


@jit
def allowed_reset(state, params, rng):
    state.x = 0.3
    state.n = 5


@jit
def allowed_step(state, action, params, rng):
    out = state.out
    out[0] = TABLE[0] + TABLE[1]
    out[1] = GRID[1, 0] * 0.3
    out[2] = SINGLE * 0.3
    out[3] = PAIR[2][1] + PAIR[2][1] + PAIR[0] * PAIR[1] + PAIR[2][0]
    out[4] = Color.BLUE + (action == Color.RED)
    out[5] = offset(state.x)
    out[6] = e_hottest(state.out)
    out[7] = choice_of_functions(state.x)
    out[8] = sine(state.x) + square(np.pi) + math.tau
    out[9] = row_index(state.x)
    out[10] = with_default(state.x) + with_default(state.x, 2)
    quotient, remainder = divmod(state.n, 3)
    total = float(quotient)
    for k, v in enumerate((1.0, 2.0)):
        total += k * v
    for a, b in zip((1, 2), (3, 4)):  # noqa: B905
        remainder += a * b
    out[11] = total * 100 + remainder
    while state.n < 50:
        state.n += 7
    out[12] = state.n
    out[13] = min(state.x, 2, -1.5) + max(1, 2) + round(2.5) + int(-3.9) + float(True) + abs(-2)
    out[14] = 1.0 if 0 < state.x < 1 and not state.flag else 0.0
    out[15] = len(TABLE) + GRID.shape[1]
    return out[0], False


e_hottest = e.hottest


@jit
def allowed_observe(state, params, obs):
    for k in range(len(obs)):
        obs[k] = state.out[k]


def allowed(**functions) -> EnvDef:
    return EnvDef(
        "Allowed-v0", AllowedState, e.NoParams, allowed_reset, allowed_step, allowed_observe,
        observation_space=spaces.Box(-np.inf, np.inf, (16,), np.float64), action_space=spaces.Discrete(9),
        functions=functions,
    )  # fmt: skip


@pytest.mark.nojit
def test_what_row_functions_may_use():
    envs = VecEnv(allowed(choice_of_functions=offset), 1)
    envs.reset(seed=0)
    compiled, *_ = envs.step([3])
    view = VecEnv(allowed(choice_of_functions=offset), 1).view(0)
    view.reset(seed=0)
    twin, *_ = view.step(3, jit=False)
    expected = [
        300,
        float(np.float32(0.1)) * 0.3,
        float(np.float32(0.1)) * 0.3,
        202.5,
        8,
        3.55,
        300,
        3.55,
        math.sin(0.3) + math.pi * math.pi + math.tau,
        1000.3,
        0.3 * 2.5 + 0.6,
        313,
        54,
        -1.5 + 2 + 2 - 3 + 1 + 2,
        1,
        5,
    ]
    np.testing.assert_allclose(compiled[0], expected, rtol=1e-15)
    np.testing.assert_array_equal(compiled[0], twin)


@pytest.mark.nojit
def test_wrong_functions_are_refused_when_defined():
    with pytest.raises(BindError, match=r"functions\['choice_of_functions'\] is not marked"):
        allowed(choice_of_functions=unmarked)


# --- what lets a batched loop run ahead -------------------------------------------------------------------------------


def _while(state):
    while state.x > 0:
        state.x -= 1


def _for(state):
    for k in range(3):
        state.x += k


def _comprehension(state):
    return [k for k in range(3)]


def _lookup(state):
    return TABLE[state.n]


def _store(state):
    state.board[state.n] = 1


def _constant_lookup(state):
    state.board[0] = state.heat[1] if state.x > 0 else 2


def _while_not(state):
    while not (state.x < 0 or state.x > 1):
        state.x += 1


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("function", "expected"),
    [(_while, True), (_while_not, True), (_for, True), (_comprehension, True), (_lookup, True), (_store, True),
     (_constant_lookup, False), (unmarked, False)],
    ids=lambda value: getattr(value, "__name__", value),
)  # fmt: skip
def test_loops_and_lookups_are_seen(function, expected):
    """Else a step would run on rows awaiting their reset: past the end of arrays, or for ever."""
    assert has_loops_or_lookups(function) is expected


@jit
def waits_step(state, action, params, rng):
    state.n = 3
    while state.n != 1 and not state.flag:
        state.n = state.n // 2
    state.flag = state.n == 1
    while state.x == 7:  # only an ended row is here: it must not be stepped
        state.n += 1
    state.x = 7
    return 1.0, True


@pytest.mark.nojit
def test_a_step_that_only_loops_with_while_is_not_run_on_ended_rows():
    envs = VecEnv(
        EnvDef(
            "Waits-v0", AllowedState, e.NoParams, allowed_reset, waits_step, allowed_observe,
            observation_space=spaces.Box(-np.inf, np.inf, (16,), np.float64), action_space=spaces.Discrete(9),
        ),
        2,
    )  # fmt: skip
    envs.reset(seed=0)
    for call in range(4):
        _, rewards, terminated, *_ = envs.step([0, 0])
        assert rewards.tolist() == [1.0 - call % 2] * 2 and terminated.all() == (call % 2 == 0)


def test_reads_argument():
    assert reads_argument(e.dice_step, 3) and not reads_argument(e.bits_step, 3)


# --- digests: what makes machine code another -------------------------------------------------------------------------


def digest(function, **kwargs) -> str:
    binder = Binder("portable", compiled=False, **kwargs)
    binder.clone(function)
    return binder.digest()


@jit
def plus(x):
    return x + 1.0


@jit
def times(x):
    return x * 10.0


first = plus
second = times


@jit
def uses_both(state, action, params, rng):
    ignored = plus(state.x) + times(state.x)
    state.x += 1.0
    return first(state.x) - second(state.x) + 0.0 * ignored, False


def _variant(code: str, **names):
    scope = {"jit": jit, "np": np, **names}
    exec(code, scope)
    return scope["f"]


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (("K + x", {"K": 1.0}), ("K + x", {"K": 2.0})),
        (("K + x", {"K": 1}), ("K + x", {"K": 1.0})),
        (("K + x", {"K": 0.0}), ("K + x", {"K": -0.0})),
        (("K + x", {"K": True}), ("K + x", {"K": 1})),
        (("K[0] + x", {"K": (1, 2)}), ("K[0] + x", {"K": (1, 3)})),
        (("K[0] + x", {"K": np.array([1, 2])}), ("K[0] + x", {"K": np.array([1, 3])})),
        (("K[0] + x", {"K": np.array([1, 2])}), ("K[0] + x", {"K": np.array([1, 2], np.int8)})),
        (("x + 1.0", {}), ("x + 2.0", {})),
        (("x + 1.0", {}), ("x - 1.0", {})),
        (("x.a", {}), ("x.b", {})),
        (("h(x)", {"h": plus}), ("h(x)", {"h": times})),
        (("h(x)", {"h": _offset(1)}), ("h(x)", {"h": _offset(2)})),
        (("K.A + x", {"K": enum.IntEnum("K", "A B")}), ("K.A + x", {"K": enum.IntEnum("K", "B A")})),
        (("np.pi + x", {}), ("np.e + x", {})),
    ],
    ids=lambda variant: variant[0] + str([getattr(v, "__name__", v) for v in variant[1].values()]),
)
def test_functions_that_differ_have_different_digests(a, b):
    functions = [_variant(f"@jit\ndef f(x, y=0):\n    return {code}", **names) for code, names in (a, b, a)]
    assert digest(functions[0]) == digest(functions[2]) != digest(functions[1])


@pytest.mark.nojit
def test_a_digest_knows_which_name_stands_for_which_function():
    swapped = digest(uses_both, replace={"first": times, "second": plus})
    assert digest(uses_both, replace={"first": plus, "second": times}) != swapped != digest(uses_both)
    defaults = [_variant(f"@jit\ndef f(x, y={value}):\n    return x + y") for value in (1.0, 2.0)]
    assert digest(defaults[0]) != digest(defaults[1])
    assert digest(plus, salt=1) != digest(plus, salt=2)
    libm = Binder("libm", compiled=False)
    libm.clone(plus)
    assert libm.digest() != digest(plus)


@pytest.mark.nojit
@pytest.mark.parametrize(("a", "b", "reward"), [(plus, times, -8.0), (times, plus, 8.0)], ids=["plain", "swapped"])
def test_two_definitions_that_swap_functions_do_not_share_machine_code(a, b, reward):
    """From x = 0: 1 + 1 - 10 * 1, or the other way round."""
    definition = EnvDef(
        "Swap-v0", e.DriftState, e.NoParams, zero_reset, uses_both, e.drift_observe,
        observation_space=spaces.Box(-1, 1, (1,)), action_space=spaces.Discrete(2),
        functions={"first": a, "second": b},
    )  # fmt: skip
    envs = VecEnv(definition, 1)
    envs.reset(seed=0)
    assert envs.step([0])[1].tolist() == [reward]


@jit
def zero_reset(state, params, rng):
    state.x = 0.0


def test_the_engine_digest_counts_bounds_checks(monkeypatch):
    before = engine.engine_digest()
    engine.engine_digest.cache_clear()
    monkeypatch.setattr(engine.numba.config, "BOUNDSCHECK", 1 - bool(engine.numba.config.BOUNDSCHECK))
    try:
        assert engine.engine_digest() != before
    finally:
        monkeypatch.undo()
        engine.engine_digest.cache_clear()
    assert engine.engine_digest() == before


# --- the disk cache, over processes -----------------------------------------------------------------------------------

HELPER = """
from vecenv import jit

@jit
def bonus(x):
    return x + 1.0
"""

MODULE = """
from gymnasium.spaces import Box, Discrete
from vecenv import F8, EnvDef, Params, State, jit
from bonus_helper import bonus

SCALE = 2.0

class S(State):
    x: F8

class P(Params):
    pass

@jit
def reset(state, params, rng):
    state.x = 1.0

@jit
def step(state, action, params, rng):
    state.x += SCALE
    return bonus(state.x), False

@jit
def observe(state, params, obs):
    obs[0] = state.x

definition = EnvDef("Typed-v0", S, P, reset, step, observe, observation_space=Box(-99, 99, (1,)),
                    action_space=Discrete(2))
"""

RUN = """
import json, sys
import vecenv
envs = vecenv.make_vec(definition, 3)
envs.reset(seed=1)
reward = envs.step([0, 1, 0])[1].tolist()
stats = [kernel.stats for kernel in (envs._runner.kernels.reset, envs._runner.kernels.step) if hasattr(kernel, "stats")]
hits, misses = (sum(sum(getattr(s, name).values()) for s in stats) for name in ("cache_hits", "cache_misses"))
print(json.dumps([reward[0], hits, misses]))
"""


def run(code: str, **kwargs):
    """(reward, cache hits, cache misses, whether it said that it compiles) of a new process."""
    done = e.python(code, **kwargs)
    return [*json.loads(done.stdout.splitlines()[-1]), "compiling Typed-v0" in done.stderr]


def test_a_second_process_hits_and_edits_compile_again(jit_only, cache, tmp_path):
    """Edits of a helper's file, of a constant, back again; Numba's statistics and our own message agree."""
    (tmp_path / "bonus_helper.py").write_text(HELPER)
    (tmp_path / "typed.py").write_text(MODULE)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from typed import definition\n{RUN}"
    options = {"NUMBA_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": "1"}
    assert run(code, **options) == [4.0, 0, 2, True]
    assert run(code, **options) == [4.0, 2, 0, False]
    (tmp_path / "bonus_helper.py").write_text(HELPER.replace("1.0", "5.0"))
    assert run(code, **options) == [8.0, 1, 1, True]  # reset does not use it
    (tmp_path / "typed.py").write_text(MODULE.replace("SCALE = 2.0", "SCALE = 10.0"))
    assert run(code, **options) == [16.0, 1, 1, True]
    (tmp_path / "bonus_helper.py").write_text(HELPER)
    (tmp_path / "typed.py").write_text(MODULE)
    assert run(code, **options) == [4.0, 2, 0, False]


@pytest.mark.parametrize("how", ["stdin", "exec"])
def test_c097_environments_typed_at_stdin_or_in_exec_work_and_cache(jit_only, cache, tmp_path, how):
    code = HELPER + MODULE.replace("from bonus_helper import bonus\n", "") + RUN
    if how == "exec":
        code = f"exec({code!r}, {{'__name__': 'elsewhere'}})"
    options = {"stdin": how == "stdin", "NUMBA_CACHE_DIR": cache, "HOME": str(tmp_path), "XDG_CACHE_HOME": None}
    assert run(code, **options) == [4.0, 0, 2, True]
    assert run(code, **options) == [4.0, 2, 0, False]
    assert list(Path(cache).rglob("*.nbc")) and not list(tmp_path.rglob("*.nbc"))  # nowhere else


def test_c084_unwritable_cache_places_work(jit_only, tmp_path):
    """No home, no temporary folder; then a configured folder that cannot be. Results as ever, one warning."""
    code = HELPER + MODULE.replace("from bonus_helper import bonus\n", "") + RUN
    nowhere = {"HOME": "/dev/null/home", "XDG_CACHE_HOME": None}
    done = e.python(code, stdin=True, NUMBA_CACHE_DIR="/dev/null/cache", **nowhere)
    assert json.loads(done.stdout)[0] == 4.0
    assert done.stderr.count("no writable cache folder (/dev/null/cache)") == 1
    assert "NUMBA_CACHE_DIR" in done.stderr
    done = e.python(code, stdin=True, NUMBA_CACHE_DIR=None, TMPDIR=str(tmp_path), **nowhere)
    assert json.loads(done.stdout)[0] == 4.0
    assert "Warning" not in done.stderr
    assert list(tmp_path.glob("vecenv-*/*/**/*.nbc"))


def test_the_home_cache_is_used_by_default(jit_only, tmp_path):
    code = HELPER + MODULE.replace("from bonus_helper import bonus\n", "") + RUN
    e.python(code, stdin=True, NUMBA_CACHE_DIR=None, HOME=str(tmp_path), XDG_CACHE_HOME=None)
    assert list(tmp_path.glob(".cache/vecenv/*/**/*.nbc"))


def test_the_setting_of_numba_is_left_alone(jit_only):
    before = numba.config.CACHE_DIR
    VecEnv(e.definition("bits"), 1)
    assert before == numba.config.CACHE_DIR
