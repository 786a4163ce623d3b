"""TinyGrid: walk from the top left to the bottom right of a 3x3 grid.

Source: TinyGrid of the tutorial in the Rust crate thrust-rl 0.4.0 (https://crates.io/crates/thrust-rl).

| observation | meaning                                             | unit | range  |
|-------------|-----------------------------------------------------|------|--------|
| k, 0 to 8   | 1 where the walker is, in cell k = 3 * row + column | -    | 0 or 1 |

| action    | meaning         |
|-----------|-----------------|
| 0         | up (row - 1)    |
| 1         | right (col + 1) |
| 2         | down (row + 1)  |
| 3         | left (col - 1)  |
| any other | stay            |

A move off the grid stays where it is.

Reward: 1 for entering the goal (row 2, column 2), else -0.01; staying costs the same.
End: terminated at the goal.
Limit: 50 steps; a step that stays counts.
Options: none.

Differs from the source in: rewards are float64 (float32 there).
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import F8, I4, Params, State

SIZE = 3


class TinyGridState(State):
    row: I4  # from the top
    col: I4  # from the left


class TinyGridParams(Params):
    goal_reward: F8 = 1.0
    step_reward: F8 = -0.01


@jit
def reset(state, params, rng):
    state.row = 0
    state.col = 0


@jit
def step(state, action, params, rng):
    """Move by one cell. Returns (reward, terminated)."""
    state.row = min(max(state.row + (action == 2) - (action == 0), 0), SIZE - 1)
    state.col = min(max(state.col + (action == 1) - (action == 3), 0), SIZE - 1)
    terminated = (state.row == SIZE - 1) & (state.col == SIZE - 1)
    return params.goal_reward if terminated else params.step_reward, terminated


@jit
def observe(state, params, obs):
    cell = SIZE * state.row + state.col
    for k in range(SIZE * SIZE):
        obs[k] = 1.0 if k == cell else 0.0


def render(state, params, canvas):
    """The goal is green, the walker is the blue disc."""
    canvas.grid(SIZE, SIZE)
    canvas.cell(SIZE - 1, SIZE - 1, (150, 215, 150))
    canvas.lines((170, 170, 170))
    canvas.circle(state.col + 0.5, state.row + 0.5, 0.32, (45, 105, 190))


def text(state, params):
    """The grid, with A for the walker and G for the goal."""
    letters = {(SIZE - 1, SIZE - 1): "G", (state.row, state.col): "A"}
    return "".join("".join(letters.get((row, col), ".") for col in range(SIZE)) + "\n" for row in range(SIZE))


def build() -> EnvDef:
    return EnvDef(
        "TinyGrid-v0",
        TinyGridState,
        TinyGridParams,
        reset,
        step,
        observe,
        observation_space=Box(0.0, 1.0, (SIZE * SIZE,), np.float32),
        action_space=Discrete(4),
        max_episode_steps=50,
        invalid_action="step",
        render=render,
        text=text,
        render_fps=4,
    )
