"""Acrobot: swing the free end of two hanging links above a line, with a motor at the joint between them.

Source: R. S. Sutton, "Generalization in Reinforcement Learning: Successful Examples Using Sparse Coarse Coding", NIPS 8
(1996), and Sutton and Barto, "Reinforcement Learning: An Introduction", as in Gymnasium 1.4's Acrobot-v1
(https://gymnasium.farama.org/environments/classic_control/acrobot/), which goes back to RLPy.

| observation | meaning                                                     | unit  | range    |
|-------------|-------------------------------------------------------------|-------|----------|
| 0           | cosine of the first link's angle, which is 0 hanging down   | -     | +-1      |
| 1           | sine of it                                                  | -     | +-1      |
| 2           | cosine of the second link's angle, 0 in line with the first | -     | +-1      |
| 3           | sine of it                                                  | -     | +-1      |
| 4           | angular velocity of the first link                          | rad/s | +-12.566 |
| 5           | angular velocity of the second link                         | rad/s | +-28.274 |

| action | meaning            |
|--------|--------------------|
| 0      | a torque of -1 N m |
| 1      | no torque          |
| 2      | a torque of 1 N m  |

Reward: 0 for the step that reaches the goal, else -1.
End: terminated when the free end is more than 1 above the first joint, for links of length 1.
Limit: 500 steps.
Reset options: `low` and `high`, bounds of the uniform start of both angles and velocities (-0.1 and 0.1).
Options: `book_or_nips`: "book", the equations of the book and of the published experiments, or "nips", those of the
paper, which lack a term; `torque_noise_max`: bound of uniform noise on every torque, 0 unless given. Time step, lengths
and masses are params.

Differs from the source in: termination wins where the limit falls on the same step; an angle beyond six turns, which
only other params lead to, is reduced with one rounding instead of turn by turn. The motion is chaotic, so that with
portable arithmetic long episodes go ways of their own: of 1000 swung up by the sign of the first velocity, 998 ended on
the same step as the source's, the other 2 after more than 200 steps; with libm's all did.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.envdef import EnvDef, number
from vecenv.kernels.jit import jit
from vecenv.kernels.math import cos, f32, mod, pi, pow_square, sin
from vecenv.kernels.soa import F8, Options, Params, State

TURNS = 6  # more than one step makes: 9.46 pi was the largest angle from 10 million states at all speeds


class AcrobotState(State):
    theta1: F8  # angle of the first link from hanging down [rad]
    theta2: F8  # angle of the second link from the first [rad]
    theta1_dot: F8  # [rad/s]
    theta2_dot: F8  # [rad/s]


class AcrobotParams(Params):
    dt: F8 = 0.2  # time step [s]
    link_length_1: F8 = 1.0  # [m]
    link_length_2: F8 = 1.0  # [m]; in pictures only, as in the source
    link_mass_1: F8 = 1.0  # [kg]
    link_mass_2: F8 = 1.0  # [kg]
    link_com_pos_1: F8 = 0.5  # from the joint to the centre of mass [m]
    link_com_pos_2: F8 = 0.5  # [m]
    link_moi: F8 = 1.0  # moment of inertia of each link [kg m^2]
    gravity: F8 = 9.8  # [m/s^2]
    max_vel_1: F8 = 4 * np.pi  # [rad/s]
    max_vel_2: F8 = 9 * np.pi  # [rad/s]
    torque_noise_max: F8 = 0.0  # [N m]


class AcrobotOptions(Options):
    low: F8 = -0.1
    high: F8 = 0.1


@jit
def reset(state, params, rng, options):
    state.theta1 = f32(rng.uniform(options.low, options.high))
    state.theta2 = f32(rng.uniform(options.low, options.high))
    state.theta1_dot = f32(rng.uniform(options.low, options.high))
    state.theta2_dot = f32(rng.uniform(options.low, options.high))


@jit
def book(torque, d1, d2, phi1, phi2, inertia, coupling, theta1_dot, sin_theta2):
    """Acceleration of the second link."""
    top = torque + d2 / d1 * phi1 - coupling * pow_square(theta1_dot) * sin_theta2 - phi2
    return top / (inertia - pow_square(d2) / d1)


@jit
def nips(torque, d1, d2, phi1, phi2, inertia, coupling, theta1_dot, sin_theta2):
    """Acceleration of the second link, without the book's centrifugal term."""
    return (torque + d2 / d1 * phi1 - phi2) / (inertia - pow_square(d2) / d1)


@jit
def accelerations(theta1, theta2, theta1_dot, theta2_dot, torque, params):
    """Of both links [rad/s^2]."""
    m1, m2, moi, g = params.link_mass_1, params.link_mass_2, params.link_moi, params.gravity
    l1, lc1, lc2 = params.link_length_1, params.link_com_pos_1, params.link_com_pos_2
    cos_theta2, sin_theta2 = cos(theta2), sin(theta2)
    l1_square, lc1_square, lc2_square = pow_square(l1), pow_square(lc1), pow_square(lc2)
    d1 = m1 * lc1_square + m2 * (l1_square + lc2_square + 2.0 * l1 * lc2 * cos_theta2) + moi + moi
    d2 = m2 * (lc2_square + l1 * lc2 * cos_theta2) + moi
    phi2 = m2 * lc2 * g * cos(theta1 + theta2 - pi / 2.0)
    phi1 = (
        -m2 * l1 * lc2 * pow_square(theta2_dot) * sin_theta2
        - 2.0 * m2 * l1 * lc2 * theta2_dot * theta1_dot * sin_theta2
        + (m1 * lc1 + m2 * l1) * g * cos(theta1 - pi / 2.0)
        + phi2
    )
    inertia = m2 * lc2_square + moi
    theta2_acc = second(torque, d1, d2, phi1, phi2, inertia, m2 * l1 * lc2, theta1_dot, sin_theta2)
    return -(d2 * theta2_acc + phi1) / d1, theta2_acc


