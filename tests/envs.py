"""Small environments that together use every feature of the author layer, and helpers shared by the tests."""

from __future__ import annotations

import enum
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded  # noqa: F401

from vecenv import B1, F4, F8, I1, I2, I4, I8, U1, U2, U4, U8, Array, EnvDef, Info, Options, Params, State, Table, jit
from vecenv.kernels.math import clip, cos, exp, sin, sqrt, square
from vecenv.kernels.wiring import ENDED, EPISODE_ENDED
from vecenv.vec_env import VecEnv

MODES = ("next_step", "same_step", "disabled")
INF = float("inf")


class NoParams(Params):
    pass


# --- counter: random steps up to a random end; Box float64 observation, Discrete action that starts at -1 -------------


class CounterState(State):
    n: I4
    end: I4
    noise: F8


@jit
def counter_reset(state, params, rng):
    state.end = rng.integers(3, 9)


@jit
def counter_step(state, action, params, rng):
    state.n += rng.integers(1, 3)
    state.noise = rng.random()
    return state.noise + action, state.n >= state.end


@jit
def counter_observe(state, params, obs):
    obs[0] = state.n
    obs[1] = state.end
    obs[2] = state.noise
    obs[3] = state.elapsed


def counter() -> EnvDef:
    return EnvDef(
        "Counter-v0", CounterState, NoParams, counter_reset, counter_step, counter_observe,
        observation_space=spaces.Box(-INF, INF, (4,), np.float64),
        action_space=spaces.Discrete(3, start=-1),
    )  # fmt: skip


# --- drift: never ends by itself, like Pendulum; Box float32 action and observation -----------------------------------


class DriftState(State):
    x: F8


class DriftParams(Params):
    gain: F8 = 0.1
    cost: F4 = 0.3  # a float32 param


@jit
def drift_reset(state, params, rng):
    state.x = rng.standard_normal()


@jit
def drift_step(state, action, params, rng):
    force = clip(action[0], -2.0, 2.0)
    state.x += params.gain * force + 0.01 * sin(state.x)
    return -square(state.x) - params.cost * square(force), False


@jit
def drift_observe(state, params, obs):
    obs[0] = state.x


def drift() -> EnvDef:
    return EnvDef(
        "Drift-v0", DriftState, DriftParams, drift_reset, drift_step, drift_observe,
        observation_space=spaces.Box(-INF, INF, (1,)),
        action_space=spaces.Box(-2, 2, (1,)),
    )  # fmt: skip


# --- lake: FrozenLake's rules on a table; Discrete observation --------------------------------------------------------


class LakeState(State):
    cell: I4


class LakeParams(Params):
    board: Table[U1, 2]  # 0 ice, 1 hole, 2 goal
    slippery: B1 = True


class Move(enum.IntEnum):
    LEFT = 0
    DOWN = 1
    RIGHT = 2
    UP = 3


LAKE = np.array([[0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 1], [1, 0, 0, 2]], np.uint8)


@jit
def lake_reset(state, params, rng):
    state.cell = 0


@jit
def lake_step(state, action, params, rng):
    move = action
    if params.slippery:
        move = (action + rng.integers(-1, 2)) % 4
    size = params.board.shape[1]
    row, column = state.cell // size, state.cell % size
    if move == Move.LEFT:
        column = max(column - 1, 0)
    elif move == Move.DOWN:
        row = min(row + 1, params.board.shape[0] - 1)
    elif move == Move.RIGHT:
        column = min(column + 1, size - 1)
    else:
        row = max(row - 1, 0)
    state.cell = row * size + column
    kind = params.board[row, column]
    return 1.0 if kind == 2 else 0.0, kind != 0


@jit
def lake_observe(state, params, obs):
    obs[0] = state.cell


def lake() -> EnvDef:
    return EnvDef(
        "Lake-v0", LakeState, LakeParams, lake_reset, lake_step, lake_observe,
        observation_space=spaces.Discrete(16),
        action_space=spaces.Discrete(4),
        param_values={"board": LAKE},
        max_episode_steps=100,
    )  # fmt: skip


# --- rooms: Dict observation, array state, info, reset options --------------------------------------------------------


class RoomsState(State):
    board: Array[U1, 3, 4]
    heat: Array[F4, 3]
    at: I2
    alarm: B1


class RoomsOptions(Options):
    start: I4 = 0
    warm: F8 = 0.5


class RoomsInfo(Info):
    visits: I4
    hottest: F8
    alarm: B1


@jit
def rooms_reset(state, params, rng, options):
    state.board.fill(0)
    state.at = options.start
    for k in range(len(state.heat)):
        state.heat[k] = rng.uniform(0.0, options.warm)


