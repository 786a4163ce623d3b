"""Transforms. Oracle of `FrameStack`: Gymnasium 1.4.0's `FrameStackObservation` around every row, over Gymnasium's own
environments (`math="libm"`) or over single rows of ours; of the hooks before a step: its `StickyAction`.
"""

from __future__ import annotations

import copy
import pickle
from collections import deque
from typing import Any

import envs as e
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import FrameStackObservation, StickyAction
from oracle import assert_lockstep, assert_same_bits

import vecenv
from vecenv import I4, Array, EnvDef, FrameStack, Params, Snapshot, State, StepOut, jit, make, make_vec
from vecenv.checks import check_vec_env
from vecenv.kernels.soa import Column
from vecenv.kernels.transform import BoundTransform, transformed
from vecenv.kernels.wiring import Wiring
from vecenv.vec_env import VecEnv

K = 3
STACK = (FrameStack(K),)
nojit = pytest.mark.nojit
every_mode = pytest.mark.parametrize("mode", e.MODES)


def stacked(num_envs: int = 4, mode: str = "next_step", id: str = "CartPole-v1", **kwargs: Any) -> VecEnv:
    """Most tests share these kernels: to compile them takes longer than the tests."""
    return make_vec(id, num_envs, autoreset_mode=mode, **{"transforms": STACK, "math": "libm", **kwargs})


# --- the same observations as Gymnasium's wrapper ---------------------------------------------------------------------


@every_mode
@pytest.mark.parametrize(
    ("id", "options", "k", "padding"),
    [
        ("CartPole-v1", {}, K, "reset"),
        ("CartPole-v1", {}, K, "zero"),
        ("FrozenLake-v1", {"is_slippery": True}, K, "reset"),
        pytest.param("FrozenLake-v1", {"is_slippery": True}, K, "zero", marks=pytest.mark.slow),
        pytest.param("CartPole-v1", {}, 1, "reset", marks=pytest.mark.slow),
        pytest.param("CartPole-v1", {}, 40, "zero", marks=pytest.mark.slow),  # longer than most episodes
    ],
)
def test_lockstep_with_gymnasium(id, options, k, padding, mode):
    n = 5
    envs = stacked(n, mode, id, transforms=(FrameStack(k, padding),), max_episode_steps=30, **options)

    def single() -> Any:
        env = gymnasium.make(id, disable_env_checker=True, max_episode_steps=30, **options)
        return FrameStackObservation(env, k, padding_type=padding)

    oracle = SyncVectorEnv([single] * n, autoreset_mode=envs.autoreset_mode)
    assert envs.single_observation_space == oracle.single_observation_space
    assert envs.observation_space == oracle.observation_space
    assert assert_lockstep(envs, oracle, 200, seed=7) > 30


@nojit
@pytest.mark.parametrize(
    ("name", "padding"),
    [
        ("rooms", "reset"),  # Dict of boxes and a Discrete
        pytest.param("pair", "zero", marks=pytest.mark.slow),  # Tuple
        pytest.param("dice", "reset", marks=pytest.mark.slow),  # MultiDiscrete
        pytest.param("bits", "zero", marks=pytest.mark.slow),  # MultiBinary
        pytest.param("blocks", "reset", marks=pytest.mark.slow),  # int32
        pytest.param("waves", "zero", marks=pytest.mark.slow),  # uint8
        pytest.param("lake", "zero", marks=pytest.mark.slow),  # Discrete
        pytest.param("drift", "reset", marks=pytest.mark.slow),
    ],
)
def test_every_kind_of_observation(name, padding):
    """Oracle: the wrapper around single rows without a transform, whose episodes are the same."""
    n = 3
    envs = e.make(name, n, "disabled", transforms=(FrameStack(K, padding),), max_episode_steps=6)
    singles = [FrameStackObservation(view_of(name), K, padding_type=padding) for _ in range(n)]
    assert envs.single_observation_space == singles[0].observation_space
    obs, _ = envs.reset(seed=3)
    for i, single in enumerate(singles):
        e.assert_same(row(envs, obs, i), single.reset(seed=3 + i)[0])
    for action in e.actions(envs, 15):
        obs, _, terminated, truncated, _ = envs.step(action)
        ended = terminated | truncated
        for i, single in enumerate(singles):
            its, _, *flags, _ = single.step(action[i])
            e.assert_same(row(envs, obs, i), its)
            assert flags == [terminated[i], truncated[i]]
        e.assert_same(envs.observe(), obs)
        if ended.any():
            obs, _ = envs.reset(options={"reset_mask": ended})
            for i in np.flatnonzero(ended):
                e.assert_same(row(envs, obs, i), singles[i].reset()[0])


