"""Random programs against a slow, obvious model of the contract: one plain Python object per row.

The model (`ModelBatch`, `ModelRow`) knows nothing of columns and kernels. A row is a dict of fields, a
`numpy.random.Generator` and a few counters, and every rule of the contract is written once, for one row. The machine
applies the same call to a batch and to its model and compares all that can be seen: what the call returned or raised,
then state, observations, statistics, ended rows, params and random streams of every batch.
"""

from __future__ import annotations

import copy
import hashlib
import io
import pickle
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import envs as e
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from vecenv import (
    B1,
    F4,
    F8,
    I2,
    I4,
    I8,
    U1,
    Array,
    EnvDef,
    Info,
    Options,
    Params,
    Snapshot,
    State,
    StepOut,
    VecEnv,
    jit,
    uniform,
)

# --- two environments -------------------------------------------------------------------------------------------------


class WalkState(State):
    pos: I4
    end: I4
    luck: F8
    mark: U1


class WalkParams(Params):
    scale: F8 = 1.5


@jit
def walk_reset(state, params, rng):
    state.end = rng.integers(2, 6)
    state.luck = rng.random()


@jit
def walk_step(state, action, params, rng):
    """A random walk that ends at a random distance, or by its own budget with probability 0.1."""
    state.pos += rng.integers(-1, 2) + action
    state.mark += 100
    state.luck = params.scale * rng.random() + 0.25 * state.luck
    return state.luck + action, abs(state.pos) >= state.end, rng.random() < 0.1


@jit
def walk_observe(state, params, obs):
    obs[0] = state.pos
    obs[1] = state.end
    obs[2] = state.luck
    obs[3] = state.mark
    obs[4] = state.elapsed
    obs[5] = state.limit


WALK = EnvDef(
    "Walk-v0", WalkState, WalkParams, walk_reset, walk_step, walk_observe,
    observation_space=spaces.Box(-np.inf, np.inf, (6,), np.float64),
    action_space=spaces.Discrete(3, start=-1),
    max_episode_steps=9,
)  # fmt: skip


class StrollState(State):
    at: I2
    trail: Array[U1, 3]
    pull: Array[F4, 2]
    tired: B1


class StrollParams(Params):
    gain: F8 = 0.5  # a value per row
    wind: F8 = 0.0  # drawn at each reset
    cost: F4 = 0.25


class StrollOptions(Options):
    start: I4 = 0
    warm: F8 = 0.5


class StrollInfo(Info):
    visits: I8
    best: Array[F4, 2]


TIRED = (0.2, 0.3, 0.3, 0.2)


@jit
def stroll_reset(state, params, rng, options):
    state.at = options.start
    for k in range(3):
        state.trail[k] = k + 1
    rng.shuffle(state.trail)
    for k in range(2):
        state.pull[k] = rng.uniform(0.0, options.warm)


@jit
def stroll_step(state, action, params, rng):
    k = rng.integers(0, 3)
    state.trail[k] += 60 * action[0]
    state.pull[action[1]] += params.gain * params.wind + 0.1 * rng.standard_normal()
    state.at = (state.at + action[0] + 1) % 12
    state.tired = rng.choice(4, p=TIRED) == 0
    return state.pull[0] - params.cost * k, state.tired & (state.at > 5)


@jit
def stroll_observe(state, params, obs):
    obs.at[0] = state.at
    obs.trail.copy_from(state.trail)
    obs.pull.copy_from(state.pull)
    obs.clock[0] = state.elapsed


@jit
def stroll_info(state, params, out):
    out.visits = 10 * state.elapsed + state.at
    out.best[0] = state.pull[1]
    out.best[1] = params.wind


@jit
def stroll_mask(state, params, mask):
    for k in range(5):
        mask[k] = k <= state.at % 5


STROLL = EnvDef(
    "Stroll-v0", StrollState, StrollParams, stroll_reset, stroll_step, stroll_observe,
    observation_space=spaces.Dict(
        at=spaces.Discrete(12),
        trail=spaces.Box(0, 255, (3,), np.uint8),
        pull=spaces.Box(-np.inf, np.inf, (2,)),
        clock=spaces.Box(0, np.inf, (1,)),
    ),
    action_space=spaces.MultiDiscrete([3, 2]),
    options_type=StrollOptions,
    info_type=StrollInfo,
    info=stroll_info,
    action_mask=stroll_mask,
)  # fmt: skip


# --- the same two in plain Python: state is a dict of ints, floats and lists ------------------------------------------


def f4(x: float) -> float:
    return float(np.float32(x))