@jit
def hottest(heat):
    best = heat[0]
    for k in range(1, len(heat)):
        best = max(best, heat[k])
    return best


@jit
def rooms_step(state, action, params, rng):
    state.at = (state.at + action + 1) % 12
    row, column = state.at // 4, state.at % 4
    state.board[row, column] += 90  # wraps at 256
    k = rng.integers(0, 3)
    state.heat[k] += 0.1 * state.board[row, column] / 255
    state.alarm = hottest(state.heat) > 0.9
    return hottest(state.heat), state.alarm


@jit
def rooms_observe(state, params, obs):
    obs.board.copy_from(state.board)
    obs.heat.copy_from(state.heat)
    obs.at[0] = state.at


@jit
def rooms_info(state, params, out):
    visits = 0
    for row in range(state.board.shape[0]):
        for column in range(state.board.shape[1]):
            if state.board[row, column] != 0:
                visits += 1
    out.visits = visits
    out.hottest = hottest(state.heat)
    out.alarm = state.alarm


def rooms() -> EnvDef:
    return EnvDef(
        "Rooms-v0", RoomsState, NoParams, rooms_reset, rooms_step, rooms_observe,
        observation_space=spaces.Dict(
            board=spaces.Box(0, 255, (3, 4), np.uint8), heat=spaces.Box(0, INF, (3,)), at=spaces.Discrete(12)
        ),
        action_space=spaces.Discrete(3),
        options_type=RoomsOptions,
        info_type=RoomsInfo,
        info=rooms_info,
    )  # fmt: skip


# --- pair: Tuple observation, MultiDiscrete action, info --------------------------------------------------------------


class PairState(State):
    left: I1
    right: U2
    sum: F4


class PairInfo(Info):
    both: I8


@jit
def pair_reset(state, params, rng):
    state.left = rng.integers(-3, 4)
    state.right = rng.integers(0, 5)


@jit
def pair_step(state, action, params, rng):
    state.left += action[0] - 1
    state.right += action[1]
    state.sum = state.left * 0.1 + sqrt(float(state.right))
    return state.sum, state.right > 12, abs(state.left) > 5


@jit
def pair_observe(state, params, obs):
    obs[0][0] = min(state.right, 19)
    obs[1][0] = state.left
    obs[1][1] = state.sum


@jit
def pair_info(state, params, out):
    out.both = state.left * 1000 + state.right


def pair() -> EnvDef:
    return EnvDef(
        "Pair-v0", PairState, NoParams, pair_reset, pair_step, pair_observe,
        observation_space=spaces.Tuple((spaces.Discrete(20), spaces.Box(-INF, INF, (2,)))),
        action_space=spaces.MultiDiscrete([3, 4]),
        info_type=PairInfo,
        info=pair_info,
    )  # fmt: skip


# --- bits: MultiBinary action and observation, no draws, no loops -----------------------------------------------------


class BitsState(State):
    a: B1
    b: B1
    c: B1
    count: U8


@jit
def bits_reset(state, params, rng):
    state.a = rng.random() < 0.5


@jit
def bits_step(state, action, params, rng):
    state.a = state.a ^ (action[0] == 1)
    state.b = state.b | ((action[1] == 1) & state.a)
    state.c = state.c | ((action[2] == 1) & state.b)
    state.count += 1 + action[0]
    return float(state.count), state.a & state.b & state.c


@jit
def bits_observe(state, params, obs):
    obs[0] = state.a
    obs[1] = state.b
    obs[2] = state.c


def bits() -> EnvDef:
    return EnvDef(
        "Bits-v0", BitsState, NoParams, bits_reset, bits_step, bits_observe,
        observation_space=spaces.MultiBinary(3),
        action_space=spaces.MultiBinary(3),
        max_episode_steps=25,
    )  # fmt: skip


# --- blocks: integer Box action and two-dimensional integer Box observation -------------------------------------------


class BlocksState(State):
    cells: Array[I4, 2, 2]
    turn: U4


@jit
def blocks_reset(state, params, rng):
    state.cells[0, 1] = rng.integers(-4, 4)


@jit
def blocks_step(state, action, params, rng):
    state.cells[0, 0] += action[0, 0]
    state.cells[1, 1] -= action[0, 1]
    state.turn += 1
    total = state.cells[0, 0] + state.cells[0, 1] + state.cells[1, 1]
    return 0.5 * total, total > 200


@jit
def blocks_observe(state, params, obs):
    obs[0, 0] = state.cells[0, 0]
    obs[0, 1] = state.cells[0, 1]
    obs[1, 0] = state.turn
    obs[1, 1] = state.cells[1, 1]


