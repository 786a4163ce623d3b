"""Values and policies of exact models. Oracles: the numbers of reference-systems 3, 4.3, 6.3, 6.4 and 6.7; linear
systems; every policy of a small world."""

from itertools import product

import numpy as np
import pytest

import vecenv
from vecenv import gridworld
from vecenv.kernels.grid.gridworld import NOISE
from vecenv.planning import (
    action_values,
    best_actions,
    greedy_policy,
    policy_evaluation,
    policy_iteration,
    uniform_policy,
    value_iteration,
)

EXACT = 1e-14


def solved(model, chances, discount):
    """Values of a policy by a linear system."""
    matrix, paid = np.zeros((model.num_states, model.num_states)), np.zeros(model.num_states)
    for s in range(model.num_states):
        for a in range(model.num_actions):
            for to, reward, end, p in zip(*model.transitions(s, a), strict=True):
                paid[s] += chances[s, a] * p * reward
                matrix[s, to] += 0.0 if end else chances[s, a] * p * discount
    return np.linalg.solve(np.eye(model.num_states) - matrix, paid)


# --- known numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "discount, expected",
    [(1.0, [.97, .98, .99, .98, .99, 1, .99, 1, 0]),
     (0.95, [.82885, .883, .94, .883, .94, 1, .94, 1, 0])],
)  # fmt: skip
def test_tiny_grid(discount, expected):
    values = value_iteration(vecenv.model("TinyGrid-v0"), discount, EXACT).values
    # .82885 is .828850 in full: -.01 + .95 * .883
    assert values == pytest.approx(expected, abs=1e-12)


def test_tiny_grid_at_random():
    """Mean return .74; mean length 27."""
    model = vecenv.model("TinyGrid-v0")
    assert policy_evaluation(model, uniform_policy(model), 1.0, EXACT).values[0] == pytest.approx(0.74, abs=1e-10)
    steps = vecenv.model("TinyGrid-v0", params={"step_reward": 1.0, "goal_reward": 1.0})
    assert policy_evaluation(steps, uniform_policy(steps), 1.0, EXACT).values[0] == pytest.approx(27, abs=1e-9)


@pytest.mark.parametrize(
    "discount, expected",
    [
        (1.0, ".95 .96 .97 .96 .96 H .98 H .97 .98 .99 H H .99 1 G"),
        (0.99, ".901980 .921192 .940598 .921192 .921192 H .9602 H .940598 .9602 .98 H H .98 1 G"),
    ],
)
def test_frozen_lake_with_the_rewards_of_thrusts_grid_world(discount, expected):
    """The same 4x4 map: goal 1, holes -1, other steps -.01; not slippery."""
    model = vecenv.model("FrozenLake-v1", is_slippery=False, reward_schedule=(1, -1, -0.01))
    values = value_iteration(model, discount, EXACT).values
    expected = [0.0 if cell in "HG" else float(cell) for cell in expected.split()]
    assert values == pytest.approx(expected, abs=5.1e-7)


def test_frozen_lake_with_those_rewards_at_random():
    """Mean return -1.038846, P(goal) .013940, mean length 7.672602."""
    for rewards, expected in (((1, -1, -0.01), -1.038846), ((1, 0, 0), 0.013940), ((1, 1, 1), 7.672602)):
        model = vecenv.model("FrozenLake-v1", reward_schedule=rewards)
        value = policy_evaluation(model, uniform_policy(model), 1.0, EXACT).values[0]
        assert value == pytest.approx(expected, abs=5.1e-7)


@pytest.mark.parametrize("discount, value", [(1.0, 14 / 17), (0.99, 0.542026), (0.95, 0.180472)])
def test_frozen_lake(discount, value):
    model = vecenv.model("FrozenLake-v1")
    assert value_iteration(model, discount, EXACT).values @ model.starts == pytest.approx(value, abs=5.1e-7)


def test_every_cell_of_the_frozen_lake():
    expected = [
        .542026, .498803, .470696, .456852, .558451, 0, .358348, 0,
        .591799, .643080, .615208, 0, 0, .741720, .862837, 0,
    ]  # fmt: skip
    values = value_iteration(vecenv.model("FrozenLake-v1"), 0.99, EXACT).values
    assert values == pytest.approx(expected, abs=5.1e-7)


@pytest.mark.parametrize("discount, value", [(0.99, 0.99**5), (1.0, 1.0)])
def test_frozen_lake_that_is_not_slippery(discount, value):
    """Case C139."""
    model = vecenv.model("FrozenLake-v1", is_slippery=False)
    assert value_iteration(model, discount, EXACT).values[0] == pytest.approx(value, abs=1e-12)


def test_the_learned_policy_of_a_notebook():
    """Success rate .9: the exact value of a policy found by Monte-Carlo control, and the best one's."""
    model = vecenv.model("FrozenLake-v1", success_rate=0.9)
    policy = np.array(["←↓→↑".index(arrow) for arrow in "↓←↑↓←↓↓↓→↓←↓↓→→↓"])
    values = policy_evaluation(model, policy, 1.0, EXACT).values
    assert values[[0, 4, 8, 14]] == pytest.approx([0.938094, 0.940837, 0.943580, 0.999532], abs=5.1e-7)
    assert round(float(value_iteration(model, 1.0, EXACT).values[0]), 4) == 0.9997