@jit
def no_noise(params, rng):
    return 0.0


@jit
def uniform_noise(params, rng):
    return rng.uniform(-params.torque_noise_max, params.torque_noise_max)


@jit
def wrap(x):
    """The angle between -pi and pi, by whole turns, each rounded, as Gymnasium's loop, but with a fixed length."""
    turn = 2.0 * pi
    for _ in range(TURNS):
        x = x - turn if x > pi else x
    for _ in range(TURNS):
        x = x + turn if x < -pi else x
    return mod(x + pi, turn) - pi if abs(x) > pi else x


@jit
def step(state, action, params, rng):
    """One step of `dt` seconds by the classical Runge-Kutta method. Returns (reward, terminated)."""
    torque = float(action - 1) + noise(params, rng)
    dt, half = params.dt, params.dt / 2.0
    p, q, v, w = state.theta1, state.theta2, state.theta1_dot, state.theta2_dot
    v1, w1 = v, w
    a1, b1 = accelerations(p, q, v1, w1, torque, params)
    v2, w2 = v + half * a1, w + half * b1
    a2, b2 = accelerations(p + half * v1, q + half * w1, v2, w2, torque, params)
    v3, w3 = v + half * a2, w + half * b2
    a3, b3 = accelerations(p + half * v2, q + half * w2, v3, w3, torque, params)
    v4, w4 = v + dt * a3, w + dt * b3
    a4, b4 = accelerations(p + dt * v3, q + dt * w3, v4, w4, torque, params)
    sixth = dt / 6.0
    theta1 = wrap(p + sixth * (v1 + 2.0 * v2 + 2.0 * v3 + v4))
    theta2 = wrap(q + sixth * (w1 + 2.0 * w2 + 2.0 * w3 + w4))
    theta1_dot = v + sixth * (a1 + 2.0 * a2 + 2.0 * a3 + a4)
    theta2_dot = w + sixth * (b1 + 2.0 * b2 + 2.0 * b3 + b4)
    state.theta1, state.theta2 = theta1, theta2
    state.theta1_dot = min(max(theta1_dot, -params.max_vel_1), params.max_vel_1)
    state.theta2_dot = min(max(theta2_dot, -params.max_vel_2), params.max_vel_2)
    terminated = -cos(theta1) - cos(theta2 + theta1) > 1.0
    return 0.0 if terminated else -1.0, terminated


@jit
def observe(state, params, obs):
    obs[0] = cos(state.theta1)
    obs[1] = sin(state.theta1)
    obs[2] = cos(state.theta2)
    obs[3] = sin(state.theta2)
    obs[4] = state.theta1_dot
    obs[5] = state.theta2_dot


def check_options(options):
    if not options["low"] <= options["high"]:
        raise ValueError(f"reset options: expected low <= high, got {options['low']} and {options['high']}")


def render(state, params, canvas):
    """As Gymnasium: two cyan links, their joints yellow, and the line that the free end has to pass."""
    edge = params.link_length_1 + params.link_length_2 + 0.2
    canvas.world(-edge, edge, -edge, edge, width=500)
    canvas.line([(-edge, 1.0), (edge, 1.0)], "black", 2 * edge / 500)
    x, y = 0.0, 0.0
    links = ((state.theta1, params.link_length_1), (state.theta1 + state.theta2, params.link_length_2))
    for angle, length in links:
        right, up = sin(angle), -cos(angle)
        to_x, to_y = x + length * right, y + length * up
        across, along = 0.1 * up, -0.1 * right
        corners = [(x + across, y + along), (to_x + across, to_y + along)]
        corners += [(to_x - across, to_y - along), (x - across, y - along)]
        canvas.polygon(corners, (0, 204, 204))
        canvas.circle(x, y, 0.1, (204, 204, 0))
        x, y = to_x, to_y


EQUATIONS = {"book": book, "nips": nips}
second = book  # chosen by the option `book_or_nips`
noise = no_noise  # chosen by the option `torque_noise_max`: a draw in every step would keep the loop scalar


def build(book_or_nips: str = "book", torque_noise_max: float = 0.0) -> EnvDef:
    if book_or_nips not in EQUATIONS:
        raise ValueError(f"book_or_nips is one of {', '.join(EQUATIONS)}, got {book_or_nips!r}")
    bound = number("torque_noise_max", torque_noise_max)
    if bound < 0.0:
        raise ValueError(f"torque_noise_max: expected a number >= 0, got {torque_noise_max!r}")
    high = np.array([1.0, 1.0, 1.0, 1.0, AcrobotParams.max_vel_1, AcrobotParams.max_vel_2], np.float32)
    return EnvDef(
        "Acrobot-v1",
        AcrobotState,
        AcrobotParams,
        reset,
        step,
        observe,
        observation_space=Box(-high, high, dtype=np.float32),
        action_space=Discrete(3),
        max_episode_steps=500,
        param_values={"torque_noise_max": bound},
        options_type=AcrobotOptions,
        check_options=check_options,
        functions={"second": EQUATIONS[book_or_nips], "noise": uniform_noise if bound > 0.0 else no_noise},
        render=render,
        render_fps=15,
    )