def blocks() -> EnvDef:
    return EnvDef(
        "Blocks-v0", BlocksState, NoParams, blocks_reset, blocks_step, blocks_observe,
        observation_space=spaces.Box(-(2**31), 2**31 - 1, (2, 2), np.int32),
        action_space=spaces.Box(-100, 100, (1, 2), np.int16),
        max_episode_steps=12,
    )  # fmt: skip


# --- dice: many draws of every kind, tables, closures, reset options, MultiDiscrete observation, 3-tuple result -------


class DiceState(State):
    hand: Array[U1, 5]
    score: F8
    luck: F4
    big: U8
    rolls: I8


class DiceParams(Params):
    weights: Table[F8, 1]
    bonus: I4 = 3


class DiceOptions(Options):
    first: I4 = 6
    lucky: B1 = False


WEIGHTS = (0.1, 0.2, 0.3, 0.4)


def _scaled(scale: float) -> Callable[..., Any]:
    @jit
    def scaled(x):
        return x * scale

    return scaled


scaled_luck = _scaled(0.125)


@jit
def dice_reset(state, params, rng, options):
    for k in range(len(state.hand)):
        state.hand[k] = k + 1
    state.hand[0] = options.first
    rng.shuffle(state.hand)
    state.luck = 1.0 if options.lucky else rng.normal(0.0, 2.0)


@jit
def dice_step(state, action, params, rng):
    k = rng.choice(4, p=WEIGHTS)
    state.score += params.weights[k] * scaled_luck(state.luck) + rng.exponential(0.5)
    if action[1] == 1:
        rng.shuffle(state.hand)
    state.hand[action[0]] = rng.integers(1, 7)
    state.big = rng.integers(0, 2**63 - 1)
    state.rolls += 1
    total = 0
    for j in range(len(state.hand)):
        total += state.hand[j]
    state.luck += 0.1 * rng.standard_normal()
    lost = rng.random() < 0.02
    return float(total + params.bonus), total > 26, lost


@jit
def dice_observe(state, params, obs):
    for k in range(len(obs)):
        obs[k] = state.hand[k]


def dice() -> EnvDef:
    return EnvDef(
        "Dice-v0", DiceState, DiceParams, dice_reset, dice_step, dice_observe,
        observation_space=spaces.MultiDiscrete([7] * 5),
        action_space=spaces.MultiDiscrete([5, 2]),
        options_type=DiceOptions,
        param_values={"weights": [0.5, -0.5, 1.0, 2.0]},
        max_episode_steps=40,
    )  # fmt: skip


# --- waves: the mathematics of both kinds, uint8 board observation of two dimensions, float64 Box action --------------


class WavesState(State):
    phase: Array[F8, 2]
    height: F4
    board: Array[B1, 2, 3]


@jit
def waves_reset(state, params, rng):
    state.phase[0] = rng.uniform(-3.0, 3.0)
    state.phase[1] = rng.exponential()


@jit
def waves_step(state, action, params, rng):
    state.phase[0] += 0.1 * action[0]
    state.phase[1] += 0.1 * action[1]
    state.height = sin(state.phase[0]) * cos(state.phase[1]) + exp(-square(state.phase[0]))
    for row in range(2):
        for column in range(3):
            state.board[row, column] = state.height > 0.25 * row - 0.25 * column
    return state.height, state.height > 1.2


@jit
def waves_observe(state, params, obs):
    for row in range(obs.shape[0]):
        for column in range(obs.shape[1]):
            obs[row, column] = 255 * state.board[row, column]


def waves() -> EnvDef:
    return EnvDef(
        "Waves-v0", WavesState, NoParams, waves_reset, waves_step, waves_observe,
        observation_space=spaces.Box(0, 255, (2, 3), np.uint8),
        action_space=spaces.Box(-1, 1, (2,), np.float64),
        max_episode_steps=30,
    )  # fmt: skip


# --- outside: indexes past its board where a start says so ------------------------------------------------------------


