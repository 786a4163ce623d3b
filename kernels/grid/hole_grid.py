"""GridWorld: walk over a 4x4 grid from the top left to the bottom right without falling into a hole.

Source: GridWorld of the Rust crate thrust-rl 0.4.0 (https://crates.io/crates/thrust-rl), by its rules.

| observation | meaning                                            | unit | range  |
|-------------|----------------------------------------------------|------|--------|
| k, 0 to 15  | 1 where the walker is, in cell k = 4 * row + column| -    | 0 or 1 |

| action    | meaning            |
|-----------|--------------------|
| 0         | up (row - 1)       |
| 1         | right (column + 1) |
| 2         | down (row + 1)     |
| 3         | left (column - 1)  |
| any other | stay               |

The map is that of FrozenLake: SFFF / FHFH / FFFH / HFFG, from the start S to the goal G, past the holes H. A move off
the grid stays where it is.

Reward: 1 for entering the goal, -1 for a hole, else -0.01; staying costs the same.
End: terminated at the goal or in a hole.
Limit: 100 steps.
Options: none.

A snapshot replays bit for bit: nothing is random.

Differs from the source in: float64 in place of float32; an ended episode is not stepped.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.envdef import EnvDef, ModelDef
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import F8, I1, U1, Params, State, Table

MAP = ("SFFF", "FHFH", "FFFH", "HFFG")
SIZE = 4
FREE, HOLE, GOAL = 0, 1, 2


class HoleGridState(State):
    row: I1  # from the top
    col: I1  # from the left


class HoleGridParams(Params):
    tiles: Table[U1, 2]  # [rows, columns] of FREE, HOLE, GOAL
    goal_reward: F8 = 1.0
    hole_reward: F8 = -1.0
    step_reward: F8 = -0.01


@jit
def reset(state, params, rng):
    state.row = 0
    state.col = 0


@jit
def step(state, action, params, rng):
    """Move by one cell. Returns (reward, terminated)."""
    state.row = min(max(state.row + int(action == 2) - int(action == 0), 0), SIZE - 1)
    state.col = min(max(state.col + int(action == 1) - int(action == 3), 0), SIZE - 1)
    tile = params.tiles[state.row, state.col]
    reward = params.goal_reward if tile == GOAL else params.step_reward
    reward = params.hole_reward if tile == HOLE else reward
    return reward, tile != FREE


@jit
def observe(state, params, obs):
    cell = SIZE * state.row + state.col
    for k in range(len(obs)):
        obs[k] = 1.0 if k == cell else 0.0


@jit
def encode(state, params):
    return SIZE * state.row + state.col


@jit
def decode(state, key, params):
    state.row = key // SIZE
    state.col = key % SIZE


def render(state, params, canvas):
    """Holes are dark, the goal is green, the walker is the blue disc."""
    canvas.grid(SIZE, SIZE)
    canvas.cells(params.tiles, {FREE: "white", HOLE: (70, 76, 90), GOAL: (150, 215, 150)})
    canvas.lines((170, 170, 170))
    canvas.circle(state.col + 0.5, state.row + 0.5, 0.32, (45, 105, 190))


def text(state, params):
    """The map, with A for the walker."""
    board = [list(row) for row in MAP]
    board[state.row][state.col] = "A"
    return "".join("".join(row) + "\n" for row in board)


def build() -> EnvDef:
    tiles = np.array([[{"H": HOLE, "G": GOAL}.get(letter, FREE) for letter in row] for row in MAP])
    return EnvDef(
        "GridWorld-v0",
        HoleGridState,
        HoleGridParams,
        reset,
        step,
        observe,
        observation_space=Box(0.0, 1.0, (SIZE * SIZE,), np.float32),
        action_space=Discrete(4),
        max_episode_steps=100,
        param_values={"tiles": tiles},
        invalid_action="step",
        render=render,
        text=text,
        render_fps=4,
        model=ModelDef(SIZE * SIZE, encode, decode, action_labels=("up", "right", "down", "left"), cells=(SIZE, SIZE)),
    )
