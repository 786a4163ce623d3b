"""DeepSea: dive to the right on every single step, at a small cost, for the treasure in the far corner.

Source: DeepSea of bsuite 0.3.5, I. Osband et al., "Behaviour Suite for Reinforcement Learning", ICLR 2020
(https://github.com/google-deepmind/bsuite), by its rules; I. Osband et al., "Deep Exploration via Randomized Value
Functions", JMLR 20 (2019).

| observation, `[size, size]` | meaning                                            | unit | range  |
|-----------------------------|----------------------------------------------------|------|--------|
| row, column                 | 1 where the diver is; all 0 at the bottom of the sea | -    | 0 or 1 |

| action | meaning                                                                                      |
|--------|----------------------------------------------------------------------------------------------|
| 0      | left in one half of the cells, right in the other                                            |
| 1      | the other way                                                                                |

Every step dives by one row, and moves by one column, at the edge by none.

Reward: -0.01 / size for going right, and 1 for going right in the last column, which can be reached in the last row
only.
End: terminated after `size` steps.
Limit: none.
Start: the upper left cell.
Options: `size`: rows and columns, 10; `randomize_actions`: False makes 1 go right everywhere; `mapping_seed`: what the
cells in which 0 goes right are drawn from, 0; `stochastic`: True makes a move to the right fail with probability
1 / size, and adds a standard normal number to the reward of the last step in the first or last column; there is no
exact model of that.

A snapshot replays bit for bit: every draw comes from the row's own random stream.

Differs from the source in: the mapping is drawn by another generator, and always from a seed.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.envdef import EnvDef, ModelDef, flag, integer
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import F8, I2, U1, Params, State, Table


class DeepSeaState(State):
    row: I2  # from the top; `size` at the bottom
    col: I2  # from the left


class DeepSeaParams(Params):
    size: I2  # rows and columns
    right: Table[U1, 2]  # [rows, columns]: the action that goes right
    move_cost: F8 = 0.01  # [1 / size]
    treasure: F8 = 1.0


@jit
def reset(state, params, rng):
    state.row, state.col = 0, 0


@jit
def dive(state, goes_right, moves, params):
    """Dive, pay, and move if `moves`. Returns (reward, terminated)."""
    last = params.size - 1
    found = params.treasure if goes_right & (state.col == last) else 0.0
    change = (1 if goes_right else -1) if moves else 0
    state.row += 1
    state.col = min(max(state.col + change, 0), last)
    return found - (params.move_cost / params.size if goes_right else 0.0), state.row == params.size


@jit
def step(state, action, params, rng):
    """Dive. Returns (reward, terminated)."""
    return dive(state, action == params.right[state.row, state.col], True, params)


@jit
def step_stochastic(state, action, params, rng):
    """Dive through currents. Returns (reward, terminated)."""
    goes_right = action == params.right[state.row, state.col]
    noise = 0.0
    if (state.row == params.size - 1) & ((state.col == 0) | (state.col == params.size - 1)):
        noise = rng.standard_normal()
    moves = True
    if goes_right:
        moves = rng.random() > 1.0 / params.size
    reward, terminated = dive(state, goes_right, moves, params)
    return reward + noise, terminated


@jit
def observe(state, params, obs):
    obs.fill(0.0)
    if state.row < params.size:
        obs[state.row, state.col] = 1.0


@jit
def encode(state, params):
    return params.size * state.row + state.col


@jit
def decode(state, key, params):
    state.row, state.col = key // params.size, key % params.size


def render(state, params, canvas):
    """The sea, with the treasure in its corner; the diver is the red disc."""
    size = int(params.size)
    canvas.grid(size, size, background=(170, 205, 235))
    canvas.cell(size - 1, size - 1, (235, 205, 90))
    canvas.lines((150, 185, 220))
    canvas.circle(state.col + 0.5, min(state.row + 0.5, size - 0.15), 0.3, (200, 60, 55))


def text(state, params):
    """The sea, with A for the diver and T for the treasure."""
    size = int(params.size)
    letters = {(size - 1, size - 1): "T", (int(state.row), int(state.col)): "A"}
    return "".join("".join(letters.get((row, col), "~") for col in range(size)) + "\n" for row in range(size))


def build(size: int = 10, randomize_actions: bool = True, mapping_seed: int = 0, stochastic: bool = False) -> EnvDef:
    size = integer("size", size, 2, 1000)
    seed = integer("mapping_seed", mapping_seed, 0, 2**63)
    right = np.ones((size, size), np.uint8)
    if flag("randomize_actions", randomize_actions):
        right = np.random.default_rng(seed).integers(0, 2, (size, size), np.uint8)
    model = ModelDef(size * (size + 1), encode, decode, cells=(size + 1, size))
    return EnvDef(
        "DeepSea-v0",
        DeepSeaState,
        DeepSeaParams,
        reset,
        step_stochastic if flag("stochastic", stochastic) else step,
        observe,
        observation_space=Box(0.0, 1.0, (size, size), np.float32),
        action_space=Discrete(2),
        param_values={"size": size, "right": right},
        sizes={"size": size},
        render=render,
        text=text,
        render_fps=4,
        model=None if stochastic else model,
    )
