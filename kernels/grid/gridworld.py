"""Gridworld: walk from a start to a goal in a grid that is drawn with letters.

Source: the family of grid worlds of gym-classics2 1.0.1 (https://github.com/brett-daley/gym-classics2), by its rules.

| observation | meaning                                                       | unit | range                  |
|-------------|---------------------------------------------------------------|------|------------------------|
| a number    | which of the reachable cells, counted by x and then y         | -    | 0 to their number - 1  |
| or x, y     | the cell, (0, 0) at the lower left (option `tabular=False`)   | -    | 0 to width, height - 1 |

| action | meaning       |
|--------|---------------|
| 0      | up (y + 1)    |
| 1      | right (x + 1) |
| 2      | down (y - 1)  |
| 3      | left (x - 1)  |

A move into a block or off the grid stays where it is. Noise turns a move to the left or right of its direction. Wind
pushes up (or down, where it is negative) by as many cells as the column says that the move began in.

Reward: `goal_reward` for entering a goal, `cliff_reward` for falling, `step_reward` for any other step.
End: terminated on entering a goal. A fall from the cliff goes back to the start and does not end.
Limit: none; option `max_episode_steps`.
Start: a start cell, uniformly.
Options: see `gridworld`.

Differs from the source in: the noise is drawn in its own way, so seeds give other episodes; an ended episode is not
stepped; actions are ints.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete, Space

from vecenv.kernels.envdef import EnvDef, ModelDef
from vecenv.kernels.grid.layout import BLOCK, FREE, GOAL, START, STAY, Layout, landings, reached
from vecenv.kernels.jit import is_jit, jit
from vecenv.kernels.soa import F8, I2, I4, U1, Params, State, Table

NOISE = (0.1, 0.8, 0.1)  # to the left of the direction, along it, to its right
ACTIONS = ("up", "right", "down", "left")
STRAIGHT = 1  # the event: event k turns by k - 1 quarters clockwise, event 4 stays
GOES_ON, ENTERS_GOAL, KEPT = 0, 1, 2  # KEPT: the move starts at a goal, which keeps whoever is there
GREEN, GRAY, DARK = (150, 215, 150), (215, 215, 215), (90, 90, 90)


class GridworldState(State):
    x: I2  # column, from the left
    y: I2  # row, from the bottom


class GridworldParams(Params):
    height: I4  # of the grid; cells are numbered height * x + y
    letters: Table[U1, 2]  # [rows, columns] of character codes: the layout, top row first
    starts: Table[I4, 1]  # [number of starts] of cells
    ids: Table[I4, 1]  # [cells]: number among the reachable cells, -1 for others
    to_x: Table[I2, 2]  # [cells, 5]: where a move in each direction, or staying, ends
    to_y: Table[I2, 2]
    rewards: Table[F8, 2]  # [cells, 5]
    ends: Table[U1, 2]  # [cells, 5] of GOES_ON, ENTERS_GOAL, KEPT
    left: F8 = 0.0  # probability of a move to the left of its direction
    right: F8 = 0.0  # and to its right


@jit
def start(state, k, params):
    """Put a row into start k. Returns its probability."""
    decode(state, params.starts[k], params)
    return 1.0 / len(params.starts)


@jit
def reset(state, params, rng):
    start(state, rng.integers(0, len(params.starts)), params)


@jit
def noise_events(state, action, params):
    return params.left, 1.0 - params.left - params.right, params.right


@jit
def table_reward(state, action, direction, params):
    return params.rewards[encode(state, params), direction]


@jit
def own_reward(state, action, direction, params):
    cell = encode(state, params)
    to_x, to_y = params.to_x[cell, direction], params.to_y[cell, direction]
    return float(chosen_reward(state.x, state.y, action, to_x, to_y, params))


chosen_reward: Any = None  # the user's
reward_of = table_reward


@jit
def move(state, action, event, params):
    """Move by one cell. Returns (reward, terminated)."""
    direction = STAY if event == 4 else (action + event - 1) & 3
    cell = encode(state, params)
    end = params.ends[cell, direction]
    reward = 0.0 if end == KEPT else reward_of(state, action, direction, params)
    state.x = params.to_x[cell, direction]
    state.y = params.to_y[cell, direction]
    return reward, end != GOES_ON


@jit
def step(state, action, params, rng):
    """Move straight. Returns (reward, terminated)."""
    return move(state, action, STRAIGHT, params)


@jit
def observe_id(state, params, obs):
    obs[0] = params.ids[encode(state, params)]


@jit
def observe_cell(state, params, obs):
    obs[0] = state.x
    obs[1] = state.y


@jit
def encode(state, params):
    return params.height * state.x + state.y


@jit
def decode(state, key, params):
    state.x = key // params.height
    state.y = key % params.height


def render(state, params, canvas):
    """Goals are green, blocks dark, cells that cannot be reached gray; the agent is the blue disc."""
    rows, columns = params.letters.shape
    canvas.grid(rows, columns)
    for row in range(rows):
        for column in range(columns):
            letter = chr(params.letters[row, column])
            if letter == GOAL:
                canvas.cell(row, column, GREEN)
            elif letter == BLOCK:
                canvas.cell(row, column, DARK)
            elif params.ids[column * rows + rows - 1 - row] < 0:
                canvas.cell(row, column, GRAY)
            if letter not in (BLOCK, FREE):
                canvas.text(column + 0.2, row + 0.22, letter, (110, 110, 110), size=0.3)
    canvas.lines((170, 170, 170))
    canvas.circle(state.x + 0.5, rows - 1 - state.y + 0.5, 0.3, (45, 105, 190))


def text(state, params):
    """The layout, with A for the agent and a dot for a free cell."""
    rows, columns = params.letters.shape
    board = [[chr(params.letters[row, column]) for column in range(columns)] for row in range(rows)]
    board[rows - 1 - int(state.y)][int(state.x)] = "A"
    return "".join("".join(row).replace(FREE, ".") + "\n" for row in board)


def gridworld(
    layout: str | Sequence[str],
    *,
    id: str = "Gridworld-v0",
    step_reward: float = 0.0,
    goal_reward: float | Mapping[tuple[int, int], float] = 1.0,
    reward: Callable[..., Any] | None = None,
    noise: Sequence[float] | Callable[..., Any] | None = None,
    wind: Sequence[int] | None = None,
    cliff: str = "",
    cliff_reward: float = -100.0,
    tabular: bool = True,
    max_episode_steps: int | None = None,
) -> EnvDef:
    """A grid world from a layout, with its exact model.

    Args:
        layout: a line of letters per row: S a start (one or more), G a goal (one or more), X a block, a space or dot
            a free cell; any other letter labels a free cell. `|` is left out: it may show where rows begin and end.
        id: of the definition.
        step_reward: of a step that neither enters a goal nor falls.
        goal_reward: of entering a goal; one number, or one for the cell (x, y) of each goal.
        reward: in place of these, a `@jit` function `reward(x, y, action, to_x, to_y, params)`; a fall has ended at
            the start.
        noise: None; or the probabilities that a move turns to its left, goes straight, turns to its right (`NOISE` is
            .1, .8, .1); or a `@jit` function `events(state, action, params)` that returns 1 to 5 of them for
            state.x and state.y: left, straight, right, back, stay.
        wind: cells by which each column pushes up.
        cliff: the label of cells that are a cliff. Who enters one falls and is back at the start at once.
        cliff_reward: of a fall.
        tabular: observations number the reachable cells, by x and then y, as the model's states; False: (x, y).
        max_episode_steps: the step limit.

    Raises:
        ValueError: the layout is empty or ragged, has other characters, no start, no goal, or none that can be reached
            from some start; probabilities do not add up to 1; wind or rewards do not fit. Shows the layout and the
            place where there is one.
        TypeError: a value is not what is described above.
    """
    grid = Layout(layout)
    starts = np.array([grid.height * x + y for x, y in grid.cells(START)])
    blow = _wind(wind, grid)
    to_x, to_y = (part.reshape(-1, 5) for part in landings(grid, blow))
    letters = grid.letters[to_x, to_y]  # of the cell that a move ends in
    falls = letters == _cliff_label(cliff, grid)
    if falls.any():
        to_x, to_y = np.where(falls, starts[0] // grid.height, to_x), np.where(falls, starts[0] % grid.height, to_y)
    at_goal = (grid.letters == GOAL).reshape(-1, 1)
    cells = np.arange(grid.width * grid.height)[:, np.newaxis]
    to_x, to_y = np.where(at_goal, cells // grid.height, to_x), np.where(at_goal, cells % grid.height, to_y)
    to_goal = _goal_rewards(goal_reward, grid)[to_x, to_y]
    rewards = np.where(letters == GOAL, to_goal, _number("step_reward", step_reward))
    rewards = np.where(falls, _number("cliff_reward", cliff_reward), rewards)
    ends = np.where(at_goal, KEPT, np.where(letters == GOAL, ENTERS_GOAL, GOES_ON))
    successors = grid.height * to_x + to_y
    seen = reached(successors, starts)
    for cell in starts:
        if not (reached(successors, np.array([cell])) & at_goal[:, 0]).any():
            x, y = divmod(int(cell), grid.height)
            grid.refuse_cell("no goal can be reached from this start", x, y)
    values: dict[str, Any] = {
        "height": grid.height,
        "letters": np.array([[ord(letter) for letter in row] for row in grid.rows], np.uint8),
        "starts": starts,
        "ids": np.where(seen, np.cumsum(seen) - 1, -1),
        "to_x": to_x,
        "to_y": to_y,
        "rewards": rewards,
        "ends": ends,
    }
    events: Any = noise
    if noise is not None and not callable(noise):
        left, straight, right = _noise(noise, grid)
        values |= {"left": left, "right": right}
        events = noise_events if straight < 1.0 else None
    elif noise is not None:
        _check_events(noise, values, grid, np.flatnonzero(seen & ~at_goal[:, 0]))
    functions = {}
    if reward is not None:
        if not is_jit(reward):
            raise TypeError(f"reward: expected a @jit function, got {reward!r}; put @jit above it")
        if reward.__code__.co_argcount != 6:
            raise TypeError(f"reward: expected reward(x, y, action, to_x, to_y, params), got {reward.__name__}")
        functions = {"reward_of": own_reward, "chosen_reward": reward}
    space: Space[Any] = Discrete(int(seen.sum())) if tabular else MultiDiscrete([grid.width, grid.height])
    return EnvDef(
        id,
        GridworldState,
        GridworldParams,
        reset,
        step if events is None else None,
        observe_id if tabular else observe_cell,
        observation_space=space,
        action_space=Discrete(4),
        max_episode_steps=max_episode_steps,
        param_values=values,
        functions=functions,
        render=render,
        text=text,
        render_fps=4,
        model=ModelDef(
            grid.width * grid.height,
            encode,
            decode,
            events=events,
            apply=None if events is None else move,
            start=start,
            num_starts=len(starts),
            action_labels=ACTIONS,
            cells=np.arange(grid.width * grid.height).reshape(grid.width, grid.height).T[::-1],
        ),
    )


def _number(name: str, value: Any) -> float:
    if isinstance(value, (str, bytes)) or np.ndim(value) != 0:
        raise TypeError(f"{name}: expected a number, got {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a number, got {value!r}") from None
    if not math.isfinite(number):
        raise ValueError(f"{name}: expected a finite number, got {value!r}")
    return number


def _wind(wind: Any, grid: Layout) -> Any:
    blow = np.zeros(grid.width, np.int64) if wind is None else np.asarray(wind)
    if blow.dtype.kind not in "iu":
        raise TypeError(f"wind: expected ints, got {wind!r}")
    if blow.shape != (grid.width,):
        grid.refuse(f"wind: expected one int for each of {grid.width} columns, got {wind!r}")
    return blow.astype(np.int64)


def _cliff_label(cliff: Any, grid: Layout) -> str:
    """The label, or a character that is nowhere."""
    if not isinstance(cliff, str) or len(cliff) > 1 or (cliff and (not cliff.isalpha() or cliff in "SGX")):
        raise ValueError(f"cliff: expected a label letter, got {cliff!r}")
    if cliff and not grid.cells(cliff):
        grid.refuse(f"cliff: expected at least one cell labelled {cliff!r}")
    if cliff and len(grid.cells(START)) > 1:
        x, y = grid.cells(START)[1]
        grid.refuse_cell("a world with a cliff has one start, this is a second one", x, y)
    return cliff or "\0"


def _goal_rewards(goal_reward: Any, grid: Layout) -> Any:
    """`[width, height]`, 0 where no goal is."""
    rewards = np.zeros((grid.width, grid.height))
    goals = grid.cells(GOAL)
    given = goal_reward if isinstance(goal_reward, Mapping) else dict.fromkeys(goals, goal_reward)
    for cell in given:
        if cell not in goals:
            raise ValueError(f"goal_reward: expected cells of goals, {goals}, got {cell!r}")
    for x, y in goals:
        if (x, y) not in given:
            grid.refuse_cell(f"goal_reward: expected a reward for this goal too, got {goal_reward!r}", x, y)
        rewards[x, y] = _number("goal_reward", given[x, y])
    return rewards


def _noise(noise: Any, grid: Layout) -> tuple[float, ...]:
    if not isinstance(noise, (Sequence, np.ndarray)) or isinstance(noise, str) or len(noise) != 3:
        raise TypeError(
            f"noise: expected probabilities for left, straight and right, or a @jit function, got {noise!r}"
        )
    chances = tuple(_number("noise", chance) for chance in noise)
    if problem := _not_probabilities(chances):
        grid.refuse(f"noise: {problem}")
    return chances


def _not_probabilities(chances: Sequence[float]) -> str:
    if min(chances) < 0.0 or not abs(sum(chances) - 1.0) <= 1e-9:
        return f"expected probabilities that add up to 1, got {chances}, which add up to {sum(chances)}"
    return ""


def _check_events(events: Any, values: dict[str, Any], grid: Layout, cells: Any) -> None:
    """Call a user's events in every cell that can be left."""
    if not is_jit(events):
        raise TypeError(f"noise: expected a @jit function, got {events!r}; put @jit above it")
    params = SimpleNamespace(**{"left": 0.0, "right": 0.0, **values})
    for cell in cells:
        x, y = divmod(int(cell), grid.height)
        for action, label in enumerate(ACTIONS):
            chances = events(SimpleNamespace(x=x, y=y, elapsed=0, limit=-1), action, params)
            if not isinstance(chances, tuple) or not 1 <= len(chances) <= 5:
                grid.refuse_cell(f"events for {label}: expected a tuple of 1 to 5 probabilities, got {chances!r}", x, y)
            if problem := _not_probabilities(chances):
                grid.refuse_cell(f"events for {label}: {problem}", x, y)
