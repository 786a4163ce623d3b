"""CliffWalking: walk along the edge of a cliff from one end to the other without stepping over it.

Source: Sutton and Barto, "Reinforcement Learning: An Introduction", example 6.6, as in Gymnasium 1.4's CliffWalking-v1
and CliffWalkingSlippery-v1 (https://gymnasium.farama.org/environments/toy_text/cliff_walking/).

| observation | meaning                                        | unit | range   |
|-------------|------------------------------------------------|------|---------|
| a number    | the cell, row * 12 + column, from the top left | -    | 0 to 47 |

| action | meaning    |
|--------|------------|
| 0      | move up    |
| 1      | move right |
| 2      | move down  |
| 3      | move left  |

The map has 4 rows and 12 columns; the start is the bottom left cell, the goal the bottom right one, and the cliff lies
between them. A move off the map stays where it is. On slippery ground a move goes where it should or to either side of
that direction, each with probability 1/3.

Reward: -100 for a step over the cliff, which leads back to the start, else -1.
End: terminated at the goal.
Limit: none.
Info: `prob`, the probability of the outcome that was drawn; 1 after a reset.
Options: `is_slippery`: see above; False for CliffWalking-v1, True for CliffWalkingSlippery-v1.

Differs from the source in: `prob` is always a float.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Discrete

from vecenv.kernels.envdef import EnvDef, ModelDef, flag
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import F8, I1, I4, Info, Params, State, Table

ROWS, COLUMNS = 4, 12
START, GOAL = 36, 47
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # of each action: rows, columns


class CliffWalkingState(State):
    cell: I4  # row * 12 + column


class CliffWalkingParams(Params):
    moves: Table[I4, 2]  # [cells, directions]: the cell that a move ends in
    rewards: Table[I1, 2]  # [cells, directions]
    straight: F8 = 1.0  # probability of moving as intended
    aside: F8 = 0.0  # and to each side


class CliffWalkingInfo(Info):
    prob: F8


@jit
def start(state, k, params):
    state.cell = START
    return 1.0


@jit
def reset(state, params, rng):
    rng.random()  # Gymnasium draws the one start
    state.cell = START


@jit
def events(state, action, params):
    """Probabilities of walking to the left of the action's direction, along it, and to its right."""
    return params.aside, params.straight, params.aside


@jit
def walk(state, action, event, params):
    """Walk by one cell. Returns (reward, terminated)."""
    direction = (action + event - 1) & 3
    reward = params.rewards[state.cell, direction]
    state.cell = params.moves[state.cell, direction]
    return float(reward), state.cell == GOAL


@jit
def encode(state, params):
    return state.cell


@jit
def decode(state, key, params):
    state.cell = key


@jit
def observe(state, params, obs):
    obs[0] = state.cell


@jit
def info(state, params, out):
    # All outcomes of a step are equally probable.
    out.prob = 1.0 if state.elapsed == 0 else params.straight


def is_cliff(cell):
    return START < cell < GOAL


def render(state, params, canvas):
    """Grass, the cliff, the start and the goal by their letters, the goal with a flag; the agent is the red disc."""
    canvas.grid(ROWS, COLUMNS, longest=768)
    for cell in range(ROWS * COLUMNS):
        canvas.cell(*divmod(cell, COLUMNS), (80, 68, 58) if is_cliff(cell) else (176, 208, 130))
    canvas.lines((150, 184, 108))
    for cell, letter in ((START, "S"), (GOAL, "G")):
        row, col = divmod(cell, COLUMNS)
        canvas.text(col + 0.17, row + 0.2, letter, (70, 95, 50), size=0.3)
    edge = ROWS - 1
    canvas.rectangle(1, edge, COLUMNS - 1, edge + 0.12, (120, 104, 88))
    canvas.line([(COLUMNS - 0.64, edge + 0.15), (COLUMNS - 0.64, edge + 0.88)], (90, 70, 50), 0.05)
    flag_points = [(-0.62, 0.15), (-0.15, 0.3), (-0.62, 0.45)]
    canvas.polygon([(COLUMNS + x, edge + y) for x, y in flag_points], (40, 110, 200))
    row, col = divmod(state.cell, COLUMNS)
    canvas.circle(col + 0.5, row + 0.5, 0.27, (150, 30, 30))
    canvas.circle(col + 0.5, row + 0.5, 0.24, (225, 65, 55))


def text(state, params):
    """The map as Gymnasium's: x the agent, C the cliff, T the goal, o any other cell."""
    letters = ["T" if cell == GOAL else "C" if is_cliff(cell) else "o" for cell in range(ROWS * COLUMNS)]
    letters[state.cell] = "x"
    rows = ["  ".join(letters[row * COLUMNS : (row + 1) * COLUMNS]) for row in range(ROWS)]
    return "\n".join(rows) + "\n\n"


def tables() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`moves` and `rewards`, `[cells, directions]`."""
    moves = np.empty((ROWS * COLUMNS, 4), np.int64)
    for cell in range(ROWS * COLUMNS):
        row, col = divmod(cell, COLUMNS)
        for direction, (down, right) in enumerate(MOVES):
            to_row, to_col = min(max(row + down, 0), ROWS - 1), min(max(col + right, 0), COLUMNS - 1)
            moves[cell, direction] = to_row * COLUMNS + to_col
    falls = (moves > START) & (moves < GOAL)
    return np.where(falls, START, moves), np.where(falls, -100, -1)


def _definition(id: str, is_slippery: bool) -> EnvDef:
    moves, rewards = tables()
    straight, aside = (1 / 3, 1 / 3) if flag("is_slippery", is_slippery) else (1.0, 0.0)
    return EnvDef(
        id,
        CliffWalkingState,
        CliffWalkingParams,
        reset,
        None,
        observe,
        observation_space=Discrete(ROWS * COLUMNS),
        action_space=Discrete(4),
        param_values={"moves": moves, "rewards": rewards, "straight": straight, "aside": aside},
        info_type=CliffWalkingInfo,
        info=info,
        render=render,
        text=text,
        render_fps=4,
        model=ModelDef(
            ROWS * COLUMNS,
            encode,
            decode,
            events=events,
            apply=walk,
            start=start,
            num_starts=1,
            action_labels=("up", "right", "down", "left"),
            cells=(ROWS, COLUMNS),
        ),
    )


def build(is_slippery: bool = False) -> EnvDef:
    return _definition("CliffWalking-v1", is_slippery)


def build_slippery(is_slippery: bool = True) -> EnvDef:
    return _definition("CliffWalkingSlippery-v1", is_slippery)
