"""LineWorld: walk along a line of cells to its right end.

Source: the course page "reset and step" describes it as its first environment; the rules are all on this page.

| observation | meaning                     | unit | range      |
|-------------|-----------------------------|------|------------|
| a number    | the cell, 0 at the left end | -    | 0 to n - 1 |

| action | meaning                              |
|--------|--------------------------------------|
| 0      | one cell left; at the left end, stay |
| 1      | one cell right                       |

Reward: 1 for reaching the right end, else 0.
End: terminated at the right end.
Limit: 20 steps; a step against the left end counts.
Info: `steps`, the number of steps of the episode.
Options: `n`: number of cells, at least 2; `start`: the cell of every start, from 0 to n - 2.

Differs from the source in: termination wins where the limit falls on the same step; the goal is no `start`.
"""

from __future__ import annotations

import operator
from typing import Any

from gymnasium.spaces import Discrete

from vecenv.kernels.envdef import EnvDef, ModelDef
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import F8, I4, I8, Info, Params, State


class LineWorldState(State):
    cell: I4  # from the left


class LineWorldParams(Params):
    n: I4 = 5  # number of cells
    start: I4 = 0
    goal_reward: F8 = 1.0


class LineWorldInfo(Info):
    steps: I8


@jit
def reset(state, params, rng):
    state.cell = params.start


@jit
def step(state, action, params, rng):
    """Move by one cell. Returns (reward, terminated)."""
    state.cell = min(max(state.cell + 2 * action - 1, 0), params.n - 1)
    terminated = state.cell == params.n - 1
    return params.goal_reward if terminated else 0.0, terminated


@jit
def observe(state, params, obs):
    obs[0] = state.cell


@jit
def info(state, params, out):
    out.steps = state.elapsed


@jit
def encode(state, params):
    return state.cell


@jit
def decode(state, key, params):
    state.cell = key


def shown_cells(state, params):
    """First and last of the cells that a picture shows: all, or 32 of them around the walker."""
    first = min(max(state.cell - 16, 0), max(params.n - 32, 0))
    return first, min(first + 31, params.n - 1)


def render(state, params, canvas):
    """The line from left to right: the goal is green, the start is marked, the walker is the blue disc."""
    first, last = shown_cells(state, params)
    canvas.grid(1, last - first + 1, longest=960)
    if last == params.n - 1:
        canvas.cell(0, last - first, (150, 215, 150))
    canvas.lines((170, 170, 170))
    for cell in range(first, last + 1):
        label = "S" if cell == params.start else "G" if cell == params.n - 1 else str(cell)
        canvas.text(cell - first + 0.5, 0.82, label, (120, 120, 120), size=0.28)
    canvas.circle(state.cell - first + 0.5, 0.4, 0.26, (45, 105, 190))


def text(state, params):
    """The line, with A for the walker, S for the start, G for the goal; `<` and `>` where it goes on."""
    first, last = shown_cells(state, params)
    letters = {params.start: "S", params.n - 1: "G", state.cell: "A"}
    line = "".join(letters.get(cell, ".") for cell in range(first, last + 1))
    return f"{'<' if first > 0 else ''}{line}{'>' if last < params.n - 1 else ''}\n"


def _int(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{name}: expected an int, got {value!r}")
    return number


def build(n: int = 5, start: int = 0) -> EnvDef:
    n, start = _int("n", n), _int("start", start)
    if not 2 <= n < 2**31:
        raise ValueError(f"n: expected at least 2 cells, got {n}")
    if not 0 <= start < n - 1:
        raise ValueError(f"start: expected a cell from 0 to n - 2 = {n - 2} (the last cell is the goal), got {start}")
    return EnvDef(
        "LineWorld-v0",
        LineWorldState,
        LineWorldParams,
        reset,
        step,
        observe,
        observation_space=Discrete(n),
        action_space=Discrete(2),
        max_episode_steps=20,
        param_values={"n": n, "start": start},
        info_type=LineWorldInfo,
        info=info,
        render=render,
        text=text,
        render_fps=4,
        model=ModelDef(n, encode, decode, action_labels=("left", "right"), cells=(1, n)),
    )
