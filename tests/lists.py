"""A plain Python loop over single environments that keeps lists: the oracle of Rollout and ReplayBuffer."""

from __future__ import annotations

from typing import Any, NamedTuple

import envs as e
import gymnasium
import numpy as np

from vecenv.vec_env import VecEnv

#: "restart": DISABLED, ended rows reset by hand. "absorb": DISABLED, ended rows stay.
WAYS = ("next_step", "same_step", "restart", "absorb")


class Transition(NamedTuple):
    obs: Any
    action: Any
    reward: float
    terminated: bool
    truncated: bool
    next_obs: Any

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated


def batch(name: str, num_envs: int, way: str, **kwargs: Any) -> VecEnv:
    """With libm's arithmetic where Gymnasium computes with it."""
    math = "libm" if name in ("CartPole-v1", "Pendulum-v1") else "portable"
    mode, ended = (way, "raise") if way in e.MODES else ("disabled", "absorb" if way == "absorb" else "raise")
    return VecEnv(e.definition(name), num_envs, autoreset_mode=mode, ended=ended, math=math, **kwargs)


def singles(name: str, num_envs: int, limit: int | None) -> list[Any]:
    """Gymnasium's environments where it has them, else batches of one row."""
    if name in gymnasium.registry:
        return [gymnasium.make(name, max_episode_steps=limit) for _ in range(num_envs)]
    return [VecEnv(e.definition(name), 1, max_episode_steps=limit).view(0) for _ in range(num_envs)]


def play(rows: list[Any], way: str, actions: Any, seed: int) -> list[list[Transition | None]]:
    """What every call does in every row: a transition, or None where it takes no action."""
    obs = [row.reset(seed=seed + i)[0] for i, row in enumerate(rows)]
    over = [False] * len(rows)
    history = []
    for step in actions:
        now: list[Transition | None] = []
        for i, row in enumerate(rows):
            if over[i]:
                now.append(None)
                if way == "next_step":
                    obs[i], over[i] = row.reset()[0], False
                continue
            next_obs, reward, terminated, truncated, _ = row.step(step[i])
            now.append(Transition(obs[i], step[i], reward, terminated, truncated and not terminated, next_obs))
            obs[i], over[i] = next_obs, now[i].ended
            if over[i] and way in ("same_step", "restart"):
                obs[i], over[i] = row.reset()[0], False
        history.append(now)
    return history


def trajectory(history: list[list[Transition | None]], t: int, row: int, n: int | None = None) -> list[Transition]:
    """The transitions from step t on until the episode or the history ends, at most n."""
    found: list[Transition] = []
    for now in history[t : None if n is None else t + n]:
        found.append(now[row])
        if now[row].ended:
            break
    return found


def value(obs: Any) -> float:
    """Any function of an observation."""
    return sum(float(np.sum(np.cos(np.asarray(leaf, np.float64)))) for leaf in e.flat(obs))


def same(a: Any, b: Any) -> None:
    """Equal observations, of a batch and of a single environment."""
    for x, y in zip(e.flat(a), e.flat(b), strict=True):
        np.testing.assert_array_equal(x, y)


CASES = [
    ("CartPole-v1", 15),  # both endings, array observations
    ("FrozenLake-v1", 8),  # both endings, Discrete observations
    ("rooms", 9),  # truncation only, Dict observations
    ("pair", 6),  # truncation only, Tuple observations, MultiDiscrete actions
    ("Pendulum-v1", 4),  # truncation only, Box actions
]