def test_line_world():
    """V*(s) is discount^(3 - s); under random play without a limit 20, 18, 14 and 8 steps are expected."""
    model = vecenv.model("LineWorld-v0")
    assert value_iteration(model, 0.9, EXACT).values == pytest.approx([0.729, 0.81, 0.9, 1, 0])
    chances = uniform_policy(model)
    # The value is the mean of discount^(length - 1): its derivative at discount 1 is the mean length less 1.
    d = 1e-6
    low, high = (policy_evaluation(model, chances, discount, EXACT).values for discount in (1 - d, 1.0))
    assert (high - low)[:4] / d == pytest.approx([19, 17, 13, 7], rel=1e-4)


# --- methods ----------------------------------------------------------------------------------------------------------

WORLD = gridworld(["..G", ".X.", "S.G"], noise=NOISE, step_reward=-0.1, goal_reward={(2, 2): 1.0, (2, 0): -0.3})


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 1.0])
def test_all_methods_agree(discount):
    model = vecenv.model(WORLD)
    plan = policy_iteration(model, discount)
    for in_place in (True, False):
        values = value_iteration(model, discount, EXACT, in_place=in_place).values
        assert values == pytest.approx(plan.values, abs=1e-9)
    chances = np.eye(4)[plan.policy]
    assert solved(model, chances, discount) == pytest.approx(plan.values, abs=1e-9)
    assert best_actions(model, plan.values, discount, 1e-8)[np.arange(model.num_states), plan.policy].all()


def test_no_policy_is_better():
    """All 4^5 policies of a world of five cells that can be left."""
    model = vecenv.model(gridworld(["..G", "S.."], noise=NOISE, step_reward=-0.1))
    free = np.flatnonzero(~model.absorbing)
    best = np.full(model.num_states, -np.inf)
    for actions in product(range(4), repeat=len(free)):
        chances = np.zeros((model.num_states, 4))
        chances[:, 0] = 1.0
        chances[free] = np.eye(4)[list(actions)]
        best = np.maximum(best, solved(model, chances, 0.9))
    assert value_iteration(model, 0.9, EXACT).values == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("id", ["FrozenLake8x8-v1", "5Walk-v0", "SparseGridworld-v0"])
def test_evaluation_is_the_linear_system(id):
    model = vecenv.model(id)
    chances = np.random.default_rng(1).dirichlet(np.ones(model.num_actions), model.num_states)
    expected = solved(model, chances, 0.97)
    for in_place in (True, False):
        got = policy_evaluation(model, chances, 0.97, EXACT, in_place=in_place).values
        assert got == pytest.approx(expected, abs=1e-10)


def test_actions_or_probabilities():
    model = vecenv.model(WORLD)
    policy = np.arange(model.num_states) % 4
    a = policy_evaluation(model, policy, 0.9).values
    b = policy_evaluation(model, np.eye(4)[policy], 0.9).values
    np.testing.assert_array_equal(a, b)


def test_a_start_near_the_end_saves_sweeps():
    model = vecenv.model("FrozenLake8x8-v1")
    first = value_iteration(model, 0.99, 1e-8)
    again = value_iteration(model, 0.99, 1e-8, values=first.values)
    assert again.sweeps == 1 < first.sweeps and first.values is not again.values
    plan = policy_iteration(model, 0.99, policy=greedy_policy(model, first.values, 0.99))
    assert plan.improvements == 0


def test_greedy_policy_takes_the_first_of_the_best():
    model = vecenv.model("TinyGrid-v0")
    values = value_iteration(model, 0.9, EXACT).values
    assert best_actions(model, values, 0.9)[0].tolist() == [False, True, True, False]
    assert greedy_policy(model, values, 0.9)[:8].tolist() == [1, 1, 2, 1, 1, 2, 1, 1]
    assert greedy_policy(model, values, 0.9, tolerance=10.0).tolist() == [0] * 9
    assert action_values(model, values, 0.9).shape == (9, 4)


def test_what_never_ends_has_no_values():
    model = vecenv.model(gridworld(["SX", ".G"], step_reward=-1))
    policy = np.zeros(model.num_states, np.int64)  # up, for ever
    with pytest.raises(RuntimeError, match=r"policy_evaluation: values still change by 1 after 1,000 sweeps"):
        policy_evaluation(model, policy, 1.0, max_sweeps=1000)
    assert policy_evaluation(model, policy, 0.5, EXACT).values[1] == pytest.approx(-2)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda model: value_iteration(model, 1.5), "discount: expected a number from 0 to 1, got 1.5"),
        (lambda model: value_iteration(model, float("nan")), "discount"),
        (lambda model: value_iteration(model, 1, -1e-3), "precision: expected a number >= 0"),
        (lambda model: value_iteration(model, 1, max_sweeps=0), "max_sweeps: expected an int >= 1"),
        (lambda model: value_iteration(model, 1, values=[0]), r"one for each of 9 states, got shape \(1,\)"),
        (lambda model: policy_evaluation(model, [0] * 8 + [4], 1), "state 8: expected an action from 0 to 3, got 4"),
        (lambda model: policy_evaluation(model, [0.5] * 9, 1), r"int \[9\], or probabilities \[9, 4\], got float64"),
        (lambda model: policy_evaluation(model, np.full((9, 4), 0.3), 1), "state 0: .* that add up to 1"),
        (lambda model: policy_iteration(model, -1), "discount"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(vecenv.model("TinyGrid-v0"))


def test_in_place_is_a_bool():
    with pytest.raises(TypeError, match="in_place: expected True or False, got 1"):
        value_iteration(vecenv.model("TinyGrid-v0"), 0.9, in_place=1)  # type: ignore[arg-type]
