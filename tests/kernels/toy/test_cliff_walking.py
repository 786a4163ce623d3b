"""CliffWalking against Gymnasium 1.4.0's CliffWalking-v1 and CliffWalkingSlippery-v1, bit for bit, and against known
results."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from oracle import Singles, assert_frequencies, assert_infos, assert_lockstep, assert_mean, sync_vector_env

import vecenv
from vecenv.kernels.toy.cliff_walking import tables
from vecenv.planning import greedy_policy, value_iteration

BOTH = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)
IDS = ("CliffWalking-v1", "CliffWalkingSlippery-v1")
SAFE = np.array([1] * 11 + [2] + [0] * 11 + [2] + [0] * 11 + [2] + [0] * 12)  # the way along the top


def walk(obs, rng):
    """The safe way to the goal, one step in ten at random."""
    return np.where(rng.random(len(obs)) < 0.1, rng.integers(4, size=len(obs)), SAFE[obs])


POLICIES = {"random": None, "walk": walk}


def lockstep(id, policy, mode, num_envs, num_steps, seed, **options):
    envs = vecenv.make_vec(id, num_envs, autoreset_mode=mode, **options)
    oracle = sync_vector_env(id, num_envs, mode, **options)
    return assert_lockstep(envs, oracle, num_steps, seed, policy=POLICIES[policy])


@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("id", IDS)
def test_lockstep_with_gymnasium(id, policy, mode):
    """Random play hardly ever gets to the goal; without a limit nothing else ends."""
    ends = lockstep(id, policy, mode, 16, 1000, seed=0)
    assert policy == "random" or ends > 100


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize(
    "id, options",
    [
        ("CliffWalking-v1", {"is_slippery": True, "max_episode_steps": 30}),
        ("CliffWalkingSlippery-v1", {"is_slippery": False, "max_episode_steps": 19}),
    ],
    ids=repr,
)
def test_lockstep_with_options(id, options, mode):
    assert lockstep(id, "walk", mode, 16, 300, seed=1, **options) > 40


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("id", IDS)
def test_lockstep_with_gymnasium_for_long(id, policy, mode, seed):
    assert lockstep(id, policy, mode, 64, 10_000, seed) > (5000 if policy == "walk" else 10)


@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("id", IDS)
def test_prob_of_every_row_is_gymnasiums(id, mode):
    envs = vecenv.make_vec(id, 8, autoreset_mode=mode)
    finals = assert_infos(envs, Singles(id, 8, mode), num_steps=300, seed=5, policy=walk)
    assert (finals > 10) == (mode is AutoresetMode.SAME_STEP)


@pytest.mark.parametrize("id", IDS)
def test_tables_are_gymnasiums(id):
    """Every outcome of every cell and action, those that play never gets to included."""
    oracle = gymnasium.make(id).unwrapped
    moves, rewards = tables()
    for cell in range(48):
        for action in range(4):
            outcomes = oracle.P[cell][action]
            turns = (-1, 0, 1) if oracle.is_slippery else (0,)
            directions = [(action + turn) % 4 for turn in turns]
            ours = [(1 / len(turns), moves[cell, k], rewards[cell, k], moves[cell, k] == 47) for k in directions]
            assert ours == outcomes


@pytest.mark.parametrize("cell", [37, 46, 47])
def test_from_the_cliff_or_the_goal_as_in_gymnasium(cell):
    """No play leads there, a state that is put there does."""
    oracle = gymnasium.make("CliffWalking-v1").unwrapped
    view = vecenv.make("CliffWalking-v1")
    for action in range(4):
        oracle.reset(seed=1)
        view.reset(seed=1)
        oracle.s = cell
        view.state.cell = cell
        assert view.step(action) == oracle.step(action)
        assert view.np_random.bit_generator.state == oracle.np_random.bit_generator.state


@pytest.mark.nojit
def test_the_shortest_way_and_the_cliff():
    """Case C137 and reference systems 6.3: 13 steps, -13 in all; a step over the cliff costs 100, leads back to the
    start and ends nothing."""
    view = vecenv.make("CliffWalking-v1")
    assert view.reset(seed=0) == (36, {"prob": 1.0})
    assert view.step(1) == (36, -100.0, False, False, {"prob": 1.0})
    results = [view.step(action) for action in [0] + [1] * 11 + [2]]
    assert sum(result[1] for result in results) == -13
    assert [result[2] for result in results] == [False] * 12 + [True]
    assert [int(result[0]) for result in results] == [*range(24, 36), 47]


def test_the_best_value_of_the_start():
    """Case C137: value iteration without discount, on what one step from every cell with every action gives."""
    cells, actions = (grid.ravel() for grid in np.meshgrid(np.arange(48), np.arange(4), indexing="ij"))
    envs = vecenv.make_vec("CliffWalking-v1", len(cells), autoreset_mode="disabled")
    envs.reset(seed=0)
    envs.state.cell = cells
    obs, rewards, terminated, _, _ = envs.step(actions)
    values = np.zeros(48)
    for _ in range(48):
        values = (rewards + np.where(terminated, 0, values[obs])).reshape(48, 4).max(axis=1)
    assert values[36] == -13


def test_nothing_ends_but_at_the_goal():
    """Case C029: no limit."""
    envs = vecenv.make_vec("CliffWalking-v1", 4)
    envs.reset(seed=0)
    for _ in range(5000):
        obs, rewards, terminated, truncated, _ = envs.step(np.array([0, 2, 3, 1]))
        assert not terminated.any() and not truncated.any()
    assert obs.tolist() == [0, 36, 36, 36] and rewards.tolist() == [-1, -1, -1, -100]


@pytest.mark.parametrize(
    "cell, action, outcomes",
    [
        (25, 1, {13: 1 / 3, 26: 1 / 3, 36: 1 / 3}),
        (0, 0, {0: 2 / 3, 1: 1 / 3}),
        (35, 2, {34: 1 / 3, 35: 1 / 3, 47: 1 / 3}),
    ],
)
def test_slip_frequencies(cell, action, outcomes):
    """A chi-square with 2 degrees exceeds 13.8 once in 1000 seeds; this one is fixed."""
    n = 30_000
    envs = vecenv.make_vec("CliffWalkingSlippery-v1", n, autoreset_mode="disabled")
    envs.reset(seed=7)
    envs.state.cell = cell
    obs, _, _, _, infos = envs.step(np.full(n, action))
    assert_frequencies(np.bincount(obs, minlength=48), [outcomes.get(k, 0) for k in range(48)], 13.8)
    assert (infos["prob"] == 1 / 3).all()


def test_random_play_gets_to_the_goal_as_often_as_it_should():
    """Within 2000 random actions: exact from powers of the transition matrix of Gymnasium's P."""
    oracle = gymnasium.make("CliffWalking-v1").unwrapped
    stay = np.zeros((48, 48))
    for cell in range(47):
        for action in range(4):
            stay[cell, oracle.P[cell][action][0][1]] += 0.25
    stay[47, 47] = 1
    n, num_steps = 4000, 2000
    expected = np.linalg.matrix_power(stay, num_steps)[36, 47]
    envs = vecenv.make_vec("CliffWalking-v1", n, autoreset_mode="disabled", ended="absorb")
    envs.reset(seed=1)
    policy = np.random.default_rng(1)
    for _ in range(num_steps):
        _, _, terminated, _, _ = envs.step(policy.integers(4, size=n))
    assert 0.1 < expected < 0.9
    assert_mean(terminated.astype(float), expected)


