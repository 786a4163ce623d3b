"""`Runner`: calls the kernels of one batch, and says in words what they refuse."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium
import numba
import numpy as np

from vecenv.arguments import ActionParser, Rows
from vecenv.buffers import LeafBuffers, Observation, Outputs, StepOut
from vecenv.claim import Claim
from vecenv.debug import explain_typing_error, replay_to_find_row
from vecenv.infos import Infos
from vecenv.kernels import batch
from vecenv.kernels.batch import BatchKernels
from vecenv.kernels.jit import DISABLED as JIT_DISABLED
from vecenv.memory import Memory

if TYPE_CHECKING:
    from vecenv.vec_env import VecEnv

#: Runs one row again as plain Python: position among the rows, and its number as an array `[1]`.
Replay = Callable[[int, Rows], None]


class Runner:
    """Steps, resets and observes all rows of a batch (`rows=None`) or some, into arrays given or new.

    Args:
        envs: whose name errors carry.
        memory: the rows.
        claim: the claim on them.
        math: "portable" or "libm".
        boundscheck: check every index of the environment's functions.
        parse_actions: knows the action space.
        checks_actions: also make the checks of actions that no kernel makes (composite spaces, strict bounds).
        buffers, outputs, infos: make arrays.
    """

    def __init__(
        self,
        envs: VecEnv,
        memory: Memory,
        claim: Claim,
        math: str,
        boundscheck: bool,
        parse_actions: ActionParser,
        checks_actions: bool,
        buffers: LeafBuffers,
        outputs: Outputs,
        infos: Infos,
    ) -> None:
        self._envs, self.memory, self._claim = weakref.ref(envs), memory, claim  # weak, as in `Claim`
        self.kernels = BatchKernels.of(memory.wiring, math, boundscheck)
        self._boundscheck = boundscheck
        self._parse_actions, self._checks_actions = parse_actions, checks_actions
        self._buffers, self._outputs, self._infos = buffers, outputs, infos
        self.no_final = buffers.arrays(buffers.empty(0))
        #: Whether the environment's functions may raise, so that what has moved is put back.
        self.may_raise = boundscheck or bool(numba.config.BOUNDSCHECK) or JIT_DISABLED
        #: Whether a step is its kernel and nothing else.
        self.is_plain = not (checks_actions or self.may_raise)

    def warm_up(self, mode: int) -> None:
        """Compile or load the kernels of reset and step, by running them over no rows."""
        self._run(self.kernels.reset, 0, 0, self._buffers.arrays(self._buffers.empty(0)), self._infos.new(0))
        no_rows, actions = np.empty(0, np.int64), self._parse_actions.empty(0)
        info, final_info = self._infos.new(0), self._infos.new(0)
        self._run_step(self.kernels.step, 0, no_rows, mode, actions, self._outputs.new(0), info, final_info)

    def reset(self, rows: Rows | None) -> Any:
        """Reset rows that the caller has claimed; returns their info arrays."""
        return self._run_on("reset", rows)[1]

    def begin(self, rows: Rows | None) -> Any:
        """Begin the episodes of rows anew from a first state that was written; returns their info arrays."""
        transforms = self.memory.definition.transforms
        return self._run_on("begin" if transforms else "observe", rows)[1]

    def observe(self, rows: Rows | None) -> tuple[Observation, Any]:
        """Observations and info arrays of rows as they are, which the caller has claimed."""
        return self._run_on("observe", rows)

    def step(
        self, rows: Rows | None, actions: Any, outputs: StepOut, mode: int, jit: bool = True
    ) -> tuple[int, Any, Any]:
        """Step rows into `outputs`. Returns how many SAME_STEP reset, the info arrays, and the final ones."""
        if not (jit and self.is_plain) and not mode & batch.CLAIMED:  # else the kernel claims the rows
            return self._claim.run(self.step_claimed, rows, actions, outputs, mode, jit)
        count = self.memory.num_rows if rows is None else len(rows)
        kernel: Any
        first: Any
        if not jit:
            kernel, first = self.kernels.python_step_rows, np.arange(count) if rows is None else rows
        elif rows is None:
            kernel, first = self.kernels.step, 0
        elif count and bool((np.diff(rows) == 1).all()):
            kernel, first = self.kernels.step, int(rows[0])
        else:
            kernel, first = self.kernels.step_rows, rows
        info, final_info = self._infos.new(count), self._infos.new(count)
        if jit and not self.may_raise:
            code = self._run_step(kernel, first, rows, mode, actions, outputs, info, final_info)
        else:
            with self._put_back(rows, self._replay_step(mode, actions) if jit else None):
                code = self._run_step(kernel, first, rows, mode, actions, outputs, info, final_info)
        if code < 0:
            self.refuse(code, rows, actions)
        return code, info, final_info

    def step_claimed(
        self, rows: Rows | None, actions: Any, outputs: StepOut, mode: int, jit: bool = True
    ) -> tuple[int, Any, Any]:
        """The same, of rows that the caller has claimed."""
        running = self.memory.running(rows)
        if self._checks_actions and (found := self._parse_actions.first_bad(actions, running)) is not None:
            raise ValueError(f"{self._parse_actions.place(found[0], rows)}: {found[1]}; no row has moved")
        return self.step(rows, actions, outputs, mode | batch.CLAIMED, jit)

    def _replay_step(self, mode: int, actions: Any) -> Replay:
        def replay(position: int, row: Rows) -> None:
            agents = self._parse_actions.num_agents
            its = slice(position * agents, (position + 1) * agents)
            one = tuple(a[its].copy() for a in actions) if isinstance(actions, tuple) else actions[its].copy()
            new = self._outputs.new(1), self._infos.new(1), self._infos.new(1)
            self._run_step(self.kernels.python_step_rows, row, row, mode, one, *new)

        return replay

    def _replay_on(self, name: str) -> Replay:
        def replay(position: int, row: Rows) -> None:
            kernel = getattr(self.kernels, f"python_{name}_rows")
            self._run(kernel, row, 1, self._buffers.arrays(self._buffers.empty(1)), self._infos.new(1))

        return replay

    @contextlib.contextmanager
    def _put_back(self, rows: Rows | None, replay: Replay | None) -> Iterator[None]:
        """What raises inside leaves everything as it was; of a checked index, `replay` finds row, file and line."""
        with self.memory.all_or_nothing() as put_back:
            try:
                yield
            except IndexError:
                if replay is not None and self._boundscheck:
                    put_back()
                    for position, row in enumerate(range(self.memory.num_rows) if rows is None else rows.tolist()):
                        with replay_to_find_row(row):
                            try:
                                replay(position, np.array([row], np.int64))
                            finally:
                                put_back()
                raise

    def _run_on(self, name: str, rows: Rows | None) -> tuple[Observation, Any]:
        count = self.memory.num_rows if rows is None else len(rows)
        obs, info = self._buffers.empty(count), self._infos.new(count)
        # Only the one that runs is asked for: a kernel is bound, and said to be compiling, when it is asked for.
        kernel = getattr(self.kernels, name if rows is None else f"{name}_rows")
        first: Any = 0 if rows is None else rows
        arguments = kernel, first, count, self._buffers.arrays(obs), info
        if not self.may_raise:
            self._run(*arguments)
        else:
            with self._put_back(rows, self._replay_on(name)):
                self._run(*arguments)
        return obs, info

    def _run_step(
        self, kernel: Any, first: Any, rows: Rows | None, mode: int, actions: Any, out: StepOut, *infos: Any
    ) -> int:
        count = self.memory.num_rows if rows is None else len(rows)
        obs = self._buffers.arrays(out.obs)
        final_obs = self.no_final if out.final_obs is None else self._buffers.arrays(out.final_obs)
        arrays = obs, out.rewards, out.terminated, out.truncated, final_obs
        return self._run(kernel, first, count, mode, actions, *arrays, *infos)

    def _run(self, kernel: Any, *args: Any) -> int:
        try:
            code: int = kernel(self.memory.head, self.memory.arena, *args)
        except Exception as error:
            if getattr(kernel, "signatures", None) != []:
                raise
            explained = explain_typing_error(error, self.memory.definition)  # it did not come to run
        else:
            return code
        raise explained

    def refuse(self, code: int, rows: Rows | None, actions: Any) -> NoReturn:
        """Raise what a kernel's code means. No row has moved."""
        kind, position = (-code) & 0xFF, (-code) >> 8
        if kind == batch.CLOSED:
            raise gymnasium.error.ClosedEnvironmentError(f"{self._envs()!r} is closed; make a new one")
        if kind == batch.BUSY:
            self._claim.refuse()
        row = position if rows is None else int(rows[position])
        if kind == batch.NOT_RESET:
            raise gymnasium.error.ResetNeeded(f"row {row} was never reset; call reset() first; no row has moved")
        if kind == batch.ROW_ENDED:
            raise gymnasium.error.ResetNeeded(
                f"row {row}: its episode has ended; reset it with reset_mask "
                f"(reset(options={{'reset_mask': mask}})); no row has moved"
            )
        raise ValueError(f"row {row}: {self._parse_actions.describe(actions[position])}; no row has moved")
