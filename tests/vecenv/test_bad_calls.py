"""Wrong calls, by what is wrong: each raises the error that is named here, with a message that says what was expected,
and not a byte of the batch has changed.

`test_vec_env.py`, `test_snapshot.py` and `tests/kernels/test_envdef.py` hold more of each kind; this is the table to
read.
"""

from __future__ import annotations

import contextlib
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import envs as e
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, NameNotFound, ResetNeeded, VersionNotFound

import vecenv
from vecenv import (
    F8,
    Array,
    BindError,
    EnvDef,
    Params,
    Snapshot,
    State,
    StepOut,
    Table,
    VecEnv,
    View,
    jit,
    make_vec,
    uniform,
)
from vecenv.buffers import address
from vecenv.checks import check_def, check_port, check_vec_env

Case = tuple[Callable[..., Any], type[BaseException], str]

N = 4


class Unreadable:
    """What neither NumPy nor a message can read."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError


UNREADABLE = Unreadable()


def refused(envs: VecEnv, call: Callable[[VecEnv], Any], kind: type[BaseException], message: str) -> None:
    before, flags = e.checksum(envs), envs.episode_ended.tolist()
    with pytest.raises(kind, match=message) as caught:
        call(envs)
    assert type(caught.value) is kind, f"{type(caught.value).__name__} is not exactly {kind.__name__}"
    assert e.checksum(envs) == before and envs.episode_ended.tolist() == flags


def table(*cases: Case) -> Any:
    return pytest.mark.parametrize(("call", "kind", "message"), cases, ids=[case[2][:50] for case in cases])


def started(name: str, mode: str = "next_step", **kwargs: Any) -> VecEnv:
    envs = e.make(name, N, mode, **kwargs)
    envs.reset(seed=0)
    envs.step(e.actions(envs, 1)[0])
    return envs


# --- construction -----------------------------------------------------------------------------------------------------


@table(
    (lambda: make_vec("CartPole-v1", 0), ValueError, "num_envs: expected an int >= 1, got 0"),
    (lambda: make_vec("CartPole-v1", 2.5), TypeError, r"num_envs: expected an int >= 1, got 2\.5"),
    (lambda: make_vec("CartPole-v1", 2, autoreset_mode="next"), ValueError, "expected an AutoresetMode or one of"),
    (lambda: make_vec("CartPole-v1", 2, max_episode_steps=0), ValueError, r"expected -1 \(none\) or an int from 1"),
    (lambda: make_vec("CartPole-v1", 2, max_episode_steps=[5]), TypeError, r"an int array of shape \(2,\), got \[5\]"),
    (lambda: make_vec("CartPole-v1", 2, num_threads=0), ValueError, "num_threads: expected 'auto' or 1"),
    (lambda: make_vec("CartPole-v1", 2, math="fast"), ValueError, "math: expected 'portable' or 'libm', got 'fast'"),
    (lambda: make_vec("CartPole-v1", 2, ended="absorb"), ValueError, "belongs to autoreset_mode='disabled'"),
    (lambda: make_vec("CartPole-v1", 2, final_obs="list"), ValueError, "expected 'dense' or 'object', got 'list'"),
    (lambda: make_vec("CartPole-v1", 2, render_mode="human"), ValueError, "render_mode: .*'human'"),
    (lambda: make_vec("CartPole-v1", 2, integrater="euler"), TypeError, "unknown option 'integrater'; did you mean"),
    (lambda: make_vec("CartPole-v1", 2, integrator="rk4"), ValueError, "integrator is one of euler, semi_implicit"),
    (lambda: make_vec("CartPol-v1", 2), NameNotFound, "does not exist; did you mean 'CartPole-v1'"),
    (lambda: make_vec("CartPole-v7", 2), VersionNotFound, "does not exist; there is: CartPole-v1"),
    (lambda: make_vec(3, 2), TypeError, "expected an id or an EnvDef, got 3"),
    (lambda: VecEnv("CartPole-v1", 2), TypeError, "VecEnv: expected an EnvDef, got 'CartPole-v1'; make_vec takes ids"),
    (lambda: make_vec("CartPole-v1", True), ValueError, "num_envs: expected an int >= 1, got True"),
    (lambda: make_vec("CartPole-v1", None), TypeError, "num_envs: expected an int >= 1, got None"),
    (
        lambda: make_vec("CartPole-v1", 2**40),
        ValueError,
        r"1099511627776 rows of CartPole-v1 need \d+ bytes each, .* GiB in",
    ),
    (lambda: make_vec("CartPole-v1", 10**30), ValueError, "rows of CartPole-v1 need .* bytes each"),
    (lambda: make_vec("CartPole-v1", 2, integrator=[]), ValueError, r"integrator is one of .*, got \[\]"),
    (lambda: make_vec("CartPole-v1", 2, last_step_reward={}), ValueError, "last_step_reward is one of .*, got {}"),
    (lambda: make_vec("FrozenLake-v1", 2, map_name=[]), ValueError, r"map_name: expected '4x4' or '8x8', got \[\]"),
    (
        lambda: make_vec("CartPole-v1", 2, num_threads=np.array(1)),
        ValueError,
        r"expected 'auto' or 1 .*, got array\(1\)",
    ),
    (lambda: make_vec("CartPole-v1", 2, num_threads=1.0), ValueError, r"expected 'auto' or 1 .*, got 1\.0"),
    (lambda: make_vec("CartPole-v1", 2, copy="no"), TypeError, "copy: expected True or False, got 'no'"),
    (lambda: make_vec("CartPole-v1", 2, validate="no"), TypeError, "validate: expected True or False, got 'no'"),
    (lambda: make_vec("CartPole-v1", 2, strict_actions=1), TypeError, "strict_actions: expected True or False, got 1"),
    (lambda: make_vec("CartPole-v1", 2, infos="no"), TypeError, "infos: expected True or False, got 'no'"),
    (
        lambda: make_vec("CartPole-v1", 2, boundscheck="yes"),
        TypeError,
        "boundscheck: expected True or False, got 'yes'",
    ),
    (
        lambda: make_vec("CartPole-v1", 2, math=np.array(["libm"] * 2)),
        ValueError,
        "math: expected 'portable' or 'libm'",
    ),
    (
        lambda: make_vec("CartPole-v1", 2, ended=np.zeros(2)),
        ValueError,
        "ended: expected 'raise' or 'absorb', got array",
    ),
    (lambda: make_vec("CartPole-v1", 2, final_obs=np.zeros(2)), ValueError, "expected 'dense' or 'object', got array"),
    (lambda: make_vec("CartPole-v1", 2, render_mode=np.zeros(2)), ValueError, "render_mode: .*, got array"),
    (
        lambda: make_vec("CartPole-v1", 2, max_episode_steps=[[1], [2, 3]]),
        ValueError,
        "steps: .*, got a ragged sequence",
    ),
    (
        lambda: make_vec("CartPole-v1", 2, max_episode_steps=UNREADABLE),
        TypeError,
        "max_episode_steps: .*got <Unreadable>",
    ),
    (
        lambda: make_vec("CartPole-v1", 2, max_episode_steps=2**70),
        ValueError,
        "max_episode_steps: .* more than 64 bits",
    ),
    (lambda: make_vec("CartPole-v1", 2).like(2, nmu_envs=3), TypeError, "like: unknown argument 'nmu_envs'; there are"),
)
def test_construction(call: Callable[[], Any], kind: type[BaseException], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        call()
    assert type(caught.value) is kind


# --- actions ----------------------------------------------------------------------------------------------------------


@table(
    (lambda x: x.step([0] * 3), ValueError, r"actions: expected an array of shape \(4,\) of int64, got shape \(3,\)"),
    (lambda x: x.step([[0]] * 4), ValueError, r"expected an array of shape \(4,\) of int64, got shape \(4, 1\)"),
    (lambda x: x.step(0), TypeError, r"expected an array of shape \(4,\) of int64, got 0"),
    (lambda x: x.step([0.0] * 4), TypeError, r"expected an array of shape \(4,\) of int64, got float64"),
    (lambda x: x.step(["left"] * 4), TypeError, r"of int64, got <U4"),
    (lambda x: x.step([0, 0, 2, 0]), ValueError, r"row 2: action 2 is outside Discrete\(3, start=-1\)"),
    (lambda x: x.step([0, 2], rows=[3, 1]), ValueError, r"row 1: action 2 is outside Discrete\(3, start=-1\)"),
    (lambda x: x.step([0, 0], rows=[1, 1]), ValueError, "rows: row 1 occurs more than once"),
    (lambda x: x.step([0], rows=[4]), ValueError, "rows: row 4 is outside 0 to 3"),
    (lambda x: x.step([0], rows=[0.0]), TypeError, "rows: expected a one-dimensional int array or a bool mask"),
    (lambda x: x.step([0], rows=np.ones(3, np.bool_)), ValueError, r"expected a bool mask of shape \(4,\)"),
)
def test_actions(call: Any, kind: type[BaseException], message: str) -> None:
    refused(started("counter"), call, kind, message)


@table(
    (lambda x: x.step(np.full((4, 1), np.nan)), ValueError, r"row 0: action \[nan\] is not finite"),
    (lambda x: x.step([[0], [np.inf], [0], [0]]), ValueError, r"row 1: action \[inf\] is not finite"),
    (lambda x: x.step(UNREADABLE), TypeError, r"of float32, got <Unreadable>, which NumPy cannot read"),
    (lambda x: x.step([[0.0], [0.0, 1.0], [0.0], [0.0]]), ValueError, "of float32, got a ragged sequence"),
    (lambda x: x.like(N).step(0), TypeError, r"expected an array of shape \(4, 1\) of float32, got 0"),
    (lambda x: x.step([[0], [0], [0], [2.5]]), ValueError, r"row 3: action \[2.5\] is outside Box"),
    (lambda x: x.step([[2.5]], rows=[2]), ValueError, r"row 2: action \[2.5\] is outside Box"),
    (lambda x: x.step([0.0] * 4), ValueError, r"expected an array of shape \(4, 1\) of float32, got shape \(4,\)"),
    (lambda x: x.step([[1j]] * 4), TypeError, r"of float32, got complex128"),
)
def test_box_actions(call: Any, kind: type[BaseException], message: str) -> None:
    refused(started("drift", strict_actions=True), call, kind, message)


# --- masks ------------------------------------------------------------------------------------------------------------


def masked(mask: Any, **options: Any) -> Callable[[VecEnv], Any]:
    return lambda envs: envs.reset(seed=3, options={"reset_mask": mask, **options})


@table(
    (masked([True] * 4), TypeError, "must be a numpy array, got <class 'list'>"),
    (masked(np.ones(3, np.bool_)), ValueError, r"must have shape `\(4,\)`, got \(3,\)"),
    (masked(np.ones((4, 1), np.bool_)), ValueError, r"must have shape `\(4,\)`, got \(4, 1\)"),
    (masked(np.ones(4, np.int64)), TypeError, "must have `dtype=np.bool_`, got int64"),
    (masked(np.zeros(4, np.bool_)), ValueError, "must contain a boolean array with at least one True"),
    (masked(None), TypeError, "must be a numpy array, got <class 'NoneType'>"),
    (
        lambda x: x.reset(options={"mask": np.ones(4, np.bool_)}),
        ValueError,
        "unknown key 'mask'; did you mean 'reset_mas",
    ),
    (lambda x: x.view(0).reset(options={"reset_mask": np.ones(4, np.bool_)}), ValueError, "a view resets its own row"),
    (lambda x: x.action_masks(), AttributeError, "Rooms-v0 has no action mask"),
)
def test_masks(call: Any, kind: type[BaseException], message: str) -> None:
    """Of a wrong `reset_mask`, types and texts are Gymnasium 1.4.0's."""
    refused(started("rooms"), call, kind, message)