def view_of(name: str) -> Any:
    return e.make(name, 1, "disabled", max_episode_steps=6).view(0)


def row(envs: VecEnv, obs: Any, i: int) -> Any:
    """Row i as the wrapper gives it."""
    return envs._buffers.row(obs, i)


# --- what vecenv adds -------------------------------------------------------------------------------------------------


@every_mode
def test_check_vec_env(mode):
    check_vec_env(stacked(4, mode), num_steps=100)


@nojit
def test_a_row_does_not_depend_on_the_batch():
    few, many = stacked(1), stacked(64)
    actions = e.actions(many, 60)
    for i in (0, 1, 63):
        assert_same_bits(few.reset(seed=5 + i)[0][0], many.reset(seed=5)[0][i])
        for action in actions:
            a, b = few.step(action[[i]]), many.step(action)
            for x, y in zip(a[:4], b[:4], strict=True):
                assert_same_bits(x[0], y[i])


@nojit
def test_observe_is_pure_and_written_states_show_in_the_next_frame_only():
    envs = stacked()
    envs.reset(seed=0)
    obs = envs.step(np.array([0, 1, 0, 1]))[0]
    before = e.checksum(envs)
    assert_same_bits(envs.observe(), obs)
    assert_same_bits(envs.observe(), obs)
    assert e.checksum(envs) == before
    envs.state.x = 0.25
    assert_same_bits(envs.observe(), obs)
    envs.state.x_dot = 0.0
    after = envs.step(np.zeros(4, np.int64))[0]
    assert_same_bits(after[:, :-1], obs[:, 1:])
    assert (after[:, -1, 0] == np.float32(0.25)).all()


@nojit
@pytest.mark.parametrize("padding", ["reset", "zero"])
def test_a_reset_to_a_given_state_begins_with_its_frame(padding):
    envs = stacked(transforms=(FrameStack(K, padding),))
    envs.reset(seed=0)
    for action in e.actions(envs, 5):
        untouched = envs.step(action)[0]
    mask = np.array([True, False, True, False])
    obs, _ = envs.reset(options={"reset_mask": mask, "state": {"x": 0.5, "theta": [0.1, 0.0, 0.2, 0.0]}})
    frame = np.stack([envs.state[name] for name in ("x", "x_dot", "theta", "theta_dot")], 1).astype(np.float32)
    assert (frame[mask, 0] == 0.5).all()
    for i in range(4):
        expected = np.zeros((K, 4), np.float32) if padding == "zero" else np.repeat(frame[[i]], K, 0)
        expected[-1] = frame[i]
        assert_same_bits(obs[i], expected if mask[i] else untouched[i])
    assert_same_bits(envs.observe(), obs)
    all_rows, _ = envs.reset(seed=1, options={"state": {"x": 0.5}})
    assert_same_bits(all_rows, envs.observe())
    assert (all_rows[:, -1, 0] == 0.5).all()


@nojit
@every_mode
def test_replay_after_restore_fork_and_load(mode, tmp_path):
    envs = stacked(4, mode, "FrozenLake-v1")
    envs.reset(seed=0)
    actions = e.actions(envs, 30)

    def play(envs: VecEnv, actions: np.ndarray) -> list[Any]:
        results = []
        for action in actions:
            obs, *rest, _ = envs.step(action)
            results.append((obs.copy(), *rest))
            if mode == "disabled":
                e.reset_ended(envs, *rest[1:])
        return results

    play(envs, actions[:7])
    snap = envs.snapshot()
    first, now = play(envs, actions[7:]), envs.observe()
    envs.restore(snap)
    e.assert_same(tuple(play(envs, actions[7:])), tuple(first))
    assert_same_bits(envs.observe(), now)
    snap.save(tmp_path / "rows")
    other = envs.like(2)
    other.restore(Snapshot.load(tmp_path / "rows"), from_rows=[3, 1])
    for action, step in zip(actions[7:], first, strict=True):
        obs, *rest, _ = other.step(action[[3, 1]])
        e.assert_same((obs, *rest), e.take(step, [3, 1]))
        if mode == "disabled":
            e.reset_ended(other, *rest[1:])
    envs.restore(snap)
    envs.fork(2, [0, 1, 3])
    obs = envs.observe()
    assert (obs == obs[2]).all()
    assert_same_bits(obs[2], snap_obs(envs, snap)[2])


