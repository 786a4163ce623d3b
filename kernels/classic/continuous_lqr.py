"""ContinuousLqr: push a point with friction back to the origin.

Source: ContinuousLqr of the Rust crate thrust-rl 0.4.0 (https://crates.io/crates/thrust-rl), by its rules.

| observation | meaning                 | unit            | range |
|-------------|-------------------------|-----------------|-------|
| 0           | position                | length          | any   |
| 1           | velocity                | length per step | +-10  |

| action | meaning                     | unit              | range   |
|--------|-----------------------------|-------------------|---------|
| 0      | the force; beyond, clipped  | length per step^2 | -1 to 1 |

The velocity changes by the force less a tenth of itself, then the position by the velocity.

Reward: -position^2 - 0.01 force^2, after the step.
End: none.
Limit: 50 steps.
Start: position 0.5, velocity 0.
Options: none.

A snapshot replays bit for bit: nothing is random.

Differs from the source in: float64 in place of float32.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box

from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.jit import jit
from vecenv.kernels.math import clip, square
from vecenv.kernels.soa import F8, Params, State


class ContinuousLqrState(State):
    position: F8  # [length]
    velocity: F8  # [length per step]


class ContinuousLqrParams(Params):
    start: F8 = 0.5  # [length]
    friction: F8 = 0.1  # [per step]
    force_cost: F8 = 0.01
    max_force: F8 = 1.0  # [length per step^2]


@jit
def reset(state, params, rng):
    state.position = params.start
    state.velocity = 0.0


@jit
def step(state, action, params, rng):
    """Push. Returns (reward, terminated)."""
    force = clip(action[0], -params.max_force, params.max_force)
    state.velocity += force - params.friction * state.velocity
    state.position += state.velocity
    return -square(state.position) - params.force_cost * square(force), False


@jit
def observe(state, params, obs):
    obs[0] = state.position
    obs[1] = state.velocity


def render(state, params, canvas):
    """The point on its line; the origin is marked."""
    canvas.world(-1.5, 1.5, -0.25, 0.25, width=600)
    canvas.line([(-1.5, 0.0), (1.5, 0.0)], (170, 170, 170), 0.01)
    canvas.line([(0.0, -0.1), (0.0, 0.1)], (90, 160, 90), 0.02)
    canvas.circle(state.position, 0.0, 0.05, (45, 105, 190))


def build() -> EnvDef:
    high = np.array([np.finfo(np.float32).max, 10.0], np.float32)
    return EnvDef(
        "ContinuousLqr-v0",
        ContinuousLqrState,
        ContinuousLqrParams,
        reset,
        step,
        observe,
        observation_space=Box(-high, high, dtype=np.float32),
        action_space=Box(-1.0, 1.0, (1,), np.float32),
        max_episode_steps=50,
        render=render,
    )
