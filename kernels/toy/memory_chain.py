"""MemoryChain: see some bits, wait, and repeat the one that is asked for.

Source: MemoryChain of bsuite 0.3.5, I. Osband et al., "Behaviour Suite for Reinforcement Learning", ICLR 2020
(https://github.com/google-deepmind/bsuite), by its rules.

| observation       | meaning                                                              | unit | range           |
|-------------------|----------------------------------------------------------------------|------|-----------------|
| 0                 | the time left: 1 - t / length                                        | -    | 0 to 1          |
| 1                 | the number of the bit that is asked for, at t = length - 1; else 0   | -    | 0 to num_bits-1 |
| 2 to num_bits + 1 | the bits as -1 and 1, at t = 0; else 0                               | -    | -1 to 1         |

| action | meaning         |
|--------|-----------------|
| 0      | the bit was -1  |
| 1      | the bit was 1   |

The observations after a reset and after the first step are that of t = 0, and then t grows by one per step: as in the
source, whose agent acts last on the observation in which the question is.

Reward: in the last step 1 for the right answer, else -1; 0 before, whatever the action.
End: terminated by step `length` + 1.
Limit: none.
Start: every bit and the question drawn uniformly.
Options: `length`: 10; `num_bits`: 1, at most 60. There is an exact model up to 10 bits.

A snapshot replays bit for bit, later bits included: every draw comes from the row's own random stream.

Differs from the source in: observations have one dimension, in place of two of which the first has size 1.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.envdef import EnvDef, ModelDef, integer
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import I1, I4, I8, Params, State


class MemoryChainState(State):
    time: I4  # steps so far
    query: I1  # number of the bit that is asked for
    bits: I8  # bit k of this number


class MemoryChainParams(Params):
    length: I4
    num_bits: I1


@jit
def start(state, k, params):
    """Query k % num_bits of the bits k // num_bits. Returns the probability of that."""
    state.time, state.query, state.bits = 0, k % params.num_bits, k // params.num_bits
    return 1.0 / (params.num_bits << params.num_bits)


@jit
def reset(state, params, rng):
    state.time = 0
    bits = 0
    for k in range(params.num_bits):
        bits |= rng.integers(0, 2) << k
    state.bits = bits
    state.query = rng.integers(0, params.num_bits)


@jit
def step(state, action, params, rng):
    """Wait, or answer. Returns (reward, terminated)."""
    state.time += 1
    ends = state.time > params.length
    reward = 1.0 if action == (state.bits >> state.query) & 1 else -1.0
    return reward if ends else 0.0, ends


@jit
def observe(state, params, obs):
    shown = max(state.time - 1, 0)
    obs[0] = 1.0 - shown / params.length
    obs[1] = float(state.query) if shown == params.length - 1 else 0.0
    for k in range(params.num_bits):
        obs[2 + k] = float(2 * ((state.bits >> k) & 1) - 1) if shown == 0 else 0.0


@jit
def encode(state, params):
    return (state.time << params.num_bits | state.bits) * params.num_bits + state.query


@jit
def decode(state, key, params):
    state.query = key % params.num_bits
    key //= params.num_bits
    state.time, state.bits = key >> params.num_bits, key & ((1 << params.num_bits) - 1)


def build(length: int = 10, num_bits: int = 1) -> EnvDef:
    length, num_bits = integer("length", length, 1, 2**20), integer("num_bits", num_bits, 1, 60)
    low, high = np.zeros(num_bits + 2, np.float32), np.ones(num_bits + 2, np.float32)
    low[2:], high[1] = -1.0, max(num_bits - 1, 1)
    model = None
    if num_bits <= 10:
        starts = num_bits << num_bits
        model = ModelDef((length + 2) * starts, encode, decode, start=start, num_starts=starts)
    return EnvDef(
        "MemoryChain-v0",
        MemoryChainState,
        MemoryChainParams,
        reset,
        step,
        observe,
        observation_space=Box(low, high),
        action_space=Discrete(2),
        param_values={"length": length, "num_bits": num_bits},
        sizes={"num_bits": num_bits},
        model=model,
    )
