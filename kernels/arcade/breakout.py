"""Breakout: bounce a ball off a paddle to break the bricks of a wall, on a board of ten by ten cells.

Source: Breakout of MinAtar 1.0.15 (https://github.com/kenjyoung/MinAtar), by its rules: K. Young and T. Tian, "MinAtar:
An Atari-Inspired Testbed for Thorough and Reproducible Reinforcement Learning Experiments", 2019
(https://arxiv.org/abs/1903.03176). Nothing of its code is used.

| observation, `[10, 10, 4]` | meaning                              | unit | range  |
|----------------------------|--------------------------------------|------|--------|
| row, column, 0             | 1 where the paddle is                | -    | 0 or 1 |
| row, column, 1             | 1 where the ball is                  | -    | 0 or 1 |
| row, column, 2             | 1 where the ball was one step before | -    | 0 or 1 |
| row, column, 3             | 1 where a brick is                   | -    | 0 or 1 |

| action | meaning    |
|--------|------------|
| 0      | stay       |
| 1      | move left  |
| 2      | move right |

First the paddle moves by one cell in the last row, then the ball by one cell along a diagonal. Side walls and ceiling
turn it round. A brick in its way breaks and sends it back to its row, but not if the ball hit a brick in the step
before: then it flies over this one. In the last row the paddle sends it back: mirrored if the ball came from straight
above the paddle, the way it came if it flies onto it. When no brick is left as the ball gets to the last row, there is
a new wall.

Reward: 1 for every brick.
End: terminated when the ball gets to the last row and the paddle is not there.
Limit: none.
Start: the wall of three rows; the ball in its lowest row at the left or right edge with probability 1/2 each, flying
down and inwards; the paddle in column 4.
Options: `sticky_action_prob`: probability that the action is that of the step before (0 in the first step) in place of
the given one, 0.1.

A snapshot replays bit for bit, sticky actions included: every draw comes from the row's own random stream.

Differs from the source in: there are three actions, those of its minimal set; observations are uint8; an episode does
not begin with the last action of the one before.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.envdef import EnvDef, probability
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import B1, F8, I1, I4, Params, State

SIZE = 10
PADDLE, BALL, TRAIL, BRICK = range(4)
FIRST, ROWS = 1, 3  # of the wall
WALL = (1 << SIZE * ROWS) - 1


class BreakoutState(State):
    row: I1  # of the ball, from the top
    col: I1
    down: I1  # the ball's flight: 1 down, -1 up
    right: I1  # 1 right, -1 left
    last_row: I1  # where the ball was one step before
    last_col: I1
    paddle: I1  # its column
    bricks: I4  # bit 10 * (row - 1) + column
    struck: B1  # whether the ball met a brick in the last step
    action: I1  # the last one, for sticky actions


class BreakoutParams(Params):
    sticky_action_prob: F8 = 0.1


@jit
def reset(state, params, rng):
    side = rng.integers(0, 2)
    state.row, state.col = FIRST + ROWS - 1, side * (SIZE - 1)
    state.down, state.right = 1, 1 - 2 * side
    state.last_row, state.last_col = state.row, state.col
    state.paddle = 4
    state.bricks = WALL
    state.struck = False
    state.action = 0


@jit
def brick_bit(row, col):
    """The bit of a cell in `bricks`; 0 outside the wall."""
    inside = (row >= FIRST) & (row < FIRST + ROWS)
    return 1 << (SIZE * (row - FIRST) + col) if inside else 0


@jit
def step(state, action, params, rng):
    """Move the paddle, then the ball. Returns (reward, terminated)."""
    if rng.random() < params.sticky_action_prob:
        action = state.action
    state.action = action
    paddle = min(max(state.paddle + int(action == 2) - int(action == 1), 0), SIZE - 1)
    row, col, down, right = state.row, state.col, state.down, state.right
    from_above = col == paddle
    state.paddle, state.last_row, state.last_col = paddle, row, col
    to_row, to_col = row + down, col + right
    if to_col < 0 or to_col >= SIZE:
        to_col, right = col, -right
    reward, terminated = 0.0, False
    bit = state.bricks & brick_bit(to_row, to_col)
    if to_row < 0:
        to_row, down = 0, 1
    elif bit != 0:
        if not state.struck:
            reward = 1.0
            state.bricks ^= bit
            to_row, down = row, -down
    elif to_row == SIZE - 1:
        if state.bricks == 0:
            state.bricks = WALL
        onto = to_col == paddle
        terminated = not (from_above | onto)
        right = right if from_above | (not onto) else -right
        down = 1 if terminated else -1
        to_row = SIZE - 1 if terminated else row
    state.struck = bit != 0
    state.row, state.col, state.down, state.right = to_row, to_col, down, right
    return reward, terminated


@jit
def observe(state, params, obs):
    obs.fill(0)
    obs[SIZE - 1, state.paddle, PADDLE] = 1
    obs[state.row, state.col, BALL] = 1
    obs[state.last_row, state.last_col, TRAIL] = 1
    bricks = state.bricks
    for row in range(ROWS):
        for col in range(SIZE):
            obs[FIRST + row, col, BRICK] = (bricks >> (SIZE * row + col)) & 1


def render(state, params, canvas):
    """The wall, the ball with its trail, and the paddle."""
    canvas.grid(SIZE, SIZE, cell=40, background=(24, 28, 36))
    colors = ((200, 80, 70), (220, 150, 60), (90, 170, 90))
    for row in range(ROWS):
        for col in range(SIZE):
            if (state.bricks >> (SIZE * row + col)) & 1:
                canvas.rectangle(col + 0.04, FIRST + row + 0.08, col + 0.96, FIRST + row + 0.92, colors[row])
    canvas.rectangle(state.paddle, SIZE - 0.75, state.paddle + 1, SIZE - 0.3, (110, 180, 240))
    canvas.circle(state.last_col + 0.5, state.last_row + 0.5, 0.15, (110, 116, 130))
    canvas.circle(state.col + 0.5, state.row + 0.5, 0.3, "white")


def text(state, params):
    """The board: # bricks, ~ where the ball was, o the ball, = the paddle."""
    board = [["."] * SIZE for _ in range(SIZE)]
    for row in range(ROWS):
        for col in range(SIZE):
            if (state.bricks >> (SIZE * row + col)) & 1:
                board[FIRST + row][col] = "#"
    board[state.last_row][state.last_col] = "~"
    board[SIZE - 1][state.paddle] = "="
    board[state.row][state.col] = "o"
    return "".join("".join(row) + "\n" for row in board)


def build(sticky_action_prob: float = 0.1) -> EnvDef:
    return EnvDef(
        "Breakout-v0",
        BreakoutState,
        BreakoutParams,
        reset,
        step,
        observe,
        observation_space=Box(0, 1, (SIZE, SIZE, 4), np.uint8),
        action_space=Discrete(3),
        param_values={"sticky_action_prob": probability("sticky_action_prob", sticky_action_prob)},
        render=render,
        text=text,
        render_fps=10,
    )
