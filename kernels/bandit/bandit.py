"""Bandit: find the best of K arms by pulling them.

Source: section 2.3 of R. Sutton and A. Barto, "Reinforcement Learning: An Introduction", 2nd edition
(http://incompleteideas.net/book/the-book-2nd.html): the ten-armed testbed.

| observation | meaning                                | unit | range |
|-------------|----------------------------------------|------|-------|
| a number    | always 0: there is nothing to be seen  | -    | 0     |

| action | meaning    |
|--------|------------|
| k      | pull arm k |

Reward: drawn around the arm's mean, normal with standard deviation 1, or 0 and 1 with probability mean of 1.
End: none.
Limit: 1000 steps: an episode is many pulls.
Start: a mean for every arm: standard normal, or uniform from 0 to 1 where rewards are 0 and 1; or as given.
Info: `best`, whether the arm pulled last has the highest mean; `regret`, by how much its mean is lower than that; after
a reset True and 0.
Options: `arms`: K, 10; `rewards`: "normal" or "bernoulli" (0 and 1); `means`: the mean of each arm, which then are the
same in every episode.

A snapshot replays bit for bit, means and rewards included: every draw comes from the row's own random stream.

Differs from the source in: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium.spaces import Discrete

from vecenv.kernels.envdef import EnvDef, integer, number, probability
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import B1, F8, Array, Info, Params, State, Table


class BanditState(State):
    means: Array[F8, "arms"]  # noqa: UP037, F821
    highest: F8  # of the means
    regret: F8  # of the last pull


class BanditParams(Params):
    given: Table[F8, 1]  # [arms] means, where they are given
    spread: F8 = 1.0  # standard deviation of normal means
    noise: F8 = 1.0  # and of normal rewards


class BanditInfo(Info):
    best: B1
    regret: F8


@jit
def given_mean(k, params, rng):
    return params.given[k]


@jit
def normal_mean(k, params, rng):
    return rng.normal(0.0, params.spread)


@jit
def uniform_mean(k, params, rng):
    return rng.random()


@jit
def normal_reward(mean, params, rng):
    return rng.normal(mean, params.noise)


@jit
def bernoulli_reward(mean, params, rng):
    return 1.0 if rng.random() < mean else 0.0


@jit
def reset(state, params, rng):
    for k in range(len(state.means)):
        mean = draw_mean(k, params, rng)
        state.means[k] = mean
        state.highest = mean if k == 0 else max(state.highest, mean)
    state.regret = 0.0


@jit
def step(state, action, params, rng):
    """Pull an arm. Returns (reward, terminated)."""
    mean = state.means[action]
    state.regret = state.highest - mean
    return draw_reward(mean, params, rng), False


@jit
def observe(state, params, obs):
    obs[0] = 0


@jit
def info(state, params, out):
    out.best = state.regret == 0.0
    out.regret = state.regret


draw_mean = normal_mean  # chosen by the options `rewards` and `means`
draw_reward = normal_reward  # chosen by the option `rewards`


def build(arms: int = 10, rewards: str = "normal", means: Sequence[float] | None = None) -> EnvDef:
    arms = integer("arms", arms, 1, 65_535)
    if not isinstance(rewards, str) or rewards not in ("normal", "bernoulli"):
        raise ValueError(f"rewards: expected 'normal' or 'bernoulli', got {rewards!r}")
    is_normal = rewards == "normal"
    if means is not None:
        given = np.array([(number if is_normal else probability)("means", mean) for mean in means])
        if len(given) != arms:
            raise ValueError(f"means: expected one for each of {arms} arms, got {len(given)}")
    return EnvDef(
        "Bandit-v0",
        BanditState,
        BanditParams,
        reset,
        step,
        observe,
        observation_space=Discrete(1),
        action_space=Discrete(arms),
        max_episode_steps=1000,
        param_values={"given": np.zeros(1) if means is None else given},
        sizes={"arms": arms},
        functions={
            "draw_mean": given_mean if means is not None else (normal_mean if is_normal else uniform_mean),
            "draw_reward": normal_reward if is_normal else bernoulli_reward,
        },
        info_type=BanditInfo,
        info=info,
    )
