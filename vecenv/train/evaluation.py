"""How good a policy is: whole episodes, one per environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from vecenv.vec_env import VecEnv

MAX_STEPS = 10_000


def evaluate(
    envs: VecEnv, act: Callable[[Any], npt.NDArray[Any]], episodes: int, seed: int, max_steps: int = MAX_STEPS
) -> npt.NDArray[np.float64]:
    """Returns of `episodes` episodes, `[episodes]`: the first of each of as many environments, which favours no length.

    Args:
        envs: a batch of which one `like` it is made; itself it is left alone.
        act: from observations `[episodes, ...]` to actions.
        episodes: how many.
        seed: episode i is seeded seed + i.
        max_steps: an episode that is still running then counts with the rewards it has.
    """
    batch = envs.like(episodes, autoreset_mode="disabled", ended="absorb")
    obs, _ = batch.reset(seed=seed)
    running = np.ones(episodes, np.bool_)
    returns = np.zeros(episodes)
    for _ in range(max_steps):
        obs, rewards, *_ = batch.step(act(obs))
        returns += rewards  # 0 after the end
        running &= ~batch.episode_ended
        if not running.any():
            break
    batch.close()
    return returns