class Walk:
    definition = WALK
    zeros: ClassVar = {"pos": 0, "end": 0, "luck": 0.0, "mark": 0}
    shared, per_row, drawn = {"scale": 1.5}, {}, ()
    shared_values = (1.5, 0.5)
    options: ClassVar[dict[str, Any]] = {}

    @staticmethod
    def reset(s, p, rng, o):
        s["end"] = int(rng.integers(2, 6))
        s["luck"] = rng.random()

    @staticmethod
    def step(s, action, p, rng):
        s["pos"] += int(rng.integers(-1, 2)) + action
        s["mark"] = (s["mark"] + 100) % 256
        s["luck"] = p["scale"] * rng.random() + 0.25 * s["luck"]
        return s["luck"] + action, abs(s["pos"]) >= s["end"], rng.random() < 0.1

    @staticmethod
    def observe(s, p, elapsed, limit):
        return [float(x) for x in (s["pos"], s["end"], s["luck"], s["mark"], elapsed, limit)]

    @staticmethod
    def info(s, p, elapsed):
        return {}

    @staticmethod
    def action(r):
        return r.randint(-1, 1)

    @staticmethod
    def bad_action(r):
        return r.choice([-2, 2, 100])

    @staticmethod
    def field_value(r, name):
        return {"pos": r.randint(-1, 1), "end": r.randint(1, 9), "luck": r.random(), "mark": r.randint(0, 255)}[name]


class Stroll:
    definition = STROLL
    zeros: ClassVar = {"at": 0, "trail": [0, 0, 0], "pull": [0.0, 0.0], "tired": False}
    shared, per_row, drawn = {"cost": 0.25}, {"gain": 0.5, "wind": 0.0}, ("wind",)
    shared_values = (0.25, 0.5)
    options: ClassVar[dict[str, Any]] = {"start": 0, "warm": 0.5}

    @staticmethod
    def reset(s, p, rng, o):
        s["at"] = o["start"]
        trail = np.array([1, 2, 3], np.uint8)
        rng.shuffle(trail)
        s["trail"] = trail.tolist()
        s["pull"] = [f4(rng.uniform(0.0, o["warm"])) for _ in range(2)]

    @staticmethod
    def step(s, action, p, rng):
        k = int(rng.integers(0, 3))
        s["trail"][k] = (s["trail"][k] + 60 * action[0]) % 256
        s["pull"][action[1]] = f4(s["pull"][action[1]] + (p["gain"] * p["wind"] + 0.1 * rng.standard_normal()))
        s["at"] = (s["at"] + action[0] + 1) % 12
        s["tired"] = bool(rng.choice(4, p=TIRED) == 0)
        return s["pull"][0] - p["cost"] * k, s["tired"] and s["at"] > 5, False

    @staticmethod
    def observe(s, p, elapsed, limit):
        return {"at": s["at"], "trail": list(s["trail"]), "pull": list(s["pull"]), "clock": [float(elapsed)]}

    @staticmethod
    def info(s, p, elapsed):
        mask = [int(k <= s["at"] % 5) for k in range(5)]
        return {"visits": 10 * elapsed + s["at"], "best": [s["pull"][1], f4(p["wind"])], "action_mask": mask}

    @staticmethod
    def action(r):
        return [r.randint(0, 2), r.randint(0, 1)]

    @staticmethod
    def bad_action(r):
        return r.choice([[3, 0], [0, 2], [-1, 1], [0, -1]])

    @staticmethod
    def field_value(r, name):
        return {
            "at": r.randint(0, 11),
            "trail": [r.randint(0, 255) for _ in range(3)],
            "pull": [f4(r.uniform(-2, 2)) for _ in range(2)],
            "tired": r.random() < 0.5,
        }[name]


# --- the contract, row by row -----------------------------------------------------------------------------------------


def generator(seed: Any) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))


def policy_stream(seed: Any) -> list[int]:
    return [int(np.random.SeedSequence(seed, spawn_key=(1,)).generate_state(1, np.uint64)[0]), 0]


@dataclass
class ModelRow:
    """What a snapshot holds of one row."""

    state: dict[str, Any]
    params: dict[str, float]  # those with a value per row
    rng: np.random.Generator | None = None
    policy: list[int] = field(default_factory=list)
    elapsed: int = 0
    total: float = 0.0
    episode: int = 0
    status: str = "unreset"  # or "running", "ended"
    terminated: bool = False
    truncated: bool = False
    just_ended: bool = False  # in its last step

    def seed(self, seed: Any) -> None:
        self.rng, self.policy = generator(seed), policy_stream(seed)

    def become(self, other: ModelRow, streams: bool = True) -> None:
        """All of `other`; an episode that ended and was reset in the last step is not told of again."""
        kept = self.rng, self.policy
        self.__dict__.update(copy.deepcopy(other).__dict__)
        if not streams:
            self.rng, self.policy = kept
        self.just_ended = self.just_ended and self.status == "ended"


@dataclass
class Result:
    """What one row gets from one step."""

    obs: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    final_obs: Any = None
    final_info: dict[str, Any] | None = None


