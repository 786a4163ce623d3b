"""A small sound definition, and the same with one planted fault, for tests of `check_def`.

The fault is a param, so that all of them share one compiled kernel.
"""

from enum import IntEnum

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from vecenv import F8, I4, I8, U1, Array, EnvDef, Info, Params, State, jit
from vecenv.kernels.math import log


class Fault(IntEnum):
    NONE = 0
    OBS_NEVER_WRITTEN = 1
    OBS_UNWRITTEN_IN_ONE_STATE = 2
    OBS_ADDED_TO = 3
    OBSERVE_COUNTS = 4
    OBS_TOO_LARGE = 5
    OBS_NAN = 6
    LAST_OBS_TOO_LARGE = 7
    INDEX = 8
    STATE_NAN = 9
    REWARD_INFINITE = 10
    NO_END = 11
    EMPTY_RANGE = 12
    INDEX_IN_RESET = 13


class WalkState(State):
    x: I8
    noise: F8
    hidden: F8
    seen: Array[U1, 8]


class WalkParams(Params):
    fault: I4 = 0


@jit
def reset(state, params, rng):
    state.noise = rng.random()
    start = 8 if params.fault == Fault.INDEX_IN_RESET else 0
    state.seen[start] = 1


@jit
def step(state, action, params, rng):
    fault = params.fault
    state.x = max(state.x + 2 * action - 1, 0)
    if fault != Fault.INDEX and fault != Fault.LAST_OBS_TOO_LARGE:
        state.x = min(state.x, 7)
    if fault != Fault.LAST_OBS_TOO_LARGE:
        state.seen[state.x] = 1
    state.noise = rng.random()
    if fault == Fault.STATE_NAN:
        state.hidden = log(state.noise - 0.02)
    reward = 0.0
    if fault == Fault.REWARD_INFINITE:
        reward = 1.0 / (6.0 - state.x)
    if fault == Fault.EMPTY_RANGE:
        reward = 0.0 * rng.integers(0)
    goal = 8 if fault == Fault.LAST_OBS_TOO_LARGE or fault == Fault.INDEX else 7
    return reward, state.x == goal and fault != Fault.NO_END


@jit
def observe(state, params, obs):
    fault = params.fault
    obs[0] = state.x
    if fault == Fault.OBS_TOO_LARGE and state.x == 6:
        obs[0] = 8
    if fault == Fault.OBSERVE_COUNTS:
        state.seen[0] = state.seen[0] + 1
    if fault == Fault.OBS_NAN:
        obs[1] = log(state.noise - 0.01)
    elif fault == Fault.OBS_ADDED_TO:
        obs[1] += state.noise
    elif fault != Fault.OBS_NEVER_WRITTEN and (fault != Fault.OBS_UNWRITTEN_IN_ONE_STATE or state.x != 6):
        obs[1] = state.noise


@jit
def observe_dict(state, params, obs):
    obs.x[0] = state.x
    obs.seen[0] = 1
    obs.seen[2] = 0


class WalkInfo(Info):
    x: I8


@jit
def info_and_move(state, params, out):
    out.x = state.x
    state.hidden = 1.0


SPACE = Box(np.array([0, 0], np.float32), np.array([7, 1], np.float32))
DICT = Dict({"x": Discrete(8), "seen": MultiBinary(3)})


def build(fault=Fault.NONE, observation_space=SPACE, step=step, observe=observe, limit=50, **options):
    return EnvDef(
        "Walk-v0",
        WalkState,
        WalkParams,
        reset,
        step,
        observe,
        observation_space=observation_space,
        action_space=Discrete(2),
        max_episode_steps=limit,
        param_values={"fault": int(fault)},
        **options,
    )
