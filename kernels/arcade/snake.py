"""Snake: steer a snake to its food on a torus; it grows with every bite and must not run into itself.

Source: Snake of the Rust crate thrust-rl 0.4.0 (https://crates.io/crates/thrust-rl), by its rules.

| observation ("compact") | meaning                                                        | unit   | range   |
|-------------------------|----------------------------------------------------------------|--------|---------|
| 0                       | column of the food - that of the head, not around the edge     | widths | -1 to 1 |
| 1                       | row of the food - that of the head                             | heights| -1 to 1 |
| 2 to 5                  | 1 for the direction of the last move: up, down, left, right    | -      | 0 or 1  |

| observation ("grid"), `[5, height, width]` | meaning                             | unit | range  |
|--------------------------------------------|-------------------------------------|------|--------|
| 0                                          | the own body, the head included     | -    | 0 or 1 |
| 1                                          | the own head                        | -    | 0 or 1 |
| 2                                          | the other snakes                    | -    | 0 or 1 |
| 3                                          | the food                            | -    | 0 or 1 |
| 4                                          | the edge of the board               | -    | 0 or 1 |

| action    | meaning              |
|-----------|----------------------|
| 0         | up (row - 1)         |
| 1         | down (row + 1)       |
| 2         | left (column - 1)    |
| 3, others | right (column + 1)   |

An action against the direction of the last move goes on in that direction. The edges are connected. All living snakes
move; then each in turn dies if its head is in its own body or in one of another living snake, and else eats if it is on
the food: it grows on its next move, and the food comes back in a free cell, uniformly.

Reward: -0.5 for dying; else the sum of 0.01; 1 for food; 0.1 for every cell of the body beyond three; and
2 * (by how many cells the food came nearer) / max(width, height), by Euclid's distance around the edges, to the new
food if it ate. With several snakes -0.1 for dying, and 1 for every cell beyond three.
End: terminated when the snake dies, and for all when no cell is left for food.
Limit: 400 steps.
Start: snakes of length 1 in the four quarters of the board; the food in any cell, uniformly.
Options: `width` and `height`: columns and rows, 10 each; `num_snakes`: 1 to 4, each an agent if more than one;
`observation`: "compact" or "grid".

A snapshot replays bit for bit, new food included: every draw comes from the row's own random stream.

Differs from the source in: a full board ends the episode; termination wins where the limit falls on the same step; the
grid has three dimensions; float64 in place of float32.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.envdef import EnvDef, integer
from vecenv.kernels.jit import jit
from vecenv.kernels.math import sqrt
from vecenv.kernels.soa import B1, F8, I1, I2, I4, U1, U2, Array, Params, State

UP, DOWN, LEFT, RIGHT = range(4)
COLORS = ((45, 105, 190), (200, 110, 40), (130, 70, 170), (70, 140, 140))


class SnakeState(State):
    bodies: Array[U2, "snakes", "cells"]  # noqa: UP037, F821 # rings of cells, row * width + column
    heads: Array[U2, "snakes"]  # noqa: UP037, F821 # place of the head in its ring
    sizes: Array[U2, "snakes"]  # noqa: UP037, F821 # cells of the body
    lengths: Array[U2, "snakes"]  # noqa: UP037, F821 # what the body grows to
    columns: Array[I2, "snakes"]  # noqa: UP037, F821 # of the head
    rows: Array[I2, "snakes"]  # noqa: UP037, F821
    directions: Array[I1, "snakes"]  # noqa: UP037, F821 # of the last move
    distances: Array[F8, "snakes"]  # noqa: UP037, F821 # from head to food before the step [cells]
    bitten: Array[B1, "snakes"]  # noqa: UP037, F821 # the head is in the own body
    living: Array[B1, "snakes"]  # noqa: UP037, F821
    board: Array[U1, "cells"]  # noqa: UP037, F821 # bit k: snake k is there
    covered: I4  # cells with a snake
    food_column: I2
    food_row: I2


class SnakeParams(Params):
    width: I4
    height: I4
    death_reward: F8 = -0.5
    food_reward: F8 = 1.0
    survival_reward: F8 = 0.01
    length_reward: F8 = 0.1  # for every cell of the body beyond three
    nearness_reward: F8 = 2.0  # [max(width, height) per cell]


class SnakesParams(SnakeParams):
    death_reward: F8 = -0.1
    length_reward: F8 = 1.0


@jit
def cover(state, cell, k):
    state.covered += int(state.board[cell] == 0)
    state.board[cell] |= 1 << k


@jit
def uncover(state, cell, k):
    state.board[cell] &= ~(1 << k)
    state.covered -= int(state.board[cell] == 0)


@jit
def put_food(state, cell, params):
    state.food_column, state.food_row = cell % params.width, cell // params.width


@jit
def reset(state, params, rng):
    width, height = params.width, params.height
    for k in range(len(state.heads)):
        column = 3 * width // 4 if k % 2 == 1 else width // 4
        row = 3 * height // 4 if k >= 2 else height // 4
        cell = row * width + column
        state.bodies[k, 0] = cell
        state.columns[k], state.rows[k] = column, row
        state.sizes[k], state.lengths[k] = 1, 1
        state.directions[k] = LEFT if k % 2 == 1 else RIGHT
        state.living[k] = True
        cover(state, cell, k)
    put_food(state, rng.integers(0, width * height), params)


@jit
def distance(state, k, params):
    """From snake k's head to the food, around the edges [cells]."""
    dx, dy = abs(state.columns[k] - state.food_column), abs(state.rows[k] - state.food_row)
    dx, dy = min(dx, params.width - dx), min(dy, params.height - dy)
    return sqrt(float(dx * dx + dy * dy))


