"""Wrong calls, by what is wrong: each raises the error that is named here, with a message that says what was expected,
and not a byte of the batch has changed.

`test_vec_env.py`, `test_snapshot.py` and `tests/kernels/test_envdef.py` hold more of each kind; this is the table to
read.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import envs as e
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, NameNotFound, ResetNeeded, VersionNotFound

import vecenv
from vecenv import F8, Array, BindError, EnvDef, Params, Snapshot, State, StepOut, Table, VecEnv, jit, make_vec, uniform
from vecenv.checks import check_def

Case = tuple[Callable[..., Any], type[BaseException], str]

N = 4


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
    (lambda x: x.step(np.full((4, 1), np.nan)), ValueError, r"row 0: action \[nan\] is outside Box"),
    (lambda x: x.step([[0], [np.inf], [0], [0]]), ValueError, r"row 1: action \[inf\] is outside Box"),
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
)
def test_options(call: Any, kind: type[BaseException], message: str) -> None:
    refused(started("rooms"), call, kind, message)


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
    (lambda x: x.set_attr("gain", [1.0] * 3), ValueError, r"expected shape \(4,\), got \(3,\)"),
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
    (write("at", [1, 2]), ValueError, r"could not broadcast input array from shape \(2,\) into shape \(4,\)"),
    (write("heat", np.zeros((3, 4))), ValueError, r"could not broadcast .* into shape \(4,3\)"),
    (write("at", "north"), ValueError, "invalid literal for int"),
    (lambda x: x.set_attr("at", 1.5), TypeError, "state 'at': expected int16"),
    (lambda x: x.set_attr("at", [0, 0, 70000, 0]), ValueError, "state 'at': row 2: 70000 does not fit int16"),
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
    (lambda x: x.view(1.0), TypeError, "view: expected a one-dimensional int array"),
    (lambda x: x.view(True), TypeError, "view: expected a row number, got True"),
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
        "'CartPole-v1' is registered already; choose another",
    ),
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
)
def test_registration(call: Any, kind: type[BaseException], message: str) -> None:
    before = vecenv.registered_ids(), list(gymnasium.registry)
    with pytest.raises(kind, match=message):
        call()
    assert (vecenv.registered_ids(), list(gymnasium.registry)) == before


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
    (refused_definition(observation_space=spaces.Text(3)), TypeError, "observation_space: expected Box, Discrete"),
    (refused_definition(action_space=spaces.Box(0, 1, ())), ValueError, "a Box needs at least one dimension"),
    (refused_definition(invalid_action="clip"), ValueError, "invalid_action is 'raise' or 'step', got 'clip'"),
)
def test_definitions(call: Any, kind: type[BaseException], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


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


def test_check_def_is_quiet_on_a_right_definition() -> None:
    check_def(dot(), num_steps=50)