@jit
def outside_step(state, action, params, rng):
    state.board[state.at // 4, state.at % 4] = 1
    return 0.0, False


def outside() -> EnvDef:
    return EnvDef(
        "Outside-v0", RoomsState, NoParams, rooms_reset, outside_step, rooms_observe,
        observation_space=rooms().observation_space,
        action_space=spaces.Discrete(3),
        options_type=RoomsOptions,
    )  # fmt: skip


BUILDS: dict[str, Callable[[], EnvDef]] = {
    function.__name__: function for function in (counter, drift, lake, rooms, pair, bits, blocks, dice, waves)
}
ALL = (*BUILDS, "CartPole-v1")


@cache
def definition(name: str) -> EnvDef:
    """A definition of this module by name, or a built-in environment's by id."""
    if name in BUILDS or name == "outside":
        return BUILDS.get(name, outside)()
    from vecenv.registry import definition_of

    return definition_of(name)


def make(name: str, num_envs: int, mode: str = "next_step", **kwargs: Any) -> VecEnv:
    """A batch of one of `ALL`; environments that never end get a limit of 7 unless one is given."""
    if name == "drift":
        kwargs.setdefault("max_episode_steps", 7)
    return VecEnv(definition(name), num_envs, autoreset_mode=mode, **kwargs)


# --- helpers ----------------------------------------------------------------------------------------------------------


def columns(envs: VecEnv) -> dict[str, np.ndarray]:
    """Every column of the arena by name: state, params per row, engine."""
    return envs._memory.columns


def head(envs: VecEnv) -> bytes:
    """The head, without the number of the last step: it counts calls, those of no rows and refused ones too."""
    memory = envs._memory
    words = np.delete(memory.words, memory.wiring.word["last_step"])
    return words.tobytes() + memory.head[memory.words.nbytes :].tobytes()


def checksum(envs: VecEnv) -> str:
    """Hash of everything a batch holds: rows and head."""
    return hashlib.sha256(envs._arena.tobytes() + head(envs)).hexdigest()


def arena(envs: VecEnv, without: tuple[str, ...] = ()) -> dict[str, bytes]:
    """The bytes of every column, by name."""
    return {name: column.tobytes() for name, column in columns(envs).items() if name not in without}


def actions(envs: VecEnv, steps: int, seed: int = 0, num_envs: int | None = None) -> np.ndarray:
    """Random legal actions `[steps, N, ...]`; row i's do not depend on N."""
    space = envs.single_action_space
    num_envs = envs.num_envs if num_envs is None else num_envs
    shape = (steps, num_envs, *space.shape)
    draws = np.empty(shape, space.dtype)
    for i in range(num_envs):
        rng = np.random.default_rng([seed, i])
        if isinstance(space, spaces.Discrete):
            draws[:, i] = space.start + rng.integers(0, space.n, steps)
        elif isinstance(space, spaces.MultiDiscrete):
            draws[:, i] = space.start + rng.integers(0, space.nvec, (steps, *space.shape))
        elif isinstance(space, spaces.MultiBinary):
            draws[:, i] = rng.integers(0, 2, (steps, *space.shape))
        elif space.dtype.kind == "f":
            draws[:, i] = rng.uniform(space.low, space.high, (steps, *space.shape))
        else:
            draws[:, i] = rng.integers(space.low, space.high, (steps, *space.shape), endpoint=True)
    return draws


def flat(obs: Any) -> list[np.ndarray]:
    """The leaves of an observation."""
    if isinstance(obs, dict):
        return list(obs.values())
    return list(obs) if isinstance(obs, tuple) else [obs]


def assert_same(a: Any, b: Any) -> None:
    """Equal values, types and nesting: arrays bit for bit with their dtype, dicts with their keys."""
    assert type(a) is type(b), (type(a), type(b))
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, np.ndarray) and a.dtype == object:
        assert a.shape == b.shape
        for x, y in zip(a.ravel(), b.ravel(), strict=True):
            assert_same(x, y)
    elif isinstance(a, (np.ndarray, np.generic)):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b, strict=True)
    else:
        assert a == b or (a != a and b != b)


def take(value: Any, rows: Any) -> Any:
    """Rows of a batched observation, array or infos."""
    if isinstance(value, dict):
        return {key: take(part, rows) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(take(part, rows) for part in value)
    return value[rows]


def ended_in_same_step(envs: VecEnv, snap: Any) -> np.ndarray:
    """Rows of a snapshot whose last step ended an episode and began the next: its final values are not in it."""
    flags = snap.layout.carve(snap.arena, snap.num_rows)["engine.flags"]
    return (flags & (EPISODE_ENDED | ENDED)) == EPISODE_ENDED


def reset_ended(envs: VecEnv, terminated: np.ndarray, truncated: np.ndarray) -> None:
    """What a user of DISABLED does after a step."""
    if (terminated | truncated).any():
        envs.reset(options={"reset_mask": terminated | truncated})


def python(code: str, *, stdin: bool = False, timeout: float = 120, **environment: str | None) -> Any:
    """Run code in a new Python process; returns the finished process with its text, which must have succeeded."""
    env = {**os.environ, **{name: value for name, value in environment.items() if value is not None}}
    for name, value in environment.items():
        if value is None:
            env.pop(name, None)
    command = [sys.executable, "-"] if stdin else [sys.executable, "-c", code]
    done = subprocess.run(
        command, input=code if stdin else None, env=env, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr
    return done
