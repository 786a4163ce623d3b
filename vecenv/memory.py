"""`Memory`: the arena and head of one batch, and what may be done to them from Python."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vecenv.arguments import ParamValues, Seeds, Uniform, parse_reset_options
from vecenv.kernels.arena import Rows, copy_rows
from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.seeding import seed_streams
from vecenv.kernels.soa import WORD, Bytes, Layout, allocate, digest_params, shown
from vecenv.kernels.wiring import ENDED, EPISODE_ENDED, UNRESET, Wiring


def check_fits(definition: EnvDef, num_envs: int) -> None:
    """Raise if a batch of so many rows has no place in this machine's memory."""
    spaces = [*definition.observation_leaves, *definition.action_leaves]
    per_row = 2 * sum(leaf.dtype.itemsize * math.prod(leaf.shape) for leaf in spaces)  # batched bounds, low and high
    per_row += int(Wiring(definition).arena_layout.row_nbytes.sum())
    check_bytes(f"num_envs: {shown(num_envs)} rows of {definition.id}", num_envs, per_row)


def check_bytes(what: str, count: int, nbytes: int) -> None:
    """Raise if `count` things of `nbytes` each have no place in this machine's memory."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # a system that does not say
        memory = 2**47  # what a process can address
    if count * nbytes > memory:
        raise ValueError(
            f"{what} need {nbytes} bytes each, {count * nbytes / 2**30:,.0f} GiB in all; "
            f"this machine has {memory / 2**30:,.0f} GiB"
        )


STREAMS = ("engine.rng", "engine.policy")


class Memory:
    """Rows of one definition: their columns in the arena, and beside it the head with limits, params and options.

    Attributes:
        wiring: where everything lies.
        head, arena: the bytes that kernels take.
        words: the words at the start of the head, int64.
        columns: every column of the arena by its dotted name, `[N, ...]`.
        side: the columns beside the arena (limits, final statistics), `[N]`.
        params: values of the shared params; tables are kept alive here, kernels have their addresses.
    """

    def __init__(
        self, definition: EnvDef, num_rows: int, limits: npt.NDArray[np.int32], params: ParamValues, validate: bool
    ) -> None:
        self.definition, self.num_rows = definition, num_rows
        #: Params that every reset draws.
        self.uniforms = {name: value for name, value in params.per_row.items() if isinstance(value, Uniform)}
        self.wiring = Wiring(definition, frozenset(params.per_row), frozenset(self.uniforms))
        self.head = self.wiring.new_head(num_rows)
        self.arena = self.wiring.new_arena(num_rows)
        self.columns = self.layout.carve(self.arena, num_rows)
        self.side = self.wiring.carve_side(self.head, num_rows)
        self.words = self.head[: len(self.wiring.word) * WORD].view(np.int64)
        self.side["side.limit"][:] = limits
        self.set_word("validate", int(validate))
        self.params: dict[str, Any] = {}
        self.set_shared_params(params.shared)
        for name, value in params.per_row.items():
            if isinstance(value, Uniform):
                for end in ("low", "high"):
                    self.words[self.wiring.word[f"{end}.{name}"]] = np.float64(getattr(value, end)).view(np.int64)
            else:
                self.columns[f"param.{name}"][:] = value
        self._default_options = parse_reset_options({}, definition)
        self._write_options(self._default_options)
        self.seeded = False
        #: Fresh forks: the base of their seeds and how many calls there were. Never rewound by a restore.
        self.fork_base, self.fork_calls = 0, 0
        #: The seed that each row was last given, -1 if it never was.
        self.row_seeds: list[int] | range = range(0)

    @property
    def layout(self) -> Layout:
        return self.wiring.arena_layout

    @property
    def transforms(self) -> tuple[str, ...]:
        """What stands between the environment and the rows, in words, the innermost first."""
        return tuple(transform.key for transform in self.definition.transforms)

    def set_word(self, name: str, value: int) -> None:
        self.words[self.wiring.word[name]] = value

    # --- flags --------------------------------------------------------------------------------------------------------

    @property
    def flags(self) -> npt.NDArray[np.uint8]:
        return self.columns["engine.flags"]

    def rows_with(self, bit: int, rows: Rows | None = None) -> Rows:
        """Which rows, of all or of some, have a bit in their flags."""
        if rows is None:
            found: Rows = np.flatnonzero(self.flags & bit)
            return found
        chosen: Rows = rows[(self.flags[rows] & bit) != 0]
        return chosen

    @property
    def started(self) -> Rows:
        """Rows that were reset at least once."""
        rows: Rows = np.flatnonzero((self.flags & UNRESET) == 0)
        return rows

    @property
    def ended_and_reset(self) -> npt.NDArray[np.bool_]:
        """Rows whose last step ended an episode and, under SAME_STEP, began the next one."""
        reset: npt.NDArray[np.bool_] = (self.flags & (EPISODE_ENDED | ENDED)) == EPISODE_ENDED
        return reset

    def running(self, rows: Rows | None) -> npt.NDArray[np.bool_]:
        """Which of all rows, or of some, take an action, `[K]`; which of their agents, `[K * A]`, agent fastest."""
        where: Any = slice(None) if rows is None else rows
        running: npt.NDArray[np.bool_] = (self.flags[where] & (ENDED | UNRESET)) == 0
        if self.definition.num_agents == 1:
            return running
        agents: npt.NDArray[np.bool_] = running[:, np.newaxis] & self.columns["engine.alive"][where]
        return agents.ravel()

    def endings(self, rows: Rows) -> npt.NDArray[np.uint8]:
        """How rows that have ended did, in TERMINATED and TRUNCATED: `[K]`, or `[K * A]` by agent."""
        if self.definition.num_agents == 1:
            return self.flags[rows]
        endings: npt.NDArray[np.uint8] = self.columns["engine.ending"][rows].ravel()
        return endings

    def forget_endings(self, rows: Rows | None) -> None:
        """A row that was auto-reset in its last step has no ending to report here; one that is still ended does."""
        where: Any = slice(None) if rows is None else rows
        flags = self.flags[where]
        self.flags[where] = np.where(flags & ENDED, flags, flags & ~np.uint8(EPISODE_ENDED))

    # --- params and options -------------------------------------------------------------------------------------------

    def set_shared_params(self, values: Mapping[str, Any]) -> None:
        self.params = {**self.params, **values}
        self.wiring.write_scalars(self.head, "param", self.wiring.shared_params, self.params)
        self.params_digest = digest_params(self.params)

    @contextlib.contextmanager
    def reset_in_force(self, options: dict[str, Any], given_params: Sequence[str] = ()) -> Iterator[None]:
        """An explicit reset sees its options and draws no param that it was given; auto-resets see the defaults."""
        drawn = [field.name for field in self.wiring.random_params]
        try:
            self._write_options(options)
            self.set_word("given_params", sum(1 << k for k, name in enumerate(drawn) if name in given_params))
            yield
        finally:
            self._end_reset()

    def _end_reset(self) -> None:
        self._write_options(self._default_options)
        self.set_word("given_params", 0)

    def _write_options(self, values: dict[str, Any]) -> None:
        self.wiring.write_scalars(self.head, "option", self.definition.options_type.fields, values)

    # --- streams ------------------------------------------------------------------------------------------------------

    def seed_all_once(self) -> None:
        """Streams from fresh entropy, before any other seed."""
        if not self.seeded:
            first = secrets.randbits(63)
            self._seed_range(range(first, first + self.num_rows))
            self.fork_base, self.seeded = secrets.randbits(31), True

    def seed(self, seeds: Seeds | None, rows: Rows | None = None) -> None:
        """Re-create the streams of all rows, or of some, that have a seed."""
        if isinstance(seeds, range) and rows is None:
            self._seed_range(seeds)
            self.fork_base, self.fork_calls, self.seeded = seeds.start, 0, True
            return
        self.seed_all_once()
        if seeds is None:
            return
        chosen = range(self.num_rows) if rows is None else rows.tolist()
        pairs = [(i, seed) for i in chosen if (seed := seeds[i]) is not None]
        if not pairs:
            return
        numbers, given = zip(*pairs, strict=True)
        self.seed_rows(np.array(numbers, np.int64), list(given))
        self.row_seeds = list(self.row_seeds)
        for i, seed in pairs:
            self.row_seeds[i] = seed
        if len(pairs) == self.num_rows:  # a partial one must not make fresh forks repeat themselves
            self.fork_base, self.fork_calls = given[0], 0

    def _seed_range(self, seeds: range) -> None:
        fits = seeds.stop <= 2**64
        numbers = np.uint64(seeds.start) + np.arange(self.num_rows, dtype=np.uint64) if fits else list(seeds)
        self.seed_rows(np.arange(self.num_rows), numbers)
        self.row_seeds = seeds

    def seed_rows(self, rows: Rows, seeds: Any) -> None:
        seed_streams(self.columns["engine.rng"], self.columns["engine.policy"], rows, seeds)

    def seed_fresh(self, rows: Rows, base: int | None) -> None:
        """Streams of `SeedSequence([base, k])`: k counts on from call to call, or with a given base from 1."""
        first = 1  # SeedSequence([s, 0]) is SeedSequence(s): the stream that reset(seed=s) gives row 0
        if base is None:
            base, first = self.fork_base, 1 + self.fork_calls * self.num_rows
            self.fork_calls += 1
        # A SeedSequence pads its entropy with zeros, so [base, k] is the int base + k * 2**(32 * words of base).
        seeds: Any
        if base < 2**32 and first + len(rows) <= 2**32:
            seeds = np.uint64(base) + (np.arange(first, first + len(rows), dtype=np.uint64) << np.uint64(32))
        else:
            shift = 32 * max(1, -(-base.bit_length() // 32))
            seeds = [base + ((first + k) << shift) for k in range(len(rows))]
        self.seed_rows(rows, seeds)

    # --- copies -------------------------------------------------------------------------------------------------------

    def copy_out(self, rows: Rows | None, arena: Bytes | None = None) -> Bytes:
        """All rows, or some, as an arena of their own; into `arena` if given."""
        count = self.num_rows if rows is None else len(rows)
        if arena is None:
            arena = allocate(int(self.layout.offsets(count)[-1]))
        if rows is None:
            np.copyto(arena, self.arena)
        else:
            copy_rows(self.layout, arena, count, np.arange(count), self.arena, self.num_rows, rows)
        return arena

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[Callable[[], None]]:
        """What raises inside leaves rows, streams, statistics and params as they were; yields what puts them back.

        For calls that run the environment's functions as plain Python or with checked indices: they may raise anywhere.
        """
        before = self.arena.copy(), self.head.copy()
        rest = self.params, self.params_digest, self.seeded, self.row_seeds, self.fork_base, self.fork_calls

        def put_back() -> None:
            self.arena[:], self.head[:] = before
            self.params, self.params_digest, self.seeded, self.row_seeds, self.fork_base, self.fork_calls = rest

        try:
            yield put_back
        except BaseException:
            put_back()
            raise

    @contextlib.contextmanager
    def whole_or_unset(self, rows: Rows | None) -> Iterator[None]:
        """What breaks off inside, such as an interrupt, leaves `rows`, or all, as if never reset, the rest as it was.

        For compiled code, which goes to its end but may not be the last that a call does; a copy of all rows, as
        `all_or_nothing` makes one, would double the time of a reset.
        """
        params = self.params
        try:
            yield
        except BaseException as error:
            self.flags[slice(None) if rows is None else rows] = UNRESET
            self.set_shared_params(params)
            self._end_reset()
            which = "all rows" if rows is None else f"the {len(rows)} rows that it was to move"
            error.add_note(f"vecenv: the call broke off; {which} are as if never reset: reset them")
            raise

    def copy_in(
        self, rows: Rows | None, arena: Bytes, num_rows: int, sources: Rows, keep_streams: bool = False
    ) -> None:
        """`rows`, or all, become `sources` of an arena of the same layout."""
        if rows is None:
            rows = np.arange(self.num_rows)
            if num_rows == self.num_rows and not keep_streams and np.array_equal(rows, sources):
                np.copyto(self.arena, arena)
                self.forget_endings(None)
                return
        kept = {name: self.columns[name][rows] for name in STREAMS} if keep_streams else {}
        copy_rows(self.layout, self.arena, self.num_rows, rows, arena, num_rows, sources)
        for name, words in kept.items():
            self.columns[name][rows] = words
        self.forget_endings(rows)
