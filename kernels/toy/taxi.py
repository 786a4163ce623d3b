"""Taxi: fetch a passenger at one of four stands and set the passenger down at another.

Source: T. G. Dietterich, "Hierarchical Reinforcement Learning with the MAXQ Value Function Decomposition", JAIR 13
(2000), as in Gymnasium 1.4's Taxi-v4 (https://gymnasium.farama.org/environments/toy_text/taxi/).

| observation | meaning                                                | unit | range    |
|-------------|--------------------------------------------------------|------|----------|
| a number    | ((row * 5 + column) * 5 + passenger) * 4 + destination | -    | 0 to 499 |

Row and column, from the top left, are the taxi's. Passenger: 0 red, 1 green, 2 yellow, 3 blue stand, 4 in the taxi.
Destination: one of the stands.

| action | meaning    |
|--------|------------|
| 0      | move down  |
| 1      | move up    |
| 2      | move right |
| 3      | move left  |
| 4      | pick up    |
| 5      | set down   |

A move against a wall or the edge stays where it is.

Reward: 20 for setting the passenger down at the destination; -10 for picking up where no passenger waits and for
setting down without a passenger or away from the stands; else -1.
End: terminated when the passenger is set down at the destination.
Limit: 200 steps.
Start: one of the 300 states in which the passenger waits at a stand that is not the destination, uniformly.
Info: `prob`, the probability of the outcome that was drawn, 1 after a reset; `action_mask`, int8 `[6]`: 1 for actions
that change the state.
Options: `is_rainy`: True lets the taxi drift: it moves as it should with probability `rainy_probability` (0.8), and to
either side of that direction with equal probability, where a wall does not stop it; a move that a wall stops does not
drift. `fickle_passenger`: True lets a passenger change the destination, once, on the first step in which the taxi moves
with the passenger in it, in a share `fickle_probability` (0.3) of the episodes.

Differs from the source in: termination wins where the limit falls on the same step; `prob` is always a float;
probabilities lie between 0 and 1; the text of render mode "ansi" does not name the last action; a reset turns the taxi
to face down in pictures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Discrete

from vecenv.kernels.envdef import EnvDef, ModelDef, flag, probability
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import B1, F8, I1, I4, U1, U2, Info, Params, State, Table

# Letters are the stands; | is a wall between two columns.
MAP = ("+---------+", "|R: | : :G|", "| : | : : |", "| : : : : |", "| | : | : |", "|Y| : |B: |", "+---------+")
STANDS = ((0, 0), (0, 4), (4, 0), (4, 3))
COLORS = ((225, 65, 55), (60, 170, 80), (235, 195, 50), (60, 100, 215))
IN_TAXI = 4
MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))  # of each action: rows, columns
SIDES = ((2, 3), (3, 2), (1, 0), (0, 1))  # of each action: the moves to its left and right


class TaxiState(State):
    place: I4  # ((row * 5 + column) * 5 + passenger) * 4 + destination
    prob: F8  # probability of the outcome of the last step
    fickle: B1  # the passenger will change the destination
    heading: I1  # the last move, for pictures


class TaxiParams(Params):
    starts: Table[I4, 1]  # [300] places
    sums: Table[F8, 1]  # [300] cumulative probability of each
    moves: Table[U2, 3]  # [places, actions, 3]: the place after an action that succeeds, drifts left, drifts right
    rewards: Table[I1, 2]  # [places, actions]
    masks: Table[U1, 2]  # [places, actions]: whether the action changes the place
    straight: F8 = 1.0  # probability of moving as intended
    aside: F8 = 0.0  # and to each side
    fickle_passenger: B1 = False
    fickle_probability: F8 = 0.3


class TaxiInfo(Info):
    prob: F8


@jit
def find(sums, draw):
    """The first index whose cumulative probability exceeds the draw; -1 if rounding leaves the last sum below it."""
    k = min(int(draw * len(sums)), len(sums) - 1)  # the sums are uniform but for rounding
    while k < len(sums) and sums[k] <= draw:
        k += 1
    while k > 0 and sums[k - 1] > draw:
        k -= 1
    return k if k < len(sums) else -1


@jit
def start(state, k, params):
    """Put a row into start k, those with a fickle passenger last. Returns its probability."""
    n = len(params.starts)
    state.place, state.fickle = params.starts[k % n], k >= n
    fickle = params.fickle_probability if params.fickle_passenger else 0.0
    return (fickle if state.fickle else 1.0 - fickle) / n


@jit
def reset(state, params, rng):
    k = find(params.sums, rng.random())
    state.place = params.starts[k] if k >= 0 else 0  # place 0 as in Gymnasium
    state.prob = 1.0
    state.heading = 0
    state.fickle = False
    if params.fickle_passenger:
        state.fickle = rng.random() < params.fickle_probability


@jit
def drift(draw, straight, aside):
    """0 straight, 1 left, 2 right: the first of three outcomes whose cumulative probability exceeds the draw."""
    ahead = straight > draw
    left = straight + aside > draw
    beyond = straight + aside + aside <= draw  # rounding: Gymnasium then takes the first outcome
    return 0 if ahead | beyond else (1 if left else 2)


@jit
def act(state, action, outcome, params):
    """All of a step but for a change of the destination. Returns (reward, terminated, whether there is a change)."""
    # Without branches, as far as play is concerned: the processor cannot predict random actions.
    before = state.place
    moving = action < 4
    prob = params.straight if outcome == 0 else params.aside
    state.prob = prob if moving else 1.0
    state.heading = action if moving else state.heading
    reward = params.rewards[before, action]
    after = params.moves[before, action, outcome]
    state.place = after
    changes = state.fickle and (before // 4 % 5 == IN_TAXI) & (after // 20 != before // 20)
    return float(reward), reward == 20, changes


@jit
def redirect(state, k):
    """The passenger chooses stand k of the other three."""
    state.fickle = False
    destination = state.place % 4
    state.place += k + int(k >= destination) - destination


@jit
def step(state, action, params, rng):
    """Drive, pick up or set down. Returns (reward, terminated)."""
    draw = rng.random()  # one per step, in dry weather too
    outcome = drift(draw, params.straight, params.aside) * int(action < 4)
    reward, terminated, changes = act(state, action, outcome, params)
    if changes:
        redirect(state, rng.choice(3))
    return reward, terminated


@jit
def outcomes(state, action, k, params):
    """Drift k // 3, and stand k % 3 if the destination changes. Returns (probability, reward, terminated)."""
    outcome, stand = k // 3, k % 3
    drifts = params.straight if outcome == 0 else params.aside
    chance = drifts if action < 4 else float(outcome == 0)
    reward, terminated, changes = act(state, action, outcome, params)
    if changes:
        redirect(state, stand)
        return chance / 3.0, reward, terminated
    return chance if stand == 0 else 0.0, reward, terminated