@dataclass
class ModelBatch:
    env: type[Walk] | type[Stroll]
    mode: str
    absorb: bool
    limits: list[int]
    rows: list[ModelRow]
    shared: dict[str, float]
    drawn: dict[str, tuple[float, float]]
    infos: bool
    # What belongs to the batch and not to its rows.
    finals: list[tuple[float, int]] = field(default_factory=list)
    last: list[int] | None = None  # rows of the last step, None for all
    last_final: dict[int, Any] = field(default_factory=dict)
    seeds: list[int] | None = None
    fork_base: int = 0
    fork_calls: int = 0

    @property
    def n(self) -> int:
        return len(self.rows)

    def params(self, row: ModelRow) -> dict[str, float]:
        return {**self.shared, **row.params}

    def observe(self, i: int) -> Any:
        row = self.rows[i]
        return self.env.observe(row.state, self.params(row), row.elapsed, self.limits[i])

    def info(self, i: int) -> dict[str, Any]:
        row = self.rows[i]
        return self.env.info(row.state, self.params(row), row.elapsed) if self.infos else {}

    # --- seeds

    def adopt(self, envs: VecEnv) -> None:
        """Fresh entropy is the one thing that a model cannot foretell: take the seeds that the batch drew."""
        if self.seeds is None:
            self.seeds = list(envs.np_random_seed)
            self.fork_base, self.fork_calls = envs._memory.fork_base, 0
            for row, seed in zip(self.rows, self.seeds, strict=True):
                row.seed(seed)

    def seed(self, rows: list[int], seeds: list[int | None] | None) -> None:
        given = [(i, seeds[i]) for i in rows if seeds[i] is not None] if seeds is not None else []
        for i, seed in given:
            self.rows[i].seed(seed)
            self.seeds[i] = seed
        if given and len(given) == self.n:  # a partial seed must not make fresh forks repeat themselves
            self.fork_base, self.fork_calls = given[0][1], 0

    # --- reset and step

    def begin(self, i: int, params: dict[str, float], options: dict[str, Any]) -> None:
        row = self.rows[i]
        row.state = copy.deepcopy(self.env.zeros)
        row.elapsed, row.total, row.episode, row.status = 0, 0.0, row.episode + 1, "running"
        row.terminated = row.truncated = row.just_ended = False
        for name in row.params:
            if name in params:
                row.params[name] = params[name]
            elif name in self.drawn:
                row.params[name] = row.rng.uniform(*self.drawn[name])
        self.env.reset(row.state, self.params(row), row.rng, options)

    def reset(self, rows, seeds, params, shared, options, state) -> None:
        self.seed(rows, seeds)
        self.shared.update(shared)
        for i in rows:
            self.begin(i, {name: values[i] for name, values in params.items()}, {**self.env.options, **options})
            for name, values in state.items():
                self.write(i, name, values[i])

    def write(self, i: int, name: str, value: Any) -> None:
        if name == "elapsed":
            self.rows[i].elapsed = value
        else:
            self.rows[i].state[name] = copy.deepcopy(value)

    def refusal(self, rows: list[int], mode: str, absorb: bool) -> int | None:
        """The first row that cannot be stepped."""
        for i in rows:
            status = self.rows[i].status
            if status == "unreset" or (status == "ended" and mode != "next_step" and not absorb):
                return i
        return None

    def step(self, rows: list[int] | None, actions: list[Any], mode: str, absorb: bool) -> list[Result]:
        numbers = list(range(self.n)) if rows is None else rows
        self.last, self.last_final = rows, {}
        return [self.step_row(i, action, mode, absorb) for i, action in zip(numbers, actions, strict=True)]

    def step_row(self, i: int, action: Any, mode: str, absorb: bool) -> Result:
        row = self.rows[i]
        if row.status == "ended":
            row.just_ended = False
            if absorb:
                return Result(self.observe(i), 0.0, row.terminated, row.truncated, self.info(i))
            self.begin(i, {}, self.env.options)
            return Result(self.observe(i), 0.0, False, False, self.info(i))
        reward, terminated, cut = self.env.step(row.state, action, self.params(row), row.rng)
        row.elapsed += 1
        row.total += reward
        row.terminated = bool(terminated)
        row.truncated = bool(not terminated and (cut or 0 <= self.limits[i] <= row.elapsed))
        row.just_ended = row.terminated or row.truncated
        result = Result(self.observe(i), reward, row.terminated, row.truncated, self.info(i))
        if row.just_ended:
            row.status = "ended"
            if mode == "same_step":
                result.final_obs, result.final_info = result.obs, result.info
                self.last_final[i], self.finals[i] = result.obs, (row.total, row.elapsed)
                self.begin(i, {}, self.env.options)
                row.just_ended = True
                result.obs, result.info = self.observe(i), self.info(i)
        return result

    # --- statistics

    def statistics(self, i: int) -> tuple[float, int, bool]:
        row = self.rows[i]
        total, length = self.finals[i] if row.just_ended and row.status == "running" else (row.total, row.elapsed)
        return total, length, row.just_ended

    def ended_rows(self) -> list[int]:
        return [i for i in (range(self.n) if self.last is None else self.last) if self.rows[i].just_ended]

    def final_obs_rows(self) -> list[Any]:
        ended = self.ended_rows()
        return [self.observe(i) if self.rows[i].status == "ended" else self.last_final[i] for i in ended]

    # --- snapshots

    def restore(self, snap: list[ModelRow], rows: list[int], sources: list[int], streams: bool) -> None:
        for i, k in zip(rows, sources, strict=True):
            self.rows[i].become(snap[k], streams)
        if len(rows) == self.n:
            self.last = None

    def fork(self, sources: list[int], targets: list[int], rng: str, seed: int | None) -> None:
        before = [copy.deepcopy(self.rows[i]) for i in sources]
        for i, row in zip(targets, before, strict=True):
            self.rows[i].become(row, rng != "keep")
        if rng == "fresh":
            base, first = (seed, 1) if seed is not None else (self.fork_base, 1 + self.fork_calls * self.n)
            for k, i in enumerate(targets):
                self.rows[i].seed([base, first + k])
            self.fork_calls += seed is None


