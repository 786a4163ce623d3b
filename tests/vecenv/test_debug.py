"""Numba's typing errors and out-of-range indices come with the author's file, line and row."""

import linecache
import re

import envs as e
import numba
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from vecenv import F8, I8, U1, Array, BindError, EnvDef, Options, Params, State, jit
from vecenv.kernels import batch
from vecenv.vec_env import VecEnv

jit_only = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="there are no typing errors without compilation")


class S(State):
    x: F8
    b: Array[U1, 3]


class P(Params):
    k: F8 = 1.0


@jit
def reset(state, params, rng):
    state.x = 0.0


@jit
def observe(state, params, obs):
    obs[0] = state.x


@jit
def writes_unknown_field(state, action, params, rng):
    state.y = 1.0  # HERE
    return 0.0, False


@jit
def reads_unknown_field(state, action, params, rng):
    z = state.nope + 1  # HERE
    return z, False


@jit
def returns_a_number(state, action, params, rng):
    return 0.0


@jit
def returns_two_types(state, action, params, rng):
    return (0.0, False) if action == 1 else "a"  # HERE


@jit
def helper(x):
    return x.foo  # HERE


@jit
def calls_a_broken_helper(state, action, params, rng):
    return helper(state.x), False


@jit
def writes_an_array_field(state, action, params, rng):
    state.b = 1  # HERE
    return 0.0, False


@jit
def indexes_too_deep(state, action, params, rng):
    return state.b[1, 2], False  # HERE


@jit
def draws_unknown(state, action, params, rng):
    return rng.foo(2), False  # HERE


@jit
def writes_params(state, action, params, rng):
    params.k = 2.0  # HERE
    return 0.0, False


@jit
def runs_over(state, action, params, rng):
    state.x += 1.0
    state.b[action + 2] = 7  # HERE
    return 0.0, False


NAME = "a"


@jit
def sum_of(a, b):
    return a + b


# What authors write, and the sentence they get: `state`, `params` and `rng` are at hand.
WRITTEN = [
    ("state.x = round(state.x, 2)", "`round(x)` takes one number; for two decimals write `round(x * 100) / 100`"),
    ("state.x = min((state.x, 1.0))", "`min` takes two or more numbers, `min(a, b)`, and no tuple or array"),
    ("state.x = max(state.b)", "`max` takes two or more numbers"),
    ("state.x = int('3')", "`int(x)` takes a number and no text; write the number"),
    ("state.x = float('inf')", "`float(x)` takes a number and no text; write the number, import inf or nan from"),
    ("state.x = (1.0, 2.0)[state.x > 0]", "an index is an int; write int(...) for the bool"),
    ("state.x = (1.0, 2)[state.x > 0]", "an index is an int; write int(...) for the bool"),
    ("state.x = (1.0, state.x)[True]", "an index is an int; write int(...) for the bool"),
    ("for k, v in zip((1, 2), (3, 4), strict=True): state.x = 1.0", "`zip` takes no keyword `strict` in row functions"),
    ("state.x = sum((1.0, state.x))", "`sum` is not possible in row functions; add up in a loop"),
    ("state.x = float(any((True, False)))", "`any` is not possible in row functions; write `a or b`, or set a bool"),
    ("state.x = float(all((True, False)))", "`all` is not possible in row functions; write `a and b`, or set a bool"),
    ("state.x = sorted((2.0, 1.0))[0]", "`sorted` is not possible in row functions; keep an Array field and"),
    ("for v in map(abs, (1.0, 2.0)): state.x = v", "`map` is not possible in row functions; call the function in a"),
    ("for v in reversed((1.0, 2.0)): state.x = v", "`reversed` is not possible in row functions; count down"),
    ("state.x = pow(state.x, 2)", "`pow` is not possible in row functions; import pow or square from vecenv.kernels"),
    ("state.x = float(isinstance(1, int))", "`isinstance` is not possible in row functions; a value has one type"),
    ("state.x = 1j", "complex numbers are not possible in row functions; keep two floats"),
    ("for v in state.b: state.x += v", "loop over an array by index: `for i in range(len(a))`"),
    ("for v in enumerate(state.b): state.x += 1", "`enumerate` does not work on whole arrays; loop over the elem"),
    ("u, v, w = state.b", "an array is not unpacked; write `a[0], a[1]`"),
    ("for v in state: state.x = 1.0", "the state cannot be looped over"),
    ("state.x = 1.0 if 1 in state.b else 0.0", "`in` does not work on whole arrays; loop over the elements"),
    ("state.x = 1.0 if state.b == 1 else 0.0", "`==` does not work on whole arrays; loop over the elements"),
    ("state.b += 1", "`+=` does not work on whole arrays; loop over the elements"),
    ("state.x = state.x & 1", "`&` does not work on (float64, int)"),
    ("state.x = NAME", "text is not possible in row functions"),
    ("state.x = None", "None is no float64: only numbers and bools can be stored"),
    ("state.x = (1.0, 2.0)", "Tuple(float64 x 2) is no float64: only numbers and bools can be stored"),
    ("y = 1.0; del y", "`del` is not possible in row functions"),
    ("del state.b[0]", "`del` is not possible in row functions"),
    ("state.x = 1.0 if (y := state.x) > 0 else y", "`:=` does not work here; assign on a line of its own"),
    ("u, *v = (1, 2, 3)", "patterns and `*` in assignments are not possible in row functions; name every part"),
    ("u, v = (1, 2, 3)", "2 names for a tuple of 3 parts"),
    ("state.x = state.x(3)", "float64 is not a function that can be called"),
    ("state.x = sum_of(state.x)", "the function takes (a, b): missing a required argument: 'b'"),
    ("state.x = rng.random(3)", "too many arguments; methods of rng give one value, without `size`"),
    ("state.x = np.zeros(3)[0]", "`np.zeros` is not possible in row functions; there are numbers, the arrays of"),
    ("state.x = np.random.random()", "`np.random` is not possible in row functions; draw from `rng`"),
    ("state.x = np.exp(1.0)", "`np.exp` gives other bits on other machines or when vectorized; import it from"),
]  # fmt: skip


