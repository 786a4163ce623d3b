"""Misuse and rare combinations that once went wrong, each with the smallest environment that shows it."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from tests import envs as e
from vecenv import F8, I4, U1, Array, EnvDef, Info, Params, State, jit, make_vec, register, registered_ids


class NoParams(Params):
    pass


class SizedState(State):
    k: I4
    cells: Array[U1, "n"]  # noqa: UP037, F821


class Pair(Info):
    k: Array[F8, 2]


class Triple(Info):
    k: Array[F8, 3]


@jit
def reset(state, params, rng):
    state.k = 0


@jit
def step(state, action, params, rng):
    state.k = action
    return 0.0, False


@jit
def observe(state, params, obs):
    obs.fill(state.k)


@jit
def write_info(state, params, out):
    out.k.fill(state.k)


@jit
def write_mask(state, params, mask):
    for i in range(len(mask)):
        mask[i] = i <= state.k


def sized(n: int = 3, step: Any = step, **more: Any) -> EnvDef:
    return EnvDef(
        "Sized-v0", SizedState, NoParams, reset, step, observe,
        observation_space=spaces.Box(0, 1, (n,)), action_space=spaces.Discrete(n), sizes={"n": n}, **more,
    )  # fmt: skip


def test_action_masks_of_one_kernel_and_two_sizes():
    """The size of a mask once was frozen in the kernel that both share: rows overlapped, the rest stayed zero."""
    for n in (3, 7):
        envs = make_vec(sized(n, action_mask=write_mask), 4)
        envs.reset(seed=0)
        actions = np.array([0, 2, 1, 2])
        infos = envs.step(actions)[4]
        assert np.array_equal(infos["action_mask"], np.arange(n) <= actions[:, None])
        assert np.array_equal(envs.action_masks(), infos["action_mask"])


def test_info_fields_of_two_literal_sizes_beside_a_size():
    for info_type, size in ((Triple, 3), (Pair, 2)):
        envs = make_vec(sized(info_type=info_type, info=write_info), 3)
        envs.reset(seed=0)
        infos = envs.step(np.array([1, 2, 1]))[4]
        assert infos["k"].tolist() == [[k] * size for k in (1, 2, 1)]


def stepper(constant: Any, **names: Any) -> Any:
    """`step` whose reward is `C.a`, typed at no file and in no module."""
    namespace: dict[str, Any] = {"C": constant, "jit": jit, **names}
    exec("@jit\ndef step(state, action, params, rng):\n    return 1.0 * C.a, False", namespace)
    return namespace["step"]


def reward_of(function: Any) -> float:
    envs = make_vec(sized(step=function), 1)
    envs.reset(seed=0)
    return float(envs.step(np.array([0]))[1][0])


def test_named_tuples_that_differ_only_in_their_names():
    """The digest of machine code once saw only the values."""
    for names, expected in ((("a", "b"), 1.0), (("b", "a"), 2.0)):
        constant = collections.namedtuple("Constant", names)(1, 2)
        assert reward_of(stepper(constant, __name__="typed")) == expected


def test_functions_of_no_module():
    constant = collections.namedtuple("Constant", ("a",))(3)
    function = stepper(constant)
    assert function.__module__ is None or function.__module__ == "builtins"
    assert reward_of(function) == 3.0


class ShelfState(State):
    x: F8
    shelf: Array[I4, 3]


@jit
def shelf_reset(state, params, rng):
    state.x = rng.random()


@jit
def shelf_step(state, action, params, rng):
    state.x = rng.random()
    index = 0
    if action == 1:
        index = 9
    state.shelf[index] = 1
    return 0.0, False


@jit
def shelf_observe(state, params, obs):
    obs[0] = state.x


def shelf(reset: Any = shelf_reset, step: Any = shelf_step, **more: Any) -> EnvDef:
    """Action 1 puts something beside the shelf."""
    more = {"observation_space": spaces.Box(0, 1, (1,)), "action_space": spaces.Discrete(2), **more}
    return EnvDef("Shelf-v0", ShelfState, NoParams, reset, step, shelf_observe, **more)


def test_python_that_raises_moves_nothing():
    """The environment's own Python raises in the middle of `step`: state and stream of the row are put back."""
    envs = make_vec(shelf(), 3)
    envs.reset(seed=0)
    before = envs.snapshot().arena
    with pytest.raises(IndexError, match="index 9"):
        envs.view(1).step(1, jit=False)
    assert np.array_equal(envs.snapshot().arena, before)
    envs.view(1).step(0, jit=False)


