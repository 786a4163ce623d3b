"""`VecEnv`: a batch of one environment behind `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from vecenv.arguments import (
    ActionParser,
    Rows,
    parse_autoreset_mode,
    parse_limits,
    parse_num_envs,
    parse_reset_mask,
    parse_reset_options,
    parse_rows,
    parse_seeds,
    parse_threads,
)
from vecenv.buffers import LeafBuffers, Observation, StepOut, check_no_overlap, check_output
from vecenv.kernels import batch
from vecenv.kernels.arena import copy_rows
from vecenv.kernels.batch import BatchKernels
from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.seeding import normalize_seed, seed_streams
from vecenv.kernels.soa import allocate, digest_params
from vecenv.kernels.wiring import ENDED, EPISODE_ENDED, UNRESET, Wiring
from vecenv.render.pictures import Pictures, parse_render_mode, render_modes
from vecenv.snapshot import Snapshot
from vecenv.state import StateColumns

if TYPE_CHECKING:
    from vecenv.view import View

Arrays = tuple[Observation, npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]

ndarray, empty = np.ndarray, np.empty
BOOL = np.dtype(np.bool_)

_MODES = {
    AutoresetMode.NEXT_STEP: batch.NEXT_STEP,
    AutoresetMode.SAME_STEP: batch.SAME_STEP,
    AutoresetMode.DISABLED: batch.DISABLED,
}


class VecEnv(VectorEnv[Any, Any, Any]):
    """N environments of one definition, stepped together. Made by `vecenv.make_vec`.

    Attributes:
        definition: the `EnvDef`.
        num_envs: N.
        state: live columns of the state: `envs.state.x` is the array `[N]` that the kernels read and write.
        params: shared params by name, read-only.
        math: "portable" or "libm".
    """

    def __init__(
        self,
        definition: EnvDef,
        num_envs: int,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        num_threads: int | str = "auto",
        max_episode_steps: Any = None,
        params: Mapping[str, Any] | None = None,
        math: str = "portable",
        copy: bool = True,
        validate: bool = True,
        render_mode: str | None = None,
    ) -> None:
        self.closed = True  # until everything stands, so that nothing runs if an argument is refused
        self.num_envs = parse_num_envs(num_envs)
        self.autoreset_mode = parse_autoreset_mode(autoreset_mode)
        self.num_threads = parse_threads(num_threads)
        limits = parse_limits(max_episode_steps, definition, self.num_envs)
        values = definition.resolve_params(params)
        if math not in ("portable", "libm"):
            raise ValueError(f"math: expected 'portable' or 'libm', got {math!r}")
        self.render_mode = parse_render_mode(render_mode, definition)
        self.definition, self.math = definition, math
        self.params: dict[str, Any] = values
        self.metadata = {
            "autoreset_mode": self.autoreset_mode,
            "render_modes": render_modes(definition),
            "render_fps": definition.render_fps,
        }
        self.spec = None
        self.single_observation_space = definition.observation_space
        self.single_action_space = definition.action_space
        self.observation_space = batch_space(definition.observation_space, self.num_envs)
        self.action_space = batch_space(definition.action_space, self.num_envs)

        self._wiring = Wiring(definition)
        self._kernels = BatchKernels(self._wiring, math)
        self._head = self._wiring.new_head(self.num_envs)
        self._arena = self._wiring.new_arena(self.num_envs)
        self._columns = self._wiring.arena_layout.carve(self._arena, self.num_envs)
        self._side = self._wiring.side_columns(self._head, self.num_envs)
        self._side["side.limit"][:] = limits
        self._words = self._head[: len(self._wiring.word) * 8].view(np.int64)
        self._words[self._wiring.word["validate"]] = validate
        self._default_options = parse_reset_options({}, definition)
        self._wiring.write_scalars(self._head, "param", definition.params.fields, values)
        self._wiring.write_scalars(self._head, "option", definition.options_type.fields, self._default_options)
        self._params_digest = digest_params(values)
        self.state = StateColumns(
            {slot.name: self._columns[slot.column.name] for slot in self._wiring.state_slots() if slot.base == "arena"}
        )

        self._parse_actions = ActionParser(definition)
        self._buffers = LeafBuffers(definition.observation_space, definition.observation_leaves)
        self._info_names = [field.name for field in definition.info_type.fields]
        self._mode = _MODES[self.autoreset_mode]
        self._same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        self._no_final = self._buffers.arrays(self._buffers.empty(0))
        self._action_dtype = self._parse_actions.dtype
        self._action_shape = (self.num_envs, *self._parse_actions.shape)
        self._obs_shape, self._obs_dtype = (self.num_envs, *self._buffers.shape), self._buffers.dtype
        self._reused = None if copy else self._new_outputs(self.num_envs)
        # One observation array, fresh outputs, no infos: the short way through `step`.
        self._plain = copy and self._buffers.kind == "array" and not self._info_names and not self._same_step
        self._seeded = False
        self._fork_base, self._fork_calls = 0, 0
        self._warm_up()
        self._step_kernel = self._kernels.step
        self.closed = False

    def _warm_up(self) -> None:
        """Compile or load the kernels of reset and step, by running them over no rows."""
        outputs = self._new_outputs(0)
        actions = np.empty((0, *self._parse_actions.shape), self._action_dtype)
        self._kernels.reset(self._head, self._arena, 0, 0, self._buffers.arrays(outputs.obs), self._new_info(0))
        self._run(self._kernels.step, 0, 0, self._mode, actions, outputs, self._new_info(0), self._new_info(0))

    # --- Gymnasium ----------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: Any = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start new episodes in all rows, or in those of `options["reset_mask"]`.

        Args:
            seed: an int s (row i gets the stream of seed s + i), a sequence of N entries (None keeps a row's stream),
                or None (all streams continue; at the first reset they start from fresh entropy).
            options: `reset_mask`, a bool array `[N]`, and the environment's own reset options. Never changed.

        Returns:
            Observations of all rows (`[N, ...]`; zeros for rows never reset) and infos of the rows reset.

        Raises:
            gymnasium.error.ClosedEnvironmentError, TypeError, ValueError: before any row moves.
        """
        self._check_open()
        given = dict(options or {})
        rows = parse_reset_mask(given.pop("reset_mask"), self.num_envs) if "reset_mask" in given else None
        author = parse_reset_options(given, self.definition)
        self._seed(parse_seeds(seed, self.num_envs), rows)
        if rows is not None and len(rows) < self.num_envs:
            _, info = self._reset_rows(rows, author)
            return self._observe_started(), self._reset_infos(info, rows)
        obs, info = self._buffers.empty(self.num_envs), self._new_info(self.num_envs)
        with self._options_in_force(author):
            self._kernels.reset(self._head, self._arena, 0, self.num_envs, self._buffers.arrays(obs), info)
        return obs, self._reset_infos(info, None)

    def _reset_rows(self, rows: Rows, author: dict[str, Any]) -> tuple[Observation, Any]:
        obs, info = self._buffers.empty(len(rows)), self._new_info(len(rows))
        with self._options_in_force(author):
            self._kernels.reset_rows(self._head, self._arena, rows, len(rows), self._buffers.arrays(obs), info)
        return obs, info

    def _reset_row(self, row: int, seed: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """A view's reset: the observation and info of one row, as its single spaces have them."""
        self._check_open()
        author = parse_reset_options(options, self.definition)
        rows = np.array([row], np.int64)
        number = None if seed is None else normalize_seed(seed)
        self._seed_all_once()
        if number is not None:
            self._seed_rows(rows, [number])
        obs, info = self._reset_rows(rows, author)
        infos = {name: values[0].item() for name, values in zip(self._info_names, info or (), strict=True)}
        return self._buffers.row(obs, 0), infos

    def step(self, actions: Any, *, rows: Any = None, out: Any = None) -> Arrays:
        """Step all rows, or some.

        Args:
            actions: `[K, *single_action_space.shape]`; actions of rows that NEXT_STEP is about to reset are ignored.
            rows: which K rows to step: unique ints `[K]` or a bool mask `[N]`; None for all. Everything in and out is
                in the order given.
            out: a `StepOut` to write into; its arrays overlap nothing.

        Returns:
            `(obs [K, ...], rewards [K] float64, terminated [K] bool, truncated [K] bool, infos)`. The arrays are the
            caller's, unless `copy=False` or `out` was asked for. Under SAME_STEP, `infos["final_obs"]` and
            `infos["_final_obs"]` hold the last observations of the episodes that ended.

        Raises:
            gymnasium.error.ResetNeeded: a row was never reset, or ended and has no auto-reset.
            gymnasium.error.ClosedEnvironmentError, TypeError, ValueError: something does not fit. No row has moved.
        """
        if rows is not None:
            return self._step_some(actions, parse_rows(rows, self.num_envs), out)
        n = self.num_envs
        if not (
            type(actions) is ndarray
            and actions.dtype == self._action_dtype
            and actions.shape == self._action_shape
            and actions.flags.carray
        ):
            self._check_open()
            actions = self._parse_actions(actions, n)
        if out is not None or not self._plain:
            return self._finish(self._step_kernel, 0, n, self._mode, actions, self._outputs(out, n, actions), None)
        # The short way: what follows is most of the time of a step at N=1.
        obs = empty(self._obs_shape, self._obs_dtype)
        rewards, terminated, truncated = empty(n), empty(n, BOOL), empty(n, BOOL)
        code = self._step_kernel(
            self._head,
            self._arena,
            0,
            n,
            self._mode,
            actions,
            obs,
            rewards,
            terminated,
            truncated,
            self._no_final,
            0,
            0,
        )
        if code < 0:
            self._refuse(code, None, actions)
        return obs, rewards, terminated, truncated, {}

    def render(self) -> tuple[Any, ...] | None:
        """Each row as it is now: N uint8 arrays `[H, W, 3]` ("rgb_array") or N strings ("ansi").

        A row that has ended and awaits its reset shows the end of its episode. Under SAME_STEP a row that ended was
        reset in the same step, so this shows its new episode. To see how episodes end, use NEXT_STEP or DISABLED, where
        the row is still there; or step the row by `view(i).step(action)`, which never resets, and render the view.

        Returns:
            None, with a warning, without a `render_mode`.

        Raises:
            gymnasium.error.ClosedEnvironmentError, ResetNeeded: the batch is closed, a row was never reset.
        """
        return self._render_rows(range(self.num_envs), None)

    def _render_rows(self, rows: Iterable[int], numbers: Rows | None) -> tuple[Any, ...] | None:
        self._check_open()
        if self.render_mode is None:
            modes = " or ".join(f"render_mode={mode!r}" for mode in self.metadata["render_modes"])
            remedy = f"make it with {modes}" if modes else f"{self.definition.id} has no pictures"
            gymnasium.logger.warn(f"render() without a render mode returns None: {remedy}")
            return None
        self._check_started(numbers)
        pictures = self._pictures()
        return tuple(pictures.frame(row, self.render_mode) for row in rows)

    def _pictures(self) -> Pictures:
        return Pictures(self._wiring, self._head, self._arena)

    def close_extras(self, **kwargs: Any) -> None:
        self._words[self._wiring.word["closed"]] = 1

    # --- views, state, statistics -------------------------------------------------------------------------------------

    def view(self, row: int) -> View:
        """A live `gymnasium.Env` on one row: stepping it moves only that row and never auto-resets."""
        from vecenv.view import View

        self._check_open()
        if isinstance(row, bool | np.bool_):
            raise TypeError(f"view: expected a row number, got {row!r}")
        return View(self, int(parse_rows([row], self.num_envs, "view")[0]))

    def observe(self) -> Observation:
        """Observations `[N, ...]` of all rows as they are, for example after writing `state`."""
        self._check_open()
        self._check_started(None)
        obs = self._buffers.empty(self.num_envs)
        self._kernels.observe(
            self._head, self._arena, 0, self.num_envs, self._buffers.arrays(obs), self._new_info(self.num_envs)
        )
        return obs

    @property
    def episode_ended(self) -> npt.NDArray[np.bool_]:
        """`[N]`: whether the last step of the row ended its episode."""
        ended: npt.NDArray[np.bool_] = (self._columns["engine.flags"] & EPISODE_ENDED) != 0
        return ended

    @property
    def episode_returns(self) -> npt.NDArray[np.float64]:
        """`[N]`: sum of rewards of the running episode or, where `episode_ended`, of the one that ended."""
        return np.where(self._ended_and_reset(), self._side["side.final_total"], self._columns["engine.total"])

    @property
    def episode_lengths(self) -> npt.NDArray[np.int32]:
        """`[N]`: steps of the running episode or, where `episode_ended`, of the one that ended."""
        return np.where(self._ended_and_reset(), self._side["side.final_length"], self._columns["engine.elapsed"])

    def _ended_and_reset(self) -> npt.NDArray[np.bool_]:
        flags: npt.NDArray[np.uint8] = self._columns["engine.flags"]
        reset: npt.NDArray[np.bool_] = (flags & (EPISODE_ENDED | ENDED)) == EPISODE_ENDED
        return reset

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def snapshot(self, rows: Any = None, out: Snapshot | None = None) -> Snapshot:
        """Copy all rows, or some: state, random streams, counters, statistics, pending resets.

        Args:
            rows: ints `[K]` (repeats allowed) or a bool mask `[N]`; None for all.
            out: a snapshot of as many rows to overwrite: recycled memory is 1.7 times faster at 100 MB.
        """
        self._check_open()
        self._seed_all_once()
        numbers = None if rows is None else parse_rows(rows, self.num_envs, unique=False)
        count = self.num_envs if numbers is None else len(numbers)
        if count == 0:
            raise ValueError("snapshot: rows is empty; a snapshot needs at least one row")
        layout = self._wiring.arena_layout
        if out is None:
            arena = allocate(int(layout.offsets(count)[-1]))
        else:
            if not isinstance(out, Snapshot):
                raise TypeError(f"snapshot: out: expected a Snapshot, got {type(out).__name__}")
            if out.env_id != self.definition.id or out.layout.digest != layout.digest or out.num_rows != count:
                raise ValueError(f"snapshot: out: expected {self.definition.id} with {count} rows, got {out!r}")
            arena = out.arena
            arena.flags.writeable = True
        if numbers is None:
            np.copyto(arena, self._arena)
        else:
            copy_rows(layout, arena, count, np.arange(count), self._arena, self.num_envs, numbers)
        arena.flags.writeable = False
        return Snapshot(self.definition.id, self._wiring.env_digest(), self._params_digest, layout, count, arena)

    def restore(
        self, snap: Snapshot, rows: Any = None, from_rows: Any = None, rng: bool = True, params: str = "match"
    ) -> None:
        """Put rows of a snapshot back; from then on they replay bit for bit.

        Args:
            snap: a snapshot of this environment, from a batch of any size, mode, limit and math.
            rows: the rows that receive: unique ints `[K]` or a bool mask `[N]`; None for all.
            from_rows: the snapshot's rows they receive, ints `[K]` (repeats allowed); None for 0 to K - 1. A snapshot
                of one row goes to all `rows`.
            rng: False leaves the rows' random streams as they are.
            params: "match" refuses a snapshot taken under other shared params, "ignore" does not.

        Raises:
            TypeError, ValueError: `snap` is of something else, or an ended row would come into a SAME_STEP batch.
        """
        self._check_open()
        if not isinstance(snap, Snapshot):
            raise TypeError(f"restore: expected a Snapshot, got {type(snap).__name__}")
        layout = self._wiring.arena_layout
        if snap.env_id != self.definition.id:
            raise ValueError(f"restore: expected a snapshot of {self.definition.id}, got {snap!r}")
        if snap.layout.digest != layout.digest:
            raise ValueError(f"restore: the snapshot has other columns: {layout.difference(snap.layout)}")
        if snap.env_digest != self._wiring.env_digest():
            raise ValueError(f"restore: the snapshot is of another version or variant of {self.definition.id}")
        if params not in ("match", "ignore"):
            raise ValueError(f"restore: params: expected 'match' or 'ignore', got {params!r}")
        if params == "match" and snap.params_digest != self._params_digest:
            raise ValueError(
                "restore: the snapshot was taken under other params; pass params='ignore' to take it anyway"
            )
        targets = np.arange(self.num_envs) if rows is None else parse_rows(rows, self.num_envs)
        if from_rows is not None:
            sources = parse_rows(from_rows, snap.num_rows, "from_rows", unique=False)
        elif snap.num_rows == 1:
            sources = np.zeros(len(targets), np.int64)
        else:
            sources = np.arange(snap.num_rows)
        if len(sources) != len(targets):
            raise ValueError(
                f"restore: {len(targets)} rows receive, but {len(sources)} rows of the snapshot were given"
            )
        if self._same_step:
            flags = layout.carve(snap.arena, snap.num_rows)["engine.flags"][sources]
            if ((flags & ENDED) != 0).any():
                k = int(np.flatnonzero(flags & ENDED)[0])
                raise ValueError(
                    f"restore: row {sources[k]} of the snapshot has ended and awaits a reset; "
                    "SAME_STEP has no such rows"
                )
        self._seed_all_once()  # else the other rows of a batch never reset would keep streams of zeros
        streams = ("engine.rng", "engine.policy")
        kept = {} if rng else {name: self._columns[name][targets] for name in streams}
        copy_rows(layout, self._arena, self.num_envs, targets, snap.arena, snap.num_rows, sources)
        for name, words in kept.items():
            self._columns[name][targets] = words
        self._forget_endings(targets)

    def fork(self, sources: Any, targets: Any, rng: str = "copy", seed: int | None = None) -> None:
        """Copy rows into rows of this batch: `targets[k]` becomes `sources[k]`.

        Args:
            sources: rows `[K]`, repeats allowed, or one int that goes to all targets.
            targets: unique rows `[K]`.
            rng: "copy": a target continues the source's random streams, so equal actions give equal futures. "keep": it
                keeps its own streams. "fresh": it gets streams used by no call before; the sources' never move.
            seed: with "fresh", streams that depend on this seed and the position in `targets` only.
        """
        self._check_open()
        if rng not in ("copy", "keep", "fresh"):
            raise ValueError(f"fork: rng: expected 'copy', 'keep' or 'fresh', got {rng!r}")
        if seed is not None and rng != "fresh":
            raise ValueError(f"fork: seed belongs to rng='fresh', got rng={rng!r}")
        to = parse_rows(targets, self.num_envs, "targets")
        of = parse_rows(np.atleast_1d(np.asarray(sources)), self.num_envs, "sources", unique=False)
        if np.ndim(sources) == 0:
            of = np.broadcast_to(of, to.shape).copy()
        if len(of) != len(to):
            raise ValueError(f"fork: expected as many sources as targets, got {len(of)} and {len(to)}")
        base = None if seed is None else normalize_seed(seed)
        kept = {name: self._columns[name][to] for name in ("engine.rng", "engine.policy")}
        layout = self._wiring.arena_layout
        copy_rows(layout, self._arena, self.num_envs, to, self._arena, self.num_envs, of)
        self._forget_endings(to)
        if rng == "keep":
            for name, words in kept.items():
                self._columns[name][to] = words
        elif rng == "fresh":
            first = 1  # SeedSequence([s, 0]) is SeedSequence(s): the stream that reset(seed=s) gives row 0
            if base is None:
                base, first = self._fork_base, 1 + self._fork_calls * self.num_envs
                self._fork_calls += 1
            self._seed_fresh(base, first, to)

    def _forget_endings(self, rows: Rows) -> None:
        """A row that was auto-reset in its last step has no ending to report here; one that is still ended does."""
        flags = self._columns["engine.flags"][rows]
        self._columns["engine.flags"][rows] = np.where(flags & ENDED, flags, flags & ~np.uint8(EPISODE_ENDED))

    # --- seeds --------------------------------------------------------------------------------------------------------

    def _seed_all_once(self) -> None:
        """Streams from fresh entropy, before any other seed."""
        if not self._seeded:
            entropy = secrets.randbits(63)
            self._seed_rows(np.arange(self.num_envs), entropy + np.arange(self.num_envs, dtype=np.uint64))
            self._fork_base = secrets.randbits(31)
            self._seeded = True

    def _seed(self, seeds: list[int | None] | None, rows: Rows | None) -> None:
        self._seed_all_once()
        if seeds is None:
            return
        chosen = range(self.num_envs) if rows is None else rows.tolist()
        numbers = [i for i in chosen if seeds[i] is not None]
        given = [seed for i in numbers if (seed := seeds[i]) is not None]
        self._seed_rows(np.array(numbers, np.int64), given)
        if given:
            self._fork_base, self._fork_calls = given[0], 0

    def _seed_rows(self, rows: Rows, seeds: Any) -> None:
        seed_streams(self._columns["engine.rng"], self._columns["engine.policy"], rows, seeds)

    def _seed_fresh(self, base: int, first: int, rows: Rows) -> None:
        """Streams of `SeedSequence([base, k])` for k = first, first + 1, ..."""
        # A SeedSequence pads its entropy with zeros, so [base, k] is the int base + k * 2**(32 * words of base).
        words = max(1, -(-base.bit_length() // 32))
        seeds = [base + ((first + k) << (32 * words)) for k in range(len(rows))]
        self._seed_rows(rows, seeds)

    # --- parts of step and reset --------------------------------------------------------------------------------------

    def _new_outputs(self, count: int) -> StepOut:
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        return StepOut(
            self._buffers.empty(count),
            np.empty(count, np.float64),
            np.empty(count, np.bool_),
            np.empty(count, np.bool_),
            self._buffers.empty(count) if same_step else None,
        )

    def _new_info(self, count: int) -> Any:
        """Arrays for the fields of `info`, or 0 where the definition has none."""
        if self.definition.info is None:
            return 0
        return tuple(np.zeros(count, field.dtype) for field in self.definition.info_type.fields)

    def _outputs(self, out: Any, count: int, actions: npt.NDArray[Any]) -> StepOut:
        """Complete and check what the user wants written into."""
        if out is None:
            return self._new_outputs(count) if self._reused is None or count != self.num_envs else self._reused
        if not isinstance(out, StepOut):
            raise TypeError(f"out: expected a StepOut, got {type(out).__name__}")
        fresh = self._new_outputs(count)
        named: list[tuple[str, npt.NDArray[Any]]] = [("actions", actions), ("the state", self._arena)]
        for name in ("obs", "final_obs"):
            given = getattr(out, name)
            if given is not None:
                if name == "final_obs" and not self._same_step:
                    raise ValueError("out.final_obs: only SAME_STEP writes final observations")
                self._buffers.check(given, count, f"out.{name}")
                setattr(fresh, name, given)
                named += [(f"out.{name}", array) for array in self._buffers.flat(given)]
        for name, dtype in (("rewards", np.float64), ("terminated", np.bool_), ("truncated", np.bool_)):
            given = getattr(out, name)
            if given is not None:
                check_output(f"out.{name}", given, (count,), np.dtype(dtype))
                setattr(fresh, name, given)
                named.append((f"out.{name}", given))
        check_no_overlap(iter(named))
        return fresh

    def _step_some(self, actions: Any, rows: Rows, out: Any, kernel: Any = None) -> Arrays:
        self._check_open()
        count = len(rows)
        actions = (
            self._parse_actions(actions, count)
            if count
            else np.empty((0, *self._parse_actions.shape), self._action_dtype)
        )
        outputs = self._outputs(out, count, actions)
        contiguous = count > 0 and bool((np.diff(rows) == 1).all())
        if contiguous:
            return self._finish(self._step_kernel, int(rows[0]), count, self._mode, actions, outputs, rows)
        return self._finish(self._kernels.step_rows, rows, count, self._mode, actions, outputs, rows)

    def _run(
        self, kernel: Any, rows: Any, count: int, mode: int, actions: Any, outputs: StepOut, info: Any, final_info: Any
    ) -> int:
        obs = self._buffers.arrays(outputs.obs)
        final_obs = self._no_final if outputs.final_obs is None else self._buffers.arrays(outputs.final_obs)
        code: int = kernel(
            self._head,
            self._arena,
            rows,
            count,
            mode,
            actions,
            obs,
            outputs.rewards,
            outputs.terminated,
            outputs.truncated,
            final_obs,
            info,
            final_info,
        )
        return code

    def _finish(
        self, kernel: Any, rows: Any, count: int, mode: int, actions: Any, outputs: StepOut, numbers: Rows | None
    ) -> Arrays:
        info, final_info = self._new_info(count), self._new_info(count)
        code = self._run(kernel, rows, count, mode, actions, outputs, info, final_info)
        if code < 0:
            self._refuse(code, numbers, actions)
        infos: dict[str, Any] = {}
        for name, values in zip(self._info_names, info or (), strict=True):
            infos[name], infos[f"_{name}"] = values, np.ones(count, np.bool_)
        assert outputs.rewards is not None and outputs.terminated is not None and outputs.truncated is not None
        if code > 0:  # rows that ended and were reset in this step
            ended = outputs.terminated | outputs.truncated
            infos["final_obs"], infos["_final_obs"] = self._final_obs(outputs.final_obs, ended), ended
            infos["final_info"], infos["_final_info"] = {}, ended.copy()
            for name, values in zip(self._info_names, final_info or (), strict=True):
                infos["final_info"][name], infos["final_info"][f"_{name}"] = values, ended.copy()
        return outputs.obs, outputs.rewards, outputs.terminated, outputs.truncated, infos

    def _final_obs(self, final_obs: Observation, ended: npt.NDArray[np.bool_]) -> Observation:
        """Dense, except for Tuple observations: there an object array `[K]`, as Gymnasium has it."""
        if self._buffers.kind != "tuple":
            return final_obs
        objects = np.full(len(ended), None, dtype=object)
        for i in np.flatnonzero(ended):
            objects[i] = self._buffers.row(final_obs, int(i))
        return objects

    def _reset_infos(self, info: Any, rows: Rows | None) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for name, values in zip(self._info_names, info or (), strict=True):
            if rows is None or len(rows) == self.num_envs:
                infos[name], infos[f"_{name}"] = values, np.ones(self.num_envs, np.bool_)
            else:
                spread, mask = np.zeros(self.num_envs, values.dtype), np.zeros(self.num_envs, np.bool_)
                spread[rows], mask[rows] = values, True
                infos[name], infos[f"_{name}"] = spread, mask
        return infos

    def _observe_started(self) -> Observation:
        """Observations of all rows, zeros for those never reset."""
        obs = self._buffers.empty(self.num_envs)
        started = np.flatnonzero((self._columns["engine.flags"] & UNRESET) == 0)
        part = self._buffers.empty(len(started))
        self._kernels.observe_rows(
            self._head, self._arena, started, len(started), self._buffers.arrays(part), self._new_info(len(started))
        )
        for target, source in zip(self._buffers.flat(obs), self._buffers.flat(part), strict=True):
            target[...] = 0
            target[started] = source
        return obs

    @contextlib.contextmanager
    def _options_in_force(self, author: dict[str, Any]) -> Iterator[None]:
        """Explicit resets see the given options, auto-resets the defaults."""
        fields = self.definition.options_type.fields
        self._wiring.write_scalars(self._head, "option", fields, author)
        try:
            yield
        finally:
            self._wiring.write_scalars(self._head, "option", fields, self._default_options)

    # --- refusals -----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.closed:
            raise gymnasium.error.ClosedEnvironmentError(f"{self!r} is closed; make a new one")

    def _check_started(self, rows: Rows | None) -> None:
        flags = self._columns["engine.flags"] if rows is None else self._columns["engine.flags"][rows]
        unset = np.flatnonzero(flags & UNRESET)
        if len(unset):
            row = int(unset[0] if rows is None else rows[unset[0]])
            raise gymnasium.error.ResetNeeded(f"row {row} was never reset; call reset() first")

    def _refuse(self, code: int, rows: Rows | None, actions: npt.NDArray[Any]) -> None:
        """Raise what a kernel's code means. No row has moved."""
        kind, position = (-code) & 0xFF, (-code) >> 8
        row = position if rows is None else int(rows[position])
        if kind == batch.CLOSED:
            raise gymnasium.error.ClosedEnvironmentError(f"{self!r} is closed; make a new one")
        if kind == batch.NOT_RESET:
            raise gymnasium.error.ResetNeeded(f"row {row} was never reset; call reset() first; no row has moved")
        if kind == batch.ROW_ENDED:
            raise gymnasium.error.ResetNeeded(
                f"row {row}: its episode has ended; reset it with reset_mask "
                f"(reset(options={{'reset_mask': mask}})); no row has moved"
            )
        raise ValueError(f"row {row}: {self._parse_actions.describe(actions[position])}; no row has moved")
