"""FrozenLake: cross a frozen lake from the start to the goal without falling through a hole, on slippery ice.

Source: Gymnasium 1.4's FrozenLake-v1 and FrozenLake8x8-v1
(https://gymnasium.farama.org/environments/toy_text/frozen_lake/).

| observation | meaning                                             | unit | range                   |
|-------------|-----------------------------------------------------|------|-------------------------|
| a number    | the cell, row * columns + column, from the top left | -    | 0 to rows * columns - 1 |

| action | meaning    |
|--------|------------|
| 0      | move left  |
| 1      | move down  |
| 2      | move right |
| 3      | move up    |

On slippery ice a move goes where it should with probability `success_rate`, and otherwise to either side of that
direction with equal probability. A move off the map stays where it is.

Reward: 1 for reaching the goal, 0 for falling into a hole, 0 for any other cell (option `reward_schedule`).
End: terminated in a hole or at the goal.
Limit: 100 steps; 200 steps for FrozenLake8x8-v1.
Start: a start cell, uniformly.
Info: `prob`, the probability of the outcome that was drawn; 1 after a reset.
Options: `desc`: the map, rows of the letters S (start), F (frozen), H (hole) and G (goal), for example
["SFF", "FHG"]; `map_name`: "4x4" or "8x8", used if there is no `desc`; `is_slippery`: False makes every move succeed;
`success_rate`: see above; `reward_schedule`: rewards for the goal, a hole and any other cell.

Differs from the source in: termination wins where the limit falls on the same step; `prob` is always a float; a map
needs a start and a goal, a rate lies between 0 and 1; there is no random map (`map_name=None`): pass `desc`; the
text of render mode "ansi" does not name the last action.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Discrete

from vecenv.kernels.envdef import EnvDef, ModelDef, flag, number, probability
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import F8, I4, U1, Info, Params, State, Table

MAPS = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": (
        "SFFFFFFF",
        "FFFFFFFF",
        "FFFHFFFF",
        "FFFFFHFF",
        "FFFHFFFF",
        "FHHFFFHF",
        "FHFFHFHF",
        "FFFHFFFG",
    ),
}


class Tile(IntEnum):
    FROZEN = 0
    START = 1
    HOLE = 2
    GOAL = 3
    KEPT = 4  # in `landings` only: the move starts in a hole or at the goal, which keep whoever is there


LETTERS = {"F": Tile.FROZEN, "S": Tile.START, "H": Tile.HOLE, "G": Tile.GOAL}
ICE, WATER = (225, 238, 250), (150, 190, 225)


class FrozenLakeState(State):
    cell: I4  # row * columns + column
    prob: F8  # probability of the outcome of the last step


class FrozenLakeParams(Params):
    tiles: Table[U1, 2]  # [rows, columns] of Tile: the map
    starts: Table[I4, 1]  # [number of starts] of cells, in their order on the map
    moves: Table[I4, 2]  # [cells, directions]: the cell that a move ends in
    landings: Table[U1, 2]  # [cells, directions] of Tile: what is there
    success_rate: F8 = 1 / 3  # probability of moving as intended
    goal_reward: F8 = 1.0
    hole_reward: F8 = 0.0
    frozen_reward: F8 = 0.0


class FrozenLakeInfo(Info):
    prob: F8


@jit
def start(state, k, params):
    """Put a row into start k. Returns its probability."""
    state.cell = params.starts[k]
    state.prob = 1.0
    return 1.0 / len(params.starts)


@jit
def reset(state, params, rng):
    """Draw a start: the first whose cumulative probability exceeds the draw."""
    draw = rng.random()
    cumulative = 0.0
    for k in range(len(params.starts)):
        cumulative += start(state, k, params)
        if cumulative > draw:
            break
    if cumulative <= draw:
        state.cell = 0  # rounding left the last sum below the draw; Gymnasium then takes the first cell of all


@jit
def events(state, action, params):
    """Probabilities of sliding to the left of the action's direction, along it, and to its right."""
    aside = (1.0 - params.success_rate) / 2.0
    return aside, params.success_rate, aside


