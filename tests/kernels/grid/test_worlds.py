"""The worlds of gym-classics2. Oracle: the numbers of the specification (reference-systems 4.2, 4.3, 6.1, 6.3), which
were computed from the rules independently."""

import numpy as np
import pytest
from oracle import assert_mean

import vecenv
from vecenv.planning import greedy_policy, policy_evaluation, uniform_policy, value_iteration

EXACT = 1e-13
CLASSIC = "ClassicGridworld-v1"
UP, RIGHT, DOWN, LEFT = range(4)


def best(id, discount, **options):
    """The model, the best values and the best policy."""
    model = vecenv.model(id, **options)
    values = value_iteration(model, discount, EXACT).values
    return model, values, greedy_policy(model, values, discount)


def from_start(id, discount, **options):
    model, values, _ = best(id, discount, **options)
    return float(values @ model.starts)


def rows(text):
    """Three rows of numbers, # for the block, as a matrix."""
    return np.array([[np.nan if cell == "#" else float(cell) for cell in row.split()] for row in text.split("|")])


# --- sizes and shortest paths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "id, shape, start, goal, num_states, shortest",
    [
        (CLASSIC, (3, 4), (0, 0), (3, 2), 11, 5),
        ("LMaze-v0", (10, 10), (3, 2), (8, 8), 90, 13),
        ("CliffWalk-v1", (4, 12), (0, 0), (11, 0), 38, 13),
        ("DynaMaze-v0", (6, 9), (0, 3), (8, 5), 47, 14),
        ("FourRooms-v0", (11, 11), (0, 0), (9, 9), 104, 18),
        ("SparseGridworld-v0", (8, 10), (1, 3), (6, 3), 80, 5),
        ("WindyGridworld-v0", (7, 10), (0, 3), (7, 3), 63, 15),
    ],
)
def test_sizes_and_shortest_paths(id, shape, start, goal, num_states, shortest):
    """Breadth first over the model's rows."""
    model = vecenv.model(id)
    assert model.num_states == num_states and model.to_matrix(np.arange(num_states)).shape == shape
    assert [model.id2state(s) for s in np.flatnonzero(model.starts)] == [start]
    frontier, distance, target = {model.state2id(start)}, 0, model.state2id(goal)
    while target not in frontier:
        frontier |= {to for s in frontier for action in range(4) for to in model.transitions(s, action)[0]}
        distance += 1
    assert distance == shortest
    assert vecenv.make(id).observation_space.n == num_states


def test_windy_cells_that_can_never_be_entered():
    model = vecenv.model("WindyGridworld-v0")
    never = {(x, y) for x in range(10) for y in range(7) if not model.is_reachable((x, y))}
    assert never == {(4, 0), (5, 0), (5, 1), (6, 0), (6, 1), (6, 2), (7, 0)}


@pytest.mark.parametrize(
    "id, discount, options, value",
    [
        ("CliffWalk-v1", 1.0, {}, -12),
        ("CliffWalk-v1", 1.0, {"goal_reward": -1}, -13),
        ("WindyGridworld-v0", 1.0, {"step_reward": -1, "goal_reward": -1}, -15),
        ("DynaMaze-v0", 0.95, {}, 0.513342),
        ("DynaMaze-v0", 0.9, {}, 0.254187),
        ("FourRooms-v0", 0.95, {}, 0.418120),
        ("FourRooms-v0", 0.9, {}, 0.166772),
        ("LMaze-v0", 0.95, {}, 0.540360),
        ("LMaze-v0", 0.9, {}, 0.282430),
        ("SparseGridworld-v0", 0.99, {}, 0.938258),
        ("SparseGridworld-v0", 0.9, {}, 0.526012),
        ("SparseGridworld-v0", 1.0, {"step_reward": -1, "goal_reward": -1}, -7.369772),
    ],
)
def test_best_values(id, discount, options, value):
    assert from_start(id, discount, **options) == pytest.approx(value, abs=5.1e-7)


@pytest.mark.parametrize("goal_reward, value", [(0, -16), (-1, -17)])
def test_the_safe_way_round_the_cliff(goal_reward, value):
    """Along the top row: 17 steps."""
    view = vecenv.make("CliffWalk-v1", goal_reward=goal_reward)
    view.reset(seed=0)
    results = [view.step(action) for action in [UP] * 3 + [RIGHT] * 11 + [DOWN] * 3]
    assert len(results) == 17 and sum(reward for _, reward, *_ in results) == value and results[-1][2]


