"""MaskedCartPole: balance a pole on a cart without seeing how fast they move.

Source: MaskedCartPole of the Rust crate thrust-rl 0.4.0 (https://crates.io/crates/thrust-rl), by its rules; CartPole
itself as in `cartpole.py`.

| observation | meaning               | unit  | range            |
|-------------|-----------------------|-------|------------------|
| 0           | cart position         | m     | +-4.8            |
| 1           | pole angle, 0 upright | rad   | +-0.419          |

| action | meaning             |
|--------|---------------------|
| 0      | push left with 10 N |
| 1      | push right          |

Reward: 1 on every step, the last one included (option `last_step_reward`).
End: terminated when |position| > 2.4 m or |angle| > 12 degrees.
Limit: 500 steps.
Reset options: `low` and `high`, as in CartPole.
Options: `integrator` and `last_step_reward`, as in CartPole.

A snapshot replays bit for bit.

Differs from the source in: Gymnasium's integrator and reward unless "semi_implicit" and "zero" are chosen; float64 in
place of float32; termination wins where the limit falls on the same step.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.classic.cartpole import (
    CartPoleOptions,
    CartPoleParams,
    CartPoleState,
    check_options,
    choose_functions,
    render,
    reset,
    step,
)
from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.jit import jit


@jit
def observe(state, params, obs):
    obs[0] = state.x
    obs[1] = state.theta


def build(integrator: str = "euler", last_step_reward: str = "one") -> EnvDef:
    high = np.array([4.8, 2 * CartPoleParams.theta_threshold], np.float32)
    return EnvDef(
        "MaskedCartPole-v0",
        CartPoleState,
        CartPoleParams,
        reset,
        step,
        observe,
        observation_space=Box(-high, high, dtype=np.float32),
        action_space=Discrete(2),
        max_episode_steps=500,
        options_type=CartPoleOptions,
        check_options=check_options,
        functions=choose_functions(integrator, last_step_reward),
        render=render,
    )
