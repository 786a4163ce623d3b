"""The kernels of dynamic programming. Oracle: the same sweeps in plain Python, and linear systems."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vecenv.kernels import planning

pytestmark = pytest.mark.nojit


def random_model(seed, num_states, num_actions):
    """Rows as the kernels take them, and the same as a dictionary."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, num_states * num_actions)
    offsets = np.concatenate([[0], counts.cumsum()])
    next_states = rng.integers(0, num_states, offsets[-1])
    weights = rng.random(offsets[-1]) * rng.integers(0, 2, offsets[-1]) / np.repeat(counts, counts) * 0.9
    rewards = rng.normal(size=num_states * num_actions)
    rows = {
        (pair // num_actions, pair % num_actions): [
            (float(weights[row]), int(next_states[row])) for row in range(offsets[pair], offsets[pair + 1])
        ]
        for pair in range(num_states * num_actions)
    }
    return (offsets, next_states, weights, rewards), rows, rewards.reshape(num_states, num_actions)


def sweep(rows, rewards, policy, values, in_place):
    """One sweep, and the largest change."""
    num_states, num_actions = rewards.shape
    source = values if in_place else values.copy()
    change = 0.0
    for s in range(num_states):
        q = [rewards[s, a] + sum(w * source[to] for w, to in rows[s, a]) for a in range(num_actions)]
        new = max(q) if policy is None else float(policy[s] @ q)
        change = max(change, abs(new - source[s]))
        values[s] = new
    return change


@settings(deadline=None)  # the first call compiles
@given(seed=st.integers(0, 10**6), sizes=st.tuples(st.integers(1, 6), st.integers(1, 3)), in_place=st.booleans())
def test_sweeps(seed, sizes, in_place):
    """Equal to the slow ones within rounding, sweep by sweep, and as many of them."""
    arrays, rows, rewards = random_model(seed, *sizes)
    policy = np.random.default_rng(seed + 1).dirichlet(np.ones(sizes[1]), sizes[0])
    for chosen in (None, policy):
        expected, changes = np.zeros(sizes[0]), [np.inf]
        while changes[-1] > 1e-3:
            changes.append(sweep(rows, rewards, chosen, expected, in_place))
        got = np.zeros(sizes[0])
        if chosen is None:
            sweeps, change = planning.iterate_values(*arrays, in_place, 1e-3, 1000, got)
        else:
            sweeps, change = planning.evaluate_policy(*arrays, policy.ravel(), in_place, 1e-3, 1000, got)
        assert sweeps == len(changes) - 1
        assert change == pytest.approx(changes[-1], abs=1e-12)
        assert got == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("in_place", [True, False])
def test_evaluation_solves_the_linear_system(in_place):
    arrays, rows, rewards = random_model(4, 6, 3)
    policy = np.random.default_rng(5).dirichlet(np.ones(3), 6)
    matrix = np.zeros((6, 6))
    for (s, a), outcomes in rows.items():
        for weight, to in outcomes:
            matrix[s, to] += policy[s, a] * weight
    expected = np.linalg.solve(np.eye(6) - matrix, (policy * rewards).sum(1))
    got = np.zeros(6)
    planning.evaluate_policy(*arrays, policy.ravel(), in_place, 1e-14, 10_000, got)
    assert got == pytest.approx(expected, abs=1e-12)


def test_sweeps_end_at_their_number():
    arrays, _, _ = random_model(1, 4, 2)
    values = np.zeros(4)
    sweeps, change = planning.iterate_values(*arrays, True, 0.0, 3, values)
    assert sweeps == 3 and change > 0


def test_action_values():
    arrays, rows, rewards = random_model(2, 5, 2)
    values, q = np.arange(5.0), np.empty(10)
    planning.action_values(*arrays, values, q)
    for s in range(5):
        for a in range(2):
            assert q[2 * s + a] == pytest.approx(rewards[s, a] + sum(w * values[to] for w, to in rows[s, a]))