@jit_only
@pytest.mark.parametrize(("line", "sentence"), WRITTEN, ids=[line for line, _ in WRITTEN])
def test_what_authors_write_is_answered_in_their_words(line, sentence, tmp_path):
    source = tmp_path / "author.py"
    source.write_text(f"def begin(state, params, rng):\n    {line}\n")  # a reset: it is compiled first
    namespace = {"__name__": "author", "np": np, "NAME": NAME, "sum_of": sum_of}
    exec(compile(source.read_text(), str(source), "exec"), namespace)
    with pytest.raises(BindError) as caught:
        VecEnv(definition(writes_params, jit(namespace["begin"])), 2)
    message = str(caught.value)
    assert f'begin (file "{source}", line 2): ' in message
    assert sentence in message
    assert len(message) < 400 and not re.search(r"Function\(|Literal|getiter|Cells\(|0x[0-9a-f]{6}|%\.", message)


def test_try_and_with_are_refused():
    def tries(state, action, params, rng):
        try:
            state.x = 1.0
        finally:
            state.x = 2.0
        return 0.0, False

    with pytest.raises(BindError, match="`with` and `try` are not possible in row functions"):
        VecEnv(definition(jit(tries)), 2)


def definition(step, reset=reset, **kwargs):
    return EnvDef(
        "Bad-v0", S, P, reset, step, observe,
        observation_space=Box(-9, 9, (1,)), action_space=Discrete(2), **kwargs,
    )  # fmt: skip


def line_marked_here(function):
    code = function.__code__
    lines = range(code.co_firstlineno, code.co_firstlineno + 8)
    return next(n for n in lines if linecache.getline(code.co_filename, n).rstrip().endswith("# HERE"))