# --- seeds ------------------------------------------------------------------------------------------------------------


@table(
    (lambda x: x.reset(seed=-1), ValueError, "seed must be an int >= 0, got -1"),
    (lambda x: x.reset(seed=1.0), TypeError, r"seed must be an int >= 0, got 1\.0"),
    (lambda x: x.reset(seed=True), TypeError, "seed must be an int >= 0, got True"),
    (lambda x: x.reset(seed="7"), TypeError, "seed must be an int >= 0, got '7'"),
    (lambda x: x.reset(seed=[1, 2]), ValueError, "seed: expected 4 entries, one per row, got 2"),
    (lambda x: x.reset(seed=[1, 2, 3, -4]), ValueError, "seed must be an int >= 0, got -4"),
    (lambda x: x.reset(seed=[1, 2, 3.5, 4]), TypeError, r"row 2: seed must be an int >= 0, got 3\.5"),
    (lambda x: x.reset(seed=np.ones((4, 1), np.int64)), TypeError, "expected an int or 4 entries, one per row"),
    (lambda x: x.view(1).reset(seed=-1), ValueError, "seed must be an int >= 0, got -1"),
    (lambda x: x.view(1).reset(seed=[1]), TypeError, r"seed must be an int >= 0, got \[1\]"),
    (lambda x: x.fork(0, [1], rng="fresh", seed=-1), ValueError, "seed must be an int >= 0, got -1"),
)
def test_seeds(call: Any, kind: type[BaseException], message: str) -> None:
    refused(started("counter"), call, kind, message)


# --- reset options and state ------------------------------------------------------------------------------------------


def options(**given: Any) -> Callable[[VecEnv], Any]:
    return lambda envs: envs.reset(seed=3, options=given)


