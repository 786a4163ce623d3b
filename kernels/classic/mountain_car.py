"""MountainCar: rock an underpowered car out of a valley to the flag on the right hill.

Source: A. W. Moore, "Efficient Memory-based Learning for Robot Control", PhD thesis, University of Cambridge (1990), as
in Gymnasium 1.4's MountainCar-v0 (https://gymnasium.farama.org/environments/classic_control/mountain_car/).

| observation | meaning                 | unit   | range       |
|-------------|-------------------------|--------|-------------|
| 0           | position along the road | m      | -1.2 to 0.6 |
| 1           | velocity                | m/step | +-0.07      |

| action | meaning               |
|--------|-----------------------|
| 0      | accelerate leftwards  |
| 1      | coast                 |
| 2      | accelerate rightwards |

Reward: -1 on every step, the last one included.
End: terminated at a position of 0.5 or further right, with at least the velocity `goal_velocity`.
Limit: 200 steps.
Start: at rest, at a uniformly drawn position.
Reset options: `low` and `high`, bounds of the start position (-0.6 and -0.4).
Options: `goal_velocity`: see above, 0 unless given.

Differs from the source in: termination wins where the limit falls on the same step.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.envdef import EnvDef, number
from vecenv.kernels.jit import jit
from vecenv.kernels.math import clip, cos, sin
from vecenv.kernels.soa import F8, Options, Params, State

MIN_POSITION, MAX_POSITION, MAX_SPEED = -1.2, 0.6, 0.07


class MountainCarState(State):
    position: F8  # along the road [m]
    velocity: F8  # [m/step]


class MountainCarParams(Params):
    min_position: F8 = MIN_POSITION  # [m]
    max_position: F8 = MAX_POSITION  # [m]
    max_speed: F8 = MAX_SPEED  # [m/step]
    goal_position: F8 = 0.5  # [m]
    goal_velocity: F8 = 0.0  # [m/step]
    force: F8 = 0.001  # [m/step^2]
    gravity: F8 = 0.0025  # [m/step^2]


class MountainCarOptions(Options):
    low: F8 = -0.6
    high: F8 = -0.4


@jit
def reset(state, params, rng, options):
    state.position = rng.uniform(options.low, options.high)
    state.velocity = 0.0


@jit
def step(state, action, params, rng):
    """One time step. Returns (reward, terminated)."""
    push = (action - 1) * params.force + cos(3.0 * state.position) * -params.gravity
    velocity = clip(state.velocity + push, -params.max_speed, params.max_speed)
    position = clip(state.position + velocity, params.min_position, params.max_position)
    velocity = 0.0 if (position == params.min_position) & (velocity < 0.0) else velocity  # against the wall
    state.position = position
    state.velocity = velocity
    return -1.0, (position >= params.goal_position) & (velocity >= params.goal_velocity)


@jit
def observe(state, params, obs):
    obs[0] = state.position
    obs[1] = state.velocity


def check_options(options):
    if not options["low"] <= options["high"]:
        raise ValueError(f"reset options: expected low <= high, got {options['low']} and {options['high']}")


def height(position):
    """Of the road, for pictures [m]."""
    return 0.45 * sin(3.0 * position) + 0.55


def render(state, params, canvas):
    """As Gymnasium: the road from one end to the other, a car of 40 x 20 pixels turned along it, the flag."""
    left, right = params.min_position, params.max_position
    pixel = (right - left) / 600
    canvas.world(left, right, 0.0, 400 * pixel, width=600)
    xs = np.linspace(left, right, 100)
    canvas.line([(x, height(x)) for x in xs], "black", 1.5 * pixel)

    turn = cos(3.0 * state.position)
    sin_turn, cos_turn = sin(turn), cos(turn)
    x, y = state.position, height(state.position) + 10 * pixel

    def turned(along, up):
        return x + pixel * (along * cos_turn - up * sin_turn), y + pixel * (along * sin_turn + up * cos_turn)

    canvas.polygon([turned(-20, 0), turned(-20, 20), turned(20, 20), turned(20, 0)], "black")
    for wheel in (-10, 10):
        canvas.circle(*turned(wheel, 0), 8 * pixel, (128, 128, 128))

    x, foot = params.goal_position, height(params.goal_position)
    top = foot + 50 * pixel
    canvas.line([(x, foot), (x, top)], "black", pixel)
    canvas.polygon([(x, top), (x, top - 10 * pixel), (x + 25 * pixel, top - 5 * pixel)], (204, 204, 0))


def build(goal_velocity: float = 0.0) -> EnvDef:
    low, high = np.array([[MIN_POSITION, -MAX_SPEED], [MAX_POSITION, MAX_SPEED]], np.float32)
    return EnvDef(
        "MountainCar-v0",
        MountainCarState,
        MountainCarParams,
        reset,
        step,
        observe,
        observation_space=Box(low, high, dtype=np.float32),
        action_space=Discrete(3),
        max_episode_steps=200,
        param_values={"goal_velocity": number("goal_velocity", goal_velocity)},
        options_type=MountainCarOptions,
        check_options=check_options,
        render=render,
        render_fps=30,
    )