@jit_only
@pytest.mark.parametrize(
    ("step", "place", "sentence"),
    [
        (writes_unknown_field, writes_unknown_field, "no field 'y' here; there are: x, b, elapsed, limit"),
        (reads_unknown_field, reads_unknown_field, "no field 'nope' here; there are: x, b, elapsed, limit"),
        (returns_two_types, returns_two_types, "on one path and str on another"),
        (calls_a_broken_helper, helper, "float64 has no attribute 'foo'"),
        (writes_an_array_field, writes_an_array_field, "an array field is written by element"),
        (indexes_too_deep, indexes_too_deep, "this array has 1 dimension"),
        (draws_unknown, draws_unknown, "rng has no method 'foo'"),
        (writes_params, writes_params, "`k` is read-only here"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_typing_errors_name_file_line_and_reason(step, place, sentence):
    with pytest.raises(BindError) as caught:
        VecEnv(definition(step), 2)
    message = str(caught.value)
    assert message.startswith(f"Bad-v0: {place.__name__} (file ")
    assert f'test_debug.py", line {line_marked_here(place)}): ' in message
    assert sentence in message
    assert "Row(" not in message and len(message) < 400


@jit_only
def test_a_step_that_returns_no_pair():
    with pytest.raises(BindError, match=r"returns_a_number .*returns \(reward, terminated\) or .*, got float64"):
        VecEnv(definition(returns_a_number), 2)


@jit_only
def test_boundscheck_names_row_and_line_and_moves_nothing():
    envs = VecEnv(definition(runs_over), 3, boundscheck=True)
    envs.reset(seed=0)
    before = envs._arena.tobytes(), envs._head.tobytes()
    line = line_marked_here(runs_over)
    with pytest.raises(IndexError, match=rf"row 1: index 3 is out of bounds.*runs_over \(file .*, line {line}\); no"):
        envs.step(np.array([0, 1, 0]))
    assert (envs._arena.tobytes(), envs._head.tobytes()) == before
    envs.step(np.zeros(3, int))
    assert envs.state.x.tolist() == [1.0] * 3
    assert envs.state.b.tolist() == [[0, 0, 7]] * 3


@jit_only
def test_boundscheck_of_a_view_and_of_negative_indices():
    envs = VecEnv(definition(runs_over), 2, boundscheck=True)
    envs.reset(seed=0)
    with pytest.raises(IndexError, match="row 1: index 3 is out of bounds"):
        envs.view(1).step(1)
    assert envs.state.x.tolist() == [0.0, 0.0]


def test_the_twin_refuses_the_same_index():
    envs = VecEnv(definition(runs_over), 2, boundscheck=False)
    envs.reset(seed=0)
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        envs.view(0).step(1, jit=False)
    envs.view(1).step(0, jit=False)  # nothing moved, and the batch is usable
    assert envs.state.x.tolist() == [0.0, 1.0]


# --- reset and observe: all or nothing --------------------------------------------------------------------------------


class At(State):
    b: Array[U1, 3]
    x: F8
    mean: F8


class Where(Options):
    place: I8 = 0


@jit
def reset_at(state, params, rng, options):
    state.mean = params.k
    state.x = rng.random()
    state.b[options.place] = 7  # HERE


@jit
def keep(state, action, params, rng):
    state.x += rng.random()
    return 0.0, False


@jit
def observe_at(state, params, obs):
    obs[0] = state.b[int(state.x)]  # HERE


def fragile(mode="disabled", **kwargs):
    definition = EnvDef(
        "Fragile-v0", At, P, reset_at, keep, observe_at,
        observation_space=Box(-9, 9, (1,)), action_space=Discrete(2), options_type=Where,
    )  # fmt: skip
    return VecEnv(definition, 3, autoreset_mode=mode, boundscheck=True, params={"k": [1.0, 2.0, 3.0]}, **kwargs)


def everything(envs):
    memory = envs._memory
    rest = memory.seeded, list(memory.row_seeds), memory.fork_base, memory.fork_calls, dict(memory.params)
    return memory.arena.tobytes(), e.head(envs), rest


def refused(function, row):
    """What the error says."""
    place = rf"{function.__name__} \(file .*, line {line_marked_here(function)}\)"
    return pytest.raises(IndexError, match=rf"row {row}: index .* is out of bounds.* in {place}; no row has moved")


@pytest.mark.nojit
@pytest.mark.parametrize("options", [{}, {"reset_mask": np.array([False, True, True])}], ids=["all rows", "some"])
def test_an_index_outside_in_reset_names_the_row_and_moves_nothing(options):
    """Neither rows nor streams, seeds, params or the options that auto-resets see."""
    envs, other = fragile(), fragile()
    for each in (envs, other):
        each.reset(seed=0)
    before = everything(envs)
    with refused(reset_at, row=1 if options else 0):
        envs.reset(seed=5, options={"place": 3, "params": {"k": [7.0, 8.0, 9.0]}, **options})
    assert everything(envs) == before
    for each in (envs, other):
        each.reset(options={"reset_mask": np.array([True, False, True])})
        each.step(np.zeros(3, np.int64))
    assert everything(envs) == everything(other)


@pytest.mark.nojit
def test_the_first_reset_of_all_that_fails():
    envs = fragile()
    before = everything(envs)
    with refused(reset_at, row=0):
        envs.reset(options={"place": 3})
    assert everything(envs) == before and not envs._memory.seeded


@pytest.mark.nojit
def test_an_index_outside_in_observe_names_the_row_and_moves_nothing():
    """Also where another row than those reset cannot be observed, and in a view."""
    envs = fragile()
    envs.reset(seed=0)
    envs.state.x[1] = 3.0
    before = everything(envs)
    for call, row in (
        (lambda: envs.reset(options={"reset_mask": np.array([True, False, False])}), 1),
        (lambda: envs.reset(seed=1, options={"state": {"x": 3.5}}), 0),
        (lambda: envs.view(2).reset(seed=9, options={"state": {"x": np.array([0.0, 0.0, 3.5])}}), 2),
        (envs.observe, 1),
        (lambda: envs.step(np.zeros(3, np.int64)), 1),
    ):
        with refused(observe_at, row):
            call()
        assert everything(envs) == before
    envs.reset(options={"reset_mask": np.array([False, True, False])})
    envs.observe()


@pytest.mark.nojit
def test_absorbed_rows_that_cannot_be_observed_keep_the_others_where_they_are():
    envs = fragile(ended="absorb", max_episode_steps=[1, 9, 9])
    envs.reset(seed=0)
    envs.step(np.zeros(3, np.int64))
    envs.state.x[0] = 3.0
    before = everything(envs)
    with refused(observe_at, row=0):
        envs.step(np.zeros(3, np.int64))
    assert everything(envs) == before


@jit_only
def test_a_step_without_jit_that_fails_keeps_final_statistics():
    """Under SAME_STEP they are beside the rows. The row that fails is in the second tile; the first is done by then."""
    n = batch.TILE + 1
    envs = VecEnv(definition(runs_over), n, boundscheck=False, autoreset_mode="same_step", max_episode_steps=1)
    envs.reset(seed=0)
    envs.step(np.zeros(n, np.int64))
    envs.state.elapsed[:] = 5
    before = everything(envs)
    with pytest.raises(IndexError):
        envs._finish(None, np.arange(n) // batch.TILE, envs._outputs.new(n), jit=False)
    assert everything(envs) == before