@jit
def move(state, k, action, params):
    """Move snake k by one cell: first its tail, then its head."""
    width, height, cells = params.width, params.height, state.bodies.shape[1]
    state.distances[k] = distance(state, k, params)
    wanted = action if (action >= UP) & (action <= LEFT) else RIGHT
    last = state.directions[k]
    direction = last if wanted == last ^ 1 else wanted  # opposite directions differ in the last bit
    state.directions[k] = direction
    column = state.columns[k] + int(direction == RIGHT) - int(direction == LEFT)
    row = state.rows[k] + int(direction == DOWN) - int(direction == UP)
    column = width - 1 if column < 0 else (0 if column == width else column)
    row = height - 1 if row < 0 else (0 if row == height else row)
    state.columns[k], state.rows[k] = column, row
    at, size = state.heads[k], state.sizes[k]
    if size == state.lengths[k]:
        tail = at + 1 - size
        uncover(state, state.bodies[k, tail if tail >= 0 else tail + cells], k)
    else:
        state.sizes[k] = size + 1
    at = at + 1 if at + 1 < cells else 0
    cell = row * width + column
    state.heads[k] = at
    state.bodies[k, at] = cell
    state.bitten[k] = (state.board[cell] >> k) & 1 == 1
    cover(state, cell, k)


@jit
def dies(state, k, cell):
    """Whether snake k's head is in its own body or in that of another living snake."""
    others = state.board[cell] & ~(1 << k)
    dead = state.bitten[k]
    for other in range(len(state.heads)):
        dead = dead | (state.living[other] & ((others >> other) & 1 == 1))
    return dead


@jit
def judge(state, k, params, rng):
    """After all have moved: snake k dies or eats. Returns (reward, whether no cell is left for food)."""
    cell = state.rows[k] * params.width + state.columns[k]
    if dies(state, k, cell):
        state.living[k] = False
        return params.death_reward, False
    reward = params.survival_reward + params.length_reward * max(state.sizes[k] - 3, 0)
    is_full = False
    if (state.columns[k] == state.food_column) & (state.rows[k] == state.food_row):
        reward += params.food_reward
        state.lengths[k] += 1
        is_full = state.covered == len(state.board)
        if not is_full:
            free = rng.integers(0, len(state.board))
            while state.board[free] != 0:
                free = rng.integers(0, len(state.board))
            put_food(state, free, params)
    nearer = state.distances[k] - distance(state, k, params)
    return reward + params.nearness_reward * nearer / max(params.width, params.height), is_full


@jit
def step(state, action, params, rng):
    """Move the only snake. Returns (reward, terminated)."""
    move(state, 0, action, params)
    reward, is_full = judge(state, 0, params, rng)
    return reward, is_full | (not state.living[0])


