"""Catch: be under the ball when it gets to the ground.

Source: Catch of bsuite 0.3.5, I. Osband et al., "Behaviour Suite for Reinforcement Learning", ICLR 2020
(https://github.com/google-deepmind/bsuite), by its rules.

| observation, `[rows, columns]` | meaning                        | unit | range  |
|--------------------------------|--------------------------------|------|--------|
| row, column                    | 1 where the ball or paddle is  | -    | 0 or 1 |

| action | meaning    |
|--------|------------|
| 0      | move left  |
| 1      | stay       |
| 2      | move right |

The paddle is in the last row and does not leave the board; the ball falls by one row per step in its column.

Reward: when the ball is in the last row 1 if the paddle is there, else -1; 0 before.
End: terminated when the ball is in the last row, in step `rows` - 1.
Limit: none.
Start: the ball in any column of the first row, uniformly; the paddle in the middle column (columns // 2).
Options: `rows` and `columns` of the board: 10 and 5.

A snapshot replays bit for bit, later balls included: every draw comes from the row's own random stream.

Differs from the source in: nothing.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.envdef import EnvDef, ModelDef, integer
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import I2, Params, State


class CatchState(State):
    row: I2  # of the ball, from the top
    column: I2  # of the ball, from the left
    paddle: I2  # its column


class CatchParams(Params):
    rows: I2
    columns: I2


@jit
def start(state, k, params):
    """The ball in column k. Returns the probability of that."""
    state.row, state.column, state.paddle = 0, k, params.columns // 2
    return 1.0 / params.columns


@jit
def reset(state, params, rng):
    start(state, rng.integers(0, params.columns), params)


@jit
def step(state, action, params, rng):
    """Move the paddle, drop the ball. Returns (reward, terminated)."""
    state.paddle = min(max(state.paddle + action - 1, 0), params.columns - 1)
    state.row += 1
    lands = state.row == params.rows - 1
    reward = 1.0 if state.paddle == state.column else -1.0
    return reward if lands else 0.0, lands


@jit
def observe(state, params, obs):
    obs.fill(0.0)
    obs[state.row, state.column] = 1.0
    obs[params.rows - 1, state.paddle] = 1.0


@jit
def encode(state, params):
    return (state.row * params.columns + state.column) * params.columns + state.paddle


@jit
def decode(state, key, params):
    state.paddle = key % params.columns
    state.column = key // params.columns % params.columns
    state.row = key // params.columns // params.columns


def render(state, params, canvas):
    """The ball is the red disc, the paddle the blue bar."""
    canvas.grid(params.rows, params.columns)
    canvas.lines((225, 225, 225))
    bottom = params.rows
    canvas.rectangle(state.paddle, bottom - 0.3, state.paddle + 1, bottom - 0.05, (45, 105, 190))
    canvas.circle(state.column + 0.5, state.row + 0.5, 0.3, (215, 55, 50))


def text(state, params):
    """The board: o the ball, = the paddle, @ both."""
    board = [["."] * int(params.columns) for _ in range(params.rows)]
    board[params.rows - 1][state.paddle] = "="
    board[state.row][state.column] = "@" if board[state.row][state.column] == "=" else "o"
    return "".join("".join(row) + "\n" for row in board)


def build(rows: int = 10, columns: int = 5) -> EnvDef:
    rows, columns = integer("rows", rows, 2, 1000), integer("columns", columns, 1, 1000)
    return EnvDef(
        "Catch-v0",
        CatchState,
        CatchParams,
        reset,
        step,
        observe,
        observation_space=Box(0.0, 1.0, (rows, columns), np.float32),
        action_space=Discrete(3),
        param_values={"rows": rows, "columns": columns},
        sizes={"rows": rows, "columns": columns},
        render=render,
        text=text,
        render_fps=4,
        model=ModelDef(
            rows * columns * columns,
            encode,
            decode,
            start=start,
            num_starts=columns,
            action_labels=("left", "stay", "right"),
        ),
    )
