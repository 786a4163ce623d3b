"""Racetrack: drive from the starting line round the bend and over the finishing line, and stay on the track.

Source: exercise 5.12 of R. Sutton and A. Barto, "Reinforcement Learning: An Introduction", 2nd edition
(http://incompleteideas.net/book/the-book-2nd.html), its two tracks, with the rules of gym-classics2 1.0.1
(https://github.com/brett-daley/gym-classics2).

| observation   | meaning                                                    | unit           | range                  |
|---------------|------------------------------------------------------------|----------------|------------------------|
| x, y          | the cell, (0, 0) at the lower left                         | -              | 0 to width, height - 1 |
| vx, vy        | the speed to the right and up                              | cells per step | 0 to 4                 |
| one number    | 25 * (height * x + y) + 5 * vx + vy (with `tabular=True`)  | -              | 0 to 25 * cells - 1    |

| action | meaning                                                                   |
|--------|---------------------------------------------------------------------------|
| 3a + b | change vx by a - 1 and vy by b - 1, both from -1 to 1; within 0 to 4      |

With probability .1 the speed stays as it is. Then the car drives along the straight line to the cell that its speed
leads to, through as many cells as the larger of the two speeds (a half is rounded up).

Reward: -1 for each step, 0 for crossing the finishing line.
End: terminated at the first cell of the finishing line. Off the track, the car is back at a start cell, uniformly, at
speed 0; that does not end the episode.
Limit: none.
Start: a cell of the starting line, uniformly, at speed 0.
Options: `track`: 1 or 2, or a layout with S for start cells, G for the finishing line, X for what is off the track;
`success_rate`: the probability that the speed changes; `tabular`: see above.

Differs from the source in: both speeds may be 0 anywhere (the book forbids that off the starting line).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete, Space

from vecenv.kernels.envdef import EnvDef, ModelDef
from vecenv.kernels.grid.layout import BLOCK, FREE, GOAL, START, Layout
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import F8, I1, I2, I4, U1, Params, State, Table

TRACK_1 = [
    "XXX.............G",
    "XX..............G",
    "XX..............G",
    "X...............G",
    "................G",
    "................G",
    "..........XXXXXXX",
    ".........XXXXXXXX",
    ".........XXXXXXXX",
    ".........XXXXXXXX",
    ".........XXXXXXXX",
    ".........XXXXXXXX",
    ".........XXXXXXXX",
    ".........XXXXXXXX",
    "X........XXXXXXXX",
    "X........XXXXXXXX",
    "X........XXXXXXXX",
    "X........XXXXXXXX",
    "X........XXXXXXXX",
    "X........XXXXXXXX",
    "X........XXXXXXXX",
    "X........XXXXXXXX",
    "XX.......XXXXXXXX",
    "XX.......XXXXXXXX",
    "XX.......XXXXXXXX",
    "XX.......XXXXXXXX",
    "XX.......XXXXXXXX",
    "XX.......XXXXXXXX",
    "XX.......XXXXXXXX",
    "XXX......XXXXXXXX",
    "XXX......XXXXXXXX",
    "XXXSSSSSSXXXXXXXX",
]
TRACK_2 = [
    "XXXXXXXXXXXXXXXX...............G",
    "XXXXXXXXXXXXX..................G",
    "XXXXXXXXXXXX...................G",
    "XXXXXXXXXXX....................G",
    "XXXXXXXXXXX....................G",
    "XXXXXXXXXXX....................G",
    "XXXXXXXXXXX....................G",
    "XXXXXXXXXXXX...................G",
    "XXXXXXXXXXXXX..................G",
    "XXXXXXXXXXXXXX................XX",
    "XXXXXXXXXXXXXX.............XXXXX",
    "XXXXXXXXXXXXXX............XXXXXX",
    "XXXXXXXXXXXXXX..........XXXXXXXX",
    "XXXXXXXXXXXXXX.........XXXXXXXXX",
    "XXXXXXXXXXXXX..........XXXXXXXXX",
    "XXXXXXXXXXXX...........XXXXXXXXX",
    "XXXXXXXXXXX............XXXXXXXXX",
    "XXXXXXXXXX.............XXXXXXXXX",
    "XXXXXXXXX..............XXXXXXXXX",
    "XXXXXXXX...............XXXXXXXXX",
    "XXXXXXX................XXXXXXXXX",
    "XXXXXX.................XXXXXXXXX",
    "XXXXX..................XXXXXXXXX",
    "XXXX...................XXXXXXXXX",
    "XXX....................XXXXXXXXX",
    "XX.....................XXXXXXXXX",
    "X......................XXXXXXXXX",
    ".......................XXXXXXXXX",
    ".......................XXXXXXXXX",
    "SSSSSSSSSSSSSSSSSSSSSSSXXXXXXXXX",
]
TRACKS = {1: TRACK_1, 2: TRACK_2}
FREE_CELL, OFF_TRACK, FINISH = 0, 1, 2
SPEEDS = 5
CHANGES = {-1: "-", 0: "0", 1: "+"}


class RacetrackState(State):
    x: I2  # from the left [cells]
    y: I2  # from the bottom [cells]
    vx: I1  # to the right [cells per step]
    vy: I1  # up [cells per step]


class RacetrackParams(Params):
    cells: Table[U1, 2]  # [width, height] of FREE_CELL, OFF_TRACK, FINISH
    starts: Table[I4, 1]  # [number of starts] of height * x + y
    success_rate: F8 = 0.9


@jit
def restart(state, k, params):
    """Put the car onto start k."""
    height = params.cells.shape[1]
    state.x, state.y = params.starts[k] // height, params.starts[k] % height
    state.vx, state.vy = 0, 0


@jit
def start(state, k, params):
    restart(state, k, params)
    return 1.0 / len(params.starts)


@jit
def reset(state, params, rng):
    restart(state, rng.integers(0, len(params.starts)), params)


@jit
def drive(state, action, speeds_up, params):
    """Change the speed and drive. Returns (whether the car left the track, whether it crossed the finishing line)."""
    width, height = params.cells.shape
    if speeds_up:
        state.vx = min(max(state.vx + action // 3 - 1, 0), SPEEDS - 1)
        state.vy = min(max(state.vy + action % 3 - 1, 0), SPEEDS - 1)
    x, y, vx, vy = state.x, state.y, state.vx, state.vy
    n = max(vx, vy)
    for k in range(1, n + 1):
        state.x, state.y = x + (2 * vx * k + n) // (2 * n), y + (2 * vy * k + n) // (2 * n)
        if state.x >= width or state.y >= height:
            return True, False
        cell = params.cells[state.x, state.y]
        if cell != FREE_CELL:
            return cell == OFF_TRACK, cell == FINISH
    return False, False


@jit
def step(state, action, params, rng):
    """Drive. Returns (reward, terminated)."""
    is_off, finished = drive(state, action, rng.random() < params.success_rate, params)
    if is_off:
        restart(state, rng.integers(0, len(params.starts)), params)
    return 0.0 if finished else -1.0, finished


@jit
def outcomes(state, action, k, params):
    """The speed changes or not, and start k would be the next one. Returns (probability, reward, terminated)."""
    n = len(params.starts)
    speeds_up = k < n
    is_off, finished = drive(state, action, speeds_up, params)
    if is_off:
        restart(state, k % n, params)
    chance = params.success_rate if speeds_up else 1.0 - params.success_rate
    return chance / n, 0.0 if finished else -1.0, finished


@jit
def observe(state, params, obs):
    obs[0] = state.x
    obs[1] = state.y
    obs[2] = state.vx
    obs[3] = state.vy


@jit
def observe_id(state, params, obs):
    obs[0] = encode(state, params)


@jit
def encode(state, params):
    cell = params.cells.shape[1] * state.x + state.y
    return SPEEDS * SPEEDS * cell + SPEEDS * state.vx + state.vy


@jit
def decode(state, key, params):
    height = params.cells.shape[1]
    cell = key // (SPEEDS * SPEEDS)
    state.x, state.y = cell // height, cell % height
    state.vx, state.vy = key // SPEEDS % SPEEDS, key % SPEEDS


def render(state, params, canvas):
    """The track is white, starts are red, the finishing line is green; the car is the blue disc with its speed."""
    width, height = params.cells.shape
    canvas.grid(height, width)
    colors = {OFF_TRACK: (120, 120, 120), FINISH: (150, 215, 150)}
    for x in range(width):
        for y in range(height):
            if (color := colors.get(int(params.cells[x, y]))) is not None:
                canvas.cell(height - 1 - y, x, color)
    for k in range(len(params.starts)):
        x, y = divmod(int(params.starts[k]), height)
        canvas.cell(height - 1 - y, x, (230, 190, 190))
    canvas.lines((200, 200, 200))
    x, y = state.x + 0.5, height - 0.5 - state.y
    canvas.line([(x, y), (x + state.vx, y - state.vy)], (45, 105, 190), 0.15)
    canvas.circle(x, y, 0.4, (45, 105, 190))


def text(state, params):
    """The track, with A for the car, S for starts, G for the finishing line, X for what is off the track."""
    width, height = params.cells.shape
    letters = {FREE_CELL: ".", OFF_TRACK: "X", FINISH: "G"}
    board = [[letters[int(params.cells[x, y])] for x in range(width)] for y in reversed(range(height))]
    for k in range(len(params.starts)):
        x, y = divmod(int(params.starts[k]), height)
        board[height - 1 - y][x] = "S"
    board[height - 1 - int(state.y)][int(state.x)] = "A"
    return "".join("".join(row) + "\n" for row in board)


def _definition(id: str, track: Any, success_rate: Any, tabular: bool) -> EnvDef:
    if isinstance(track, (int, np.integer)) and track not in TRACKS:
        raise ValueError(f"track: expected 1, 2 or a layout, got {track!r}")
    layout = Layout(TRACKS[int(track)] if isinstance(track, (int, np.integer)) else track)
    if not 0.0 <= success_rate <= 1.0:
        raise ValueError(f"success_rate: expected a probability from 0 to 1, got {success_rate!r}")
    for x, y in np.argwhere(~np.isin(layout.letters, [START, GOAL, BLOCK, FREE])):
        layout.refuse_cell(f"a track has no labels, got {str(layout.letters[x, y])!r}", int(x), int(y))
    starts = np.array([layout.height * x + y for x, y in layout.cells(START)])
    cells = np.select([layout.letters == BLOCK, layout.letters == GOAL], [OFF_TRACK, FINISH], FREE_CELL)
    sizes = [layout.width, layout.height, SPEEDS, SPEEDS]
    space: Space[Any] = Discrete(int(np.prod(sizes))) if tabular else MultiDiscrete(sizes)
    return EnvDef(
        id,
        RacetrackState,
        RacetrackParams,
        reset,
        step,
        observe_id if tabular else observe,
        observation_space=space,
        action_space=Discrete(9),
        param_values={"cells": cells, "starts": starts, "success_rate": success_rate},
        render=render,
        text=text,
        render_fps=4,
        model=ModelDef(
            int(np.prod(sizes)),
            encode,
            decode,
            outcomes=outcomes,
            num_outcomes=2 * len(starts),
            start=start,
            num_starts=len(starts),
            action_labels=[f"{CHANGES[a]}{CHANGES[b]}" for a in (-1, 0, 1) for b in (-1, 0, 1)],
        ),
    )


def build_1(track: int | str | Sequence[str] = 1, success_rate: float = 0.9, tabular: bool = False) -> EnvDef:
    """Racetrack: drive round a right bend and over the finishing line, and stay on the track."""
    return _definition("Racetrack1-v0", track, success_rate, tabular)


def build_2(track: int | str | Sequence[str] = 2, success_rate: float = 0.9, tabular: bool = False) -> EnvDef:
    """Racetrack with the wider of the book's two tracks."""
    return _definition("Racetrack2-v0", track, success_rate, tabular)