@jit
def slide(state, action, event, params):
    """Slide by one cell. Returns (reward, terminated)."""
    # Looked up and without branches: which way the ice takes is unpredictable for the processor as well.
    direction = (action + event - 1) & 3
    tile = params.landings[state.cell, direction]
    state.cell = params.moves[state.cell, direction]
    prob = params.success_rate if event == 1 else (1.0 - params.success_rate) / 2.0
    state.prob = 1.0 if tile == Tile.KEPT else prob
    reward = params.goal_reward if tile == Tile.GOAL else params.frozen_reward
    reward = params.hole_reward if tile == Tile.HOLE else reward
    return 0.0 if tile == Tile.KEPT else reward, tile >= Tile.HOLE


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
    out.prob = state.prob


def render(state, params, canvas):
    """Ice, holes, the start and the goal by their letters, the goal with a flag; the agent is the red disc."""
    rows, columns = params.tiles.shape
    canvas.grid(rows, columns)
    canvas.cells(params.tiles, {Tile.FROZEN: ICE, Tile.START: ICE, Tile.GOAL: ICE, Tile.HOLE: WATER})
    canvas.lines((180, 200, 230))
    for row in range(rows):
        for col in range(columns):
            tile = params.tiles[row, col]
            if tile == Tile.HOLE:
                canvas.circle(col + 0.5, row + 0.5, 0.36, (24, 54, 92))
            elif tile == Tile.START:
                canvas.text(col + 0.17, row + 0.2, "S", (70, 100, 140), size=0.3)
            elif tile == Tile.GOAL:
                canvas.text(col + 0.17, row + 0.2, "G", (70, 100, 140), size=0.3)
                canvas.line([(col + 0.36, row + 0.15), (col + 0.36, row + 0.88)], (90, 70, 50), 0.05)
                flag = [(col + 0.38, row + 0.15), (col + 0.85, row + 0.3), (col + 0.38, row + 0.45)]
                canvas.polygon(flag, (40, 160, 80))
    row, col = divmod(state.cell, columns)
    canvas.circle(col + 0.5, row + 0.5, 0.27, (150, 30, 30))
    canvas.circle(col + 0.5, row + 0.5, 0.24, (225, 65, 55))


def text(state, params):
    """The map, with the agent's cell on red, as Gymnasium's without its line about the last action."""
    letters = {tile: letter for letter, tile in LETTERS.items()}
    rows, columns = params.tiles.shape
    board = [[letters[Tile(params.tiles[row, col])] for col in range(columns)] for row in range(rows)]
    row, col = divmod(state.cell, columns)
    board[row][col] = f"\x1b[41m{board[row][col]}\x1b[0m"
    return "".join("".join(line) + "\n" for line in board)


def parse_map(desc: Any) -> npt.NDArray[np.uint8]:
    """Rows of letters as an array `[rows, columns]` of Tile.

    Raises:
        TypeError: `desc` is no sequence of rows of letters.
        ValueError: rows differ in length, there are other letters than SFHG, no S or no G.
    """
    if isinstance(desc, (str, bytes)) or not isinstance(desc, (Sequence, np.ndarray)):
        raise TypeError(f"desc: expected rows of letters such as ['SFF', 'FHG'], got {desc!r}")
    rows = [_letters(row) for row in desc]
    if not rows or not rows[0]:
        raise ValueError(f"desc: expected at least one row and one column, got {desc!r}")
    for k, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(f"desc: row {k} has {len(row)} cells, row 0 has {len(rows[0])}; all rows need the same")
        for letter in row:
            if letter not in LETTERS:
                raise ValueError(f"desc: row {k}: expected the letters S, F, H and G, got {letter!r}")
    letters = "".join(rows)
    for letter, meaning in (("S", "start"), ("G", "goal")):
        if letter not in letters:
            raise ValueError(f"desc: expected at least one {meaning} ({letter}), got {rows}")
    return np.array([[LETTERS[letter] for letter in row] for row in rows], np.uint8)