def snap_obs(envs: VecEnv, snap: Snapshot) -> np.ndarray:
    envs.restore(snap)
    return envs.observe()


@nojit
def test_partial_steps_views_and_plain_python():
    """Rows stepped alone, by a view, and by plain Python, are those of the whole batch."""
    whole, parts = stacked(4, "disabled"), stacked(4, "disabled")
    view, python = parts.view(1), parts.view(2)
    assert view.observation_space == whole.single_observation_space
    first, _ = whole.reset(seed=0)
    assert_same_bits(parts.reset(seed=0)[0], first)
    for action in e.actions(whole, 8):
        obs, *_ = whole.step(action)
        some, *_ = parts.step(action[[3, 0]], rows=[3, 0])
        assert_same_bits(some, obs[[3, 0]])
        assert_same_bits(view.step(int(action[1]))[0], obs[1])
        assert_same_bits(python.step(int(action[2]), jit=False)[0], obs[2])
        assert_same_bits(parts.observe(), obs)
    view.reset(seed=0)
    assert_same_bits(parts.observe()[0], obs[0])
    assert_same_bits(parts.observe()[1], first[0])


@nojit
def test_absorbed_rows_keep_their_last_stack():
    envs = stacked(2, "disabled", ended="absorb")
    envs.reset(seed=0, options={"state": {"theta": [0.2, 0.0]}})
    ended = np.zeros(2, np.bool_)
    last = np.zeros(0)
    for _ in range(12):
        obs, _, terminated, _, _ = envs.step(np.array([1, 0]) * 0)
        if ended[0]:
            assert terminated[0]
            assert_same_bits(obs[0], last)
        ended, last = terminated, obs[0].copy()
    assert ended[0] and not (obs[0, 0] == obs[0, 1]).all()


@nojit
def test_out_and_copy_false():
    kept, reused, given = stacked(), stacked(copy=False), stacked()
    out = StepOut(obs=np.full((4, K, 4), np.nan, np.float32))
    for envs in (kept, reused, given):
        envs.reset(seed=0)
    for action in e.actions(kept, 10):
        obs = kept.step(action)[0]
        assert_same_bits(reused.step(action)[0], obs)
        assert_same_bits(given.step(action, out=out)[0], obs)
    assert given.step(action, out=out)[0] is out.obs
    with pytest.raises(ValueError, match=r"out\.obs: expected shape \(4, 3, 4\)"):
        kept.step(action, out=StepOut(obs=np.zeros((4, 4), np.float32)))


@nojit
def test_pictures_are_of_the_state():
    texts = [stacked(2, id="FrozenLake-v1", render_mode="ansi", transforms=t) for t in ((), STACK)]
    for envs in texts:
        envs.reset(seed=0)
        envs.step(np.array([1, 2]))
    assert texts[0].render() == texts[1].render()


@nojit
def test_sizes_stay_run_time_values():
    """One kernel serves every size. Oracle: the last squares, kept in a deque."""
    batches = [stacked(2, "disabled", "TinyGrid-v0", size=size, math="portable") for size in (3, 5)]
    assert batches[0]._runner.kernels.wiring.description() == batches[1]._runner.kernels.wiring.description()
    for envs, size in zip(batches, (3, 5), strict=True):
        squares = np.eye(size * size, dtype=np.float32)
        assert envs.single_observation_space == spaces.Box(0, 1, (K, size * size), np.float32)
        obs, _ = envs.reset(seed=0)
        last = deque([squares[[0, 0]]] * K, maxlen=K)
        for action in e.actions(envs, 20) % 2 * 2 + 1:  # left and right: the goal is in another row
            assert_same_bits(obs, np.stack(last, 1))
            obs, *_ = envs.step(action)
            last.append(squares[envs.state.row * size + envs.state.col])


class DotState(State):
    at: Array[I4, 2]


@jit
def dot_reset(state, params, rng):
    state.at[0] = rng.integers(0, 2)


@jit
def dot_step(state, action, params, rng):
    state.at[1] += action
    return 0.0, False


