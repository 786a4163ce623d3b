"""Jack's car rental. Oracles: all four Poisson numbers enumerated; value iteration on matrices."""

import math
from itertools import product

import numpy as np
import pytest

import vecenv
from vecenv.kernels.grid.jacks_car_rental import poisson
from vecenv.planning import best_actions, policy_evaluation, value_iteration


def chances(mean):
    """Numbers and probabilities, without those of 1e-6 or less, renormalised."""
    numbers = {n: math.exp(-mean) * mean**n / math.factorial(n) for n in range(40)}
    kept = {n: p for n, p in numbers.items() if p > 1e-6}
    return {n: p / sum(kept.values()) for n, p in kept.items()}


def a_day(first, second, action, modified):
    """Probabilities of the evening, the expected number of rentals, and what else is paid."""
    moved = min(action - 5, first) if action >= 5 else -min(5 - action, second)
    paid = -2 * (moved - 1 if modified and moved > 0 else abs(moved))
    first, second = min(first - moved, 20), min(second + moved, 20)
    paid -= 4 * ((first > 10) + (second > 10)) if modified else 0
    evenings, rentals = {}, 0.0
    day = product(chances(3).items(), chances(4).items(), chances(3).items(), chances(2).items())
    for (wanted1, p), (wanted2, q), (back1, r), (back2, s) in day:
        rented1, rented2 = min(wanted1, first), min(wanted2, second)
        evening = min(first - rented1 + back1, 20), min(second - rented2 + back2, 20)
        evenings[evening] = evenings.get(evening, 0.0) + p * q * r * s
        rentals += p * q * r * s * (rented1 + rented2)
    return evenings, 10 * rentals + paid


@pytest.mark.parametrize("modified", [False, True])
@pytest.mark.parametrize(
    "first, second, action", [(10, 10, 5), (0, 0, 9), (3, 7, 10), (20, 1, 8), (18, 19, 10), (2, 4, 0), (11, 12, 6)]
)
def test_days(modified, first, second, action):
    model = vecenv.model("JacksCarRentalModified-v0" if modified else "JacksCarRental-v0")
    evenings, reward = a_day(first, second, action, modified)
    to, rewards, ends, probabilities = model.transitions(model.state2id((first, second)), action)
    got = dict(zip(model.id2state(to), probabilities, strict=True))
    assert got == pytest.approx(evenings, abs=1e-13)
    assert rewards == pytest.approx(reward, abs=1e-10) and not ends.any()


@pytest.mark.parametrize("mean", [2.0, 3.0, 4.0])
def test_poisson(mean):
    expected = chances(mean)
    assert poisson(mean) == pytest.approx([expected.get(n, 0.0) for n in range(max(expected) + 1)], abs=1e-15)


def lot(requests, returns):
    """Probabilities of the evening by the morning, and expected rentals."""
    to, rentals = np.zeros((21, 21)), np.zeros(21)
    for morning in range(21):
        for (wanted, p), (back, q) in product(chances(requests).items(), chances(returns).items()):
            to[morning, min(morning - min(wanted, morning) + back, 20)] += p * q
            rentals[morning] += p * q * min(wanted, morning)
    return to, rentals


@pytest.mark.parametrize("modified", [False, True])
def test_best_values_and_policy(modified):
    """Against value iteration on matrices [first, second]; no more than 5 and no fewer than -4 cars are moved in the
    book's figure, where nobody asks for cars that are not there."""
    (to1, rentals1), (to2, rentals2) = lot(3, 3), lot(4, 2)
    first, second = np.indices((21, 21))
    paid, mornings = [], []
    for asked in range(-5, 6):
        moved = np.clip(asked, -second, first)
        morning = np.minimum(first - moved, 20), np.minimum(second + moved, 20)
        cost = 2 * np.abs(moved)
        if modified:
            cost = cost - 2 * (moved > 0) + 4 * (morning[0] > 10) + 4 * (morning[1] > 10)
        mornings.append(morning)
        paid.append(10 * (rentals1[morning[0]] + rentals2[morning[1]]) - cost)
    values = np.zeros((21, 21))
    for _ in range(400):
        ahead = 0.9 * to1 @ values @ to2.T
        q = np.array([reward + ahead[morning] for reward, morning in zip(paid, mornings, strict=True)])
        values = q.max(0)
    model = vecenv.model("JacksCarRentalModified-v0" if modified else "JacksCarRental-v0")
    got = value_iteration(model, 0.9, 1e-11).values
    np.testing.assert_allclose(got.reshape(21, 21), values, atol=1e-8, rtol=0)
    best = best_actions(model, got, 0.9, tolerance=1e-7).T.reshape(11, 21, 21)
    np.testing.assert_array_equal(best, q >= values - 1e-7)
    if not modified:
        fewest = np.where(best, np.abs(np.arange(-5, 6))[:, None, None], 9).argmin(0) - 5
        assert (fewest.min(), fewest.max()) == (-4, 5)


def test_doing_nothing_is_what_is_played():
    """Discounted returns of 200 nights against the model's value."""
    model = vecenv.model("JacksCarRental-v0")
    still = np.full(model.num_states, 5)
    expected = policy_evaluation(model, still, 0.9, 1e-10).values @ model.starts
    envs = vecenv.make_vec(model.definition, 20_000, max_episode_steps=-1)
    envs.reset(seed=1)
    returns = np.zeros(20_000)
    for t in range(200):
        returns += 0.9**t * envs.step(np.full(20_000, 5))[1]
    assert abs(returns.mean() - expected) < 4.5 * returns.std() / np.sqrt(20_000)


@pytest.mark.nojit
def test_limit_and_observations():
    view = vecenv.make("JacksCarRental-v0", tabular=False)
    obs, _ = view.reset(seed=0)
    assert obs.tolist() == [10, 10]
    flags = [view.step(5)[2:4] for _ in range(100)]
    assert flags == [(False, False)] * 99 + [(False, True)]
    assert vecenv.make("JacksCarRental-v0").reset(seed=0)[0] == 21 * 10 + 10


@pytest.mark.nojit
def test_text():
    view = vecenv.make("JacksCarRental-v0", render_mode="ansi")
    view.reset(seed=0)
    assert view.render() == "oooooooooo..........\n" * 2
