"""What a rollout did: speed, and statistics of the episodes that ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from vecenv.cli.actions import ActionPool

if TYPE_CHECKING:
    import numpy.typing as npt
    from gymnasium import spaces

    from vecenv.vec_env import VecEnv


class Moments:
    """Count, mean, standard deviation, minimum and maximum of values that come in batches; none of them is kept."""

    def __init__(self) -> None:
        self.count, self.mean, self._squares = 0, 0.0, 0.0
        self.min, self.max = math.inf, -math.inf

    def add(self, values: npt.NDArray[Any]) -> None:
        """Merge a batch (Chan, Golub, LeVeque 1979: stable, unlike sums of squares)."""
        count = len(values)
        if count == 0:
            return
        mean = float(values.mean())
        total = self.count + count
        delta = mean - self.mean
        self._squares += float(((values - mean) ** 2).sum()) + delta * delta * self.count * count / total
        self.mean += delta * count / total
        self.count = total
        self.min, self.max = min(self.min, float(values.min())), max(self.max, float(values.max()))

    def summary(self) -> dict[str, float | None]:
        """`mean std min max`, None each if there were no values; the deviation is that of the values, no estimate."""
        if self.count == 0:
            return dict.fromkeys(("mean", "std", "min", "max"))
        std = math.sqrt(self._squares / self.count)
        return {"mean": self.mean, "std": std, "min": self.min, "max": self.max}


class Tally:
    """What a rollout did: transitions, reset calls, and the episodes that finished."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.transitions = self.reset_calls = 0
        self.episodes = self.terminated = self.truncated = 0
        self.returns, self.lengths = Moments(), Moments()


def collect(envs: VecEnv, actions: Iterable[npt.NDArray[Any]], on_step: Callable[[Tally], None] | None = None) -> Tally:
    """Step through `actions` and take the statistics of all episodes that end. Only `step()` is timed."""
    import numpy as np
    from gymnasium.vector import AutoresetMode

    tally = Tally()
    next_step = envs.autoreset_mode is AutoresetMode.NEXT_STEP
    pending = 0  # rows that ended in the last step: NEXT_STEP spends their next one on a reset
    clock = time.perf_counter
    for action in actions:
        start = clock()
        _, _, terminated, truncated, _ = envs.step(action)
        tally.seconds += clock() - start
        tally.transitions += envs.num_envs - pending
        tally.reset_calls += pending
        ended = np.flatnonzero(envs.episode_ended)
        if len(ended):
            tally.episodes += len(ended)
            tally.terminated += int(np.count_nonzero(terminated[ended]))
            tally.truncated += int(np.count_nonzero(truncated[ended]))
            tally.returns.add(envs.episode_returns[ended])
            tally.lengths.add(envs.episode_lengths[ended])
        pending = len(ended) if next_step else 0
        if on_step is not None:
            on_step(tally)
    return tally


def warm_up(make: Callable[[], VecEnv], space: spaces.Space[Any], seed: int) -> tuple[VecEnv, dict[str, float]]:
    """A batch on which reset, step and statistics have run once, and how long that took: compiling or loading machine
    code happens here and is reported apart from every measurement."""
    start = time.perf_counter()
    envs = make()
    made = time.perf_counter()
    envs.reset(seed=seed)
    collect(envs, ActionPool(space, envs.num_envs, seed).windows(2))
    envs.reset(seed=seed)
    return envs, {"make_vec": made - start, "first_calls": time.perf_counter() - made}
