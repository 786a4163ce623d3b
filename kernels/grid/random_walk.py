"""Random walk: leave a line of states at its right end.

Source: 5Walk-v0 and 19Walk-v0 of gym-classics2 1.0.1 (https://github.com/brett-daley/gym-classics2), by their rules;
examples 6.2 and 7.1 of R. Sutton and A. Barto, "Reinforcement Learning: An Introduction", 2nd edition
(http://incompleteideas.net/book/the-book-2nd.html).

| observation | meaning                      | unit | range                      |
|-------------|------------------------------|------|----------------------------|
| a number    | the state, 0 at the left end | -    | 0 to 4, in 19Walk 0 to 18  |

| action | meaning         |
|--------|-----------------|
| 0      | one state left  |
| 1      | one state right |

Reward: `right_reward` for leaving to the right, `left_reward` for leaving to the left, else 0.
End: terminated on leaving the line; the observation then still is the end of the line.
Limit: none.
Start: the state in the middle.
Options: `left_reward`: 0, in 19Walk -1; `right_reward`: 1.

Differs from the source in: an ended episode is not stepped.
"""

from __future__ import annotations

from gymnasium.spaces import Discrete

from vecenv.kernels.envdef import EnvDef, ModelDef
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import F8, I2, Params, State


class RandomWalkState(State):
    place: I2  # from the left


class RandomWalkParams(Params):
    n: I2  # number of states
    left_reward: F8
    right_reward: F8


@jit
def reset(state, params, rng):
    state.place = params.n // 2


@jit
def step(state, action, params, rng):
    """Move by one state. Returns (reward, terminated)."""
    to = state.place + 2 * action - 1
    left, right = to < 0, to == params.n
    state.place = min(max(to, 0), params.n - 1)
    reward = params.left_reward if left else (params.right_reward if right else 0.0)
    return reward, left | right


@jit
def observe(state, params, obs):
    obs[0] = state.place


@jit
def encode(state, params):
    return state.place


@jit
def decode(state, key, params):
    state.place = key


def render(state, params, canvas):
    """The line from left to right between its two exits; the walker is the blue disc."""
    n = int(params.n)
    canvas.grid(1, n + 2, longest=960)
    canvas.cell(0, 0, (225, 200, 200))
    canvas.cell(0, n + 1, (150, 215, 150))
    canvas.lines((170, 170, 170))
    canvas.circle(state.place + 1.5, 0.5, 0.3, (45, 105, 190))


def text(state, params):
    """The line, with A for the walker."""
    return "".join("A" if place == state.place else "." for place in range(params.n)) + "\n"


def _definition(id: str, n: int, left_reward: float, right_reward: float) -> EnvDef:
    return EnvDef(
        id,
        RandomWalkState,
        RandomWalkParams,
        reset,
        step,
        observe,
        observation_space=Discrete(n),
        action_space=Discrete(2),
        param_values={"n": n, "left_reward": left_reward, "right_reward": right_reward},
        render=render,
        text=text,
        render_fps=4,
        model=ModelDef(n, encode, decode, action_labels=("left", "right"), cells=(1, n)),
    )


def build_5(left_reward: float = 0.0, right_reward: float = 1.0) -> EnvDef:
    """5Walk: leave a line of five states at its right end."""
    return _definition("5Walk-v0", 5, left_reward, right_reward)


def build_19(left_reward: float = -1.0, right_reward: float = 1.0) -> EnvDef:
    """19Walk: leave a line of nineteen states at its right end and not at its left."""
    return _definition("19Walk-v0", 19, left_reward, right_reward)