@table(
    (options(strat=3), ValueError, "unknown key 'strat'; did you mean 'sta"),
    (options(start=2.5), TypeError, r"reset option 'start': expected one int32, got 2\.5"),
    (options(start=2**31), ValueError, "reset option 'start': 2147483648 does not fit int32"),
    (options(warm="hot"), TypeError, "reset option 'warm': expected one float64, got 'hot'"),
    (options(warm=float("nan")), ValueError, "reset option 'warm': expected a number, got nan"),
    (options(warm=[0.1, 0.2, 0.3, 0.4]), TypeError, "reset option 'warm': expected one float64"),
    (options(state=3), TypeError, "'state': expected a dict, got int"),
    (options(state={"att": 1}), ValueError, "no state field 'att'; did you mean 'at'"),
    (options(state={"at": 1.5}), TypeError, "state 'at': expected int16"),
    (options(state={"at": [1, 2, 3, 40000]}), ValueError, "state 'at': row 3: 40000 does not fit int16"),
    (options(state={"heat": np.zeros((4, 2))}), ValueError, r"state 'heat': expected shape \(4, 3\), got \(4, 2\)"),
    (options(state={"heat": [[1, 2], [3]]}), ValueError, "state 'heat': expected float32 .*, got a ragged sequence"),
    (options(state={"at": UNREADABLE}), TypeError, "state 'at': expected int16 .*, got <Unreadable>, which NumPy"),
    (options(state={1: 2}), ValueError, "no state field 1; there are: alarm, at"),
    (options(state={"elapsed": -3}), ValueError, "state 'elapsed': row 0: expected 0 to 2147483646, got -3"),
    (options(state=None), TypeError, "'state': expected a dict, got NoneType"),
    (options(start=[[1], [2, 3]]), ValueError, "reset option 'start': expected one int32, got a ragged sequence"),
    (options(start=UNREADABLE), TypeError, "reset option 'start': expected one int32, got <Unreadable>, which NumPy"),
    (options(start=None), TypeError, "reset option 'start': expected one int32, got None"),
    (lambda x: x.reset(options=5), TypeError, "reset: options: expected a dict or None, got int"),
    (lambda x: x.reset(options="abc"), TypeError, "reset: options: expected a dict or None, got str"),
    (lambda x: x.reset(options=[]), TypeError, "reset: options: expected a dict or None, got list"),
    (lambda x: x.reset(options={1: 2}), ValueError, "reset options: unknown key 1; there are: params"),
)
def test_options(call: Any, kind: type[BaseException], message: str) -> None:
    refused(started("rooms"), call, kind, message)


@table(
    (options(state={"elapsed": [4, 0, 0, 5]}), ValueError, "state 'elapsed': row 3: expected 0 to 4, got 5"),
    (lambda x: x.view(2).reset(options={"state": {"elapsed": 9}}), ValueError, "row 2: expected 0 to 4, got 9"),
    (lambda x: setattr(x.state, "elapsed", 6), ValueError, "state 'elapsed': row 0: expected 0 to 5, got 6"),
    (lambda x: setattr(x.view(3).state, "elapsed", 6), ValueError, "state 'elapsed': row 3: expected 0 to 5, got 6"),
)
def test_step_counts_above_the_limit(call: Any, kind: type[BaseException], message: str) -> None:
    refused(started("counter", max_episode_steps=5), call, kind, message)


def test_a_step_count_is_checked_in_the_rows_that_start() -> None:
    envs = started("counter", max_episode_steps=[2, 9, 9, 9])
    envs.reset(options={"state": {"elapsed": 8}, "reset_mask": np.arange(N) > 0})
    assert envs.state.elapsed.tolist() == [1, 8, 8, 8]
    envs.state.elapsed = [2, 9, 9, 9]  # as rows that have ended are


