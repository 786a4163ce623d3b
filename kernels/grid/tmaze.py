"""TMaze: remember on which side the goal is until the end of a corridor.

Source: TMaze of the Rust crate thrust-rl 0.4.0 (https://crates.io/crates/thrust-rl), by its rules; after B. Bakker,
"Reinforcement Learning with Long Short-Term Memory", NIPS 2001.

| observation | meaning                                                       | unit | range   |
|-------------|---------------------------------------------------------------|------|---------|
| 0           | at the start 1 if the goal is up, -1 if it is down, later 0   | -    | -1 to 1 |
| 1           | 1 in the corridor                                             | -    | 0 or 1  |
| 2           | 1 at the junction                                             | -    | 0 or 1  |

| action | meaning at the junction |
|--------|-------------------------|
| 0      | up                      |
| 1      | down                    |

In the corridor every action goes on by one cell.

Reward: at the junction 1 for the side of the goal, else -1; 0 before.
End: terminated by the action at the junction, in step `length` + 1.
Limit: none.
Start: the first cell; the goal is on either side with probability 1/2.
Options: `length`: cells before the junction, 10.

A snapshot replays bit for bit, the goals of later episodes included: every draw comes from the row's own random stream.

Differs from the source in: nothing.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.envdef import EnvDef, ModelDef, integer
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import I1, I4, Params, State


class TMazeState(State):
    position: I4  # cells from the start; `length` is the junction
    goal: I1  # 1 up, -1 down


class TMazeParams(Params):
    length: I4 = 10


@jit
def start(state, k, params):
    """The goal is down or up. Returns the probability of that."""
    state.position = 0
    state.goal = 2 * k - 1
    return 0.5


@jit
def reset(state, params, rng):
    start(state, rng.integers(0, 2), params)


@jit
def step(state, action, params, rng):
    """Go on, or turn at the junction. Returns (reward, terminated)."""
    turns = state.position == params.length
    state.position = min(state.position + 1, params.length)
    reward = 1.0 if 1 - 2 * action == state.goal else -1.0
    return reward if turns else 0.0, turns


@jit
def observe(state, params, obs):
    obs[0] = state.goal if state.position == 0 else 0
    obs[1] = 1.0 if state.position < params.length else 0.0
    obs[2] = 1.0 if state.position == params.length else 0.0


@jit
def encode(state, params):
    return 2 * state.position + (state.goal + 1) // 2


@jit
def decode(state, key, params):
    state.position = key // 2
    state.goal = 2 * (key % 2) - 1


def render(state, params, canvas):
    """The corridor and the two ends of the junction, the goal green; the walker is the blue disc."""
    length = int(params.length)
    canvas.grid(3, length + 1, longest=960, background=(70, 76, 90))
    for column in range(length + 1):
        canvas.cell(1, column, "white")
    for row in (0, 2):
        canvas.cell(row, length, (150, 215, 150) if row == 1 - state.goal else "white")
    canvas.lines((170, 170, 170))
    canvas.circle(state.position + 0.5, 1.5, 0.3, (45, 105, 190))


def text(state, params):
    """The maze: A the walker, G the goal, . other cells."""
    length = int(params.length)
    side = {1 - state.goal: "G"}
    corridor = "".join("A" if column == state.position else "." for column in range(length + 1))
    rows = (" " * length + side.get(0, "."), corridor, " " * length + side.get(2, "."))
    return "".join(row + "\n" for row in rows)


def build(length: int = 10) -> EnvDef:
    length = integer("length", length, 1, 2**20)
    return EnvDef(
        "TMaze-v0",
        TMazeState,
        TMazeParams,
        reset,
        step,
        observe,
        observation_space=Box(np.array([-1, 0, 0], np.float32), np.ones(3, np.float32)),
        action_space=Discrete(2),
        param_values={"length": length},
        render=render,
        text=text,
        render_fps=4,
        model=ModelDef(2 * length + 2, encode, decode, start=start, num_starts=2, action_labels=("up", "down")),
    )
