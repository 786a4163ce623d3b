"""Random walks. Oracle: the numbers of reference-systems 6.2, and a linear system for lengths."""

import numpy as np
import pytest
from oracle import assert_mean, first_episodes

import vecenv
from vecenv.planning import policy_evaluation, uniform_policy

EXACT = 1e-14


def random_values(id, discount):
    model = vecenv.model(id)
    return policy_evaluation(model, uniform_policy(model), discount, EXACT).values


def mean_length(id):
    """From the start under random play: (1 - probability of going on) lengths = 1."""
    model = vecenv.model(id)
    going_on = np.zeros((model.num_states, model.num_states))
    for s in range(model.num_states):
        for action in range(2):
            for to, _, end, chance in zip(*model.transitions(s, action), strict=True):
                going_on[s, to] += 0.0 if end else 0.5 * chance
    lengths = np.linalg.solve(np.eye(model.num_states) - going_on, np.ones(model.num_states))
    return float(lengths @ model.starts)


def test_values():
    assert random_values("5Walk-v0", 1.0) == pytest.approx(np.arange(1, 6) / 6, abs=1e-12)
    expected = [0.065501, 0.145558, 0.257962, 0.427690, 0.692461]
    assert random_values("5Walk-v0", 0.9) == pytest.approx(expected, abs=5.1e-7)
    assert random_values("19Walk-v0", 1.0) == pytest.approx(np.arange(-9, 10) / 10, abs=1e-11)


def test_mean_lengths():
    assert mean_length("5Walk-v0") == pytest.approx(9, abs=1e-11)
    assert mean_length("19Walk-v0") == pytest.approx(100, abs=1e-10)


def test_random_play():
    """5Walk: mean length 9, P(right) .5; 19Walk: mean length 100, mean return 0."""
    short = first_episodes(vecenv.make_vec("5Walk-v0", 200_000), seed=1)
    assert_mean(short.lengths, 9)
    assert_mean(short.returns, 0.5)
    long = first_episodes(vecenv.make_vec("19Walk-v0", 20_000), seed=2)
    assert_mean(long.lengths, 100)
    assert_mean(long.returns, 0)


@pytest.mark.nojit
@pytest.mark.parametrize(
    "id, actions, observations, reward",
    [
        ("5Walk-v0", [0, 0, 0], [1, 0, 0], 0),
        ("5Walk-v0", [1, 0, 1, 1, 1], [3, 2, 3, 4, 4], 1),
        ("19Walk-v0", [0] * 10, [8, 7, 6, 5, 4, 3, 2, 1, 0, 0], -1),
        ("19Walk-v0", [1] * 10, [10, 11, 12, 13, 14, 15, 16, 17, 18, 18], 1),
    ],
)
def test_walks(id, actions, observations, reward):
    """The state keeps its number where the walk leaves the line; nothing truncates."""
    view = vecenv.make(id)
    view.reset(seed=0)
    results = [view.step(action) for action in actions]
    assert [int(result[0]) for result in results] == observations
    assert [result[1] for result in results] == [0] * (len(actions) - 1) + [reward]
    assert [result[2] for result in results] == [False] * (len(actions) - 1) + [True]
    assert not any(result[3] for result in results)


def test_they_never_truncate():
    envs = vecenv.make_vec("5Walk-v0", 1)
    envs.reset(seed=0)
    assert not any(envs.step(np.array([t % 2]))[3][0] for t in range(3000))


def test_rewards_are_options():
    view = vecenv.make("5Walk-v0", left_reward=-3.5)
    view.reset(seed=0)
    assert [view.step(0)[1] for _ in range(3)] == [0, 0, -3.5]


def test_text():
    view = vecenv.make("5Walk-v0", render_mode="ansi")
    view.reset(seed=0)
    assert view.render() == "..A..\n"