# --- comparing --------------------------------------------------------------------------------------------------------


def by_row(value: Any) -> list[Any]:
    """A batched observation, infos or array as plain numbers, one entry per row."""
    if isinstance(value, dict):
        columns = {key: by_row(part) for key, part in value.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return value.tolist()


def plain(value: Any) -> Any:
    """One row's observation or info as plain numbers."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def zeros_like(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: zeros_like(part) for key, part in value.items()}
    return [zeros_like(part) for part in value] if isinstance(value, list) else type(value)(0)


def equal(got: Any, expected: Any, what: str) -> None:
    assert got == expected, f"{what}:\n     got {got}\nexpected {expected}"


def check_infos(infos: dict[str, Any], expected: list[dict[str, Any] | None], what: str) -> None:
    """`expected[k]` is None where the row has no info."""
    if not expected:
        return
    present = [part is not None for part in expected]
    names = next((part.keys() for part in expected if part is not None), ())
    equal(set(infos), {*names, *(f"_{name}" for name in names)}, f"{what}: keys")
    for name in names:
        some = next(part[name] for part in expected if part is not None)
        values = [zeros_like(some) if part is None else part[name] for part in expected]
        equal(infos[name].tolist(), values, f"{what}: {name}")
        equal(infos[f"_{name}"].tolist(), present, f"{what}: _{name}")


def check_step(got: Any, results: list[Result], object_final: bool, what: str) -> None:
    obs, rewards, terminated, truncated, infos = got
    equal(by_row(obs), [part.obs for part in results], f"{what}: obs")
    equal(rewards.tolist(), [part.reward for part in results], f"{what}: rewards")
    equal(terminated.tolist(), [part.terminated for part in results], f"{what}: terminated")
    equal(truncated.tolist(), [part.truncated for part in results], f"{what}: truncated")
    assert (rewards.dtype, terminated.dtype, truncated.dtype) == (np.float64, np.bool_, np.bool_)
    infos = dict(infos)
    ended = [part.final_info is not None for part in results]
    if any(ended):
        equal(infos.pop("_final_obs").tolist(), ended, f"{what}: _final_obs")
        last = infos.pop("final_obs")
        if object_final:
            equal([plain(part) for part in last], [part.final_obs for part in results], f"{what}: final_obs")
        else:
            expected = [zeros_like(part.obs) if part.final_obs is None else part.final_obs for part in results]
            equal(by_row(last), expected, f"{what}: final_obs")
        if "final_info" in infos:
            equal(infos.pop("_final_info").tolist(), ended, f"{what}: _final_info")
            check_infos(infos.pop("final_info"), [part.final_info for part in results], f"{what}: final_info")
    check_infos(infos, [part.info for part in results], f"{what}: infos")


def check_batch(envs: VecEnv, model: ModelBatch, what: str) -> None:
    """All that can be seen of a batch between two calls."""
    n, rows = model.n, model.rows
    for name in model.env.zeros:
        equal(envs.state[name].tolist(), [row.state[name] for row in rows], f"{what}: state.{name}")
    equal(envs.state.elapsed.tolist(), [row.elapsed for row in rows], f"{what}: elapsed")
    statistics = [model.statistics(i) for i in range(n)]
    got = zip(envs.episode_returns.tolist(), envs.episode_lengths.tolist(), envs.episode_ended.tolist(), strict=True)
    equal(list(got), statistics, f"{what}: episode_returns, episode_lengths, episode_ended")
    equal(envs.ended_rows.tolist(), model.ended_rows(), f"{what}: ended_rows")
    equal(by_row(envs.final_obs_rows), model.final_obs_rows(), f"{what}: final_obs_rows")
    columns = envs._memory.columns
    equal(columns["engine.episode"].tolist(), [row.episode for row in rows], f"{what}: number of episodes")
    params = envs.params
    for name, value in model.shared.items():
        equal(float(params[name]), value, f"{what}: param {name}")
    for name in model.env.per_row:
        equal(params[name].tolist(), [row.params[name] for row in rows], f"{what}: param {name}")
    if all(row.status != "unreset" for row in rows):
        equal(by_row(envs.observe()), [model.observe(i) for i in range(n)], f"{what}: observe")
        if model.env is Stroll:
            masks = [Stroll.info(row.state, model.params(row), row.elapsed)["action_mask"] for row in rows]
            equal(envs.action_masks().astype(int).tolist(), masks, f"{what}: action masks")
    if model.seeds is not None:
        equal(list(envs.np_random_seed), model.seeds, f"{what}: np_random_seed")
        streams = [generator.bit_generator.state for generator in envs.np_random]
        equal(streams, [row.rng.bit_generator.state for row in rows], f"{what}: random streams")
        equal(columns["engine.policy"].tolist(), [row.policy for row in rows], f"{what}: policy streams")


# --- the machine ------------------------------------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    """Leaves definitions out, as a process does that has them already; a new one would load its kernels anew."""

    def persistent_id(self, obj: Any) -> Any:
        return obj.id if isinstance(obj, EnvDef) else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:
        return {"Walk-v0": WALK, "Stroll-v0": STROLL}[pid]


def pickled(envs: VecEnv) -> VecEnv:
    file = io.BytesIO()
    _Pickler(file).dump(envs)
    file.seek(0)
    copied: VecEnv = _Unpickler(file).load()
    return copied


@dataclass
class Held:
    """A batch and its model."""

    envs: VecEnv
    model: ModelBatch
    object_final: bool


@dataclass
class Kept:
    """A snapshot, what it holds, and the shared params it was taken under."""

    snap: Snapshot
    rows: list[ModelRow]
    shared: dict[str, float]

    def __post_init__(self) -> None:
        self.digest = self.hash()

    def hash(self) -> str:
        return hashlib.sha256(self.snap.arena.tobytes()).hexdigest()


numbers = st.integers(0, 2**32 - 1)


class Programs(RuleBasedStateMachine):
    """Every rule draws one number, which decides all else in it."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Held] = []
        self.snaps: list[Kept] = []
        self.returned: list[tuple[Any, Any]] = []

    def teardown(self) -> None:
        for now, then in self.returned:
            e.assert_same(now, then)
        for kept in self.snaps:
            assert kept.hash() == kept.digest, "a snapshot has changed"

    # --- parts

    def new_batch(self, r: random.Random) -> None:
        env = self.env
        n = r.choice([1, 2, 3, 4, 5])
        mode = r.choice(e.MODES)
        ended = r.choice(["raise", "absorb"]) if mode == "disabled" else "raise"
        limit = r.choice([None, -1, 1, 3, [r.choice([-1, 1, 2, 4, 7]) for _ in range(n)]])
        final_obs, infos = r.choice(["dense", "object"]), r.random() < 0.8
        arguments = {
            "autoreset_mode": mode,
            "ended": ended,
            "max_episode_steps": limit,
            "final_obs": final_obs,
            "infos": infos,
            "copy": r.random() < 0.7,
            "strict_actions": r.random() < 0.2,
        }
        note(f"batch {len(self.batches)}: n={n} {arguments}")
        per_row = [dict(env.per_row) for _ in range(n)]
        shared = dict(env.shared)
        if self.batches and r.random() < 0.5:
            of = r.choice(self.batches)
            envs = of.envs.like(n, **arguments)
            drawn, shared = dict(of.model.drawn), dict(of.model.shared)
        else:
            drawn = {name: (r.choice([-1.0, 0.0]), r.choice([0.0, 0.5])) for name in env.drawn}
            params: dict[str, Any] = {name: uniform(*bounds) for name, bounds in drawn.items()}
            for name in env.per_row.keys() - drawn.keys():
                params[name] = [r.choice([0.5, 1.0, 2.0]) for _ in range(n)]
                for row, value in zip(per_row, params[name], strict=True):
                    row[name] = value
            envs = VecEnv(env.definition, n, params=params or None, **arguments)
        default = env.definition.max_episode_steps or -1
        limits = limit if isinstance(limit, list) else [default if limit is None else limit] * n
        rows = [ModelRow(copy.deepcopy(env.zeros), params) for params in per_row]
        model = ModelBatch(env, mode, ended == "absorb", limits, rows, shared, drawn, infos, [(0.0, 0)] * n)
        self.batches.append(Held(envs, model, final_obs == "object"))

    def pick(self, r: random.Random) -> Held:
        return r.choice(self.batches)

    def draw(self, r: random.Random, model: ModelBatch, name: str, below: int = 0) -> list[Any]:
        """Values of a field for all rows; step counts up to the row's limit less `below`."""
        if name != "elapsed":
            return [model.env.field_value(r, name) for _ in range(model.n)]
        return [r.randint(0, 3 if limit < 0 else min(3, limit - below)) for limit in model.limits]

    def some_rows(self, r: random.Random, n: int) -> tuple[Any, list[int] | None]:
        """`rows=` in one of its forms, and the numbers it means."""
        form = r.choice(["none", "none", "list", "range", "mask"])
        if form == "none":
            return None, None
        if form == "list":
            chosen = r.sample(range(n), r.randint(0, n))
            return r.choice([list, np.array])(chosen), chosen
        if form == "range":
            low = r.randint(0, n - 1)
            chosen = list(range(low, r.randint(low + 1, n)))
            return np.array(chosen, r.choice([np.int64, np.int32, np.uint8])), chosen
        mask = np.array([r.random() < 0.6 for _ in range(n)])
        return mask, np.flatnonzero(mask).tolist()

    def destination(self, r: random.Random, envs: VecEnv, count: int) -> StepOut | None:
        """A StepOut with some of its fields, full of rubbish."""
        if r.random() < 0.6:
            return None
        space = envs.single_observation_space
        parts = {"": space} if isinstance(space, spaces.Box) else space.spaces

        def observation() -> Any:
            arrays = {key: np.full((count, *part.shape), 77, part.dtype) for key, part in parts.items()}
            return arrays.get("", arrays)

        makers = {
            "obs": observation,
            "rewards": lambda: np.full(count, 77.0),
            "terminated": lambda: np.ones(count, np.bool_),
            "truncated": lambda: np.ones(count, np.bool_),
        }
        if envs.autoreset_mode.name == "SAME_STEP":
            makers["final_obs"] = observation
        return StepOut(**{name: make() for name, make in makers.items() if r.random() < 0.7})

    # --- rules

    @initialize(r=numbers)
    def start(self, r: int) -> None:
        random_ = random.Random(r)
        self.env = random_.choice([Walk, Stroll])
        self.new_batch(random_)
        if random_.random() < 0.9:  # else the program begins with a batch that was never reset
            held = self.batches[0]
            held.envs.reset(seed=r)
            held.model.adopt(held.envs)
            n = held.model.n
            held.model.reset(list(range(n)), [r + i for i in range(n)], {}, {}, {}, {})

    @precondition(lambda self: len(self.batches) < 3)
    @rule(r=numbers)
    def another_batch(self, r: int) -> None:
        self.new_batch(random.Random(r))

    @rule(r=numbers)
    def step(self, r: int) -> None:
        self.do_steps(random.Random(r), 1)

    @rule(r=numbers)
    def steps(self, r: int) -> None:
        self.do_steps(random.Random(r), 6)

    def do_steps(self, r: random.Random, count: int) -> None:
        held = self.pick(r)
        envs, model = held.envs, held.model
        rows, chosen = self.some_rows(r, model.n)
        numbers = list(range(model.n)) if chosen is None else chosen
        for _ in range(count):
            actions = [model.env.action(r) for _ in numbers]
            for k, i in enumerate(numbers):
                if model.rows[i].status == "ended" and r.random() < 0.5:
                    actions[k] = model.env.bad_action(r)  # of rows that are not stepped, actions are ignored
            out = self.destination(r, envs, len(numbers))
            note(f"step batch {self.batches.index(held)} rows={rows} actions={actions} out={out is not None}")
            shaped = np.array(actions, np.int64).reshape(len(numbers), *envs.single_action_space.shape)
            given = r.choice([lambda a: a, lambda a: a.astype(np.int8), lambda a: a.tolist() if a.size else a])(shaped)
            refused = model.refusal(numbers, model.mode, model.absorb)
            if refused is not None:
                with pytest.raises(ResetNeeded, match=f"row {refused}"):
                    envs.step(given, rows=rows, out=out)
                return
            got = envs.step(given, rows=rows, out=out)
            results = model.step(chosen, actions, model.mode, model.absorb)
            check_step(got, results, held.object_final, "step")
            if out is not None:
                for name, array in zip(("obs", "rewards", "terminated", "truncated"), got, strict=False):
                    given = getattr(out, name)
                    assert given is None or given is array, f"out.{name} was not used"
                if out.final_obs is not None:
                    last = [zeros_like(x.obs) if x.final_obs is None else x.final_obs for x in results]
                    equal(by_row(out.final_obs), last, "out.final_obs")
            if envs._arguments["copy"]:
                self.returned.append((got, copy.deepcopy(got)))
        self.compare_returned()

    def compare_returned(self) -> None:
        for now, then in self.returned[:-4]:
            e.assert_same(now, then)
        del self.returned[:-4]

    @rule(r=numbers)
    def reset(self, r: int) -> None:
        random_ = random.Random(r)
        held = self.pick(random_)
        self.do_reset(random_, held)

    def do_reset(self, r: random.Random, held: Held, view: int | None = None) -> None:
        envs, model = held.envs, held.model
        n, options = model.n, {}
        mask = [True] * n if view is None else [i == view for i in range(n)]
        if view is None and r.random() < 0.6:
            mask = [r.random() < 0.5 for _ in range(n)]
            mask[r.randrange(n)] = True
            options["reset_mask"] = np.array(mask)
        rows = [i for i in range(n) if mask[i]]
        seeds: list[int | None] | None = None
        seed: Any = None
        if r.random() < 0.5:
            first = r.choice([0, 3, r.randrange(2**31), 2**64 - 2, 2**70])
            if view is not None or r.random() < 0.5:
                seed, seeds = first, [first if view is not None else first + i for i in range(n)]
            else:
                seed = seeds = [r.choice([None, first + 7 * i]) for i in range(n)]
        params, shared, state, author = {}, {}, {}, {}
        if r.random() < 0.3:
            for name in model.env.per_row:
                if r.random() < 0.6:
                    params[name] = [r.choice([0.25, 1.0, 3.0]) for _ in range(n)]
            options["params"] = dict(params)
            if len(rows) == n and r.random() < 0.3:
                (name,) = model.env.shared
                shared = {name: r.choice(model.env.shared_values)}
                options["params"] |= shared
        if r.random() < 0.3:
            for name in (*model.env.zeros, "elapsed"):
                if r.random() < 0.4:
                    state[name] = self.draw(r, model, name, below=1)
            options["state"] = dict(state)
        if model.env is Stroll and r.random() < 0.3:
            author = {"start": r.randint(0, 11), "warm": r.choice([0.0, 1.0])}
            options |= author
        note(f"reset batch {self.batches.index(held)} view={view} seed={seed} options={options}")
        before = copy.deepcopy(options)
        if view is None:
            obs, infos = envs.reset(seed=seed, options=options or r.choice([None, {}]))
        else:
            obs, infos = envs.view(view).reset(seed=seed, options=options or None)
        e.assert_same(options, before)
        model.adopt(envs)
        model.reset(rows, seeds, params, shared, author, state)
        if view is not None:
            equal(plain(obs), model.observe(view), "view.reset: obs")
            equal(plain(infos), model.info(view), "view.reset: info")
            return
        expected = [
            zeros_like(model.observe(i)) if row.status == "unreset" else model.observe(i)
            for i, row in enumerate(model.rows)
        ]
        equal(by_row(obs), expected, "reset: obs")
        check_infos(infos, [model.info(i) if mask[i] else None for i in range(n)], "reset: infos")

    @rule(r=numbers)
    def view(self, r: int) -> None:
        random_ = random.Random(r)
        held = self.pick(random_)
        envs, model = held.envs, held.model
        i = random_.randrange(model.n)
        if random_.random() < 0.3:
            self.do_reset(random_, held, view=i)
            return
        view = envs.view(i)
        for _ in range(random_.randint(1, 4)):
            action, jit = model.env.action(random_), random_.random() < 0.6
            note(f"view batch {self.batches.index(held)} row {i} action={action} jit={jit}")
            given = action if isinstance(action, int) else np.array(action)
            if model.refusal([i], "disabled", False) is not None:
                with pytest.raises(ResetNeeded, match=f"row {i}"):
                    view.step(given, jit=jit)
                return
            got = view.step(given, jit=jit)
            (result,) = model.step([i], [action], "disabled", False)
            expected = (result.obs, result.reward, result.terminated, result.truncated, result.info)
            equal((plain(got[0]), *got[1:4], plain(got[4])), expected, "view.step")

    @precondition(lambda self: len(self.snaps) < 5)
    @rule(r=numbers)
    def snapshot(self, r: int) -> None:
        random_ = random.Random(r)
        held = self.pick(random_)
        n = held.model.n
        rows = None if random_.random() < 0.5 else [random_.randrange(n) for _ in range(random_.randint(1, n + 2))]
        numbers = list(range(n)) if rows is None else rows
        note(f"snapshot batch {self.batches.index(held)} rows={rows}")
        snap = held.envs.snapshot(rows)
        assert snap.num_rows == len(snap) == len(numbers)
        held.model.adopt(held.envs)
        kept = [copy.deepcopy(held.model.rows[i]) for i in numbers]
        if random_.random() < 0.3:
            chosen = random_.choices(range(len(numbers)), k=random_.randint(1, 4))
            snap, kept = snap[chosen], [copy.deepcopy(kept[k]) for k in chosen]
        self.snaps.append(Kept(snap, kept, dict(held.model.shared)))

    @precondition(lambda self: self.snaps)
    @rule(r=numbers)
    def overwrite_snapshot(self, r: int) -> None:
        random_ = random.Random(r)
        held, kept = self.pick(random_), random_.choice(self.snaps)
        count = kept.snap.num_rows
        numbers = [random_.randrange(held.model.n) for _ in range(count)]
        if kept.shared != held.model.shared:
            return
        note(f"snapshot batch {self.batches.index(held)} rows={numbers} out={self.snaps.index(kept)}")
        kept.snap = held.envs.snapshot(numbers, out=kept.snap)
        held.model.adopt(held.envs)
        kept.rows, kept.digest = [copy.deepcopy(held.model.rows[i]) for i in numbers], kept.hash()

    @precondition(lambda self: self.snaps)
    @rule(r=numbers)
    def save_and_load(self, r: int) -> None:
        kept = random.Random(r).choice(self.snaps)
        with tempfile.TemporaryDirectory() as folder:
            kept.snap.save(Path(folder) / "snap")
            kept.snap = Snapshot.load(Path(folder) / "snap")
        assert kept.hash() == kept.digest

    @precondition(lambda self: self.snaps)
    @rule(r=numbers)
    def restore(self, r: int) -> None:
        random_ = random.Random(r)
        held, kept = self.pick(random_), random_.choice(self.snaps)
        envs, model = held.envs, held.model
        rows, chosen = self.some_rows(random_, model.n)
        numbers = list(range(model.n)) if chosen is None else chosen
        count = kept.snap.num_rows
        from_rows: list[int] | None = [random_.randrange(count) for _ in numbers]
        if random_.random() < 0.2 and (count == 1 or count == len(numbers)):
            from_rows = None
        sources = from_rows if from_rows is not None else [0] * len(numbers) if count == 1 else list(range(count))
        rng, params = random_.random() < 0.7, random_.choice(["match", "ignore"])
        note(f"restore batch {self.batches.index(held)} snap {self.snaps.index(kept)} {rows=} {from_rows=} {rng=}")

        def call() -> None:
            envs.restore(kept.snap, rows=rows, from_rows=from_rows, rng=rng, params=params)

        if params == "match" and kept.shared != model.shared:
            with pytest.raises(ValueError, match="taken under other params"):
                call()
        elif model.mode == "same_step" and any(kept.rows[k].status == "ended" for k in sources):
            with pytest.raises(ValueError, match="has ended and awaits a reset"):
                call()
        else:
            call()
            model.adopt(envs)
            model.restore(kept.rows, numbers, sources, rng)

    @rule(r=numbers)
    def fork(self, r: int) -> None:
        random_ = random.Random(r)
        held = self.pick(random_)
        n = held.model.n
        targets = random_.sample(range(n), random_.randint(1, n))
        one = random_.random() < 0.4
        sources = [random_.randrange(n)] * len(targets) if one else [random_.randrange(n) for _ in targets]
        rng = random_.choice(["copy", "keep", "fresh"])
        seed = random_.choice([0, 5, 2**32 - 2, 2**40, 2**70]) if rng == "fresh" and random_.random() < 0.5 else None
        note(f"fork batch {self.batches.index(held)} {sources} to {targets} {rng=} {seed=}")
        held.envs.fork(sources[0] if one else sources, targets, rng=rng, seed=seed)
        held.model.adopt(held.envs)
        held.model.fork(sources, targets, rng, seed)

    @rule(r=numbers)
    def write(self, r: int) -> None:
        random_ = random.Random(r)
        held = self.pick(random_)
        envs, model = held.envs, held.model
        name = random_.choice([*model.env.zeros, "elapsed"])
        values = self.draw(random_, model, name)
        i = random_.randrange(model.n)
        how = random_.choice(["column", "element", "set_attr", "view"])
        note(f"write batch {self.batches.index(held)} {name} {how} {i} {values}")
        if how == "view" and (name == "elapsed" or isinstance(values[i], list)):
            how = "element"
        if how == "column":
            setattr(envs.state, name, values)
        elif how == "set_attr":
            envs.set_attr(name, values)
        elif how == "element":
            envs.state[name][i] = values[i]
        else:
            setattr(envs.view(i).state, name, values[i])
        for k in range(model.n) if how in ("column", "set_attr") else [i]:
            model.write(k, name, values[k])

    @rule(r=numbers)
    def set_stream(self, r: int) -> None:
        random_ = random.Random(r)
        held = self.pick(random_)
        if held.model.seeds is None:
            return
        i = random_.randrange(held.model.n)
        mine = generator(r)
        mine.integers(0, 5, dtype=np.int32)  # leaves half a word behind
        held.envs.view(i).np_random = mine
        held.model.rows[i].rng = mine

    @rule(r=numbers)
    def copied(self, r: int) -> None:
        random_ = random.Random(r)
        held = self.pick(random_)
        note(f"copy batch {self.batches.index(held)}")
        held.envs = random_.choice([copy.deepcopy, pickled])(held.envs)

    @rule(r=numbers)
    def refused(self, r: int) -> None:
        """Wrong calls; the comparison that follows shows that nothing has moved."""
        random_ = random.Random(r)
        held = self.pick(random_)
        envs, model = held.envs, held.model
        n = model.n
        running = [i for i in range(n) if model.rows[i].status == "running"]
        steppable = model.refusal(list(range(n)), model.mode, model.absorb) is None
        if running and steppable:
            actions = [model.env.action(random_) for _ in range(n)]
            i = random_.choice(running)
            actions[i] = model.env.bad_action(random_)
            with pytest.raises(ValueError, match=f"row {i}"):
                envs.step(actions)
            with pytest.raises(ValueError, match=f"row {i}"):
                envs.step(actions[i : i + 1], rows=[i])
        with pytest.raises(ValueError, match="unknown key"):
            envs.reset(seed=1, options={"maks": 1})
        with pytest.raises(ValueError, match="seed"):
            envs.reset(seed=[0] * (n + 1))
        with pytest.raises(ValueError, match="targets"):
            envs.fork([0, 0], [n - 1, n - 1])

    @invariant()
    def all_is_equal(self) -> None:
        for k, held in enumerate(self.batches):
            check_batch(held.envs, held.model, f"batch {k}")


def run(programs: int) -> None:
    run_state_machine_as_test(
        Programs,
        settings=settings(
            max_examples=programs,
            stateful_step_count=25,
            deadline=None,
            database=None,
            derandomize=programs <= 200,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_200_programs() -> None:
    run(200)


@pytest.mark.slow
def test_10000_programs() -> None:
    run(10_000)