DISABLED_JIT = """
import numpy as np
import pytest
from tests.vecenv.test_broken import make_vec, shelf

for jit in (True, False):
    envs = make_vec(shelf(), 3)
    envs.reset(seed=0)
    before = envs.snapshot().arena
    for attempt in (lambda: envs.step(np.array([0, 1, 0])), lambda: envs.view(1).step(1, jit=jit)):
        try:
            attempt()
        except IndexError as error:
            print(error)
        assert np.array_equal(envs.snapshot().arena, before)
    envs.step(np.zeros(3, np.int64))
"""


def test_without_jit_an_error_in_step_moves_nothing_and_leaves_the_batch_usable():
    """The batch once said for ever that another thread was stepping it."""
    done = e.python(DISABLED_JIT, NUMBA_DISABLE_JIT="1")
    assert done.stdout.count("index 9") == 4


def test_an_overwritten_snapshot_is_of_the_params_it_was_taken_under():
    envs = make_vec("CartPole-v1", 2)
    envs.reset(seed=0)
    snap = envs.snapshot()
    envs.reset(options={"params": {"gravity": 1.0}})
    assert envs.snapshot(out=snap) is snap
    envs.restore(snap)
    with pytest.raises(ValueError, match="other params"):
        make_vec("CartPole-v1", 2).restore(snap)


@pytest.mark.parametrize("jit", [True, False])
def test_ended_rows_are_of_the_last_step_also_when_a_view_made_it(jit):
    envs = make_vec("TinyGrid-v0", 4, max_episode_steps=2)
    envs.reset(seed=0)
    for _ in range(2):
        envs.step(np.zeros(2, np.int64), rows=[0, 1])
    assert envs.ended_rows.tolist() == [0, 1]
    envs.view(2).step(0, jit=jit)
    assert envs.ended_rows.tolist() == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"observation_space": spaces.Box(0, 1, (1,), np.float16)}, TypeError, "observation_space: floats are float32"),
        ({"action_space": spaces.Box(0, 1, (1,), np.longdouble)}, TypeError, "action_space: floats are float32 or"),
        ({"observation_space": spaces.Dict({})}, ValueError, "observation_space: expected at least one part"),
        ({"action_space": spaces.Tuple(())}, ValueError, "action_space: expected at least one part"),
        ({"max_episode_steps": 5.5}, ValueError, "max_episode_steps is an int >= 1 or None, got 5.5"),
        ({"max_episode_steps": "5"}, ValueError, "max_episode_steps is an int >= 1 or None, got '5'"),
    ],
)
def test_definitions_that_no_kernel_could_serve(arguments, error, message):
    with pytest.raises(error, match=message):
        shelf(**arguments)


class Taken(Info):
    action_mask: F8


@jit
def taken_info(state, params, out):
    out.action_mask = 1.0


def test_an_info_field_cannot_take_the_key_of_the_action_mask():
    with pytest.raises(TypeError, match="info field 'action_mask': infos have that key already"):
        sized(info_type=Taken, info=taken_info, action_mask=write_mask)


@pytest.mark.parametrize("build", [lambda: 3, 3])
def test_an_id_whose_build_is_wrong_is_not_registered(build):
    with pytest.raises(TypeError, match="Wrong-v0: "):
        register("Wrong-v0", build)
    assert "Wrong-v0" not in registered_ids()
