"""MountainCarContinuous: rock an underpowered car out of a valley to the flag on the right hill, with little fuel.

Source: A. W. Moore, "Efficient Memory-based Learning for Robot Control", PhD thesis, University of Cambridge (1990), as
in Gymnasium 1.4's MountainCarContinuous-v0
(https://gymnasium.farama.org/environments/classic_control/mountain_car_continuous/).

| observation | meaning                 | unit   | range       |
|-------------|-------------------------|--------|-------------|
| 0           | position along the road | m      | -1.2 to 0.6 |
| 1           | velocity                | m/step | +-0.07      |

| action | meaning                          | unit            | range |
|--------|----------------------------------|-----------------|-------|
| 0      | push, in shares of the strongest | 0.0015 m/step^2 | +-1   |

A push outside the range is cut off to it, but its cost is not.

Reward: -0.1 push^2, and 100 more for the step that reaches the goal.
End: terminated at a position of 0.45 or further right, with at least the velocity `goal_velocity`.
Limit: 999 steps.
Start: at rest, at a uniformly drawn position.
Reset options: `low` and `high`, bounds of the start position (-0.6 and -0.4).
Options: `goal_velocity`: see above, 0 unless given.

Differs from the source in: termination wins where the limit falls on the same step. As there, all is float32 but the
first step of an episode and the share of a push that is cut off.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box

from vecenv.kernels.classic.mountain_car import MAX_POSITION, MAX_SPEED, MIN_POSITION, check_options, render
from vecenv.kernels.envdef import EnvDef, number
from vecenv.kernels.jit import jit
from vecenv.kernels.math import cos, f32, square
from vecenv.kernels.soa import F8, Options, Params, State


class MountainCarContinuousState(State):
    position: F8  # along the road [m]
    velocity: F8  # [m/step]


class MountainCarContinuousParams(Params):
    min_position: F8 = MIN_POSITION  # [m]
    max_position: F8 = MAX_POSITION  # [m]
    max_speed: F8 = MAX_SPEED  # [m/step]
    goal_position: F8 = 0.45  # [m]
    goal_velocity: F8 = 0.0  # [m/step]
    power: F8 = 0.0015  # of the strongest push [m/step^2]
    gravity: F8 = 0.0025  # [m/step^2]


class MountainCarContinuousOptions(Options):
    low: F8 = -0.6
    high: F8 = -0.4


@jit
def reset(state, params, rng, options):
    state.position = rng.uniform(options.low, options.high)
    state.velocity = 0.0


@jit
def narrow(x, single):
    """x as a float32 or as it is."""
    return f32(x) if single else x


@jit
def step(state, action, params, rng):
    """One time step. Returns (reward, terminated)."""
    # NumPy's types: the start is float64, every later state float32; a number in the program takes the type of what it
    # meets. A push is float32, one that is cut off becomes a number, and so does a velocity.
    single = state.elapsed > 0
    push = action[0]
    inside = (push >= -1.0) & (push <= 1.0)
    force = min(max(push, -1.0), 1.0)
    slope = params.gravity * cos(narrow(3.0 * state.position, single))
    change = f32(f32(force * f32(params.power)) - f32(slope)) if inside else force * params.power - slope
    velocity = narrow(state.velocity + narrow(change, single), single)
    limit = narrow(params.max_speed, single)
    cut = abs(velocity) > limit
    velocity = min(max(velocity, -limit), limit)
    position = narrow(state.position + velocity, single)
    left = narrow(params.min_position, single)
    position = min(max(position, left), narrow(params.max_position, single))
    stopped = (position == left) & (velocity < 0.0)  # against the wall
    velocity = 0.0 if stopped else velocity
    # A velocity that was cut off or stopped is compared as a number, without rounding.
    fast = narrow(velocity, single) >= narrow(params.goal_velocity, single)
    exact = 0.0 if stopped else (params.max_speed if velocity > 0.0 else -params.max_speed)
    fast = (exact >= params.goal_velocity) if cut | stopped else fast
    terminated = (position >= narrow(params.goal_position, single)) & fast
    state.position = f32(position)
    state.velocity = f32(velocity)
    return (100.0 if terminated else 0.0) - square(push) * 0.1, terminated


@jit
def observe(state, params, obs):
    obs[0] = state.position
    obs[1] = state.velocity


def build(goal_velocity: float = 0.0) -> EnvDef:
    low, high = np.array([[MIN_POSITION, -MAX_SPEED], [MAX_POSITION, MAX_SPEED]], np.float32)
    return EnvDef(
        "MountainCarContinuous-v0",
        MountainCarContinuousState,
        MountainCarContinuousParams,
        reset,
        step,
        observe,
        observation_space=Box(low, high, dtype=np.float32),
        action_space=Box(-1.0, 1.0, (1,), np.float32),
        max_episode_steps=999,
        param_values={"goal_velocity": number("goal_velocity", goal_velocity)},
        options_type=MountainCarContinuousOptions,
        check_options=check_options,
        render=render,
        render_fps=30,
    )