def test_the_way_through_the_wind():
    """Nine steps right, four down, two left."""
    view = vecenv.make("WindyGridworld-v0", step_reward=-1, goal_reward=-1)
    view.reset(seed=0)
    results = [view.step(action) for action in [RIGHT] * 9 + [DOWN] * 4 + [LEFT] * 2]
    assert [result[2] for result in results] == [False] * 14 + [True]
    assert sum(reward for _, reward, *_ in results) == -15


def test_a_fall_from_the_cliff():
    view = vecenv.make("CliffWalk-v1")
    assert view.reset(seed=0)[0] == 0
    assert view.step(RIGHT)[:3] == (0, -100, False)
    assert view.step(UP)[:3] == (1, -1, False)


# --- the 4x3 grid -----------------------------------------------------------------------------------------------------


def test_names_of_the_classic_grid():
    model = vecenv.model(CLASSIC)
    cells = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2)]
    assert model.raw_states == cells
    assert model.id2state(list(range(11))) == cells and model.state2id(cells) == list(range(11))
    assert [cells[s] for s in np.flatnonzero(model.starts)] == [(0, 0)]
    assert [cells[s] for s in np.flatnonzero(model.absorbing)] == [(3, 1), (3, 2)]
    assert model.action2id("up") == 0 and model.action2id("north") == -1


def test_rows_of_the_classic_grid():
    model = vecenv.model(CLASSIC)
    to, rewards, ends, chances = model.transitions(model.state2id((0, 0)), "up")
    assert sorted(zip(model.id2state(to), chances, strict=True)) == [((0, 0), 0.1), ((0, 1), 0.8), ((1, 0), 0.1)]
    assert sorted(to) == [0, 1, 3] and rewards.tolist() == [-0.04] * 3 and not ends.any()


def test_dense_classic_grid():
    probability, reward = vecenv.model(CLASSIC).dense()
    assert probability.shape == (11, 4, 11) and np.abs(probability.sum(2) - 1).max() <= 1e-12
    up = [
        {0: 0.1, 1: 0.8, 3: 0.1},
        {1: 0.2, 2: 0.8},
        {2: 0.9, 4: 0.1},
        {0: 0.1, 3: 0.8, 5: 0.1},
        {2: 0.1, 4: 0.8, 7: 0.1},
        {3: 0.1, 6: 0.8, 8: 0.1},
        {6: 0.1, 7: 0.8, 9: 0.1},
        {4: 0.1, 7: 0.8, 10: 0.1},
        {5: 0.1, 8: 0.1, 9: 0.8},
        {9: 1.0},
        {10: 1.0},
    ]
    for s, expected in enumerate(up):
        assert {int(to): probability[s, 0, to] for to in np.flatnonzero(probability[s, 0])} == pytest.approx(expected)
    # Table of expected rewards per pair, [11, 4]: entering a goal pays only its own reward.
    expected = (probability * reward).sum(2)
    assert expected.shape == (11, 4)
    assert expected[7, RIGHT] == pytest.approx(0.8 - 0.2 * 0.04) and expected[8, UP] == pytest.approx(-0.8 - 0.2 * 0.04)
    assert expected[0, UP] == pytest.approx(-0.04) and (expected[9:] == 0).all()


VALUES = {
    "gamma 1": (1.0, -0.04, ".8516 .9078 .9578 0 | .8016 # .7003 0 | .7453 .6953 .6514 .4279"),
    "gamma .99": (0.99, -0.04, ".8244 .8929 .9546 0 | .7643 # .6882 0 | .6976 .6391 .6061 .3819"),
    "gamma .9": (0.9, -0.04, ".6105 .7662 .9282 0 | .4872 # .5849 0 | .3739 .3266 .4275 .1888"),
    "gamma .9, step 0": (0.9, 0.0, ".7166 .8271 .9420 0 | .6292 # .6354 0 | .5452 .4787 .5283 .3081"),
}


@pytest.mark.parametrize("setting", VALUES)
def test_values_of_the_classic_grid(setting):
    discount, step_reward, expected = VALUES[setting]
    model, values, _ = best(CLASSIC, discount, step_reward=step_reward)
    np.testing.assert_allclose(model.to_matrix(values), rows(expected), atol=5.1e-5, rtol=0)


@pytest.mark.parametrize(
    "discount, step_reward, expected",
    [
        (1.0, -0.04, ".8116 .8678 .9178 1 | .7616 # .6603 -1 | .7053 .6553 .6114 .3879"),
        (0.9, 0.0, ".6450 .7444 .8478 1 | .5663 # .5719 -1 | .4907 .4308 .4755 .2773"),
    ],
)
def test_utilities_of_the_classic_grid(discount, step_reward, expected):
    """With rewards on states, as in Russell and Norvig: U = r + discount * V, and a terminal state's is its reward."""
    model, values, _ = best(CLASSIC, discount, step_reward=step_reward)
    utilities = step_reward + discount * values
    utilities[[9, 10]] = -1, 1
    np.testing.assert_allclose(model.to_matrix(utilities), rows(expected), atol=5.1e-5, rtol=0)