@table(
    (lambda: make_vec("CartPole-v1", 2).reset(options={"low": 0.3, "high": 0.1}), ValueError, "low.*high|high.*low"),
    (
        lambda: make_vec("CartPole-v1", 2).reset(options={"low": "a"}),
        TypeError,
        "reset option 'low': expected one float64",
    ),
)
def test_options_of_cartpole(call: Any, kind: type[BaseException], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


# --- params -----------------------------------------------------------------------------------------------------------


@table(
    (options(params=3), TypeError, "'params': expected a dict, got int"),
    (options(params={"gian": 1.0}), ValueError, "no param 'gian'; did you mean 'gain'"),
    (options(params={"gain": [1.0] * 3}), ValueError, r"param 'gain': expected shape \(4,\), got \(3,\)"),
    (options(params={"gain": "x"}), TypeError, "param 'gain': expected float64 of shape"),
    (options(params={"cost": [1.0] * 4}), TypeError, "param 'cost': expected one float32"),
    (masked(np.arange(4) == 1, params={"cost": 0.5}), ValueError, "'cost' is shared by all rows, so it needs a reset"),
    (
        lambda x: x.set_attr("cost", 0.5),
        AttributeError,
        "no state field or param per row 'cost'; there are: x, elapsed",
    ),
    (lambda x: x.set_attr("gain", [1.0] * 3), ValueError, r"set_attr: 'gain': expected shape \(4,\), got \(3,\)"),
    (
        options(params={"gain": [[1.0], [2.0, 3.0]]}),
        ValueError,
        "param 'gain': expected float64 .*, got a ragged sequence",
    ),
    (options(params={"gain": None}), TypeError, r"param 'gain': expected float64 of shape \(4,\), got object"),
    (
        options(params={"cost": UNREADABLE}),
        TypeError,
        "param 'cost': expected one float32, got <Unreadable>, which Num",
    ),
    (options(params={"cost": uniform(0, 1)}), TypeError, "param 'cost': expected one float32, got Uniform"),
    (options(params={"cost": 1e300}), ValueError, r"param 'cost': 1e\+300 does not fit float32"),
    (options(params={1: 2}), ValueError, "reset options: no param 1; there are: "),
)
def test_params(call: Any, kind: type[BaseException], message: str) -> None:
    refused(started("drift", params={"gain": [1.0, 2.0, 3.0, 4.0]}), call, kind, message)


@table(
    (lambda: e.make("drift", 2, params={"gian": 1.0}), ValueError, "no param 'gian'; did you mean 'gain'"),
    (lambda: e.make("drift", 2, params={"gain": "x"}), TypeError, "param 'gain': expected one float64, got 'x'"),
    (lambda: e.make("drift", 2, params={"gain": [1.0] * 3}), ValueError, r"expected shape \(2,\), got \(3,\)"),
    (
        lambda: e.make("drift", 2, params={"cost": uniform(0, 1)}),
        TypeError,
        "only F8 params can be drawn, this is float32",
    ),
    (lambda: uniform(1.0, 0.0), ValueError, "uniform: expected finite bounds with low <= high, got 1.0 and 0.0"),
    (lambda: uniform(0.0, np.nan), ValueError, "uniform: expected finite bounds with low <= high, got 0.0 and nan"),
    (lambda: uniform("a", 1), TypeError, "uniform: expected finite bounds with low <= high, got 'a' and 1"),
    (lambda: uniform(None, 1), TypeError, "uniform: expected finite bounds with low <= high, got None and 1"),
    (lambda: uniform(0, [1]), TypeError, r"uniform: expected finite bounds with low <= high, got 0 and \[1\]"),
    (lambda: uniform(0, True), TypeError, "uniform: expected finite bounds with low <= high, got 0 and True"),
    (lambda: e.make("drift", 2, params=5), TypeError, "params: expected a dict of values by name, got int"),
    (lambda: e.make("drift", 2, params=[]), TypeError, "params: expected a dict of values by name, got list"),
    (lambda: e.make("drift", 2, params={1: 2}), ValueError, "Drift-v0: no param 1; there are: cost, gain"),
    (
        lambda: e.make("drift", 2, params={"gain": None}),
        ValueError,
        "param 'gain' has no default and no value was given",
    ),
    (lambda: e.make("drift", 2, params={"gain": [[1], [2, 3]]}), ValueError, "param 'gain': .* got a ragged sequence"),
    (lambda: e.make("drift", 2, params={"gain": UNREADABLE}), TypeError, "param 'gain': .*<Unreadable>, which NumPy"),
    (
        lambda: e.make("lake", 2, params={"board": e.LAKE}),
        ValueError,
        "'board' follows from the options and cannot be given",
    ),
)
def test_params_of_a_new_batch(call: Any, kind: type[BaseException], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


# --- state writes -----------------------------------------------------------------------------------------------------


def write(name: str, value: Any) -> Callable[[VecEnv], Any]:
    return lambda envs: setattr(envs.state, name, value)


@table(
    (write("att", 3), AttributeError, "no field 'att'; there are: board, heat, at, alarm, elapsed"),
    (lambda x: x.state.att, AttributeError, "no field 'att'; there are: board, heat, at, alarm, elapsed"),
    (lambda x: x.state["att"], AttributeError, "no field 'att'"),
    (lambda x: x.state[3], AttributeError, "no field 3; there are: board"),
    (lambda x: delattr(x.state, "at"), AttributeError, "state 'at': fields cannot be deleted"),
    (write("at", [1, 2]), ValueError, r"state 'at': expected shape \(4,\), got \(2,\)"),
    (write("heat", np.zeros((3, 4))), ValueError, r"state 'heat': expected shape \(4, 3\), got \(3, 4\)"),
    (write("at", "north"), TypeError, r"state 'at': expected int16 of shape \(4,\), got <U5"),
    (write("at", None), TypeError, r"state 'at': expected int16 of shape \(4,\), got object"),
    (write("at", 2.7), TypeError, r"state 'at': expected int16 of shape \(4,\), got float64"),
    (write("at", [0, 0, 0, 70000]), ValueError, "state 'at': row 3: 70000 does not fit int16"),
    (
        write("at", 2**70),
        ValueError,
        "state 'at': expected int16 .*, got 1180591620717411303424, which has more than 64",
    ),
    (
        write("at", [[1, 2], [3]]),
        ValueError,
        r"state 'at': expected int16 .*, got a ragged sequence: \[\[1, 2\], \[3\]\]",
    ),
    (write("at", UNREADABLE), TypeError, "state 'at': expected int16 .*, got <Unreadable>, which NumPy cannot read"),
    (write("alarm", 1), TypeError, r"state 'alarm': expected bool of shape \(4,\), got int64"),
    (write("heat", [[0, 0, 1e300]]), ValueError, r"state 'heat': row 0: .* does not fit float32"),
    (write("elapsed", 2.7), TypeError, r"state 'elapsed': expected int32 of shape \(4,\), got float64"),
    (write("elapsed", [0, 0, -3, 0]), ValueError, "state 'elapsed': row 2: expected 0 to 2147483646, got -3"),
    (lambda x: x.set_attr("at", 1.5), TypeError, "set_attr: 'at': expected int16"),
    (lambda x: x.set_attr("at", [0, 0, 70000, 0]), ValueError, "set_attr: 'at': row 2: 70000 does not fit int16"),
    (lambda x: x.set_attr("elapsed", -1), ValueError, "set_attr: 'elapsed': row 0: expected 0 to 2147483646, got -1"),
    (lambda x: x.set_attr(3, 1), TypeError, "set_attr: expected the name of a field or attribute, got 3"),
    (lambda x: setattr(x.view(1).state, "at", 2.7), TypeError, r"state 'at': expected one int16, got 2\.7"),
    (lambda x: setattr(x.view(1).state, "at", 70000), ValueError, "state 'at': 70000 does not fit int16"),
    (lambda x: setattr(x.view(1).state, "elapsed", -3), ValueError, "state 'elapsed': row 1: expected 0 to 2147483646"),
    (lambda x: x.set_attr("att", 1), AttributeError, "no state field or param per row 'att'; there are: board"),
    (lambda x: setattr(x.view(0).state, "limit", 3), AttributeError, "`limit` is read-only"),
    (lambda x: setattr(x.view(0).state, "att", 3), AttributeError, "`att` is no field; there are: board, heat"),
)
def test_state_writes(call: Any, kind: type[BaseException], message: str) -> None:
    refused(started("rooms"), call, kind, message)


# --- out --------------------------------------------------------------------------------------------------------------


def into(make: Callable[[VecEnv], Any], **kwargs: Any) -> Callable[[VecEnv], Any]:
    return lambda envs: envs.step(np.zeros(len(kwargs.get("rows", range(N))), np.int64), out=make(envs), **kwargs)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


SHARED = np.zeros(4 * N)


@table(
    (into(lambda x: {}), TypeError, "out: expected a StepOut, got dict"),
    (into(lambda x: StepOut(rewards=[0.0] * N)), TypeError, "out.rewards: expected a NumPy array, got list"),
    (
        into(lambda x: StepOut(rewards=np.zeros(3))),
        ValueError,
        r"out.rewards: expected shape \(4,\) of float64, got \(3,\)",
    ),
    (into(lambda x: StepOut(rewards=np.zeros(N, np.float32))), ValueError, r"of float64, got \(4,\) of float32"),
    (into(lambda x: StepOut(rewards=np.zeros(2 * N)[::2])), ValueError, "expected a writable C-contiguous array"),
    (into(lambda x: StepOut(rewards=read_only(np.zeros(N)))), ValueError, "expected a writable C-contiguous array"),
    (
        into(lambda x: StepOut(terminated=np.zeros(N, np.uint8))),
        ValueError,
        "out.terminated: expected shape .* of bool",
    ),
    (
        into(lambda x: StepOut(obs=np.zeros((N, 4), np.float32))),
        ValueError,
        r"out.obs: expected shape \(4, 4\) of float64",
    ),
    (into(lambda x: StepOut(obs=SHARED.reshape(N, 4), rewards=SHARED[:N])), ValueError, "out.* and out.* share memory"),
    (into(lambda x: StepOut(rewards=x.state.noise)), ValueError, "the state and out.rewards share memory"),
    (into(lambda x: StepOut(final_obs=np.zeros((N, 4)))), ValueError, "only SAME_STEP writes final observations"),
    (into(lambda x: StepOut(rewards=np.zeros(N)), rows=[0, 2]), ValueError, r"out.rewards: expected shape \(2,\)"),
)
def test_out(call: Any, kind: type[BaseException], message: str) -> None:
    refused(started("counter"), call, kind, message)


def buffers() -> StepOut:
    return StepOut(np.zeros((N, 4)), np.zeros(N), np.zeros(N, np.bool_), np.zeros(N, np.bool_))


@contextlib.contextmanager
def deprecated() -> Iterator[None]:
    """Newer versions of NumPy warn of changes in place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def lock(out: StepOut) -> None:
    out.terminated.flags.writeable = False


def reshape(out: StepOut) -> None:
    with deprecated():
        out.rewards.shape = (2, 2)


def stride(out: StepOut) -> None:
    with deprecated():
        out.rewards.strides = (0,)


def retype(out: StepOut) -> None:
    with deprecated():
        out.rewards.dtype = np.int64


def shrink(out: StepOut) -> None:
    out.rewards.resize(1, refcheck=False)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lock, ValueError, "out.terminated: expected a writable C-contiguous array"),
        (reshape, ValueError, r"out.rewards: expected shape \(4,\) of float64, got \(2, 2\)"),
        (stride, ValueError, "out.rewards: expected a writable C-contiguous array"),
        (retype, ValueError, r"out.rewards: expected shape \(4,\) of float64, got \(4,\) of int64"),
        (shrink, ValueError, r"out.rewards: expected shape \(4,\) of float64, got \(1,\)"),
    ],
)
def test_out_is_checked_again_when_it_was_changed_in_place(change: Any, kind: Any, message: str) -> None:
    envs, out = started("counter"), buffers()
    for _ in range(2):
        envs.step(np.zeros(N, np.int64), out=out)
    change(out)
    refused(envs, lambda x: x.step(np.zeros(N, np.int64), out=out), kind, message)


def test_out_may_move_in_place() -> None:
    envs, out = started("counter"), buffers()
    owner = np.zeros(2 * N)
    out.rewards = owner[:N]
    envs.step(np.zeros(N, np.int64), out=out)
    out.rewards.__setstate__((1, (N,), np.dtype(np.float64), False, np.full(N, 7.0).tobytes()))
    assert address(out.rewards) != address(owner)
    twin = envs.like(N)
    twin.restore(envs.snapshot())
    assert out.rewards.tolist() == [7.0] * N
    envs.step(np.zeros(N, np.int64), out=out)
    assert out.rewards.tolist() == twin.step(np.zeros(N, np.int64))[1].tolist()
    actions = out.rewards.view(np.int64)
    actions[:] = 0
    refused(envs, lambda x: x.step(actions, out=out), ValueError, "actions and out.rewards share memory")


def test_out_is_checked_again_when_its_arrays_are_others() -> None:
    """An array of the same shape whose bytes lie inside another array of the step."""
    envs, out = started("counter"), buffers()
    owner = np.zeros(N)
    out.rewards = owner
    envs.step(np.zeros(N, np.int64), out=out)
    out.obs = np.zeros((N, 4))
    envs.step(np.zeros(N, np.int64), out=out)
    out.rewards = out.obs.reshape(-1)[:N]
    refused(envs, lambda x: x.step(np.zeros(N, np.int64), out=out), ValueError, "out.* and out.* share memory")
    out.rewards = owner
    actions = out.obs.view(np.int64).reshape(-1)[:N]
    actions[:] = 0
    refused(envs, lambda x: x.step(actions, out=out), ValueError, "actions and out.obs share memory")


def test_out_is_checked_again_when_a_dict_of_it_holds_other_arrays() -> None:
    envs = started("rooms")
    out = StepOut(obs=envs.observe())
    envs.step(np.zeros(N, np.int64), out=out)
    out.obs["heat"] = np.zeros((N, 3))
    refused(
        envs,
        lambda x: x.step(np.zeros(N, np.int64), out=out),
        ValueError,
        r"out.obs\['heat'\]: expected shape \(4, 3\) of float32",
    )


# --- snapshot, restore, fork ------------------------------------------------------------------------------------------


def snap(name: str = "drift", mode: str = "next_step", **kwargs: Any) -> Snapshot:
    return started(name, mode, **kwargs).snapshot()


@table(
    (lambda x: x.snapshot([]), ValueError, "snapshot: rows is empty; a snapshot needs at least one row"),
    (lambda x: x.snapshot([4]), ValueError, "rows: row 4 is outside 0 to 3"),
    (lambda x: x.snapshot(out=3), TypeError, "snapshot: out: expected a Snapshot, got int"),
    (lambda x: x.snapshot([0], out=snap()), ValueError, "snapshot: out: expected Drift-v0 with 1 rows, got Snapshot"),
    (lambda x: x.restore(None), TypeError, "restore: expected a Snapshot, got NoneType"),
    (
        lambda x: x.restore(snap("counter")),
        ValueError,
        "restore: expected a snapshot of Drift-v0, got Snapshot.Counter-v0",
    ),
    (lambda x: x.restore(snap(params={"gain": 0.2})), ValueError, "taken under other params; pass params='ignore'"),
    (lambda x: x.restore(snap(params={"gain": [0.2] * 4})), ValueError, r"has other columns: param\.gain"),
    (lambda x: x.restore(snap(max_episode_steps=1)), ValueError, "row 0 of the snapshot has ended and awaits a reset"),
    (lambda x: x.restore(snap(), rows=[0, 1]), ValueError, "2 rows receive, but 4 rows of the snapshot were given"),
    (lambda x: x.restore(snap(), from_rows=[0, 1, 2, 4]), ValueError, "from_rows: row 4 is outside 0 to 3"),
    (lambda x: x.restore(snap(), params="merge"), ValueError, "params: expected 'match' or 'ignore', got 'merge'"),
    (lambda x: x.fork(4, [0]), ValueError, "sources: row 4 is outside 0 to 3"),
    (lambda x: x.fork(0, [1, 1]), ValueError, "targets: row 1 occurs more than once"),
    (lambda x: x.fork([0, 1], [2]), ValueError, "expected as many sources as targets, got 2 and 1"),
    (lambda x: x.fork(0, [1], rng="new"), ValueError, "rng: expected 'copy', 'keep' or 'fresh', got 'new'"),
    (lambda x: x.fork(0, [1], seed=1), ValueError, "seed belongs to rng='fresh', got rng='copy'"),
    (lambda x: x.snapshot()[[]], IndexError, "a snapshot needs at least one row"),
    (lambda x: x.snapshot()[7], IndexError, "out of bounds"),
    (lambda x: x.snapshot()[UNREADABLE], TypeError, "rows: expected an int, a slice, .* got <Unreadable>"),
    (lambda x: x.snapshot()[np.zeros((2, 2), np.int64)], IndexError, "a snapshot needs at least one row, got array"),
    (lambda x: x.snapshot([[0], [1, 2]]), ValueError, "rows: expected a one-dimensional int array .* got a ragged seq"),
    (lambda x: x.snapshot(UNREADABLE), TypeError, "rows: expected a one-dimensional int array .* got <Unreadable>"),
    (lambda x: x.restore(snap(), rng="no"), TypeError, "restore: rng: expected True or False, got 'no'"),
    (lambda x: x.restore(snap(), params=[]), ValueError, r"params: expected 'match' or 'ignore', got \[\]"),
    (lambda x: x.fork(UNREADABLE, [1]), TypeError, "sources: expected an int, .* got <Unreadable>"),
    (lambda x: x.fork(0, [1], rng=np.zeros(2)), ValueError, "rng: expected 'copy', 'keep' or 'fresh', got array"),
)
def test_snapshots(call: Any, kind: type[BaseException], message: str) -> None:
    refused(started("drift", "same_step"), call, kind, message)


def test_snapshot_files(tmp_path: Any) -> None:
    path = tmp_path / "snap"
    snap().save(path)
    content = path.read_bytes()
    for wrong, message in (
        (b"", "not a vecenv snapshot"),
        (b"PK" + content, "not a vecenv snapshot"),
        (content[:-1], "damaged snapshot"),
        (content[:100] + bytes([content[100] ^ 1]) + content[101:], "damaged snapshot"),
        (pickle.dumps(3), "not a vecenv snapshot"),
    ):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=message):
            Snapshot.load(path)


# --- views ------------------------------------------------------------------------------------------------------------


@table(
    (lambda x: x.view(4), ValueError, "view: row 4 is outside 0 to 3"),
    (lambda x: x.view(-1), ValueError, "view: row -1 is outside 0 to 3"),
    (lambda x: x.view(1.0), TypeError, r"view: expected a row number from 0 to 3, got 1\.0"),
    (lambda x: x.view(True), TypeError, "view: expected a row number from 0 to 3, got True"),
    (lambda x: x.view(None), TypeError, "view: expected a row number from 0 to 3, got None"),
    (lambda x: x.view([1]), TypeError, r"view: expected a row number from 0 to 3, got \[1\]"),
    (lambda x: x.view(UNREADABLE), TypeError, "view: expected a row number from 0 to 3, got <Unreadable>"),
    (lambda x: x.view(10**5000), ValueError, "view: row <int> is outside 0 to 3"),
    (lambda x: View(x, 2.0), TypeError, r"view: expected a row number from 0 to 3, got 2\.0"),
    (lambda x: View(None, 0), TypeError, "View: expected a VecEnv, got None"),
    (lambda x: x.view(0).step(0, jit=1), TypeError, "jit: expected True or False, got 1"),
    (lambda x: x.view(0).step(UNREADABLE), TypeError, r"action: expected one of Discrete\(3, start=-1\), got <Unr"),
    (lambda x: x.view(0).step([[0], [0, 1]]), ValueError, r"action: expected one of Discrete.*, got a ragged sequence"),
    (lambda x: x.view(0).reset(options=5), TypeError, "reset: options: expected a dict or None, got int"),
    (lambda x: setattr(x.view(0), "np_random", 3), TypeError, "np_random: expected a Generator on PCG64, got 3"),
    (
        lambda x: setattr(x.view(0), "np_random", np.random.Generator(np.random.MT19937(1))),
        TypeError,
        r"np_random: expected a Generator on PCG64, got Generator\(MT19937\)",
    ),
    (lambda x: x.call(3), TypeError, "call: expected the name of a field or attribute, got 3"),
    (lambda x: x.get_attr([]), TypeError, r"get_attr: expected the name of a field or attribute, got \[\]"),
    (lambda x: x.view(2).step(2), ValueError, r"row 2: action 2 is outside Discrete\(3, start=-1\)"),
    (lambda x: x.view(2).step(2, jit=False), ValueError, r"row 2: action 2 is outside Discrete\(3, start=-1\)"),
    (lambda x: x.view(2).step([0, 0]), ValueError, r"actions: expected an array of shape \(1,\) of int64"),
    (lambda x: x.view(2).step(0.5), TypeError, "actions: expected .* of int64, got float64"),
    (lambda x: x.view(2).reset(options={"strat": 1}), ValueError, "unknown key 'strat'"),
    (lambda x: x.view(0).state.speed, AttributeError, "no field"),
    (lambda x: x.call("no_such_method"), AttributeError, "no_such_method"),
)
def test_views(call: Any, kind: type[BaseException], message: str) -> None:
    refused(started("counter"), call, kind, message)


# --- lifecycle --------------------------------------------------------------------------------------------------------


@table(
    (lambda x: x.step([0] * N), ResetNeeded, r"row 0 was never reset; call reset\(\) first"),
    (lambda x: x.step([0], rows=[2]), ResetNeeded, "row 2 was never reset"),
    (lambda x: x.view(3).step(0), ResetNeeded, "row 3 was never reset"),
    (lambda x: x.view(3).step(0, jit=False), ResetNeeded, "row 3 was never reset"),
    (lambda x: x.observe(), ResetNeeded, "row 0 was never reset"),
)
def test_before_the_first_reset(call: Any, kind: type[BaseException], message: str) -> None:
    refused(e.make("counter", N), call, kind, message)


@pytest.mark.parametrize("mode", ["same_step", "disabled"])
@table(
    (lambda x: x.step([0] * N), ResetNeeded, r"row 1: its episode has ended; reset it with reset_mask"),
    (lambda x: x.step([0], rows=[1]), ResetNeeded, "row 1: its episode has ended"),
    (lambda x: x.step([0, 0], rows=[3, 1]), ResetNeeded, "row 1: its episode has ended"),
    (lambda x: x.view(1).step(0), ResetNeeded, "row 1: its episode has ended"),
    (lambda x: x.view(1).step(0, jit=False), ResetNeeded, "row 1: its episode has ended"),
)
def test_after_the_end_of_an_episode(mode: str, call: Any, kind: type[BaseException], message: str) -> None:
    envs = started("counter", mode)
    envs.state.end[1] = 0
    envs.view(1).step(0)
    refused(envs, call, kind, message)


@table(
    (lambda x: x.step([0] * N), ClosedEnvironmentError, "is closed; make a new one"),
    (lambda x: x.reset(), ClosedEnvironmentError, "is closed; make a new one"),
    (lambda x: x.observe(), ClosedEnvironmentError, "is closed; make a new one"),
    (lambda x: x.snapshot(), ClosedEnvironmentError, "is closed; make a new one"),
    (lambda x: x.restore(snap("counter")), ClosedEnvironmentError, "is closed; make a new one"),
    (lambda x: x.fork(0, [1]), ClosedEnvironmentError, "is closed; make a new one"),
    (lambda x: x.view(0), ClosedEnvironmentError, "is closed; make a new one"),
    (lambda x: x.render(), ClosedEnvironmentError, "is closed; make a new one"),
    (lambda x: x.set_attr("n", 3), ClosedEnvironmentError, "is closed; make a new one"),
)
def test_after_close(call: Any, kind: type[BaseException], message: str) -> None:
    envs = started("counter")
    envs.close()
    envs.close()
    refused(envs, call, kind, message)


# --- registration -----------------------------------------------------------------------------------------------------


@table(
    (lambda: vecenv.register("Drift", e.drift), ValueError, "id: expected a name with a version such as 'MyGrid-v0'"),
    (lambda: vecenv.register("my grid-v0", e.drift), ValueError, "id: expected a name with a version"),
    (
        lambda: vecenv.register("CartPole-v1", e.drift),
        ValueError,
        "'CartPole-v1' is registered already, by vecenv.kernels.classic.cartpole:build; choose another.*overwrite=True",
    ),
    (
        lambda: vecenv.register("CartPole-v1", e.drift, overwrite=1),
        TypeError,
        "overwrite: expected True or False, got 1",
    ),
    (
        lambda: vecenv.register("Drift-v77", int),
        TypeError,
        "build is a function or 'module:function', got <class 'int'>",
    ),
    (lambda: vecenv.register("Drift-v77", "drift"), ValueError, "build: expected 'module:function', got 'drift'"),
    (lambda: vecenv.register("Drift-v77", lambda size: None), TypeError, "option 'size' has no default in its build"),
    (lambda: vecenv.register("CartPole-v1", lambda: None, overwrite=True), TypeError, "returns an EnvDef, got None"),
    (lambda: vecenv.unregister("CartPol-v1"), NameNotFound, "does not exist; did you mean 'CartPole-v1'"),
    (lambda: vecenv.unregister(3), TypeError, "unregister: expected an id, got 3"),
    (
        lambda: vecenv.register("Drift-v77"),
        TypeError,
        r"register\(id, build\) needs a build function, or pass an EnvDef",
    ),
    (lambda: vecenv.register(e.definition("drift"), e.drift), TypeError, "takes no build function"),
    (
        lambda: make_vec(e.definition("drift"), 2, size=3),
        TypeError,
        "is built already and takes no options, got 'size'",
    ),
    (lambda: gymnasium.make_vec("vecenv/CartPole-v1", num_envs=2, colour=1), TypeError, "unknown option 'colour'"),
    (lambda: vecenv.make("CartPole-v1", colour=1), TypeError, "unknown option 'colour'"),
    (lambda: vecenv.make("CartPole-v1", num_envs=2), TypeError, "make: 'num_envs' belongs to make_vec"),
)
def test_registration(call: Any, kind: type[BaseException], message: str) -> None:
    before = vecenv.registered_ids(), list(gymnasium.registry)
    with pytest.raises(kind, match=message):
        call()
    assert (vecenv.registered_ids(), list(gymnasium.registry)) == before


@pytest.fixture
def scratch_id() -> Iterator[str]:
    yield "Scratch-v0"
    if "Scratch-v0" in vecenv.registered_ids():
        vecenv.unregister("Scratch-v0")


def cell(source: str = "", module: str = "__main__", **more: Any) -> Any:
    """What a notebook's cell defines: `build` of a Dot that ends after `limit` steps."""
    namespace: dict[str, Any] = {"__name__": module, "dot": dot, "more": more}
    exec(source or "def build(limit=20):\n    return dot(id='Scratch-v0', max_episode_steps=limit, **more)", namespace)
    return namespace


def test_a_cell_that_runs_again_replaces_what_it_registered(scratch_id: str) -> None:
    for module in ("__main__", "some_module"):
        vecenv.register(scratch_id, cell(module=module)["build"])
        before = make_vec(scratch_id, 2)
        before.reset(seed=0)
        faster = cell(module=module, param_values={"gain": 3.0})["build"]
        vecenv.register(scratch_id, faster)
        after = make_vec(scratch_id, 2)
        after.reset(seed=0)
        through = gymnasium.make_vec(f"vecenv/{scratch_id}", num_envs=2)
        through.reset(seed=0)
        start = before.state.x.copy()
        for envs, gain in ((before, 1.0), (after, 3.0), (through, 3.0)):
            envs.step(np.zeros(2, np.int64))
            assert envs.state.x.tolist() == (start + gain).tolist()
        twin = pickle.loads(pickle.dumps(before.snapshot().num_rows))
        assert twin == 2 and before.like(1).definition is before.definition
        vecenv.unregister(scratch_id)
        before.step(np.zeros(2, np.int64))  # a batch goes on without its id


def test_main_may_rename_and_others_must_say_overwrite(scratch_id: str) -> None:
    renamed = cell("def build_anew():\n    return dot(id='Scratch-v0', max_episode_steps=7)")["build_anew"]
    vecenv.register(scratch_id, cell()["build"])
    vecenv.register(scratch_id, renamed)
    assert gymnasium.spec(f"vecenv/{scratch_id}").max_episode_steps == 7
    elsewhere = cell(module="elsewhere")["build"]
    with pytest.raises(ValueError, match="'Scratch-v0' is registered already, by __main__:build_anew; choose another"):
        vecenv.register(scratch_id, elsewhere)
    assert gymnasium.spec(f"vecenv/{scratch_id}").max_episode_steps == 7
    vecenv.register(scratch_id, elsewhere, overwrite=True)
    assert gymnasium.spec(f"vecenv/{scratch_id}").max_episode_steps == 20
    with pytest.raises(TypeError, match="returns an EnvDef, got None"):
        vecenv.register(scratch_id, lambda: None, overwrite=True)
    assert make_vec(scratch_id, 1).definition.max_episode_steps == 20
    vecenv.unregister(f"vecenv/{scratch_id}")
    with pytest.raises(NameNotFound):
        make_vec(scratch_id, 1)
    assert f"vecenv/{scratch_id}" not in gymnasium.registry


def test_definitions_replace_each_other_by_their_step(scratch_id: str) -> None:
    vecenv.register(dot(id=scratch_id))
    vecenv.register(dot(id=scratch_id, max_episode_steps=3))
    assert make_vec(scratch_id, 1).definition.max_episode_steps == 3
    with pytest.raises(ValueError, match=r"by test_bad_calls:dot_step|by .*test_bad_calls:dot_step"):
        vecenv.register(dot(id=scratch_id, step=another_step))


# --- definitions ------------------------------------------------------------------------------------------------------


class DotState(State):
    x: F8
    cells: Array[F8, 3]


class DotParams(Params):
    gain: F8 = 1.0


class TableParams(Params):
    map: Table[F8, 1]


@jit
def dot_reset(state, params, rng):
    state.x = rng.random()


@jit
def dot_step(state, action, params, rng):
    state.x += params.gain
    return 0.0, False


@jit
def another_step(state, action, params, rng):
    state.x -= amount(params)
    return 0.0, False


@jit
def amount(params):
    return params.gain


@jit
def double(params):
    return 2.0 * params.gain


@jit
def dot_observe(state, params, obs):
    obs[0] = state.x
    obs[1] = state.cells[0]


def dot(**change: Any) -> EnvDef:
    arguments: dict[str, Any] = {
        "id": "Dot-v0", "state": DotState, "params": DotParams,
        "reset": dot_reset, "step": dot_step, "observe": dot_observe,
        "observation_space": spaces.Box(-np.inf, np.inf, (2,), np.float64), "action_space": spaces.Discrete(2),
        "max_episode_steps": 20,
    }  # fmt: skip
    return EnvDef(**{**arguments, **change})


def unmarked(state, action, params, rng):
    return 0.0, False


@jit
def three_arguments(state, action, params):
    return 0.0, False


@jit
def no_such_field(state, action, params, rng):
    state.y += 1.0
    return 0.0, False


@jit
def no_such_param(state, action, params, rng):
    state.x += params.gian
    return 0.0, False


@jit
def raising(state, action, params, rng):
    if action > 5:
        raise ValueError
    return 0.0, False


@jit
def power(state, action, params, rng):
    state.x = state.x**0.5
    return 0.0, False


@jit
def observe_outside(state, params, obs):
    obs[0] = state.x
    obs[2] = state.cells[0]


@jit
def read_outside(state, params, obs):
    k = 2
    while k < 3 + state.elapsed:
        k += 1
    obs[0] = state.cells[k]
    obs[1] = 0.0


@jit
def observe_one_of_two(state, params, obs):
    obs[0] = state.x


@jit
def observe_nan_free(state, params, obs):
    obs[0] = state.x
    obs[1] = 2.0


def refused_definition(**change: Any) -> Callable[[], Any]:
    return lambda: make_vec(dot(**change), 2)


@table(
    (refused_definition(step=unmarked), BindError, "Dot-v0: `step` is not marked; put @jit above `def unmarked`"),
    (
        refused_definition(step=three_arguments),
        BindError,
        r"`step` takes \(state, action, params, rng\), got three_arg",
    ),
    (refused_definition(observe=dot_step), BindError, r"`observe` takes \(state, params, obs\), got dot_step"),
    (refused_definition(step=raising), BindError, "raise"),
    (refused_definition(step=power), BindError, r"\*\*"),
    (refused_definition(state=DotParams), TypeError, "expected a subclass of State, got"),
    (refused_definition(params=TableParams), ValueError, "param 'map' has no default and no value was given"),
    (refused_definition(param_values={"gian": 1.0}), ValueError, "DotParams has no field 'gian'; did you mean 'gain'"),
    (refused_definition(max_episode_steps=0), ValueError, "max_episode_steps is an int >= 1 or None, got 0"),
    (
        refused_definition(max_episode_steps=2**31),
        ValueError,
        "max_episode_steps is an int >= 1 or None, got 2147483",
    ),
    (refused_definition(id=None), TypeError, "id: expected a name with a version such as 'MyGrid-v0', got None"),
    (refused_definition(id=3), TypeError, "id: expected a name with a version such as 'MyGrid-v0', got 3"),
    (
        refused_definition(functions={"typo": dot_reset}),
        ValueError,
        r"functions\['typo'\]: no row function reads a glo",
    ),
    (refused_definition(functions=[dot_reset]), TypeError, r"functions is a dict by name, got \["),
    (refused_definition(param_values={1: 2}), TypeError, "param_values is a dict by name, got {1: 2}"),
    (refused_definition(sizes=3), TypeError, "sizes is a dict by name, got 3"),
    (refused_definition(render_fps=0), ValueError, "render_fps is an int >= 1, got 0"),
    (refused_definition(check_options=3), TypeError, "`check_options` is a function, got 3"),
    (refused_definition(observation_space=spaces.Text(3)), TypeError, "observation_space: expected Box, Discrete"),
    (refused_definition(action_space=spaces.Box(0, 1, ())), ValueError, "a Box needs at least one dimension"),
    (refused_definition(invalid_action="clip"), ValueError, "invalid_action is 'raise' or 'step', got 'clip'"),
)
def test_definitions(call: Any, kind: type[BaseException], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_functions_are_read_somewhere_in_the_call_tree() -> None:
    with pytest.raises(ValueError, match=r"Dot-v0: functions\['amonut'\]: no row function .*; did you mean 'amount'"):
        dot(step=another_step, functions={"amonut": double})
    with pytest.raises(BindError, match=r"functions\['amount'\] is not marked"):
        dot(step=another_step, functions={"amount": unmarked})
    envs = make_vec(dot(step=another_step, functions={"amount": double}), 1)
    envs.reset(options={"state": {"x": 5.0}})
    envs.step([0])
    assert envs.state.x.tolist() == [3.0]


@pytest.mark.parametrize(("step", "name"), [(no_such_field, "y"), (no_such_param, "gian")])
def test_a_missing_field_is_named_with_its_function(step: Any, name: str, jit_only: None) -> None:
    with pytest.raises(Exception, match=f"{step.__name__}(.|\n)*{name}|{name}(.|\n)*{step.__name__}"):
        make_vec(dot(step=step), 2)


@pytest.mark.parametrize(("observe", "index"), [(observe_outside, 2), (read_outside, 3)])
def test_an_index_outside_is_found_by_boundscheck(observe: Any, index: int) -> None:
    envs = VecEnv(dot(observe=observe), N, boundscheck=True)
    with pytest.raises(IndexError, match=f"index {index}|out of bounds|out of range|outside"):
        envs.reset(seed=0)


@pytest.mark.parametrize(
    ("observe", "space", "message"),
    [
        (observe_one_of_two, None, r"obs-unwritten.*obs\[1\]"),
        (observe_outside, None, "index-out-of-bounds"),
        (observe_nan_free, spaces.Box(-1, 1, (2,), np.float64), "obs-space"),
    ],
)
def test_check_def_names_what_is_wrong(observe: Any, space: Any, message: str) -> None:
    definition = dot(observe=observe, **({} if space is None else {"observation_space": space}))
    with pytest.raises(AssertionError, match=message):
        check_def(definition, num_steps=50)


@table(
    (lambda: check_def(3), TypeError, "expected an id or an EnvDef, got 3"),
    (lambda: check_def(dot(), num_steps=0), ValueError, "check_def: num_steps: expected an int >= 1, got 0"),
    (lambda: check_def(dot(), num_steps="a"), TypeError, "check_def: num_steps: expected an int >= 1, got 'a'"),
    (lambda: check_port(dot(), None), TypeError, "check_port: gym_factory: expected a function, got None"),
    (lambda: check_port(dot(), lambda: 3), TypeError, r"expected gym_factory\(\) to be a gymnasium.Env, got int"),
    (lambda: check_vec_env(3), TypeError, "check_vec_env: expected a gymnasium.vector.VectorEnv, got int"),
    (
        lambda: check_vec_env(make_vec("CartPole-v1"), make=3),
        TypeError,
        "make: expected a function make.num_envs=n., got",
    ),
)
def test_checks(call: Any, kind: type[BaseException], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_check_def_is_quiet_on_a_right_definition() -> None:
    check_def(dot(), num_steps=50)
