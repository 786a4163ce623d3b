"""SimpleBandit: say the bit that you see, a hundred times.

Source: SimpleBandit of the Rust crate thrust-rl 0.4.0 (https://crates.io/crates/thrust-rl), by its rules.

| observation | meaning | unit | range  |
|-------------|---------|------|--------|
| 0           | the bit | -    | 0 or 1 |

| action | meaning |
|--------|---------|
| 0      | say 0   |
| 1      | say 1   |

After every step the next bit is drawn, uniformly.

Reward: 1 if the action is the bit, else 0.
End: terminated after 100 steps, which belong to the task.
Limit: none.
Options: none.

A snapshot replays bit for bit, the next bits included: every draw comes from the row's own random stream.

Differs from the source in: the bits are part of a snapshot and can be seeded.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.envdef import EnvDef, ModelDef
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import I4, U1, Params, State

LENGTH = 100


class SimpleBanditState(State):
    bit: U1
    time: I4  # steps so far


@jit
def start(state, k, params):
    """The bit is k. Returns the probability of that."""
    state.bit, state.time = k, 0
    return 0.5


@jit
def reset(state, params, rng):
    start(state, rng.integers(0, 2), params)


@jit
def events(state, action, params):
    """Probabilities of the next bit."""
    return 0.5, 0.5


@jit
def answer(state, action, event, params):
    """Take the answer and show the next bit. Returns (reward, terminated)."""
    reward = 1.0 if action == state.bit else 0.0
    state.bit = event
    state.time += 1
    return reward, state.time >= LENGTH


@jit
def encode(state, params):
    return 2 * state.time + state.bit


@jit
def decode(state, key, params):
    state.time, state.bit = key // 2, key % 2


@jit
def observe(state, params, obs):
    obs[0] = state.bit


def build() -> EnvDef:
    return EnvDef(
        "SimpleBandit-v0",
        SimpleBanditState,
        Params,
        reset,
        None,
        observe,
        observation_space=Box(0.0, 1.0, (1,), np.float32),
        action_space=Discrete(2),
        model=ModelDef(2 * LENGTH + 2, encode, decode, events=events, apply=answer, start=start, num_starts=2),
    )