def test_six_decimals_of_the_classic_grid():
    model, values, _ = best(CLASSIC, 1.0)
    expected = [
        .745308, .801558, .851558, .695308, .907808, .651416, .700274, .957808, .427925, 0, 0,
    ]  # fmt: skip
    np.testing.assert_allclose(values, expected, atol=5.1e-7, rtol=0)
    q = vecenv.planning.action_values(model, values, 1.0)
    np.testing.assert_allclose(q[0], [0.745308, 0.670933, 0.700308, 0.710933], atol=5.1e-7, rtol=0)
    expected = [
        .697639, .764275, .824430, .639065, .892864, .606134, .688209, .954642, .381862, 0, 0,
    ]  # fmt: skip
    np.testing.assert_allclose(best(CLASSIC, 0.99)[1], expected, atol=5.1e-7, rtol=0)


def test_values_of_random_play():
    model = vecenv.model(CLASSIC)
    values = policy_evaluation(model, uniform_policy(model), 1.0, EXACT).values
    expected = "-1.2314 -.8334 -.2754 0 | -1.4694 # -.8729 0 | -1.5473 -1.4653 -1.2233 -1.1716"
    np.testing.assert_allclose(model.to_matrix(values), rows(expected), atol=5.1e-5, rtol=0)


@pytest.mark.parametrize("in_place, sweeps", [(True, (8, 14, 21)), (False, (8, 19, 29))])
def test_numbers_of_sweeps(in_place, sweeps):
    model = vecenv.model(CLASSIC)
    got = [value_iteration(model, 1.0, precision, in_place=in_place) for precision in (0.1, 1e-3, 1e-6)]
    assert tuple(result.sweeps for result in got) == sweeps
    assert [result.change <= precision for result, precision in zip(got, (0.1, 1e-3, 1e-6), strict=True)] == [True] * 3


def test_first_sweeps():
    """Each from where the one before left off: a precision of 10 ends after one."""
    model = vecenv.model(CLASSIC)
    first = value_iteration(model, 1.0, 10.0)
    expected = dict.fromkeys(range(9), -0.04) | {7: 0.7876, 6: -0.044, 8: -0.044, 9: 0, 10: 0}
    assert first.sweeps == 1 and first.values == pytest.approx([expected[s] for s in range(11)], abs=1e-12)
    second = value_iteration(model, 1.0, 10.0, values=first.values).values
    assert second[[4, 6, 7]] == pytest.approx([0.58208, 0.48968, 0.919728], abs=1e-12)


def shape_of(policy):
    """A policy of the classic grid as the specification writes it: its rows, letters for directions."""
    model = vecenv.model(CLASSIC)
    letters = np.where(model.absorbing, "*", np.array(list("URDL"))[policy])
    return "/".join("".join(cell or "#" for cell in row) for row in model.to_matrix(letters, fill=""))


@pytest.mark.parametrize(
    "discount, step_reward, expected",
    [
        (1.0, -0.04, "RRR*/U#U*/ULLL"),
        (0.99, -0.04, "RRR*/U#U*/ULUL"),
        (0.9, -0.04, "RRR*/U#U*/URUL"),
        (1.0, -2.0, "RRR*/U#R*/RRRU"),
        (1.0, -0.5, "RRR*/U#U*/URUU"),
        (1.0, -0.2, "RRR*/U#U*/URUL"),
        (1.0, -0.02, "RRR*/U#L*/ULLD"),
        (1.0, -0.01, "RRR*/U#L*/ULLD"),
    ],
)
def test_best_policies_of_the_classic_grid(discount, step_reward, expected):
    assert shape_of(best(CLASSIC, discount, step_reward=step_reward)[2]) == expected


def test_ids_of_the_best_policy():
    assert best(CLASSIC, 1.0)[2][:9].tolist() == [0, 0, 1, 3, 1, 3, 0, 1, 3]


def line_of(policy):
    """The action of each state, and its value as a + b * step_reward: by linear systems, for discount 1."""
    model = vecenv.model(CLASSIC, step_reward=1.0, goal_reward=0.0, trap_reward=0.0)
    ends = vecenv.model(CLASSIC, step_reward=0.0)
    letters = dict(zip("URDL", range(4), strict=True))
    matrix = np.array([[letters.get(letter, 0) for letter in row] for row in policy.split("/")])
    cells = model.to_matrix(np.arange(11), fill=-1)
    chosen = np.array([matrix[cells == s][0] for s in range(11)])
    going_on = model.dense()[0][np.arange(11), chosen] * ~model.absorbing
    paid = [
        (probability * reward).sum(2)[np.arange(11), chosen] for probability, reward in (ends.dense(), model.dense())
    ]
    return chosen, *(np.linalg.solve(np.eye(11) - going_on, one) for one in paid)


