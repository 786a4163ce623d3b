"""`check_def`: is an environment definition sound?"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from vecenv.arguments import parse_count
from vecenv.checks.model import check_model
from vecenv.checks.play import Actions
from vecenv.checks.report import Report, show
from vecenv.checks.trees import outside, row_of, rows_outside, same
from vecenv.kernels import batch
from vecenv.kernels.envdef import EnvDef
from vecenv.registry import definition_of
from vecenv.vec_env import VecEnv

ROWS = 16
LOCKSTEP = 300  # steps that are also run as plain Python
WIDE = 67  # rows of the batch whose rows are compared with batches of one: more than one block of 64
PATTERNS = (0x55, 0xAA)  # bytes that observation buffers are filled with


def check_def(
    definition: EnvDef | str,
    *,
    num_steps: int = 2000,
    seed: int = 0,
    boundscheck: bool = True,
    continuing: bool = False,
) -> None:
    """Check that a definition is sound; return quietly if it is.

    Plays at random, half of the rows with actions that are held for a while, so that far states are reached too.
    What is checked, with the names that violations carry:

    - `index-out-of-bounds`, `python-raises`: the row functions run as plain Python, which checks every index, and
      compiled with checks. Without checks they are run only if nothing was found;
    - `jit-differs`: compiled and plain Python give the same results, state and random stream, exactly;
    - `obs-unwritten`: `observe` writes every element (into two buffers filled with different bytes, in many states);
    - `observe-impure`: `observe` and `info` change nothing;
    - `obs-space`: observations lie in the space, NaN included; names the element, its value, step and row;
    - `reward-finite`, `state-nan`: rewards are finite, no float field of the state becomes NaN;
    - `both-flags`, `limit`, `never-ends`: flags and limit fit together; without a limit some episode ends by itself;
    - `reset-determinism`: the same seed gives the same start and the same episode, whatever was before;
    - `batch-invariance`: row i of a batch is a batch of one;
    - `model-keys`, `model-starts`, `model-steps`, `model-frequencies`: if there is a model, states survive decode and
      encode, and sampled starts and steps are those of the model, as often as it says.

    Args:
        definition: an `EnvDef`, or the id of a registered one.
        num_steps: steps of 16 rows in the longest run.
        seed: of resets and actions.
        boundscheck: False skips the compiled run with checks and so its compilation.
        continuing: True for a task that has no end and no limit.

    Raises:
        AssertionError: one line per kind of violation: name, what was expected, what came, in which step and row.
        BindError: a row function uses something that row functions cannot.
    """
    num_steps = parse_count(num_steps, "check_def: num_steps")
    definition = definition_of(definition)
    VecEnv(definition, 1).close()  # what cannot be bound or compiled raises here
    report = Report(f"check_def({definition.id})")
    checker = _Checker(definition, report, num_steps, seed, boundscheck, continuing)
    for name, check in (("python", checker.check_python), ("play", checker.check_play)):
        if not checker.unsafe:
            with report.section(name):
                check()
    # What is in a buffer by chance, or written by an observation, differs between any two runs.
    if not checker.unsafe and not {"obs-unwritten", "observe-impure"} & set(report.violations):
        for name, check in (
            ("jit", checker.check_jit),
            ("reset", checker.check_reset),
            ("batch-invariance", checker.check_batch_invariance),
            ("model", checker.check_model),
        ):
            with report.section(name):
                check()
    report.raise_if_any()


@dataclass
class Moment:
    """What came of one call on a batch of one, and all columns after it. The action of a reset is None."""

    t: int
    action: Any
    result: tuple[Any, ...]
    columns: dict[str, npt.NDArray[Any]]


class _Checker:
    def __init__(
        self, definition: EnvDef, report: Report, num_steps: int, seed: int, boundscheck: bool, continuing: bool
    ) -> None:
        self.definition, self.report, self.num_steps, self.seed = definition, report, num_steps, seed
        self.num_agents = definition.num_agents
        self.boundscheck, self.continuing = boundscheck, continuing
        self.moments: dict[int, list[Moment]] = {}
        self.actions = Actions(definition.action_space, seed)
        self.unsafe = False

    def _make(self, num_envs: int, mode: str = "same_step", boundscheck: bool = False) -> VecEnv:
        return VecEnv(self.definition, num_envs, autoreset_mode=mode, boundscheck=boundscheck)

    def _batch(self, n: int, t: int, rows: Any = None) -> Any:
        """Actions of step t: even rows draw anew in each step, odd rows hold theirs for 3 to 31 steps."""
        held = [(i, t // (1 if i % 2 == 0 else 1 + 2 * (i % ROWS))) for i in (range(n) if rows is None else rows)]
        agents = range(self.num_agents)
        return self.actions.batch([(i * self.num_agents + agent, time) for i, time in held for agent in agents])

    def _of_row(self, tree: Any, i: int) -> Any:
        """Row i of what a batch takes or gives: one of each, or one per agent `[A, ...]`."""
        if self.num_agents == 1:
            return row_of(tree, i)
        return row_of(tree, slice(i * self.num_agents, (i + 1) * self.num_agents))

    def _add(self, name: str, expected: str, got: str, t: int, position: int) -> None:
        """Report what is wrong at a position of what a batch gives."""
        row, agent = divmod(position, self.num_agents)
        where = f"agent {agent}" if self.num_agents > 1 else ""
        self.report.add(name, expected, got, step=t, row=row, where=where)

    def check_model(self) -> None:
        if self.definition.model is not None:
            check_model(self.definition, self.report, self.seed)

    # --- plain Python -------------------------------------------------------------------------------------------------

    def check_python(self) -> None:
        """Plain Python first, because compiled code does not check indices."""
        envs, steps = self._make(1, "disabled"), min(self.num_steps, LOCKSTEP)
        for row in (0, 1, ROWS - 1):
            moments = self._python_alone(envs, row, steps)
            if moments is None:
                self.unsafe = True
                return
            self.moments[row] = moments

    def check_jit(self) -> None:
        """The same runs compiled."""
        envs = self._make(1, "disabled")
        for row, moments in self.moments.items():
            self._compare_compiled(envs, row, moments)

    def _python_alone(self, envs: VecEnv, row: int, steps: int) -> list[Moment] | None:
        """What plain Python gives in some steps and the resets between them, or None if it raises."""
        observe = envs._runner.kernels._bind(batch.observe, listed=True, compiled=False)
        envs._memory.seed([self.seed + row])
        moments: list[Moment] = []
        t = 0
        try:
            moments.append(self._moment(envs, t, None, (_python_reset(envs),)))
            view = envs.view(0)
            for t in range(1, steps + 1):
                action = self._of_row(self._batch(1, t, [row]), 0)
                result = view.step(action, jit=False)
                moments.append(self._moment(envs, t, action, result))
                if t % 4 == 0:
                    self._observe_frozen(envs, observe, t)
                if envs.episode_ended[0]:
                    moments.append(self._moment(envs, t, None, (_python_reset(envs),)))
        except IndexError as error:
            where = self._where(error)
            self.report.add("index-out-of-bounds", "indices inside the arrays", f"{error} in {where}", step=t)
            return None
        except Exception as error:
            got = f"{type(error).__name__}: {error} in {self._where(error)}"
            self.report.add("python-raises", "no exception from plain Python", got, step=t)
            return None
        return moments

    @staticmethod
    def _moment(envs: VecEnv, t: int, action: Any, result: tuple[Any, ...]) -> Moment:
        columns = {name: column.copy() for name, column in envs._memory.columns.items() if name != "engine.episode"}
        return Moment(t, action, result, columns)

    def _observe_frozen(self, envs: VecEnv, observe: Any, t: int) -> None:
        """Observe a state that cannot be written."""
        frozen = envs._arena.copy()
        frozen.flags.writeable = False
        obs, info = envs._buffers.arrays(envs._buffers.empty(1)), envs._infos.new(1)
        try:
            observe(envs._head, frozen, np.zeros(1, np.int64), 1, obs, info)
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            got = f"a write in {self._where(error)}"
            self.report.add("observe-impure", "observe and info to change nothing", got, step=t)

    def _where(self, error: BaseException) -> str:
        """The author's function, file and line that an exception came through."""
        definition = self.definition
        given = [definition.reset, definition.step, definition.observe, definition.info]
        roots = {function.__code__.co_filename for function in given if function is not None}
        roots |= {function.__code__.co_filename for function in definition.functions.values()}
        frames = traceback.extract_tb(error.__traceback__)
        frame = [frame for frame in frames if frame.filename in roots or frame is frames[0]][-1]
        return f'{frame.name} (file "{frame.filename}", line {frame.lineno})'

    def _compare_compiled(self, envs: VecEnv, row: int, moments: list[Moment]) -> None:
        envs._memory.seed([self.seed + row])
        view = envs.view(0)
        for expected in moments:
            result = (envs.reset()[0],) if expected.action is None else view.step(expected.action)
            got = self._moment(envs, expected.t, expected.action, result)
            pairs = list(
                zip(("obs", "reward", "terminated", "truncated", "info"), result, expected.result, strict=False)
            )
            pairs += [(f"column {name}", column, expected.columns[name]) for name, column in got.columns.items()]
            for name, now, was in pairs:
                if not same(now, was):
                    what = (
                        f"{name} {show(was)} as in plain Python after {'reset' if expected.action is None else 'step'}"
                    )
                    self.report.add("jit-differs", what, show(now), step=expected.t)
                    return

    # --- random play --------------------------------------------------------------------------------------------------

    def check_play(self) -> None:
        """Long random play of 16 rows, with checked indices."""
        self.unsafe = True  # until it has come to its end
        try:
            self._play()
        except IndexError as error:
            self.report.add("index-out-of-bounds", "indices inside the arrays", str(error))
            return
        self.unsafe = False

    def _play(self) -> None:
        envs = self._make(ROWS, boundscheck=self.boundscheck)
        single = self.definition.observation_space
        limits = envs._memory.side["side.limit"]
        everywhere = np.arange(envs.num_envs)
        obs, _ = envs.reset(seed=self.seed)
        self._check_observe(envs, 0)
        self._check_contains(single, obs, everywhere, 0, "")
        num_ended, elapsed = 0, np.zeros(ROWS, np.int64)
        over = np.zeros((ROWS, self.num_agents), np.bool_)  # agents that have ended, of rows that have not
        for t in range(1, self.num_steps + 1):
            obs, rewards, terminated, truncated, infos = envs.step(self._batch(ROWS, t))
            over |= (terminated | truncated).reshape(over.shape)
            ended = over.all(axis=1)
            elapsed += 1
            num_ended += int(ended.sum())
            self._check_contains(single, obs, everywhere, t, "")
            if ended.any():
                last = np.flatnonzero(np.repeat(ended, self.num_agents))
                self._check_contains(single, infos["final_obs"], last, t, "the last ")
            self._check_numbers(envs, rewards, t)
            if (both := terminated & truncated).any():
                self._add("both-flags", "one flag", "both", t, int(np.flatnonzero(both)[0]))
            late = (limits > 0) & (elapsed >= limits) & ~ended
            if late.any():
                i = int(np.flatnonzero(late)[0])
                self.report.add("limit", f"an end at step {limits[i]}", f"none at step {elapsed[i]}", step=t, row=i)
            elapsed[ended], over[ended] = 0, False
            if t <= 50 or t % 10 == 0:
                self._check_observe(envs, t)
        if num_ended == 0 and (limits < 0).any() and not self.continuing:
            expected = f"an end in {self.num_steps} steps of {ROWS} rows, or max_episode_steps"
            self.report.add("never-ends", expected, "neither")

    def _check_contains(self, single: spaces.Space[Any], obs: Any, rows: Any, t: int, what: str) -> None:
        is_objects = isinstance(obs, np.ndarray) and obs.dtype == object  # final observations of a Tuple space
        for i in rows if is_objects else rows[rows_outside(single, obs)[rows]]:
            if (bad := outside(single, row_of(obs, int(i)))) is not None:
                self._add("obs-space", f"{what}obs{bad[0]} in {bad[1]}", bad[2], t, int(i))

    def _check_numbers(self, envs: VecEnv, rewards: npt.NDArray[np.float64], t: int) -> None:
        if not np.isfinite(rewards).all():
            i = int(np.flatnonzero(~np.isfinite(rewards))[0])
            self._add("reward-finite", "a finite reward", show(rewards[i]), t, i)
        for name in envs.state:
            column = envs.state[name]
            if column.dtype.kind == "f" and np.isnan(column).any():
                place = np.argwhere(np.isnan(column))[0]
                field = name + (f"[{', '.join(map(str, place[1:]))}]" if len(place) > 1 else "")
                self.report.add("state-nan", f"a number in state.{field}", "nan", step=t, row=int(place[0]))

    def _check_observe(self, envs: VecEnv, t: int) -> None:
        """`observe` twice on the same states, into buffers filled with different bytes."""
        before = envs._arena.copy()
        results = []
        for pattern in PATTERNS:
            obs = envs._buffers.empty(ROWS)
            for array in envs._buffers.flat(obs):
                array.view(np.uint8).fill(pattern)
            info = envs._infos.new(ROWS)
            envs._runner.kernels.observe(envs._head, envs._arena, 0, ROWS, envs._buffers.arrays(obs), info)
            results.append(envs._buffers.flat(obs))
            if not np.array_equal(before, envs._arena):
                self._name_impure(envs, before, t)
                envs._arena[:] = before
        for leaf, first, second in zip(self.definition.observation_leaves, *results, strict=True):
            if first.tobytes() != second.tobytes():
                differ = first.view(np.uint8).reshape(*first.shape, -1) != second.view(np.uint8).reshape(
                    *second.shape, -1
                )
                position, *index = (int(k) for k in np.argwhere(differ)[0][:-1])
                element = f"[{leaf.key!r}]" if leaf.key is not None else ""
                element += f"[{', '.join(map(str, index or (0,)))}]"
                self._add("obs-unwritten", f"observe to write obs{element}", "what was in the buffer", t, position)

    def _name_impure(self, envs: VecEnv, before: npt.NDArray[np.uint8], t: int) -> None:
        old = envs._memory.layout.carve(before, ROWS)
        for name, column in envs._memory.columns.items():
            if column.tobytes() != old[name].tobytes():
                field = name.removeprefix("state.")
                self.report.add("observe-impure", "observe and info to change nothing", f"another {field}", step=t)

    # --- runs that have to be equal -----------------------------------------------------------------------------------

    def _run(self, envs: VecEnv, steps: int) -> list[Any]:
        results: list[Any] = [(envs.reset(seed=self.seed)[0], *(np.zeros(envs.num_envs),) * 3)]
        for t in range(1, steps):
            results.append(envs.step(self._batch(envs.num_rows, t))[:4])
        return results

    def check_reset(self) -> None:
        """A seeded reset after play gives what a seeded reset of a new batch gives."""
        envs, steps = self._make(ROWS), min(self.num_steps, 60)
        first = self._run(envs, steps)
        envs.step(self._batch(ROWS, steps))
        again = self._run(envs, steps)
        names = ("obs", "reward", "terminated", "truncated")
        for t, (a, b) in enumerate(zip(first, again, strict=True)):
            for name, was, now in zip(names, a, b, strict=True):
                if not same(was, now):
                    expected = f"the same {name} from the same seed, {show(was)}"
                    self.report.add("reset-determinism", expected, show(now), step=t)
                    return

    def check_batch_invariance(self) -> None:
        """Row i of 67 seeded s is a batch of one seeded s + i."""
        wide, steps = self._make(WIDE), min(self.num_steps, 60)
        results = self._run(wide, steps)
        names = ("obs", "reward", "terminated", "truncated")
        one = self._make(1)
        for i in (0, 1, 63, 64, WIDE - 1):
            alone: tuple[Any, ...] = (one.reset(seed=self.seed + i)[0], *(np.zeros(one.num_envs),) * 3)
            for t, result in enumerate(results):
                if t:
                    alone = one.step(self._batch(1, t, [i]))[:4]
                for name, many, single in zip(names, result, alone, strict=True):
                    was, now = self._of_row(single, 0), self._of_row(many, i)
                    if not same(was, now):
                        self.report.add("batch-invariance", f"{name} {show(was)} as in a batch of one", show(now),
                                        step=t, row=i)  # fmt: skip
                        return


def _python_reset(envs: VecEnv) -> Any:
    """Reset a batch of one by plain Python; its observation `[1, ...]`."""
    obs = envs._buffers.empty(1)
    rows = np.zeros(1, np.int64)
    reset = envs._runner.kernels.python_reset_rows
    reset(envs._head, envs._arena, rows, 1, envs._buffers.arrays(obs), envs._infos.new(1))
    return obs
