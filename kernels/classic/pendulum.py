"""Pendulum: swing a pendulum up and hold it upright, with a motor too weak to lift it at once.

Source: Gymnasium 1.4's Pendulum-v1 (https://gymnasium.farama.org/environments/classic_control/pendulum/).

| observation | meaning                                       | unit  | range |
|-------------|-----------------------------------------------|-------|-------|
| 0           | cosine of the angle, which is 0 when upright  | -     | +-1   |
| 1           | sine of it                                    | -     | +-1   |
| 2           | angular velocity, counter-clockwise           | rad/s | +-8   |

| action | meaning                   | unit | range |
|--------|---------------------------|------|-------|
| 0      | torque, counter-clockwise | N m  | +-2   |

A torque outside the range is cut off to it.

Reward: -(angle^2 + 0.1 velocity^2 + 0.001 torque^2) of the state before the step, the angle from -pi to pi: from -16.27
to 0.
End: never.
Limit: 200 steps.
Reset options: `x_init` and `y_init`, the largest angle (pi) and angular velocity (1) of the start, which is uniform
between plus and minus these.
Options: `g`: acceleration of gravity, 10 unless given.

Differs from the source in: nothing. As there, the torque and its share of the reward are float32.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box

from vecenv.kernels.envdef import EnvDef, number
from vecenv.kernels.jit import jit
from vecenv.kernels.math import clip, cos, f32, mod, pi, pow_square, powf_square, sin
from vecenv.kernels.soa import F4, F8, Options, Params, State

MAX_SPEED, MAX_TORQUE = 8.0, 2.0


class PendulumState(State):
    theta: F8  # angle from upright, counter-clockwise, not reduced [rad]
    theta_dot: F8  # angular velocity [rad/s]
    torque: F4  # of the last step, for pictures [N m]


class PendulumParams(Params):
    g: F8 = 10.0  # [m/s^2]
    m: F8 = 1.0  # [kg]
    length: F8 = 1.0  # [m]
    dt: F8 = 0.05  # time step [s]
    max_speed: F8 = MAX_SPEED  # [rad/s]
    max_torque: F8 = MAX_TORQUE  # [N m]


class PendulumOptions(Options):
    x_init: F8 = np.pi
    y_init: F8 = 1.0


@jit
def reset(state, params, rng, options):
    state.theta = rng.uniform(-options.x_init, options.x_init)
    state.theta_dot = rng.uniform(-options.y_init, options.y_init)
    state.torque = 0.0


@jit
def step(state, action, params, rng):
    """One step of `dt` seconds. Returns (reward, terminated)."""
    torque = clip(action[0], -params.max_torque, params.max_torque)
    angle = mod(state.theta + pi, 2.0 * pi) - pi
    effort = f32(f32(0.001) * powf_square(torque))
    costs = pow_square(angle) + 0.1 * pow_square(state.theta_dot) + effort
    motor = f32(f32(3.0 / (params.m * pow_square(params.length))) * torque)
    acceleration = 3.0 * params.g / (2.0 * params.length) * sin(state.theta) + motor
    state.theta_dot = clip(state.theta_dot + acceleration * params.dt, -params.max_speed, params.max_speed)
    state.theta += state.theta_dot * params.dt
    state.torque = torque
    return -costs, False


@jit
def observe(state, params, obs):
    obs[0] = cos(state.theta)
    obs[1] = sin(state.theta)
    obs[2] = state.theta_dot


def check_options(options):
    for name in ("x_init", "y_init"):
        if not options[name] >= 0.0:
            raise ValueError(f"reset option {name!r}: expected a number >= 0, got {options[name]}")


def render(state, params, canvas):
    """As Gymnasium: a red rod about a black axle; the last torque is a bent arrow, longer and wider when strong."""
    canvas.world(-2.2, 2.2, -2.2, 2.2, width=500)
    color = (204, 77, 77)
    x, y = (
        -params.length * sin(state.theta),
        params.length * cos(state.theta),
    )  # the end; counter-clockwise is leftwards
    across, up = 0.1 * y / params.length, -0.1 * x / params.length  # half the rod's width
    canvas.polygon([(across, up), (x + across, y + up), (x - across, y - up), (-across, -up)], color)
    canvas.circle(0.0, 0.0, 0.1, color)
    canvas.circle(x, y, 0.1, color)
    strength = state.torque / params.max_torque
    if strength != 0.0:
        size, way = 0.5 * abs(strength), 1.0 if strength > 0.0 else -1.0
        turns = np.linspace(-0.75, 0.75, 25) * pi
        arc = [(-size * way * sin(turn), size * cos(turn)) for turn in turns]
        canvas.line(arc, "black", 0.06 * size)
        x, y = arc[-1]  # the head points along the circle
        ahead, aside = (-way * y / size, way * x / size), (x / size, y / size)
        head = [(0.3, 0.0), (0.0, 0.15), (0.0, -0.15)]
        canvas.polygon(
            [(x + size * (a * ahead[0] + b * aside[0]), y + size * (a * ahead[1] + b * aside[1])) for a, b in head],
            "black",
        )
    canvas.circle(0.0, 0.0, 0.05, "black")


def build(g: float = 10.0) -> EnvDef:
    high = np.array([1.0, 1.0, MAX_SPEED], np.float32)
    return EnvDef(
        "Pendulum-v1",
        PendulumState,
        PendulumParams,
        reset,
        step,
        observe,
        observation_space=Box(-high, high, dtype=np.float32),
        action_space=Box(-MAX_TORQUE, MAX_TORQUE, (1,), np.float32),
        max_episode_steps=200,
        param_values={"g": number("g", g)},
        options_type=PendulumOptions,
        check_options=check_options,
        render=render,
        render_fps=30,
    )