def _letters(row: Any) -> str:
    """One row as a string, from a string, bytes or a sequence of single letters of either kind."""
    if isinstance(row, bytes):
        return row.decode("latin-1")
    if isinstance(row, str):
        return row
    if isinstance(row, (Sequence, np.ndarray)):
        letters = [letter.decode("latin-1") if isinstance(letter, bytes) else letter for letter in row]
        if all(isinstance(letter, str) and len(letter) == 1 for letter in letters):
            return "".join(letters)
    raise TypeError(f"desc: expected each row to be a string or a sequence of letters, got {row!r}")


def tables(tiles: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """`moves` and `landings` of a map, `[cells, directions]`."""
    rows, columns = tiles.shape
    row, column = (part.ravel()[:, np.newaxis] for part in np.indices(tiles.shape))
    down, right = np.array([0, 1, 0, -1]), np.array([-1, 0, 1, 0])
    to_row = np.clip(row + down, 0, rows - 1)
    to_column = np.clip(column + right, 0, columns - 1)
    keeps = (tiles >= Tile.HOLE).ravel()[:, np.newaxis]
    moves = np.where(keeps, row * columns + column, to_row * columns + to_column)
    return moves, np.where(keeps, np.uint8(Tile.KEPT), tiles[to_row, to_column])


def _definition(
    id: str, limit: int, desc: Any, map_name: Any, is_slippery: Any, success_rate: Any, reward_schedule: Any
) -> EnvDef:
    if desc is None and (not isinstance(map_name, str) or map_name not in MAPS):
        names = " or ".join(map(repr, MAPS))
        raise ValueError(f"map_name: expected {names}, got {map_name!r}; pass a map of your own as desc")
    tiles = parse_map(MAPS[map_name] if desc is None else desc)
    rate = probability("success_rate", success_rate)
    if not isinstance(reward_schedule, (Sequence, np.ndarray)) or len(reward_schedule) != 3:
        raise ValueError(f"reward_schedule: expected rewards for goal, hole and other cells, got {reward_schedule!r}")
    moves, landings = tables(tiles)
    goal, hole, frozen = (number("reward_schedule", reward) for reward in reward_schedule)
    starts = np.flatnonzero(tiles == Tile.START)
    return EnvDef(
        id,
        FrozenLakeState,
        FrozenLakeParams,
        reset,
        None,
        observe,
        observation_space=Discrete(tiles.size),
        action_space=Discrete(4),
        max_episode_steps=limit,
        param_values={
            "tiles": tiles,
            "starts": starts,
            "moves": moves,
            "landings": landings,
            # A rate of 1 gives exactly the outcomes of ice that is not slippery.
            "success_rate": rate if flag("is_slippery", is_slippery) else 1.0,
            "goal_reward": goal,
            "hole_reward": hole,
            "frozen_reward": frozen,
        },
        info_type=FrozenLakeInfo,
        info=info,
        render=render,
        text=text,
        render_fps=4,
        model=ModelDef(
            tiles.size,
            encode,
            decode,
            events=events,
            apply=slide,
            start=start,
            num_starts=len(starts),
            action_labels=("left", "down", "right", "up"),
            cells=tiles.shape,
        ),
    )


def build(
    desc: Sequence[str] | None = None,
    map_name: str = "4x4",
    is_slippery: bool = True,
    success_rate: float = 1 / 3,
    reward_schedule: Sequence[float] = (1, 0, 0),
) -> EnvDef:
    return _definition("FrozenLake-v1", 100, desc, map_name, is_slippery, success_rate, reward_schedule)


def build_8x8(
    desc: Sequence[str] | None = None,
    map_name: str = "8x8",
    is_slippery: bool = True,
    success_rate: float = 1 / 3,
    reward_schedule: Sequence[float] = (1, 0, 0),
) -> EnvDef:
    return _definition("FrozenLake8x8-v1", 200, desc, map_name, is_slippery, success_rate, reward_schedule)