@jit
def encode(state, params):
    return state.place + 500 * int(state.fickle)


@jit
def decode(state, key, params):
    state.place, state.fickle = key % 500, key >= 500


@jit
def observe(state, params, obs):
    obs[0] = state.place


@jit
def info(state, params, out):
    out.prob = state.prob


@jit
def action_mask(state, params, mask):
    for action in range(6):
        mask[action] = params.masks[state.place, action]


def parts(place):
    """Row, column, passenger and destination."""
    place, destination = divmod(place, 4)
    place, passenger = divmod(place, 5)
    return *divmod(place, 5), passenger, destination


def render(state, params, canvas):
    """The streets with their walls and stands. The passenger is a disc in the colour of the destination, which has a
    black frame; the taxi is yellow, with its lights on when it is taken."""
    row, column, passenger, destination = parts(int(state.place))
    canvas.grid(5, 5, background=(214, 214, 206))
    canvas.lines((190, 190, 184))
    for (stand_row, stand_column), color, letter in zip(STANDS, COLORS, "RGYB", strict=True):
        canvas.rectangle(stand_column + 0.06, stand_row + 0.06, stand_column + 0.94, stand_row + 0.94, color)
        canvas.text(stand_column + 0.2, stand_row + 0.22, letter, "white", size=0.28)
    goal_row, goal_column = STANDS[destination]
    corners = [(0.06, 0.06), (0.94, 0.06), (0.94, 0.94), (0.06, 0.94), (0.06, 0.06)]
    canvas.line([(goal_column + x, goal_row + y) for x, y in corners], "black", 0.07)
    for wall_row in range(5):
        for wall_column in range(1, 5):
            if MAP[1 + wall_row][2 * wall_column] == "|":
                canvas.rectangle(wall_column - 0.05, wall_row, wall_column + 0.05, wall_row + 1, (70, 70, 78))

    def turned(along, across):
        down, right = MOVES[state.heading]
        return column + 0.5 + along * right - across * down, row + 0.5 + along * down + across * right

    def body(half_length, half_width, color, shift=0.0):
        signs = ((-1, -1), (-1, 1), (1, 1), (1, -1))
        canvas.polygon([turned(shift + half_length * a, half_width * b) for a, b in signs], color)

    body(0.4, 0.24, "black")
    body(0.37, 0.21, (250, 205, 40))
    body(0.08, 0.17, (90, 130, 160), 0.14)
    body(0.05, 0.17, (90, 130, 160), -0.2)
    if passenger == IN_TAXI:
        for across in (-0.14, 0.14):
            canvas.circle(*turned(0.34, across), 0.06, "white")
        x, y = turned(-0.04, 0.0)
    else:
        y, x = (part + 0.5 for part in STANDS[passenger])
    canvas.circle(x, y, 0.15, "black")
    canvas.circle(x, y, 0.12, COLORS[destination])