def test_best_values():
    """Reference systems 6.3: -13 with -1 on every step; slippery, by a linear system over Gymnasium's `P`."""
    best = value_iteration(vecenv.model("CliffWalking-v1"), discount=1.0, precision=1e-12)
    model = vecenv.model("CliffWalking-v1")
    assert model.num_states == 38 and best.values[model.state2id(36)] == -13
    model, P = vecenv.model("CliffWalkingSlippery-v1"), gymnasium.make("CliffWalkingSlippery-v1").unwrapped.P
    best = value_iteration(model, discount=0.9, precision=1e-13)
    policy = greedy_policy(model, best.values, discount=0.9)
    transitions, rewards = np.zeros((48, 48)), np.zeros(48)
    for s, cell in enumerate(model.keys.tolist()):
        for probability, to, reward, terminated in P[cell][policy[s]] if cell != 47 else []:
            transitions[cell, to] += 0.0 if terminated else probability
            rewards[cell] += probability * reward
    exact = np.linalg.solve(np.eye(48) - 0.9 * transitions, rewards)
    np.testing.assert_allclose(best.values, exact[model.keys], atol=1e-10)


def test_text_is_gymnasiums():
    oracle = gymnasium.make("CliffWalking-v1", render_mode="ansi")
    view = vecenv.make("CliffWalking-v1", render_mode="ansi")
    oracle.reset(seed=0)
    view.reset(seed=0)
    for action in [0] + [1] * 11 + [2]:
        assert view.render() == oracle.render()
        oracle.step(action)
        view.step(action)
    assert view.render() == oracle.render()


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"is_slippery": 1}, TypeError, "is_slippery: expected True or False, got 1"),
        ({"slippery": True}, TypeError, "unknown option 'slippery'; did you mean 'is_slippery'"),
        ({"params": {"straight": 0.5}}, ValueError, "'straight' follows from the options"),
    ],
)
def test_wrong_options(id, options, error, message):
    with pytest.raises(error, match=message):
        vecenv.make_vec(id, 2, **options)
