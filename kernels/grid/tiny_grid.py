"""TinyGrid: walk from the top left to the bottom right of a small grid.

Source: TinyGrid of the tutorial in the Rust crate thrust-rl 0.4.0 (https://crates.io/crates/thrust-rl).

| observation      | meaning                                                | unit | range  |
|------------------|--------------------------------------------------------|------|--------|
| k, 0 to size^2-1 | 1 where the walker is, in cell k = size * row + column | -    | 0 or 1 |

| action    | meaning         |
|-----------|-----------------|
| 0         | up (row - 1)    |
| 1         | right (col + 1) |
| 2         | down (row + 1)  |
| 3         | left (col - 1)  |
| any other | stay            |

A move off the grid stays where it is.

Reward: 1 for entering the goal (last row, last column), else -0.01; staying costs the same.
End: terminated at the goal.
Limit: 50 steps; a step that stays counts.
Options: `size`: rows and columns, 3 as in the source.

Differs from the source in: rewards are float64 (float32 there).
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.envdef import EnvDef, ModelDef
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import F8, I4, Params, State


class TinyGridState(State):
    row: I4  # from the top
    col: I4  # from the left


class TinyGridParams(Params):
    size: I4  # rows and columns
    goal_reward: F8 = 1.0
    step_reward: F8 = -0.01


@jit
def reset(state, params, rng):
    state.row = 0
    state.col = 0


@jit
def step(state, action, params, rng):
    """Move by one cell. Returns (reward, terminated)."""
    last = params.size - 1
    state.row = min(max(state.row + (action == 2) - (action == 0), 0), last)
    state.col = min(max(state.col + (action == 1) - (action == 3), 0), last)
    terminated = (state.row == last) & (state.col == last)
    return params.goal_reward if terminated else params.step_reward, terminated


@jit
def observe(state, params, obs):
    cell = params.size * state.row + state.col
    for k in range(len(obs)):
        obs[k] = 1.0 if k == cell else 0.0


@jit
def encode(state, params):
    return params.size * state.row + state.col


@jit
def decode(state, key, params):
    state.row = key // params.size
    state.col = key % params.size


def render(state, params, canvas):
    """The goal is green, the walker is the blue disc."""
    canvas.grid(params.size, params.size)
    canvas.cell(params.size - 1, params.size - 1, (150, 215, 150))
    canvas.lines((170, 170, 170))
    canvas.circle(state.col + 0.5, state.row + 0.5, 0.32, (45, 105, 190))


def text(state, params):
    """The grid, with A for the walker and G for the goal."""
    size = int(params.size)
    letters = {(size - 1, size - 1): "G", (int(state.row), int(state.col)): "A"}
    return "".join("".join(letters.get((row, col), ".") for col in range(size)) + "\n" for row in range(size))


def build(size: int = 3) -> EnvDef:
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        raise TypeError(f"size: expected an int, got {size!r}")
    if size < 2:
        raise ValueError(f"size: expected at least 2, got {size}")
    return EnvDef(
        "TinyGrid-v0",
        TinyGridState,
        TinyGridParams,
        reset,
        step,
        observe,
        observation_space=Box(0.0, 1.0, (size * size,), np.float32),
        action_space=Discrete(4),
        max_episode_steps=50,
        param_values={"size": size},
        sizes={"size": int(size)},
        invalid_action="step",
        render=render,
        text=text,
        render_fps=4,
        model=ModelDef(
            size * size,
            encode,
            decode,
            action_labels=("up", "right", "down", "left"),
            cells=(size, size),
        ),
    )
