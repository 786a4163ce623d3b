"""A Gymnasium class as people write them, its port to vecenv, and ports that went wrong.

The class: a probe falls through gusty air and lands softly if it burns its fuel at the right time.
"""

import math
from enum import IntEnum

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv import F8, I4, EnvDef, Info, Params, State, jit
from vecenv.kernels.math import exp

SPACE = Box(np.array([-np.inf, -np.inf, 0], np.float32), np.array([np.inf, np.inf, 40], np.float32))


# --- the Gymnasium class ----------------------------------------------------------------------------------------------


class ProbeEnv(gymnasium.Env):
    """Observation: height [m], speed [m/s], fuel [units], as float32. Actions: burn 0, 1 or 2 units.

    Reward: -0.1 for each unit burned; on touchdown 10, minus the speed by which it was faster than 3 m/s.
    Ends on the ground, or above 200 m.
    """

    def __init__(self):
        self.observation_space = SPACE
        self.action_space = Discrete(3)
        self.gravity, self.thrust, self.dt = 3.7, 6.0, 0.5

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.height = self.np_random.uniform(80.0, 120.0)
        self.speed = self.np_random.normal(-5.0, 2.0)
        self.fuel = int(self.np_random.integers(25, 41))
        self.leaking = False
        return self._obs(), {"fuel": self.fuel, "leaking": self.leaking}

    def step(self, action):
        burned = min(int(action), self.fuel)
        self.fuel -= burned
        if not self.leaking:
            self.leaking = bool(self.np_random.random() < 0.02)
        if self.leaking and self.fuel > 0:
            self.fuel -= 1

        density = math.exp(-self.height / 80.0)
        gust = self.np_random.normal(0.0, 1.5) * density
        drag = 0.01 * density * self.speed * abs(self.speed)
        acceleration = self.thrust * burned - self.gravity - drag + gust
        self.height += self.dt * self.speed
        self.speed += self.dt * acceleration

        reward = -0.1 * burned
        landed = self.height <= 0.0
        if landed:
            reward += 10.0 - max(abs(self.speed) - 3.0, 0.0)
        lost = self.height > 200.0
        return self._obs(), reward, landed or lost, False, {"fuel": self.fuel, "leaking": self.leaking}

    def _obs(self):
        return np.array([self.height, self.speed, self.fuel], np.float32)


def gym_probe():
    """The class with the limit under which it is used."""
    return gymnasium.wrappers.TimeLimit(ProbeEnv(), 60)


# --- the port ---------------------------------------------------------------------------------------------------------


class ProbeState(State):
    height: F8  # [m]
    speed: F8  # upwards [m/s]
    fuel: I4  # [units]
    leaking: I4  # 1 from the step in which the tank breaks


class ProbeParams(Params):
    gravity: F8 = 3.7  # [m/s^2]
    thrust: F8 = 6.0  # of one unit of fuel [m/s^2]
    dt: F8 = 0.5  # [s]


class ProbeInfo(Info):
    fuel: I4
    leaking: I4


@jit
def reset(state, params, rng):
    state.height = rng.uniform(80.0, 120.0)
    state.speed = rng.normal(-5.0, 2.0)
    state.fuel = rng.integers(25, 41)


@jit
def step(state, action, params, rng):
    burned = min(action, state.fuel)
    state.fuel -= burned
    if state.leaking == 0:
        state.leaking = rng.random() < 0.02
    if state.leaking == 1 and state.fuel > 0:
        state.fuel -= 1

    density = exp(-state.height / 80.0)
    gust = rng.normal(0.0, 1.5) * density
    drag = 0.01 * density * state.speed * abs(state.speed)
    acceleration = params.thrust * burned - params.gravity - drag + gust
    return finish(state, params, burned, acceleration)


@jit
def finish(state, params, burned, acceleration):
    state.height += params.dt * state.speed
    state.speed += params.dt * acceleration
    reward = -0.1 * burned
    landed = state.height <= 0.0
    if landed:
        reward += 10.0 - max(abs(state.speed) - 3.0, 0.0)
    return reward, landed or state.height > 200.0


@jit
def observe(state, params, obs):
    obs[0] = state.height
    obs[1] = state.speed
    obs[2] = state.fuel


@jit
def info(state, params, out):
    out.fuel = state.fuel
    out.leaking = state.leaking


def build():
    return EnvDef(
        "Probe-v0",
        ProbeState,
        ProbeParams,
        reset,
        step,
        observe,
        observation_space=SPACE,
        action_space=Discrete(3),
        max_episode_steps=60,
        info_type=ProbeInfo,
        info=info,
    )


# --- what goes wrong in ports -----------------------------------------------------------------------------------------


class Mistake(IntEnum):
    NONE = 0
    OTHER_ORDER_OF_DRAWS = 1
    CLOSED_RANGE = 2
    ONE_MORE_DRAW = 3
    SPEED_BEFORE_HEIGHT = 4
    LANDS_LATE = 5
    NO_TOLERANCE_IN_REWARD = 6
    OBS_SWAPPED = 7
    INFO_DIFFERS = 8


class WrongParams(ProbeParams):
    mistake: I4 = 0  # a param, so that all wrong ports share one compiled kernel


@jit
def wrong_reset(state, params, rng):
    if params.mistake == Mistake.OTHER_ORDER_OF_DRAWS:
        state.speed = rng.normal(-5.0, 2.0)
        state.height = rng.uniform(80.0, 120.0)
    else:
        state.height = rng.uniform(80.0, 120.0)
        state.speed = rng.normal(-5.0, 2.0)
    state.fuel = rng.integers(25, 42 if params.mistake == Mistake.CLOSED_RANGE else 41)
    if params.mistake == Mistake.ONE_MORE_DRAW:
        rng.random()


@jit
def wrong_finish(state, params, burned, acceleration):
    mistake = params.mistake
    if mistake != Mistake.SPEED_BEFORE_HEIGHT:
        state.height += params.dt * state.speed
    state.speed += params.dt * acceleration
    if mistake == Mistake.SPEED_BEFORE_HEIGHT:
        state.height += params.dt * state.speed
    reward = -0.1 * burned
    landed = state.height <= (-1.0 if mistake == Mistake.LANDS_LATE else 0.0)
    if landed:
        reward += 10.0 - max(abs(state.speed) - (0.0 if mistake == Mistake.NO_TOLERANCE_IN_REWARD else 3.0), 0.0)
    return reward, landed or state.height > 200.0


@jit
def wrong_observe(state, params, obs):
    swapped = params.mistake == Mistake.OBS_SWAPPED
    obs[0] = state.speed if swapped else state.height
    obs[1] = state.height if swapped else state.speed
    obs[2] = state.fuel


@jit
def wrong_info(state, params, out):
    out.fuel = state.fuel
    out.leaking = state.leaking
    if params.mistake == Mistake.INFO_DIFFERS and state.fuel == 0:
        out.leaking = 0


def build_wrong(mistake=Mistake.NONE, limit=60, space=SPACE):
    return EnvDef(
        "Probe-v0",
        ProbeState,
        WrongParams,
        wrong_reset,
        step,
        wrong_observe,
        observation_space=space,
        action_space=Discrete(3),
        max_episode_steps=limit,
        info_type=ProbeInfo,
        info=wrong_info,
        param_values={"mistake": int(mistake)},
        functions={"finish": wrong_finish},
    )