@jit
def step_all(state, actions, params, rng, rewards, terminated, truncated):
    """Move all living snakes, then judge them in turn."""
    snakes = len(state.heads)
    for k in range(snakes):
        if state.living[k]:
            move(state, k, actions[k], params)
    is_full = False
    for k in range(snakes):
        if state.living[k]:
            reward, no_room = judge(state, k, params, rng)
            rewards[k] = reward
            is_full = is_full | no_room
    for k in range(snakes):
        terminated[k] = is_full | (not state.living[k])


@jit
def observe_compact(state, params, agent, obs):
    obs[0] = (state.food_column - state.columns[agent]) / params.width
    obs[1] = (state.food_row - state.rows[agent]) / params.height
    for direction in range(4):
        obs[2 + direction] = 1.0 if state.directions[agent] == direction else 0.0


@jit
def observe_grid(state, params, agent, obs):
    width, height = params.width, params.height
    for row in range(height):
        for column in range(width):
            bits = state.board[row * width + column]
            edge = (row == 0) | (row == height - 1) | (column == 0) | (column == width - 1)
            obs[0, row, column] = float((bits >> agent) & 1)
            obs[1, row, column] = 0.0
            obs[2, row, column] = 1.0 if bits & ~(1 << agent) != 0 else 0.0
            obs[3, row, column] = 0.0
            obs[4, row, column] = 1.0 if edge else 0.0
    obs[1, state.rows[agent], state.columns[agent]] = 1.0
    obs[3, state.food_row, state.food_column] = 1.0


@jit
def compact(state, params, obs):
    observe_compact(state, params, 0, obs)


@jit
def grid(state, params, obs):
    observe_grid(state, params, 0, obs)


def paint_snakes(state, params, paint):
    """`paint(snake, row, column, is_head)` for every cell of a body, heads last."""
    for is_head in (False, True):
        for k in range(len(state.heads)):
            for back in range(1 if is_head else state.sizes[k]):
                cell = int(state.bodies[k, (state.heads[k] - back) % len(state.board)])
                paint(k, *divmod(cell, int(params.width)), is_head)


def render(state, params, canvas):
    """Snakes in their colours, their heads darker and grey when dead; the food is the red disc."""
    canvas.grid(params.height, params.width)

    def paint(k, row, column, is_head):
        color = COLORS[k] if state.living[k] else (150, 150, 150)
        canvas.cell(row, column, tuple(part * 2 // 3 for part in color) if is_head else color)

    paint_snakes(state, params, paint)
    canvas.lines((225, 225, 225))
    canvas.circle(state.food_column + 0.5, state.food_row + 0.5, 0.3, (215, 55, 50))


def text(state, params):
    """The board: snakes by their letters, heads as capitals, * the food."""
    board = [["."] * int(params.width) for _ in range(params.height)]
    board[state.food_row][state.food_column] = "*"

    def paint(k, row, column, is_head):
        board[row][column] = "ABCD"[k] if is_head else "abcd"[k]

    paint_snakes(state, params, paint)
    return "".join("".join(row) + "\n" for row in board)


def build(width: int = 10, height: int = 10, num_snakes: int = 1, observation: str = "compact") -> EnvDef:
    width, height = integer("width", width, 2, 255), integer("height", height, 2, 255)
    num_snakes = integer("num_snakes", num_snakes, 1, 4)
    if not isinstance(observation, str) or observation not in ("compact", "grid"):
        raise ValueError(f"observation: expected 'compact' or 'grid', got {observation!r}")
    single = num_snakes == 1
    if observation == "compact":
        observe = compact if single else observe_compact
        space = Box(np.array([-1, -1, 0, 0, 0, 0], np.float32), np.ones(6, np.float32))
    else:
        observe = grid if single else observe_grid
        space = Box(0.0, 1.0, (5, height, width), np.float32)
    return EnvDef(
        "Snake-v0",
        SnakeState,
        SnakeParams if single else SnakesParams,
        reset,
        step if single else step_all,
        observe,
        observation_space=space,
        action_space=Discrete(4),
        max_episode_steps=400,
        param_values={"width": width, "height": height},
        sizes={"snakes": num_snakes, "cells": width * height},
        num_agents=num_snakes,
        invalid_action="step",
        render=render,
        text=text,
        render_fps=10,
    )