@jit
def dot_observe(state, params, obs):
    obs[0] = state.at[state.at[1]]


@nojit
def test_a_checked_index_in_a_frame_names_its_row():
    """A frame is an observation: where it raises, nothing has moved."""
    dot = EnvDef("Dot-v0", DotState, Params, dot_reset, dot_step, dot_observe,
                 observation_space=spaces.Box(-9, 9, (1,)), action_space=spaces.Discrete(4))  # fmt: skip
    envs = make_vec(dot, 3, transforms=STACK, boundscheck=True)
    envs.reset(seed=0)
    before = e.checksum(envs)
    with pytest.raises(IndexError, match="row 1") as caught:
        envs.step(np.array([0, 2, 1]))
    assert e.checksum(envs) == before, caught.value
    envs.step(np.array([0, 1, 1]))


# --- transforms are part of the batch ---------------------------------------------------------------------------------


@nojit
def test_without_transforms_nothing_is_added():
    envs, with_stack = stacked(2, transforms=()), stacked(2)
    assert envs.transforms == () and with_stack.transforms == STACK
    assert envs._memory.definition is envs.definition is with_stack.definition
    names, more = (list(batch._memory.columns) for batch in (envs, with_stack))
    assert [name for name in more if name not in names] == ["FrameStack.0.frames", "FrameStack.0.newest"]
    assert [name for name in more if name in names] == names
    assert with_stack._memory.definition is stacked(7)._memory.definition  # so kernels are bound once


@nojit
def test_rows_of_other_layouts_are_refused(tmp_path):
    plain, three, zeros = (stacked(2, transforms=t) for t in ((), STACK, (FrameStack(K, "zero"),)))
    for envs in (plain, three, zeros):
        envs.reset(seed=0)
    for envs, other, message in (
        (three, plain, r"the snapshot has other columns: FrameStack\.0\.frames, FrameStack\.0\.newest$"),
        (plain, three, r"the snapshot has other columns: FrameStack\.0\.frames, FrameStack\.0\.newest$"),
        (
            three,
            zeros,
            r"taken through FrameStack\(3, padding='zero'\), this batch is seen .* FrameStack\(3, padding='reset'\)$",
        ),
    ):
        before = e.checksum(envs)
        with pytest.raises(ValueError, match=message):
            envs.restore(other.snapshot())
        assert e.checksum(envs) == before
    zeros.snapshot().save(tmp_path / "zeros")
    with pytest.raises(ValueError, match=r"taken through FrameStack\(3, padding='zero'\), this batch"):
        three.restore(Snapshot.load(tmp_path / "zeros"))
    recycled = zeros.snapshot()
    three.snapshot(out=recycled)
    three.restore(recycled[[1, 0]])
    more = Wiring(transformed(plain.definition, (FrameStack(K + 1),)))
    assert three._memory.layout.difference(more.arena_layout) == "FrameStack.0.frames"


@nojit
def test_like_pickle_and_deepcopy():
    envs = stacked(3)
    envs.reset(seed=0)
    actions = e.actions(envs, 40)
    for action in actions[:5]:
        envs.step(action)
    copies = [copy.deepcopy(envs), pickle.loads(pickle.dumps(envs))]
    like = envs.like(3, autoreset_mode="same_step")
    like.restore(envs.snapshot())
    for other in (*copies, like):
        assert other.transforms == STACK and other.definition.id == "CartPole-v1"
        assert_same_bits(other.observe(), envs.observe())
    for action in actions[5:]:
        results = [batch.step(action)[:4] for batch in (envs, *copies)]
        e.assert_same(results[1], results[0])
        e.assert_same(results[2], results[0])
    with pytest.raises(TypeError, match="like: unknown argument 'transforms'"):
        envs.like(3, transforms=())


@nojit
@pytest.mark.filterwarnings("ignore:.*(Overriding environment|is out of date)")
def test_a_spec_that_cannot_become_json_says_so():
    """Those that can do; pickle keeps all of them."""
    for made, name in (
        (stacked(2), "transforms"),
        (vecenv.make("CartPole-v1", transforms=STACK), "transforms"),
        (vecenv.make_vec("CartPole-v1", 2, params={"length": np.array([0.5, 0.6])}), "params"),
        (vecenv.make_vec("CartPole-v1", 2, max_episode_steps=np.array([5, 6])), "max_episode_steps"),
    ):
        with pytest.raises(
            TypeError, match=f"vecenv/CartPole-v1: the spec cannot become JSON: {name}=.* has no such form"
        ):
            made.spec.to_json()
        assert made.spec.pprint(disable_print=True).startswith("id=vecenv/CartPole-v1")
        assert repr(pickle.loads(pickle.dumps(made.spec))) == repr(made.spec)
    spec = vecenv.make_vec("CartPole-v1", 2, params={"length": 0.7}).spec
    again = gymnasium.make_vec(gymnasium.envs.registration.EnvSpec.from_json(spec.to_json()))
    assert again.params["length"] == 0.7


