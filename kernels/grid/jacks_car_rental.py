"""Jack's car rental: move cars between two lots overnight so that as many as possible are rented in the day.

Source: example 4.2 and exercise 4.7 of R. Sutton and A. Barto, "Reinforcement Learning: An Introduction", 2nd edition
(http://incompleteideas.net/book/the-book-2nd.html), with the rewards and the limit of gym-classics2 1.0.1
(https://github.com/brett-daley/gym-classics2).

| observation   | meaning                                                         | unit | range    |
|---------------|-----------------------------------------------------------------|------|----------|
| a number      | 21 * cars in the first lot + cars in the second, in the evening | -    | 0 to 440 |
| or two numbers | cars in the first lot, in the second (option `tabular=False`)  | cars | 0 to 20  |

| action  | meaning                                              |
|---------|------------------------------------------------------|
| 0 to 4  | move 5 to 1 cars from the second lot to the first    |
| 5       | move nothing                                         |
| 6 to 10 | move 1 to 5 cars from the first lot to the second    |

No more cars are moved than there are, and cars above 20 in a lot leave the business. Then customers rent (requests are
Poisson distributed, 3 in the first lot and 4 in the second, as far as there are cars) and return cars (3 and 2), which
can be rented from the next day on. Numbers of probability 1e-6 or less are left out.

Reward: 10 for each car rented, in expectation, given the cars in the morning; -2 for each car moved.
JacksCarRentalModified-v0: the first car moved from the first lot to the second is free; -4 for each lot with more than
10 cars in it overnight.
End: never.
Limit: 100 steps.
Start: 10 cars in each lot.
Options: `tabular`: see above.

Differs from the source in: an action that asks for more cars than there are moves those, and pays for those only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Discrete, MultiDiscrete, Space

from vecenv.kernels.envdef import EnvDef, ModelDef
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import F8, I2, Params, State, Table

CAPACITY = 20
SIZE = CAPACITY + 1
REQUESTS, RETURNS = (3.0, 4.0), (3.0, 2.0)  # per day in each lot


class CarRentalState(State):
    first: I2  # cars in the first lot in the evening
    second: I2  # and in the second


class CarRentalParams(Params):
    first_chances: Table[F8, 2]  # [cars in the morning, cars in the evening]
    second_chances: Table[F8, 2]
    first_rentals: Table[F8, 1]  # [cars in the morning]: expected number of rentals
    second_rentals: Table[F8, 1]
    rental_reward: F8 = 10.0
    move_reward: F8 = -2.0
    free_moves: I2 = 0  # from the first lot to the second
    parking_reward: F8 = 0.0  # for a lot with more than `free_places` cars
    free_places: I2 = 10


@jit
def reset(state, params, rng):
    state.first, state.second = 10, 10


@jit
def move_overnight(state, action, params):
    """Move cars. Returns the reward of the day, which depends on nothing else."""
    moved = max(min(action - 5, state.first), -state.second)
    state.first = min(state.first - moved, CAPACITY)
    state.second = min(state.second + moved, CAPACITY)
    paid = -moved if moved < 0 else max(moved - params.free_moves, 0)
    crowded = int(state.first > params.free_places) + int(state.second > params.free_places)
    rentals = params.first_rentals[state.first] + params.second_rentals[state.second]
    return params.rental_reward * rentals + params.move_reward * paid + params.parking_reward * crowded


@jit
def evening(chances, morning, draw):
    """Cars in a lot in the evening: the first number whose cumulative probability exceeds the draw."""
    cumulative = 0.0
    for cars in range(SIZE):
        cumulative += chances[morning, cars]
        if cumulative > draw:
            return cars
    return morning  # rounding left the sum below the draw


@jit
def step(state, action, params, rng):
    """Move cars, rent and take back. Returns (reward, terminated)."""
    reward = move_overnight(state, action, params)
    state.first = evening(params.first_chances, state.first, rng.random())
    state.second = evening(params.second_chances, state.second, rng.random())
    return reward, False


@jit
def outcomes(state, action, k, params):
    """The evening in raw state k. Returns (probability, reward, terminated)."""
    reward = move_overnight(state, action, params)
    first, second = k // SIZE, k % SIZE
    chance = params.first_chances[state.first, first] * params.second_chances[state.second, second]
    state.first, state.second = first, second
    return chance, reward, False


@jit
def observe_id(state, params, obs):
    obs[0] = encode(state, params)


@jit
def observe_cars(state, params, obs):
    obs[0] = state.first
    obs[1] = state.second


@jit
def encode(state, params):
    return SIZE * state.first + state.second


@jit
def decode(state, key, params):
    state.first = key // SIZE
    state.second = key % SIZE


def render(state, params, canvas):
    """A place for each car: the first lot above, the second below; cars are blue."""
    canvas.grid(2, CAPACITY, cell=32, longest=640)
    canvas.lines((170, 170, 170))
    for row, cars in enumerate((int(state.first), int(state.second))):
        for place in range(cars):
            canvas.circle(place + 0.5, row + 0.5, 0.3, (45, 105, 190))


def text(state, params):
    """A line for each lot: o for a car, a dot for an empty place."""
    return "".join("o" * int(cars) + "." * (CAPACITY - int(cars)) + "\n" for cars in (state.first, state.second))


def poisson(mean: float) -> npt.NDArray[np.float64]:
    """Probabilities of 0, 1, ... events, without those of 1e-6 or less, `[n]`."""
    chances = np.array([math.exp(-mean) * mean**n / math.factorial(n) for n in range(60)])
    last = int(np.flatnonzero(chances > 1e-6)[-1])
    kept: npt.NDArray[np.float64] = np.where(chances > 1e-6, chances, 0.0)[: last + 1]
    kept /= kept.sum()
    return kept


def lot(requests: float, returns: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Of one lot: probabilities of cars in the evening `[morning, evening]`, and expected rentals `[morning]`."""
    chances, rentals = np.zeros((SIZE, SIZE)), np.zeros(SIZE)
    for morning in range(SIZE):
        for wanted, p in enumerate(poisson(requests)):
            rented = min(wanted, morning)
            rentals[morning] += p * rented
            for returned, q in enumerate(poisson(returns)):
                chances[morning, min(morning - rented + returned, CAPACITY)] += p * q
    return chances, rentals


