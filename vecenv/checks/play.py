"""`Player`: plays a batch by the contract, checks each call, and keeps what every row lived through.

What a row lives through (its events) does not depend on the auto-reset mode: a reset, steps, a reset, steps, ... So
runs in different modes, of different sizes or in other rows can be compared event by event, as long as the actions
depend on the row's own past only: the action of step t of episode e of the row with key k is a function of (k, e, t).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

from vecenv.checks.report import Report, show
from vecenv.checks.trees import Tree, difference, info_row, leaves, misfit, outside, row_of, rows_of, same
from vecenv.checks.twins import Envs
from vecenv.vec_env import VecEnv

NUM_ACTIONS = 509  # actions are drawn once and looked up
NUM_KEPT = 14  # calls whose returned arrays are kept by reference


class Actions:
    """Random actions of a space by (key, episode, step)."""

    def __init__(self, space: spaces.Space[Any], seed: int) -> None:
        self.space = copy_space(space, seed)
        self.actions = [self.space.sample() for _ in range(NUM_ACTIONS)]

    def batch(self, indices: Sequence[tuple[int, ...]]) -> Any:
        chosen = [self.actions[hash(index) % NUM_ACTIONS] for index in indices]
        buffer: Any = create_empty_array(self.space, n=len(chosen))
        return concatenate(self.space, chosen, buffer)


def copy_space(space: spaces.Space[Any], seed: int) -> spaces.Space[Any]:
    """The same space with a generator of its own."""
    copied = copy.deepcopy(space)
    copied.seed(seed)
    return copied


@dataclass(slots=True)
class Event:
    """One reset or one step of one row.

    Attributes:
        call: number of the batch call that returned it, 0 for the reset that started the run.
        is_step: False for a reset, whose reward and flags are those that came with a NEXT_STEP reset call.
        obs: the observation after it: of a step that ended an episode, the last one of that episode.
        row_obs: what the batch returned as this row's observation.
        info: what the infos say about the row (vecenv only).
    """

    call: int
    is_step: bool
    obs: Tree
    row_obs: Tree
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return self.is_step and (self.terminated or self.truncated)


Events = list[Event]


@dataclass
class Mark:
    """Where a player stood, so that it can go on from there after `restore`."""

    call: int
    key: list[int]
    episode: list[int]
    t: list[int]
    num_steps: list[int]
    pending: npt.NDArray[np.bool_]
    returns: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]


class Player:
    """Plays one batch.

    Args:
        envs: the batch.
        report: where violations go.
        actions: by (key, episode, step).
        mode: the auto-reset mode to expect.
        keys: one per row, `range(num_envs)` by default.
        limits: step limit per row, -1 for none; None if unknown.
        stagger: reset row i by mask after a number of its steps that depends on i, so that rows end at different times.
        by_episode: False plays the same actions in every episode.
        thorough: check types, spaces, infos and reuse of arrays, too.
        scribble: overwrite every returned array after looking at it.
        waiting: an extra number in the index of actions for rows that NEXT_STEP is about to reset.
        where: name of the run, for messages.
    """

    def __init__(
        self,
        envs: Envs,
        report: Report,
        actions: Actions,
        mode: AutoresetMode,
        *,
        keys: Sequence[int] | None = None,
        limits: Sequence[int] | None = None,
        stagger: bool = False,
        by_episode: bool = True,
        thorough: bool = False,
        scribble: bool = False,
        waiting: int = 0,
        where: str = "",
    ) -> None:
        self.envs, self.report, self.actions, self.mode = envs, report, actions, mode
        self.n: int = envs.num_envs
        self.keys = list(range(self.n)) if keys is None else list(keys)
        self.limits = limits
        self.stagger, self.by_episode, self.thorough, self.scribble = stagger, by_episode, thorough, scribble
        self.waiting, self.where = waiting, where
        inner = envs.unwrapped
        self.is_vecenv = isinstance(inner, VecEnv)
        self.float64 = isinstance(inner, (VecEnv, SyncVectorEnv, AsyncVectorEnv))
        self.pops_mask = isinstance(inner, (SyncVectorEnv, AsyncVectorEnv))
        self.kept: list[tuple[str, int, npt.NDArray[Any], npt.NDArray[Any]]] = []
        self.returned: dict[int, list[Tree]] = {}
        self._statistics = {
            name: owner
            for name in ("episode_returns", "episode_lengths", "episode_ended")
            for owner in (envs, inner)
            if thorough and hasattr(type(owner), name)
        }
        self._clear()

    def _clear(self) -> None:
        self.call = 0
        self.events: list[Events] = [[] for _ in range(self.n)]
        self.episode, self.t, self.num_steps = [0] * self.n, [0] * self.n, [0] * self.n
        self.pending, self.just_ended = np.zeros(self.n, np.bool_), np.zeros(self.n, np.bool_)
        self.returns, self.lengths = np.zeros(self.n), np.zeros(self.n, np.int64)

    def mark(self) -> Mark:
        self._forget_ended()
        return Mark(
            self.call,
            list(self.keys),
            list(self.episode),
            list(self.t),
            list(self.num_steps),
            self.pending.copy(),
            self.returns.copy(),
            self.lengths.copy(),
        )

    def go_back(self, mark: Mark) -> None:
        """Go on from a mark, with no events yet."""
        self.call, self.keys, self.episode, self.t = mark.call, list(mark.key), list(mark.episode), list(mark.t)
        self.num_steps, self.pending = list(mark.num_steps), mark.pending.copy()
        self.returns, self.lengths = mark.returns.copy(), mark.lengths.copy()
        self.just_ended[:] = False
        self.events = [[] for _ in range(self.n)]

    # --- playing ------------------------------------------------------------------------------------------------------

    def reset(self, seed: Any = None) -> None:
        """Reset all rows and start a new list of events."""
        result = self.envs.reset(seed=seed) if seed is not None else self.envs.reset()
        self._clear()
        obs, infos = self._unpack(result, 2, "reset-return", "(obs, infos)")
        rows = rows_of(self.envs.observation_space, obs)
        for i in range(self.n):
            self.events[i].append(Event(0, False, rows[i], rows[i], info=self._info(infos, i)))
        self._look(obs, infos, None)
        self._check_statistics(np.zeros(self.n, np.bool_))
        self._overwrite(obs)

    def reset_mask(self, mask: npt.NDArray[np.bool_], seed: Any = None, restart: bool = False) -> None:
        """Reset the rows of a mask. `restart` begins their events anew, as if this was the first reset."""
        options = {"reset_mask": mask.copy()}
        given = options["reset_mask"]
        keywords = {} if seed is None else {"seed": seed}
        result = self.envs.reset(options=options, **keywords)
        if (set(options) != {"reset_mask"} and not (self.pops_mask and not options)) or not same(given, mask):
            self._add("options-mutated", "options as they were passed", show(options))
        obs, infos = self._unpack(result, 2, "reset-return", "(obs, infos)")
        rows = rows_of(self.envs.observation_space, obs)
        for i in range(self.n):
            if mask[i]:
                if restart:
                    self.events[i], self.episode[i], self.num_steps[i] = [], 0, 0
                else:
                    self.episode[i] += 1
                self.t[i], self.pending[i], self.just_ended[i] = 0, False, False
                self.returns[i], self.lengths[i] = 0.0, 0
                self.events[i].append(Event(self.call, False, rows[i], rows[i], info=self._info(infos, i)))
            elif (found := difference(self.events[i][-1].row_obs, rows[i])) is not None:
                path, was, now = found
                self._add("mask-touches-others", f"obs{path} of a row outside the mask as before, {show(was)}",
                          show(now), row=i)  # fmt: skip
        self._look(obs, infos, mask)
        self._check_statistics(None)
        self._overwrite(obs)

    def play(self, calls: int) -> list[Events]:
        """Some calls of `step`. Returns the events of all rows so far."""
        for _ in range(calls):
            self.step()
        return self.events

    def play_until_end(self, most: int) -> bool:
        """Step until a row has ended in the last call, `most` times at most."""
        return any(self.step().any() for _ in range(most))

    def step(self) -> npt.NDArray[np.bool_]:
        """One call. Returns which rows ended in it, `[N]`."""
        self._forget_ended()
        pending = self.pending.copy()
        actions = self.actions.batch([self._index(i) for i in range(self.n)])
        result = self.envs.step(actions)
        self.call += 1
        obs, rewards, terminated, truncated, infos = self._unpack(
            result, 5, "step-return", "(obs, rewards, terminations, truncations, infos)"
        )
        self._check_flags(rewards, terminated, truncated)
        done, cut = np.asarray(terminated, np.bool_).copy(), np.asarray(truncated, np.bool_).copy()
        ended = (done | cut) & ~pending
        rows = rows_of(self.envs.observation_space, obs)
        self.returned[self.call] = rows
        to_reset = np.zeros(self.n, np.bool_)
        for i in range(self.n):
            reward = float(np.asarray(rewards)[i])
            if pending[i]:
                self._check_reset_call(i, reward, done[i], cut[i])
                self.pending[i] = False
                self.episode[i], self.t[i] = self.episode[i] + 1, 0
                self.returns[i], self.lengths[i] = 0.0, 0
                self.events[i].append(
                    Event(self.call, False, rows[i], rows[i], reward, bool(done[i]), bool(cut[i]), self._info(infos, i))
                )
                continue
            self.t[i], self.num_steps[i] = self.t[i] + 1, self.num_steps[i] + 1
            self.returns[i], self.lengths[i] = self.returns[i] + reward, self.lengths[i] + 1
            self._check_limit(i, bool(ended[i]))
            event = Event(self.call, True, rows[i], rows[i], reward, bool(done[i]), bool(cut[i]), self._info(infos, i))
            self.events[i].append(event)
            if ended[i] and self.mode is AutoresetMode.NEXT_STEP:
                self.pending[i] = True
            elif ended[i] and self.mode is AutoresetMode.SAME_STEP:
                event.obs, event.info = self._final(infos, i)
                self.episode[i], self.t[i] = self.episode[i] + 1, 0
                self.events[i].append(Event(self.call, False, rows[i], rows[i], info=self._info(infos, i)))
            elif ended[i] or (self.stagger and self.num_steps[i] == 2 * i + 1 and i > 0):
                to_reset[i] = True
        self._look(obs, infos, None)
        self._check_final(infos, ended)
        self._check_statistics(ended)
        self._keep("reward", rewards)
        self._keep("flag", terminated)
        self._keep("flag", truncated)
        if "final_obs" in infos:
            self._keep("final-obs", infos["final_obs"])
            self._overwrite(infos["final_obs"])
        self._overwrite([obs, rewards, terminated, truncated])
        if self.mode is AutoresetMode.SAME_STEP:
            self.just_ended = ended.copy()
        if to_reset.any():
            self.reset_mask(to_reset)
        return ended

    def _forget_ended(self) -> None:
        """SAME_STEP shows the statistics of an ended episode until the next call."""
        self.returns[self.just_ended], self.lengths[self.just_ended] = 0.0, 0
        self.just_ended[:] = False

    def _index(self, i: int) -> tuple[int, ...]:
        episode = self.episode[i] if self.by_episode else 0
        if self.pending[i]:
            return self.keys[i], episode, self.t[i], 7 + self.waiting
        return self.keys[i], episode, self.t[i]

    def _info(self, infos: dict[str, Any], i: int) -> dict[str, Any]:
        """What infos say about row i. Gymnasium's `_add_info` stores values in the type of the row that came first, so
        that rows do depend on each other there (FrozenLake's `prob` is 0 or 0.33): compared for vecenv only."""
        return info_row(infos, i) if self.is_vecenv else {}

    def _final(self, infos: dict[str, Any], i: int) -> tuple[Tree, dict[str, Any]]:
        """Last observation and info of the episode of row i that ended and was reset in this call."""
        final_obs, final_info = infos.get("final_obs"), infos.get("final_info")
        try:
            obs = None if final_obs is None else row_of(final_obs, i)
        except (IndexError, KeyError, TypeError):
            obs = None
        return obs, self._info(final_info, i) if isinstance(final_info, dict) else {}

    # --- checks of one call -------------------------------------------------------------------------------------------

    def _add(self, name: str, expected: str, got: str, row: int | None = None) -> None:
        self.report.add(name, expected, got, step=self.call, row=row, where=self.where)

    def _unpack(self, result: Any, count: int, name: str, expected: str) -> tuple[Any, ...]:
        if not isinstance(result, tuple) or len(result) != count:
            self._add(name, f"a tuple {expected}", show(result))
            raise TypeError(f"cannot go on without {expected}")
        if not isinstance(result[-1], dict):
            self._add(name, "infos as a dict", type(result[-1]).__name__)
            return (*result[:-1], {})
        return result

    def _check_flags(self, rewards: Any, terminated: Any, truncated: Any) -> None:
        wanted = "float64" if self.float64 else "a float type"
        kind = getattr(rewards, "dtype", None)
        if kind is None or (kind != np.float64 if self.float64 else kind.kind != "f"):
            self._add("reward-dtype", wanted, str(kind or type(rewards).__name__))
        for name, flags in (("terminations", terminated), ("truncations", truncated)):
            if getattr(flags, "dtype", None) != np.bool_:
                self._add("flag-dtype", f"{name} of bool", str(getattr(flags, "dtype", type(flags).__name__)))
        for name, array in (("rewards", rewards), ("terminations", terminated), ("truncations", truncated)):
            if np.shape(array) != (self.n,):
                self._add("shape", f"{name} of shape ({self.n},)", str(np.shape(array)))
                raise ValueError(f"cannot go on with {name} of shape {np.shape(array)}")
        if self.is_vecenv and (both := np.asarray(terminated) & np.asarray(truncated)).any():
            self._add("both-flags", "termination to win", "both flags", row=int(np.flatnonzero(both)[0]))

    def _check_reset_call(self, i: int, reward: float, done: bool, cut: bool) -> None:
        if reward != 0:
            self._add("reset-call-reward", "reward 0 on the call that only resets", show(reward), row=i)
        if done or cut:
            name = "terminated" if done else "truncated"
            self._add("reset-call-flag", "no flags on the call that only resets", f"{name} True", row=i)

    def _check_limit(self, i: int, ended: bool) -> None:
        if self.limits is None or self.limits[i] < 1 or ended or self.t[i] < self.limits[i]:
            return
        self._add("limit", f"an end at step {self.limits[i]} of the episode", f"none at step {self.t[i]}", row=i)

    def _look(self, obs: Tree, infos: dict[str, Any], mask: npt.NDArray[np.bool_] | None) -> None:
        """Types, spaces and infos of one call; `mask` are the rows that may contribute info, None for all."""
        self._keep("obs", obs)
        if not self.thorough:
            return
        space, single = self.envs.observation_space, self.envs.single_observation_space
        found = misfit(space, obs)
        if found is not None:
            kind, path, expected, got = found
            self._add(f"obs-{kind}", f"obs{path} of {expected}", got)
        else:
            for i, row in enumerate(rows_of(space, obs)):
                if (bad := outside(single, row)) is not None:
                    self._add("obs-space", f"obs{bad[0]} in {bad[1]}", bad[2], row=i)
            if not space.contains(obs) and "obs-space" not in self.report:
                self._add("obs-space", f"an observation of {show(space)}", show(obs))
        for path, array in leaves(obs):
            if array.ndim and not array.flags.writeable:
                self._add("read-only", f"obs{path} that can be written", "a read-only array")
        self._check_infos(infos, mask, "infos")

    def _check_infos(self, infos: dict[str, Any], may: npt.NDArray[np.bool_] | None, name: str) -> None:
        for key, value in infos.items():
            if key.startswith("_"):
                if key[1:] not in infos:
                    self._add("info-mask", f"{name}[{key[1:]!r}] beside its mask", "only the mask")
                continue
            mask, where = infos.get(f"_{key}"), f"{name}[{key!r}]"
            special = name == "infos" and key in ("final_obs", "final_info")
            if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.n,):
                got = "none" if mask is None else f"{getattr(mask, 'dtype', type(mask).__name__)} {np.shape(mask)}"
                missing = "final-obs-mask" if special else "info-mask"
                self._add(missing, f"a mask {name}['_{key}'] of bool ({self.n},)", got)
            elif may is not None and (mask & ~may).any():
                self._add("info-mask", f"{where} only for rows that were reset", "a mask that covers another row",
                          row=int(np.flatnonzero(mask & ~may)[0]))  # fmt: skip
            if isinstance(value, dict) and key != "final_obs":
                self._check_infos(value, may, where)
            elif not special and np.shape(value)[:1] != (self.n,):
                self._add("info-shape", f"{where} as an array ({self.n}, ...)", f"shape {np.shape(value)}")
            if not special:
                self._keep("info", value)

    def _check_final(self, infos: dict[str, Any], ended: npt.NDArray[np.bool_]) -> None:
        mask = infos.get("_final_obs")
        if self.mode is not AutoresetMode.SAME_STEP:
            if "final_obs" in infos and (mask is None or np.any(mask)):
                self._add("final-obs-unexpected", f"no final_obs under {self.mode.name}", "one")
            return
        if not ended.any():
            if mask is not None and np.any(mask):
                self._add("final-obs-mask", "no final observations where no row ended", show(mask))
            return
        if "final_obs" not in infos:
            self._add("final-obs-missing", "infos['final_obs'] where a row ended", f"keys {sorted(infos)}",
                      row=int(np.flatnonzero(ended)[0]))  # fmt: skip
            return
        for key in ("_final_obs", "_final_info"):
            if key in infos and not same(infos[key], ended):
                self._add("final-obs-mask", f"{key} {show(ended)}", show(infos[key]))
        if "final_info" not in infos and getattr(self.envs.unwrapped, "_reports_infos", True):
            self._add("final-info-missing", "infos['final_info'] where a row ended", f"keys {sorted(infos)}")
        if not self.thorough:
            return
        for i in np.flatnonzero(ended):
            obs, _ = self._final(infos, int(i))
            found = misfit(self.envs.single_observation_space, obs)
            if found is not None:
                self._add(f"final-obs-{found[0]}", f"final_obs{found[1]} of {found[2]}", found[3], row=int(i))
            elif (bad := outside(self.envs.single_observation_space, obs)) is not None:
                self._add("final-obs-space", f"final_obs{bad[0]} in {bad[1]}", bad[2], row=int(i))

    def _check_statistics(self, ended: npt.NDArray[np.bool_] | None) -> None:
        """The batch's own sums against ours; `ended` None leaves `episode_ended` alone."""
        for name, owner in self._statistics.items():
            got = getattr(owner, name)
            if name == "episode_returns":
                wrong = ~np.isclose(got, self.returns, rtol=1e-9 if self.float64 else 1e-4, atol=1e-12, equal_nan=True)
                expected: Any = self.returns
            elif name == "episode_lengths":
                wrong, expected = np.asarray(got) != self.lengths, self.lengths
            elif ended is None:
                continue
            else:
                wrong, expected = np.asarray(got) != ended, ended
            if np.any(wrong):
                i = int(np.flatnonzero(wrong)[0])
                self._add("statistics", f"{name} {show(expected[i])}", show(got[i]), row=i)

    # --- arrays that were returned ------------------------------------------------------------------------------------

    def _keep(self, name: str, tree: Tree) -> None:
        if self.thorough and self.call <= NUM_KEPT:
            for _, array in leaves(tree):
                if array.ndim:
                    self.kept.append((name, self.call, array, array.copy()))

    def check_kept(self) -> None:
        """Arrays that were returned in earlier calls still hold what they held then."""
        for name, call, array, before in self.kept:
            if not same(array, before):
                self.report.add(f"{name}-aliased", f"{show(before)} in an array returned earlier",
                                f"{show(array)} after later calls", step=call, where=self.where)  # fmt: skip

    def _overwrite(self, tree: Tree) -> None:
        if self.scribble:
            for _, array in leaves(tree):
                if array.ndim and array.flags.writeable and array.dtype.kind in "biuf":
                    array[...] = ~array if array.dtype.kind == "b" else 77