@nojit
def test_specs_make_the_same_batch_again():
    envs = stacked(2)
    assert envs.spec.kwargs["transforms"] == STACK
    assert "transforms" not in stacked(2, transforms=()).spec.kwargs
    again = gymnasium.make_vec(envs.spec)
    through = gymnasium.make_vec("vecenv/CartPole-v1", num_envs=2, transforms=STACK, math="libm")
    obs, _ = envs.reset(seed=0)
    for other in (again, through):
        assert other.unwrapped.transforms == STACK
        assert_same_bits(other.reset(seed=0)[0], obs)
    view = make("CartPole-v1", transforms=STACK, math="libm")
    assert view.envs.transforms == STACK and view.spec.kwargs["transforms"] == STACK
    singles = gymnasium.make(view.spec), gymnasium.make("vecenv/CartPole-v1", transforms=STACK, math="libm")
    for single in (view, *singles):
        assert single.observation_space == envs.single_observation_space
        assert_same_bits(single.reset(seed=0)[0], obs[0])
        assert single.step(0)[0] in single.observation_space


@nojit
def test_a_view_passes_gymnasiums_checks():
    check_env(make("FrozenLake-v1", transforms=STACK, math="libm"), skip_render_check=True)


@nojit
@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: FrameStack(0), ValueError, r"FrameStack: k: expected an int >= 1 .*, got 0"),
        (lambda: FrameStack(-2), ValueError, r"k: expected an int >= 1 .*, got -2"),
        (lambda: FrameStack(2**31), ValueError, r"k: expected an int >= 1 \(and below 2\*\*31\), got 2147483648"),
        (lambda: FrameStack(True), TypeError, r"k: expected an int >= 1, got True"),
        (lambda: FrameStack(2.0), TypeError, r"k: expected an int >= 1, got 2\.0"),
        (lambda: FrameStack("4"), TypeError, r"k: expected an int >= 1, got '4'"),
        (lambda: FrameStack(2, "x"), ValueError, r"padding: expected 'reset' or 'zero', got 'x'"),
        (lambda: FrameStack(2, None), ValueError, r"padding: expected 'reset' or 'zero', got None"),
        (lambda: stacked(transforms=[5]), TypeError, r"tuple of transforms such as .*, got 5 at position 0"),
        (lambda: stacked(transforms=(*STACK, None)), TypeError, r"got None at position 1"),
        (lambda: stacked(transforms="FrameStack"), TypeError, r"transforms: expected a tuple .*, got 'FrameStack'"),
        (lambda: stacked(transforms=FrameStack(2)), TypeError, r"expected a tuple .*, got FrameStack\(2, padding='res"),
        (lambda: stacked(transforms=(FrameStack,)), TypeError, r"expected a tuple .*, got <class .* at position 0"),
        (lambda: stacked(transforms=None), TypeError, r"expected a tuple .*, got None"),
        (lambda: stacked(transforms=(FrameStack(2**31 - 1),)), ValueError, r"FrameStack\(.* observations of CartPole"),
        (lambda: stacked(10**9, transforms=STACK), ValueError, r"num_envs: 1000000000 rows of CartPole-v1 need"),
    ],
)  # fmt: skip
def test_wrong_arguments(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


@nojit
def test_several_agents_are_refused():
    duel = EnvDef("Two-v0", DotState, Params, dot_reset, two_step, two_observe, num_agents=2,
                  observation_space=spaces.Box(-9, 9, (1,)), action_space=spaces.Discrete(2))  # fmt: skip
    with pytest.raises(TypeError, match="Two-v0: transforms: expected an environment with one agent, got 2"):
        make_vec(duel, 2, transforms=STACK)


@jit
def two_step(state, actions, params, rng, rewards, terminated, truncated):
    rewards[0] = actions[0]


@jit
def two_observe(state, params, agent, obs):
    obs[0] = state.at[agent]


@nojit
def test_equal_stacks_are_equal():
    assert FrameStack(3) == FrameStack(np.int64(3), "reset") != FrameStack(3, "zero")
    assert len({FrameStack(3), FrameStack(3), FrameStack(4)}) == 2
    assert repr(FrameStack(3)) == "FrameStack(3, padding='reset')"
    assert vecenv.FrameStack is FrameStack and FrameStack(4).k == 4 and FrameStack(4).padding == "reset"


# --- hooks that FrameStack does not need ------------------------------------------------------------------------------


@jit
def stick(own, state, action, params, rng):
    """Gymnasium's: from the second step on, a draw decides whether the last action is taken again."""
    taken = action
    if own.started and rng.uniform(0.0, 1.0) < 0.5:
        taken = own.last
    own.last = taken
    own.started = True
    return taken


class Sticky:
    """Repeats the last action half of the time."""

    def bind(self, definition: EnvDef, name: str, observe: Any) -> BoundTransform:
        columns = (Column(f"{name}.last", np.dtype(np.int64)), Column(f"{name}.started", np.dtype(np.bool_)))
        spaces = definition.observation_space, definition.action_space
        return BoundTransform("Sticky", columns, *spaces, before_step=stick)


@every_mode
def test_hooks_before_a_step_and_stacks_together(mode):
    """Draws of the hook come from the row's stream, and none is made where NEXT_STEP resets. Of two stacks, the first
    is next to the environment."""
    n, options = 4, {"is_slippery": True}
    envs = stacked(n, mode, "FrozenLake-v1", transforms=[Sticky(), FrameStack(2), FrameStack(3, "zero")], **options)
    assert envs.single_observation_space == spaces.Box(0, 15, (3, 2), np.int64)
    names = [name for name in envs._memory.columns if not name.startswith(("state", "engine"))]
    assert names == ["Sticky.0.last", "Sticky.0.started", "FrameStack.1.frames", "FrameStack.1.newest",
                     "FrameStack.2.frames", "FrameStack.2.newest"]  # fmt: skip

    def single() -> Any:
        env = StickyAction(gymnasium.make("FrozenLake-v1", disable_env_checker=True, **options), 0.5)
        return FrameStackObservation(FrameStackObservation(env, 2), 3, padding_type="zero")

    assert assert_lockstep(envs, SyncVectorEnv([single] * n, autoreset_mode=mode_of(mode)), 120, seed=2) > 20


def mode_of(name: str) -> AutoresetMode:
    return AutoresetMode[name.upper()]


@jit
def count_steps(own, below, state, params):
    own.steps += 1
    own.sum += state.elapsed


class Sums:
    """Counts transitions and shows them in front of the observation."""

    def bind(self, definition: EnvDef, name: str, observe: Any) -> BoundTransform:
        @jit
        def show(own, below, state, params, obs):
            observe(below, state, params, obs)
            obs[0] = own.steps
            obs[1] = own.sum

        columns = (Column(f"{name}.steps", np.dtype(np.int32)), Column(f"{name}.sum", np.dtype(np.float64)))
        space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        return BoundTransform("Sums", columns, space, definition.action_space, after_step=count_steps, on_observe=show)


@nojit
@every_mode
def test_after_step_runs_once_per_transition(mode):
    """And not in the calls that NEXT_STEP spends on resets. Columns of params per row go together with it."""
    gravity = np.array([5.0, 9.8, 20.0])
    envs = stacked(3, mode, transforms=(Sums(),), params={"gravity": gravity})
    envs.reset(seed=0, options={"state": {"theta": [0.0, 0.15, 0.19]}})
    for action in e.actions(envs, 40):
        obs, _, terminated, truncated, infos = envs.step(action)
        elapsed = envs.state.elapsed
        expected = [elapsed, elapsed * (elapsed + 1) / 2, envs.state.theta, envs.state.theta_dot]
        assert_same_bits(obs, np.stack(expected, 1).astype(np.float32))
        if "final_obs" in infos:
            ended = infos["_final_obs"]
            assert (infos["final_obs"][ended, 0] == envs.episode_lengths[ended]).all()
        if mode == "disabled":
            e.reset_ended(envs, terminated, truncated)
    assert elapsed.max() < 40
    assert_same_bits(envs.params["gravity"], gravity)