def text(state, params):
    """The map as Gymnasium's without its line about the last action: the taxi on yellow, or on green when taken, the
    passenger's stand in blue, the destination in magenta."""
    board = [list(line) for line in MAP]
    row, column, passenger, destination = parts(int(state.place))

    def paint(row, column, code):
        board[1 + row][2 * column + 1] = f"\x1b[{code}m{board[1 + row][2 * column + 1]}\x1b[0m"

    if passenger == IN_TAXI:
        if (row, column) not in STANDS:
            board[1 + row][2 * column + 1] = "_"
        paint(row, column, "42")
    else:
        paint(row, column, "43")
        paint(*STANDS[passenger], "34;1")
    paint(*STANDS[destination], "35")
    return "".join("".join(line) + "\n" for line in board)


def tables() -> dict[str, npt.NDArray[Any]]:
    """`starts`, `sums`, `moves`, `rewards` and `masks` of `TaxiParams`."""
    moves, rewards = np.empty((500, 6, 3), np.int64), np.full((500, 6), -1)
    masks = np.zeros((500, 6), np.uint8)
    starts = []

    def moved(row: int, column: int, action: int) -> tuple[int, int]:
        down, right = MOVES[action]
        free = right == 0 or MAP[1 + row][2 * column + 1 + right] == ":"
        return (row + down, column + right) if free and 0 <= row + down < 5 else (row, column)

    for place in range(500):
        row, column, passenger, destination = parts(place)
        moves[place] = place
        if passenger not in (IN_TAXI, destination):
            starts.append(place)
        for action in range(4):
            if moved(row, column, action) != (row, column):
                for outcome, way in enumerate((action, *SIDES[action])):
                    to_row, to_column = moved(row, column, way)
                    moves[place, action, outcome] = (to_row * 5 + to_column) * 20 + place % 20
        if passenger < IN_TAXI and STANDS[passenger] == (row, column):
            moves[place, 4] = place + 4 * (IN_TAXI - passenger)
        else:
            rewards[place, 4] = -10
        if passenger == IN_TAXI and (row, column) in STANDS:
            stand = STANDS.index((row, column))
            moves[place, 5] = place - 4 * (IN_TAXI - stand)
            rewards[place, 5] = 20 if stand == destination else -1
        else:
            rewards[place, 5] = -10
        masks[place] = moves[place, :, 0] != place
    sums = np.cumsum(np.full(len(starts), 1 / len(starts)))
    return {"starts": np.array(starts), "sums": sums, "moves": moves, "rewards": rewards, "masks": masks}


def build(
    is_rainy: bool = False,
    fickle_passenger: bool = False,
    rainy_probability: float = 0.8,
    fickle_probability: float = 0.3,
) -> EnvDef:
    straight = probability("rainy_probability", rainy_probability)
    rainy = flag("is_rainy", is_rainy)
    return EnvDef(
        "Taxi-v4",
        TaxiState,
        TaxiParams,
        reset,
        step,
        observe,
        observation_space=Discrete(500),
        action_space=Discrete(6),
        max_episode_steps=200,
        param_values={
            **tables(),
            # A probability of 1 gives exactly the outcomes of dry weather.
            "straight": straight if rainy else 1.0,
            "aside": (1.0 - straight) / 2.0 if rainy else 0.0,
            "fickle_passenger": flag("fickle_passenger", fickle_passenger),
            "fickle_probability": probability("fickle_probability", fickle_probability),
        },
        info_type=TaxiInfo,
        info=info,
        action_mask=action_mask,
        render=render,
        text=text,
        render_fps=4,
        model=ModelDef(
            2 * 500,
            encode,
            decode,
            outcomes=outcomes,
            num_outcomes=9,
            start=start,
            num_starts=2 * 300,
            action_labels=("down", "up", "right", "left", "pick up", "set down"),
        ),
    )
