"""CartPole: balance a pole on a cart by pushing the cart left or right.

Source: Barto, Sutton, Anderson, "Neuronlike adaptive elements that can solve difficult learning control problems",
IEEE Trans. SMC 13 (1983), as in Gymnasium 1.4's CartPole-v1
(https://gymnasium.farama.org/environments/classic_control/cart_pole/).

| observation | meaning               | unit  | range            |
|-------------|-----------------------|-------|------------------|
| 0           | cart position         | m     | +-4.8            |
| 1           | cart velocity         | m/s   | any              |
| 2           | pole angle, 0 upright | rad   | +-0.419          |
| 3           | pole angular velocity | rad/s | any              |

| action | meaning             |
|--------|---------------------|
| 0      | push left with 10 N |
| 1      | push right          |

Reward: 1 on every step, the last one included (option `last_step_reward`).
End: terminated when |position| > 2.4 m or |angle| > 12 degrees.
Limit: 500 steps.
Reset options: `low` and `high`, bounds of the uniform start of all four values (-0.05 and 0.05).
Options: `integrator`: "euler" (explicit, Gymnasium) or "semi_implicit" (velocities first, Thrust);
`last_step_reward`: "one", "zero_on_termination" (rl-traits) or "zero" (also on truncation, Thrust);
`sutton_barto_reward`: 0 on every step and -1 on termination, as Gymnasium's option of that name.

Differs from the source in: termination wins where the limit falls on the same step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.jit import jit
from vecenv.kernels.math import cos, sin, square
from vecenv.kernels.soa import F8, Options, Params, State


class CartPoleState(State):
    x: F8  # cart position [m]
    x_dot: F8  # cart velocity [m/s]
    theta: F8  # pole angle from upright [rad]
    theta_dot: F8  # pole angular velocity [rad/s]


class CartPoleParams(Params):
    gravity: F8 = 9.8  # [m/s^2]
    masspole: F8 = 0.1  # [kg]
    total_mass: F8 = 1.1  # cart and pole [kg]
    length: F8 = 0.5  # half the pole's length [m]
    polemass_length: F8 = 0.05  # masspole * length [kg m]
    force_mag: F8 = 10.0  # [N]
    tau: F8 = 0.02  # time step [s]
    x_threshold: F8 = 2.4  # [m]
    theta_threshold: F8 = 12 * 2 * np.pi / 360  # 12 degrees [rad]


class CartPoleOptions(Options):
    low: F8 = -0.05
    high: F8 = 0.05


@jit
def reset(state, params, rng, options):
    state.x = rng.uniform(options.low, options.high)
    state.x_dot = rng.uniform(options.low, options.high)
    state.theta = rng.uniform(options.low, options.high)
    state.theta_dot = rng.uniform(options.low, options.high)


@jit
def euler(state, params, x_acc, theta_acc):
    state.x += params.tau * state.x_dot
    state.x_dot += params.tau * x_acc
    state.theta += params.tau * state.theta_dot
    state.theta_dot += params.tau * theta_acc


@jit
def semi_implicit(state, params, x_acc, theta_acc):
    state.x_dot += params.tau * x_acc
    state.x += params.tau * state.x_dot
    state.theta_dot += params.tau * theta_acc
    state.theta += params.tau * state.theta_dot


@jit
def reward_one(state, terminated):
    return 1.0


@jit
def reward_zero_on_termination(state, terminated):
    return 0.0 if terminated else 1.0


@jit
def reward_zero(state, terminated):
    return 0.0 if terminated | (state.elapsed + 1 == state.limit) else 1.0


@jit
def reward_sutton_barto(state, terminated):
    return -1.0 if terminated else 0.0


@jit
def step(state, action, params, rng):
    """One step of `tau` seconds. Returns (reward, terminated)."""
    force = params.force_mag if action == 1 else -params.force_mag
    cos_theta = cos(state.theta)
    sin_theta = sin(state.theta)
    temp = (force + params.polemass_length * square(state.theta_dot) * sin_theta) / params.total_mass
    theta_acc = (params.gravity * sin_theta - cos_theta * temp) / (
        params.length * (4.0 / 3.0 - params.masspole * square(cos_theta) / params.total_mass)
    )
    x_acc = temp - params.polemass_length * theta_acc * cos_theta / params.total_mass
    integrate(state, params, x_acc, theta_acc)
    terminated = (abs(state.x) > params.x_threshold) | (abs(state.theta) > params.theta_threshold)
    return reward(state, terminated), terminated


@jit
def observe(state, params, obs):
    obs[0] = state.x
    obs[1] = state.x_dot
    obs[2] = state.theta
    obs[3] = state.theta_dot


def check_options(options):
    if not options["low"] <= options["high"]:
        raise ValueError(f"reset options: expected low <= high, got {options['low']} and {options['high']}")


def render(state, params, canvas):
    """As Gymnasium: the picture is as wide as the allowed positions, the cart has 50 x 30 pixels."""
    edge = params.x_threshold
    pixel = 2 * edge / 600
    canvas.world(-edge, edge, -100 * pixel, 300 * pixel, width=600)
    x, axle = state.x, 7.5 * pixel
    canvas.rectangle(x - 25 * pixel, -15 * pixel, x + 25 * pixel, 15 * pixel, "black")
    sin_theta, cos_theta = sin(state.theta), cos(state.theta)
    side, low, high = 5 * pixel, -5 * pixel, 2 * params.length - 5 * pixel
    corners = [(-side, low), (-side, high), (side, high), (side, low)]
    pole = [(x + a * cos_theta + b * sin_theta, axle - a * sin_theta + b * cos_theta) for a, b in corners]
    canvas.polygon(pole, (202, 152, 101))
    canvas.circle(x, axle, 5 * pixel, (129, 132, 203))
    canvas.rectangle(-edge, 0.0, edge, pixel, "black")  # the track


INTEGRATORS = {"euler": euler, "semi_implicit": semi_implicit}
REWARDS = {"one": reward_one, "zero_on_termination": reward_zero_on_termination, "zero": reward_zero}
integrate = euler  # chosen by the option `integrator`
reward = reward_one  # chosen by the options `last_step_reward` and `sutton_barto_reward`


def choose_functions(integrator: str, last_step_reward: str, sutton_barto_reward: bool = False) -> dict[str, Any]:
    """The `integrate` and `reward` that the options stand for; raises TypeError or ValueError."""
    if not isinstance(integrator, str) or integrator not in INTEGRATORS:
        raise ValueError(f"integrator is one of {', '.join(INTEGRATORS)}, got {integrator!r}")
    if not isinstance(last_step_reward, str) or last_step_reward not in REWARDS:
        raise ValueError(f"last_step_reward is one of {', '.join(REWARDS)}, got {last_step_reward!r}")
    if not isinstance(sutton_barto_reward, bool):
        raise TypeError(f"sutton_barto_reward: expected True or False, got {sutton_barto_reward!r}")
    if sutton_barto_reward and last_step_reward != "one":
        raise ValueError(f"sutton_barto_reward leaves nothing to last_step_reward={last_step_reward!r}")
    reward = reward_sutton_barto if sutton_barto_reward else REWARDS[last_step_reward]
    return {"integrate": INTEGRATORS[integrator], "reward": reward}


def build(integrator: str = "euler", last_step_reward: str = "one", sutton_barto_reward: bool = False) -> EnvDef:
    high = np.array([4.8, np.inf, 2 * CartPoleParams.theta_threshold, np.inf], np.float32)
    return EnvDef(
        "CartPole-v1",
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
        functions=choose_functions(integrator, last_step_reward, sutton_barto_reward),
        render=render,
    )