@pytest.mark.parametrize(
    "below, above, rounded",
    [
        ("RRR*/U#R*/RRRU", "RRR*/U#U*/RRRU", None),
        ("RRR*/U#U*/RRUU", "RRR*/U#U*/URUU", None),
        ("RRR*/U#U*/URUU", "RRR*/U#U*/URUL", None),
        ("RRR*/U#U*/URUL", "RRR*/U#U*/ULUL", -0.085),
        ("RRR*/U#L*/ULLL", "RRR*/U#L*/ULLD", -0.022),
    ],
)
def test_breakpoints_of_the_best_policy(below, above, rounded):
    """The step reward at which the best policy changes is where the values of both are equal. Two of them are the
    textbook's; the specification's other two, about -1.63 and -.43, are -1.6497 and -.4526 by this computation."""
    (first, a, b), (second, c, d) = line_of(below), line_of(above)
    (changed,) = np.flatnonzero(first != second)
    breakpoint = float((c - a)[changed] / (b - d)[changed])
    assert shape_of(best(CLASSIC, 1.0, step_reward=breakpoint * 1.001)[2]) == below
    assert shape_of(best(CLASSIC, 1.0, step_reward=breakpoint * 0.999)[2]) == above
    assert rounded is None or round(breakpoint, 3) == rounded


# --- random and best play of the 4x3 grid -----------------------------------------------------------------------------


def play(policy, num_envs, num_episodes, seed):
    """Lengths and returns of the first episodes of every row, `[num_envs * num_episodes]`; the returns tell the ends
    apart if steps pay nothing. The first ones of each row: long episodes are not under-represented."""
    envs = vecenv.make_vec(CLASSIC, num_envs, autoreset_mode="same_step", step_reward=0.0)
    rng = np.random.default_rng(seed)
    obs, _ = envs.reset(seed=seed)
    lengths = np.zeros((num_envs, num_episodes), np.int64)
    returns = np.zeros((num_envs, num_episodes))
    counts = np.zeros(num_envs, np.int64)
    while counts.min() < num_episodes:
        actions = rng.integers(4, size=num_envs) if policy is None else policy[obs]
        obs, _, terminated, _, _ = envs.step(actions)
        ended = np.flatnonzero(terminated & (counts < num_episodes))
        lengths[ended, counts[ended]] = envs.episode_lengths[ended]
        returns[ended, counts[ended]] = envs.episode_returns[ended]
        counts[ended] += 1
    return lengths.ravel(), returns.ravel()


def test_random_play():
    """A million episodes, within 4 standard errors: mean length 32.405063, P(+1) .354430."""
    lengths, returns = play(None, 20_000, 50, seed=1)
    assert len(lengths) == 1_000_000 and set(np.unique(returns)) == {-1.0, 1.0}
    assert_mean(lengths, 32.405063, sigmas=4)
    assert_mean(returns == 1, 0.354430, sigmas=4)


def test_best_play():
    """Mean length 6.682363, P(+1) .986301, by play and exactly."""
    model, _, policy = best(CLASSIC, 1.0)
    lengths, returns = play(policy, 20_000, 10, seed=2)
    assert_mean(lengths, 6.682363, sigmas=4)
    assert_mean(returns == 1, 0.986301, sigmas=4)
    steps = vecenv.model(CLASSIC, step_reward=1.0, goal_reward=1.0, trap_reward=1.0)
    wins = vecenv.model(CLASSIC, step_reward=0.0, trap_reward=0.0)
    for counted, expected in ((steps, 6.682363), (wins, 0.986301)):
        value = policy_evaluation(counted, policy, 1.0, EXACT).values @ model.starts
        assert value == pytest.approx(expected, abs=5.1e-7)


def test_random_play_exactly():
    steps = vecenv.model(CLASSIC, step_reward=1.0, goal_reward=1.0, trap_reward=1.0)
    wins = vecenv.model(CLASSIC, step_reward=0.0, trap_reward=0.0)
    for counted, expected in ((steps, 32.405063), (wins, 0.354430)):
        value = policy_evaluation(counted, uniform_policy(counted), 1.0, EXACT).values @ counted.starts
        assert value == pytest.approx(expected, abs=5.1e-7)
