"""`check_vec_env`: Gymnasium's vector-environment contract, for any `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from vecenv.arguments import parse_count
from vecenv.checks.play import Actions, Event, Events, Player
from vecenv.checks.report import Report, show
from vecenv.checks.trees import Tree, copy_tree, difference, same
from vecenv.checks.twins import Envs, Make, Twins, limits_of, mode_of
from vecenv.kernels.soa import shown
from vecenv.vec_env import VecEnv

ROWS = 5
LIMIT = 13  # of short episodes: long enough for many tasks to end by themselves, short enough to see many ends
LONG = 999
CALLS = 3 * (LIMIT + 1)  # of a run that is compared with another
REPLAY = 2 * (LIMIT + 1)


def check_vec_env(
    envs: VectorEnv[Any, Any, Any], *, make: Make | None = None, num_steps: int = 200, seed: int = 0
) -> None:
    """Check that a vector environment keeps the contract of Gymnasium 1.4; return quietly if it does.

    What is checked, with the names that violations carry:

    - spaces and types: `spaces`, `attributes`, `autoreset-mode` (metadata, and the attribute where there is one),
      `obs-type`, `obs-shape`, `obs-dtype` (exactly the space's), `obs-space` (every row lies in the space),
      `reward-dtype` (float64 for vecenv and for Gymnasium's Sync and Async; any float for others), `flag-dtype`,
      `shape`, `both-flags` (vecenv only), `reset-return`, `step-return`;
    - infos: `info-mask` (every key has a `_key` of bool `[N]`), `info-shape`, `final-obs-mask`, `final-obs-missing`,
      `final-info-missing`, `final-obs-unexpected`, and `final-obs-type`, `-shape`, `-dtype`, `-space`. Values of infos
      are compared between runs for vecenv only: Gymnasium stores them in the type of the row that came first;
    - returned arrays belong to the caller: `obs-aliased`, `reward-aliased`, `flag-aliased`, `final-obs-aliased`,
      `info-aliased` (changed by later calls), `writes-reach-inside`, `read-only`;
    - auto-reset: `last-obs`, `reset-call-reward`, `reset-call-flag`, `reset-call-action` (NEXT_STEP); `same-step-obs`,
      `final-obs`, `final-obs-episode`, `final-obs-rows`, `final-info` (SAME_STEP); `ended-row-stepped` (DISABLED);
      `autoreset-obs`, `autoreset-reseeds`, `mode-differs` (the same seed and actions give the same episodes in every
      mode);
    - partial resets: `mask-touches-others`, `mask-state`, `mask-refused`, `options-mutated` (that Gymnasium's Sync and
      Async remove `reset_mask` itself is let pass);
    - limits and counters: `limit`, `limit-differs`, `counter-reset`, `counter-mask`, `reset-state`, `statistics`
      (`episode_returns`, `episode_lengths`, `episode_ended` `[N]`, where offered);
    - seeds: `same-seed`, `seed-int` (s means s + i), `seed-list`, `seed-none`, `seeds-differ`, `rows-share-stream`,
      `row-independence`, `num-envs`;
    - snapshots, where `snapshot()` and `restore(snap)` are offered: `snapshot-state`, `snapshot-rng`,
      `snapshot-elapsed`, `snapshot-pending`, `snapshot-statistics`;
    - `close`; and `raised-...` where something raises that should not.

    Args:
        envs: any vector environment with N rows.
        make: a factory `make(num_envs=n)` of equal batches. If it also takes `max_episode_steps` (an int) and
            `autoreset_mode` (an `AutoresetMode`), the checks that need them run: exact limits and counters, true last
            observations, comparison of the modes. For a VecEnv or a SyncVectorEnv whose constructor is not overridden
            it is derived, from the same definition, params and math, or the same env functions. Then `envs` itself is
            not touched. Without a factory `envs` itself is played, some checks (`num-envs`, `limit-differs`,
            `mode-differs`, `close`, ...) cannot run, and it is left freshly reset.
        num_steps: calls of the longest run; comparisons take at most 42.
        seed: of resets and actions.

    Raises:
        TypeError: `envs` is no `gymnasium.vector.VectorEnv`, or has rows of several agents.
        AssertionError: one line per kind of violation: name, what was expected, what came, in which step and row.
    """
    if not isinstance(envs, VectorEnv):
        raise TypeError(f"check_vec_env: expected a gymnasium.vector.VectorEnv, got {type(envs).__name__}")
    if (agents := getattr(envs.unwrapped, "num_agents", 1)) > 1:
        raise TypeError(
            f"check_vec_env: {agents} agents share a row, its random stream and its resets, which Gymnasium's contract "
            "does not know; check_def checks their definition"
        )
    if make is not None and not callable(make):
        raise TypeError(f"check_vec_env: make: expected a function make(num_envs=n), got {shown(make)}")
    num_steps = parse_count(num_steps, "check_vec_env: num_steps")
    report = Report(f"check_vec_env({envs!r})")
    with report.section("attributes"):
        _check_attributes(envs, report)
    twins = Twins(envs, make)
    try:
        _Checker(envs, twins, report, num_steps, seed).run()
    finally:
        twins.close()
    if twins.make is None:
        with report.section("reset"):
            envs.reset(seed=seed)
    report.raise_if_any()


def _check_attributes(envs: Envs, report: Report) -> None:
    names = ("num_envs", "single_observation_space", "observation_space", "single_action_space", "action_space",
             "metadata", "render_mode", "spec", "closed", "unwrapped")  # fmt: skip
    for name in names:
        if not hasattr(envs, name):
            report.add("attributes", f"an attribute {name!r}", "none")
    for name in ("observation", "action"):
        single, batched = getattr(envs, f"single_{name}_space"), getattr(envs, f"{name}_space")
        expected = batch_space(single, envs.num_envs)
        if batched != expected:
            report.add("spaces", f"{name}_space {show(expected)}", show(batched))
    in_metadata = envs.metadata.get("autoreset_mode")
    if not isinstance(in_metadata, AutoresetMode):
        report.add("autoreset-mode", "an AutoresetMode in metadata['autoreset_mode']", show(in_metadata))
    attribute = getattr(envs, "autoreset_mode", getattr(envs.unwrapped, "autoreset_mode", None))
    if attribute is None:
        report.add("autoreset-mode", "an attribute autoreset_mode", "none")
    elif attribute is not in_metadata:
        report.add("autoreset-mode", f"the attribute to be {show(in_metadata)} as in metadata", show(attribute))


class _Checker:
    """The runs that `check_vec_env` compares. Names of methods say what each is about."""

    def __init__(self, envs: Envs, twins: Twins, report: Report, num_steps: int, seed: int) -> None:
        self.envs, self.twins, self.report = envs, twins, report
        self.num_steps, self.seed = num_steps, seed
        self.calls, self.replay = min(num_steps, CALLS), min(num_steps, REPLAY)
        self.mode = mode_of(envs) or AutoresetMode.NEXT_STEP
        self.n: int = envs.num_envs if twins.make is None else ROWS
        self.actions = Actions(envs.single_action_space, seed)
        self.stagger = False

    def run(self) -> None:
        report = self.report
        with report.section("making"):
            natural = self._twin(self.n)
            assert natural is not None
            self.natural: Envs = natural
            self.limits = limits_of(self.natural)
            short = self.twins.get(self.n, None, LIMIT)
            self.main, self.main_limits = (self.natural, self.limits) if short is None else (short, [LIMIT] * self.n)
            self.has_short = short is not None
        if "raised-making" in report:
            return
        for name, check in (
            ("masks", self.check_masks),
            ("play", self.check_play),
            ("writes", self.check_writes),
            ("modes", self.check_modes),
            ("limits", self.check_limits),
            ("reset-call", self.check_reset_call),
            ("seeds", self.check_seeds),
            ("seed-list", self.check_seed_list),
            ("seed-none", self.check_seed_none),
            ("auto-reset", self.check_reseeding),
            ("reset", self.check_reset_clears),
            ("reset-mask", self.check_mask_clears),
            ("rows", self.check_rows),
            ("num-envs", self.check_num_envs),
            ("snapshot", self.check_snapshots),
            ("ended", self.check_ended_rows),
            ("close", self.check_close),
        ):
            with report.section(name):
                check()

    # --- runs ---------------------------------------------------------------------------------------------------------

    def _twin(self, n: int, mode: AutoresetMode | None = None, limit: int | None = None) -> Envs | None:
        return self.twins.get(n, mode, limit)

    def _main(self, n: int) -> Envs | None:
        """Like the main batch, with n rows."""
        return self.main if n == self.n else self._twin(n, None, LIMIT if self.has_short else None)

    def _player(
        self, where: str, envs: Envs | None = None, mode: AutoresetMode | None = None, **options: Any
    ) -> Player:
        return Player(
            self.main if envs is None else envs,
            self.report,
            options.pop("actions", self.actions),
            mode or self.mode,
            where=where,
            **options,
        )

    def _run(self, where: str, seed: Any = None, envs: Envs | None = None, **options: Any) -> list[Events]:
        """Events of a seeded run of `self.calls` calls."""
        player = self._player(where, envs, **options)
        player.reset(self.seed if seed is None else seed)
        return player.play(self.calls)

    @cached_property
    def first(self) -> list[Events]:
        """The run that most others are compared with."""
        return self._run("seeded")

    def _compare(
        self, name: str, expected: Sequence[Events], got: Sequence[Events], what: str, rows: Sequence[int] | None = None
    ) -> None:
        """Violation `name` where two runs differ, row by row."""
        for i, (a, b) in enumerate(zip(expected, got, strict=False)):
            if (found := first_difference(a, b)) is not None:
                j, field, was, now = found
                row = i if rows is None else rows[i]
                self.report.add(name, f"{what}: {field} {show(was)}", show(now), step=b[j].call, row=row)

    # --- one run after the other --------------------------------------------------------------------------------------

    def check_masks(self) -> None:
        """Wrong masks are refused, options stay as they were, unmasked rows stay where they are."""
        envs, n = self.main, self.n
        player = self._player("reset_mask")
        player.reset(self.seed)
        player.play(3)
        before = set(self.report.violations)
        some = np.arange(n) % 2 == 1 if n > 1 else np.ones(1, np.bool_)
        player.reset_mask(some)
        self.stagger = n > 1 and set(self.report.violations) <= before
        for options in self._author_options():
            given = copy_tree(options)
            envs.reset(seed=self.seed, options=options)
            if list(options) != list(given) or not same(options, given):
                self.report.add("options-mutated", f"options as they were passed, {show(given)}", show(options))
        for what, mask, kind in (
            ("a list", [True] * n, TypeError),
            ("an int array", np.ones(n, np.int64), TypeError),
            (f"shape ({n + 1},)", np.ones(n + 1, np.bool_), ValueError),
            ("all False", np.zeros(n, np.bool_), ValueError),
        ):
            try:
                envs.reset(options={"reset_mask": mask})
            except kind:
                continue
            except Exception as error:
                self.report.add("mask-refused", f"a {kind.__name__} for a mask that is {what}", type(error).__name__)
            else:
                self.report.add("mask-refused", f"a {kind.__name__} for a mask that is {what}", "no exception")

    def _author_options(self) -> Iterator[dict[str, Any]]:
        """Options of a full reset that change nothing: none, and the defaults of a vecenv definition."""
        yield {}
        if isinstance(inner := self.envs.unwrapped, VecEnv):
            yield {field.name: field.default for field in inner.definition.options_type.fields}

    def check_play(self) -> None:
        """Types, spaces, infos, statistics, limits, reuse of arrays: over a long run, and with many ends."""
        player = self._player("long run", self.natural, limits=self.limits, thorough=True)
        player.reset(self.seed)
        player.play(self.num_steps)
        player.check_kept()
        self._check_apparent_ends(player)
        player = self._player("short episodes", limits=self.main_limits, thorough=True, stagger=self.stagger)
        player.reset(self.seed + 1)
        player.play(self.calls)
        player.check_kept()

    def _check_apparent_ends(self, player: Player) -> None:
        """Where nothing else tells what the last observation was: it is not always the first of the next episode."""
        if self.mode is AutoresetMode.DISABLED or self.has_short or self._twin(self.n, AutoresetMode.DISABLED):
            return
        pairs: list[bool] = []
        moves: list[bool] = []
        for events in player.events:
            for a, b in pairwise(events):
                (pairs if a.ended and not b.is_step else moves).append(same(a.obs, b.obs))
        if len(pairs) >= 3 and all(pairs) and np.mean(moves) < 0.5:
            name = "last-obs" if self.mode is AutoresetMode.NEXT_STEP else "final-obs-episode"
            self.report.add(name, "the last observation of the episode that ended", "the first one of the next episode")

    def check_writes(self) -> None:
        """What a caller writes into returned arrays changes nothing."""
        clean = self._run("untouched", stagger=self.stagger)
        written = self._run("arrays overwritten", stagger=self.stagger, scribble=True)
        self._compare("writes-reach-inside", clean, written, "the same run after writing into returned arrays")

    def check_modes(self) -> None:
        """The same seed and actions give the same episodes in every mode."""
        limit = LIMIT if self.has_short else None
        other = AutoresetMode.SAME_STEP if self.mode is AutoresetMode.DISABLED else AutoresetMode.DISABLED
        reference = self._twin(self.n, other, limit)
        if reference is None:
            return
        expected = self._run(other.name, envs=reference, mode=other, stagger=self.stagger)
        player = self._player(self.mode.name, stagger=self.stagger)
        player.reset(self.seed)
        player.play(self.calls)
        for i in range(self.n):
            self._compare_modes(player, i, expected[i], other)

    def _compare_modes(self, player: Player, i: int, expected: Events, other: AutoresetMode) -> None:
        got = player.events[i]
        for j, (a, b) in enumerate(zip(expected, got, strict=False)):
            found = event_difference(a, b)
            if found is None:
                continue
            field, was, now = found
            step = b.call
            following = got[j + 1].obs if j + 1 < len(got) else None
            if a.is_step and b.is_step and a.ended and b.ended and field.startswith("obs"):
                self._wrong_last(player, i, b, was, now, following)
                continue  # what follows may well be right
            if a.is_step and a.ended and b.ended and field.startswith("info") and self.mode is AutoresetMode.SAME_STEP:
                self.report.add("final-info", f"{field} {show(was)} in final_info", show(now), step=step, row=i)
                continue
            if not a.is_step and not b.is_step and field.startswith("obs"):
                name = "same-step-obs" if self.mode is AutoresetMode.SAME_STEP and b.call else "autoreset-obs"
                what = f"the first observation of the new episode, as under {other.name}, {show(was)}"
                self.report.add(name, what, show(now), step=step, row=i)
                return
            self.report.add("mode-differs", f"as under {other.name}: {field} {show(was)}", show(now), step=step, row=i)
            return

    def _wrong_last(self, player: Player, i: int, event: Event, was: Any, now: Any, following: Tree) -> None:
        """Name the way in which the last observation of an episode is wrong."""
        expected, step = f"the last observation of the episode that ended, {show(was)}", event.call
        is_next = following is not None and same(event.obs, following)
        if self.mode is not AutoresetMode.SAME_STEP:
            got = f"the first one of the next episode, {show(now)}" if is_next else show(now)
            self.report.add("last-obs", expected, got, step=step, row=i)
            return
        others = [k for k, obs in enumerate(player.returned.get(step, ())) if k != i and same(obs, event.obs)]
        others += [
            k
            for k, events in enumerate(player.events)
            if k != i and any(e.call == step and e.ended and same(e.obs, event.obs) for e in events)
        ]
        if is_next:
            name, got = "final-obs-episode", f"the first one of the next episode, {show(now)}"
        elif others:
            name, got = "final-obs-rows", f"that of row {others[0]}, {show(now)}"
        else:
            name, got = "final-obs", show(now)
        self.report.add(name, expected, got, step=step, row=i)

    def check_limits(self) -> None:
        """A batch with a limit of k is a batch without, cut after exactly k steps."""
        if not self.has_short:
            return
        unlimited = self.limits is not None and all(limit < 0 or limit > 2 * LIMIT for limit in self.limits)
        long = self.natural if unlimited else self._twin(self.n, None, LONG)
        if long is None:
            return
        reference = self._player("long limit", long)
        reference.reset(self.seed + 2)
        expected = reference.play(LIMIT + 1)
        player = self._player(f"limit {LIMIT}", limits=self.main_limits)
        player.reset(self.seed + 2)
        player.play(LIMIT + 1)
        for i in range(self.n):
            self._compare_limited(player, i, expected[i], LIMIT)

    def _compare_limited(self, player: Player, i: int, expected: Events, limit: int) -> None:
        got = player.events[i]
        for j, (a, b) in enumerate(zip(expected, got, strict=False)):
            place = {"step": b.call, "row": i, "where": f"limit {limit}"}
            if a.is_step and not a.ended and b.ended and j < limit:
                self.report.add("limit", f"an end at step {limit} of the episode", f"one at step {j}", **place)  # type: ignore[arg-type]
                return
            if a.is_step and j == limit and not a.ended and not (b.truncated and not b.terminated):
                flags = f"terminated {b.terminated}, truncated {b.truncated}"
                self.report.add("limit", f"only truncated at step {limit} of the episode", flags, **place)  # type: ignore[arg-type]
                return
            if (found := difference(a.obs, b.obs)) is not None:
                path, was, now = found
                if b.ended:
                    self._wrong_last(player, i, b, was, now, got[j + 1].obs if j + 1 < len(got) else None)
                else:
                    what = f"the episode without a limit, cut: obs{path} {show(was)}"
                    self.report.add("limit-differs", what, show(now), **place)  # type: ignore[arg-type]
                return
            if a.ended or b.ended:
                if a.ended and (a.terminated != b.terminated or (a.truncated and not b.truncated)):
                    was, now = (a.terminated, a.truncated), (b.terminated, b.truncated)
                    self.report.add("limit-differs", f"(terminated, truncated) {was}", str(now), **place)  # type: ignore[arg-type]
                return

    def check_reset_call(self) -> None:
        """NEXT_STEP ignores the actions of rows that it is about to reset."""
        if self.mode is not AutoresetMode.NEXT_STEP:
            return
        runs = [self._run("reset calls", waiting=k) for k in range(3)]
        for other in runs[1:]:
            self._compare("reset-call-action", runs[0], other, "the same run whatever the action of a reset call")

    # --- seeds --------------------------------------------------------------------------------------------------------

    def check_seeds(self) -> None:
        """Same seed, same run; an int s means s + i."""
        self._compare("same-seed", self.first, self._run("seeded again"), "the same run from the same seed")

    def check_seed_list(self) -> None:
        n, seeds = self.n, [self.seed + i for i in range(self.n)]
        first, listed = self.first, self._run("seed list", seeds)
        self._compare("seed-int", listed, first, "seed s to mean s + i for row i")
        backwards = self._run("seed list", seeds[::-1], keys=range(n)[::-1])
        self._compare("seed-list", first[::-1], backwards, "each row seeded by its own entry")
        self._compare("seed-list", listed, self._run("seed list", seeds), "the same run again")

    def check_seed_none(self) -> None:
        """`reset()` and entries that are None continue streams; other seeds give other runs."""
        n, calls = self.n, min(self.calls, LIMIT + 2)

        def start() -> Player:
            player = self._player("reset() after a seeded run")
            player.reset(self.seed)
            player.play(calls)
            return player

        player = start()
        before = player.events
        player.reset()
        player.play(calls)
        continued = player.events
        repeats = all(first_difference(a, b) is None for a, b in zip(before, continued, strict=True))
        others = [self._run("other seed", self.seed + k * 1000) for k in (1, 2, 3)]
        reference = self.first
        insensitive = all(
            first_difference(a, b) is None for other in others for a, b in zip(reference, other, strict=True)
        )
        if repeats and not insensitive:
            self.report.add("seed-none", "reset() to continue the streams", "the same episodes again")
        if insensitive and not repeats:
            self.report.add("seeds-differ", "different runs from different seeds", "the same run from four seeds")
        if n < 2:
            return
        player = start()
        seeds: list[int | None] = [None if i % 2 == 0 else self.seed + 77 + i for i in range(n)]
        player.reset(seeds)
        player.play(calls)
        self._compare("seed-none", continued[::2], player.events[::2], "None to continue a stream", range(0, n, 2))
        fresh = self._run("seed list", [self.seed + 77 + i for i in range(n)])
        self._compare("seed-list", fresh[1::2], player.events[1::2], "each row seeded by its own entry",
                      range(1, n, 2))  # fmt: skip

    def check_reseeding(self) -> None:
        """Auto-resets continue streams instead of starting them again."""
        if self.mode is AutoresetMode.DISABLED:
            return
        player = self._player("equal actions in every episode", by_episode=False)
        player.reset(self.seed)
        player.play(self.calls)
        episodes = [complete_episodes(events) for events in player.events]
        if min(map(len, episodes)) < 2:
            return
        repeated = all(first_difference(row[0], later) is None for row in episodes for later in row[1:])
        player.reset(self.seed)
        player.play(2)
        player.reset()
        player.play(self.calls)
        explicit = [complete_episodes(events)[:1] for events in player.events]
        varies = any(
            other and first_difference(row[0], other[0]) is not None
            for row, other in zip(episodes, explicit, strict=True)
        )
        if repeated and varies:
            self.report.add(
                "autoreset-reseeds", "an auto-reset to continue the stream", "the seeded episode again and again"
            )

    # --- what a reset clears ------------------------------------------------------------------------------------------

    def check_reset_clears(self) -> None:
        """A seeded reset forgets all that was before: counters, pending resets, statistics."""
        fresh = self.first
        for until_end in (False, True):
            player = self._player("reset in the middle of an episode", thorough=True)
            player.reset(self.seed + 500)
            if until_end:
                player.play_until_end(self.calls)
            else:
                player.play(5)
            player.reset(self.seed)
            self._compare_cleared("counter-reset", "reset-state", fresh, player.play(self.calls))

    def check_mask_clears(self) -> None:
        """A seeded partial reset does so too, for the rows of its mask, and for no other row."""
        n = self.n
        mask = np.arange(n) % 2 == 1 if n > 1 else np.ones(1, np.bool_)
        rows = np.flatnonzero(mask)
        seeds = [self.seed + i for i in range(n)]
        fresh = self._run("seed list", seeds)
        for until_end in (False, True):
            untouched = self._player("no partial reset")
            player = self._player("partial reset in the middle of an episode", thorough=True)
            for one in (untouched, player):
                one.reset(self.seed + 500)
                if until_end:
                    one.play_until_end(self.calls)
                else:
                    one.play(5)
                if one is player:
                    one.reset_mask(mask, seeds, restart=True)
                one.play(self.calls)
            events = [player.events[i] for i in rows]
            self._compare_cleared("counter-mask", "mask-state", [fresh[i] for i in rows], events, rows)
            others = np.flatnonzero(~mask)
            self._compare(
                "mask-touches-others",
                [untouched.events[i] for i in others],
                [player.events[i] for i in others],
                "rows outside the mask to go on as if nothing had happened",
                others.tolist(),
            )

    def _compare_cleared(
        self,
        counter: str,
        state: str,
        expected: Sequence[Events],
        got: Sequence[Events],
        rows: npt.NDArray[np.int64] | None = None,
    ) -> None:
        for k, (a, b) in enumerate(zip(expected, got, strict=True)):
            if (found := first_difference(a, b)) is None:
                continue
            j, field, was, now = found
            row = k if rows is None else int(rows[k])
            early = a[j].is_step and b[j].is_step and a[j].truncated != b[j].truncated
            name = counter if early else state
            what = "a reset to clear the step counter" if early else "a seeded reset to forget what was before"
            field, was, now = ("truncated", a[j].truncated, b[j].truncated) if early else (field, was, now)
            self.report.add(name, f"{what}: {field} {show(was)}", show(now), step=b[j].call, row=row)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def check_rows(self) -> None:
        """Rows have streams of their own and do not see each other."""
        if self.n < 2:
            return
        n, first = self.n, self.first
        for kept in (0, n - 1):
            keys = [i if i == kept else 1000 + i for i in range(n)]
            other = self._run("other actions in the other rows", keys=keys)
            what = "a row that does not depend on the actions of others"
            self._compare("row-independence", [first[kept]], [other[kept]], what, [kept])
        runs = [self._run("equal actions", self.seed + k * 1000, keys=[0] * n) for k in range(3)]
        equal = [all(first_difference(run[0], events) is None for events in run[1:]) for run in runs]
        random = any(first_difference(runs[0][0], run[0]) is not None for run in runs[1:])
        if all(equal) and random:
            self.report.add("rows-share-stream", "rows with different episodes", "the same episode in all rows")

    def check_num_envs(self) -> None:
        """Row i seeded s + i is the same episode in a batch of any size."""
        if self.twins.make is None:
            return
        first = self.first
        for n in sorted({1, max(2 * self.n + 1, self.envs.num_envs)}):
            other = self._main(n)
            if other is not None:
                events = self._run(f"{n} rows", envs=other)
                self._compare("num-envs", first, events, f"row i of {n} to be row i of {self.n}")

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def check_snapshots(self) -> None:
        """After `restore` everything happens again as it did after `snapshot`."""
        owner: Any = self.main if hasattr(self.main, "snapshot") else self.main.unwrapped
        if not (hasattr(owner, "snapshot") and hasattr(owner, "restore")):
            return
        player = self._player("replay of a snapshot", stagger=self.stagger)
        player.reset(self.seed + 3)
        for calls in (6, None, 4):
            if calls is None:
                player.play_until_end(self.calls)
            else:
                player.play(calls)
            just_ended = player.just_ended.copy()
            statistics = self._statistics(owner)
            snap, mark = owner.snapshot(), player.mark()
            player.go_back(mark)
            expected = player.play(self.replay)
            for again in (3, 8):
                player.play(again)
                owner.restore(snap)
                player.go_back(mark)
                self._compare_statistics(statistics, self._statistics(owner), just_ended)
                self._compare_replay(expected, player.play(self.replay), mark.pending)
            owner.restore(snap)
            player.go_back(mark)

    @staticmethod
    def _statistics(owner: Any) -> dict[str, npt.NDArray[Any]]:
        names = ("episode_returns", "episode_lengths")
        return {name: np.array(getattr(owner, name)) for name in names if hasattr(type(owner), name)}

    def _compare_statistics(
        self, expected: dict[str, npt.NDArray[Any]], got: dict[str, npt.NDArray[Any]], skip: npt.NDArray[np.bool_]
    ) -> None:
        for name, values in expected.items():
            wrong = (values != got[name]) & ~skip & ~(np.isnan(values) & np.isnan(got[name]))
            if wrong.any():
                i = int(np.flatnonzero(wrong)[0])
                self.report.add("snapshot-statistics", f"{name} {show(values[i])} after restore", show(got[name][i]),
                                row=i)  # fmt: skip

    def _compare_replay(
        self, expected: Sequence[Events], got: Sequence[Events], pending: npt.NDArray[np.bool_]
    ) -> None:
        found = [first_difference(a, b) for a, b in zip(expected, got, strict=True)]
        in_running = any(difference is not None for i, difference in enumerate(found) if not pending[i])
        for i, one in enumerate(found):
            if one is None:
                continue
            j, field, was, now = one
            a, b = expected[i][j], got[i][j]
            flags = (a.terminated, a.truncated) != (b.terminated, b.truncated)
            if j == 0 and pending[i] and (b.reward != a.reward or flags or not in_running):
                name, what = "snapshot-pending", "a row that awaits its reset to be reset after restore"
            elif a.is_step and b.is_step and flags and same(a.obs, b.obs):
                name, what = "snapshot-elapsed", "the step counter of the snapshot after restore"
            elif j == 0 and not pending[i]:
                name, what = "snapshot-state", "the state of the snapshot after restore"
            else:
                name, what = "snapshot-rng", "the random stream of the snapshot after restore"
            self.report.add(name, f"{what}: {field} {show(was)}", show(now), step=b.call, row=i)

    # --- ends ---------------------------------------------------------------------------------------------------------

    def check_ended_rows(self) -> None:
        """DISABLED refuses to step an ended row, or keeps it as it is with reward 0."""
        if self.mode is not AutoresetMode.DISABLED:
            return
        envs = self.main
        envs.reset(seed=self.seed)
        for t in range(self.calls):
            actions = self.actions.batch([(i, 0, t) for i in range(self.n)])
            _, _, terminated, truncated, _ = envs.step(actions)
            ended = np.asarray(terminated) | np.asarray(truncated)
            if ended.any():
                break
        else:
            return
        try:
            _, rewards, now_terminated, now_truncated, _ = envs.step(actions)
        except Exception:
            return
        kept = (np.asarray(now_terminated) == terminated) & (np.asarray(now_truncated) == truncated)
        wrong = ended & ~(kept & (np.asarray(rewards) == 0))
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            expected = "an exception for a row that has ended, or reward 0 and its flags"
            got = f"reward {show(np.asarray(rewards)[i])}, flags {now_terminated[i]}, {now_truncated[i]}"
            self.report.add("ended-row-stepped", expected, got, row=i)

    def check_close(self) -> None:
        """Closing twice is closing once."""
        if self.twins.make is None:
            return
        self.natural.close()
        self.natural.close()
        if not self.natural.closed:
            self.report.add("close", "closed to be True after close()", show(self.natural.closed))


# --- comparing events -------------------------------------------------------------------------------------------------


def event_difference(a: Event, b: Event) -> tuple[str, Any, Any] | None:
    """The first field in which two events differ, as (field, a's, b's), or None."""
    if a.is_step != b.is_step:
        return "event", "a step" if a.is_step else "a reset", "a step" if b.is_step else "a reset"
    if (found := difference(a.obs, b.obs)) is not None:
        return f"obs{found[0]}", found[1], found[2]
    for name in ("reward", "terminated", "truncated"):
        was, now = getattr(a, name), getattr(b, name)
        if was != now and not (was != was and now != now):
            return name, was, now
    if (found := difference(a.info, b.info)) is not None:
        return f"info{found[0]}", found[1], found[2]
    return None


def first_difference(a: Events, b: Events) -> tuple[int, str, Any, Any] | None:
    """The first difference of two rows' events as (position, field, a's, b's), as far as both go."""
    for j, (one, other) in enumerate(zip(a, b, strict=False)):
        if (found := event_difference(one, other)) is not None:
            return j, *found
    return None


def complete_episodes(events: Events) -> list[Events]:
    """The episodes that ended, each from its reset to its last step."""
    episodes: list[Events] = []
    current: Events = []
    for event in events:
        if not event.is_step:
            current = []
        current.append(event)
        if event.ended:
            episodes.append(current)
    return episodes