def _definition(id: str, tabular: bool, **params: Any) -> EnvDef:
    (first_chances, first_rentals), (second_chances, second_rentals) = map(lot, REQUESTS, RETURNS)
    space: Space[Any] = Discrete(SIZE * SIZE) if tabular else MultiDiscrete([SIZE, SIZE])
    return EnvDef(
        id,
        CarRentalState,
        CarRentalParams,
        reset,
        step,
        observe_id if tabular else observe_cars,
        observation_space=space,
        action_space=Discrete(11),
        max_episode_steps=100,
        param_values={
            "first_chances": first_chances,
            "second_chances": second_chances,
            "first_rentals": first_rentals,
            "second_rentals": second_rentals,
            **params,
        },
        render=render,
        text=text,
        render_fps=4,
        model=ModelDef(
            SIZE * SIZE,
            encode,
            decode,
            outcomes=outcomes,
            num_outcomes=SIZE * SIZE,
            action_labels=[f"{cars:+d}" if cars else "0" for cars in range(-5, 6)],
            cells=np.arange(SIZE * SIZE).reshape(SIZE, SIZE)[::-1],  # as in the book: the first lot upwards
        ),
    )


def build(tabular: bool = True) -> EnvDef:
    """Jack's car rental: move cars between two lots overnight so that as many as possible are rented in the day."""
    return _definition("JacksCarRental-v0", tabular)


def build_modified(tabular: bool = True) -> EnvDef:
    """Jack's car rental with one free move a night and few free places to park."""
    return _definition("JacksCarRentalModified-v0", tabular, free_moves=1, parking_reward=-4.0)
