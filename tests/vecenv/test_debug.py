"""Numba's typing errors and out-of-range indices come with the author's file, line and row."""

import linecache

import numba
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from vecenv import F8, U1, Array, BindError, EnvDef, Params, State, jit
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


def definition(step, **kwargs):
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
        (returns_two_types, returns_two_types, "on one path and Literal[str](a) on another"),
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
    assert f"test_debug.py\", line {line_marked_here(place)}): " in message
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
