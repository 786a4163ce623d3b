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

from vecenv.kernels.envdef import EnvDef
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
        render_fps=4,
    )
