"""`gridworld`: layouts, noise, wind, cliffs and rewards as an environment and its model."""

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete, MultiDiscrete
from oracle import assert_frequencies

import vecenv
from vecenv import gridworld, jit
from vecenv.checks import check_def
from vecenv.kernels.grid.gridworld import NOISE
from vecenv.planning import uniform_policy, value_iteration

UP, RIGHT, DOWN, LEFT = range(4)


def walk(definition, actions, **options):
    """(observation, reward, terminated) of each step."""
    view = vecenv.make(definition, **options)
    view.reset(seed=0)
    return [view.step(action)[:3] for action in actions]


@pytest.mark.nojit
def test_a_walk():
    steps = walk(gridworld(["..G", ".X.", "S.."], step_reward=-0.5), [UP, RIGHT, LEFT, UP, RIGHT, RIGHT])
    assert [(int(obs), reward, end) for obs, reward, end in steps] == [
        (1, -0.5, False),
        (1, -0.5, False),  # the block
        (1, -0.5, False),  # the edge
        (2, -0.5, False),
        (4, -0.5, False),
        (7, 1.0, True),
    ]


@pytest.mark.nojit
@pytest.mark.parametrize("ended", ["raise", "absorb"])
def test_a_goal_pays_once(ended):
    """Case C145."""
    envs = vecenv.make_vec(gridworld(["S.G"]), 1, autoreset_mode="disabled", ended=ended)
    envs.reset(seed=0)
    assert [float(envs.step(np.array([RIGHT]))[1][0]) for _ in range(2)] == [0.0, 1.0]
    for action in (LEFT, RIGHT):
        if ended == "raise":
            with pytest.raises(ResetNeeded, match="row 0: its episode has ended"):
                envs.step(np.array([action]))
        else:
            obs, rewards, terminated, _, _ = envs.step(np.array([action]))
            assert (int(obs[0]), float(rewards[0]), bool(terminated[0])) == (2, 0.0, True)
    assert envs.episode_returns.tolist() == [1.0]


@pytest.mark.nojit
def test_coordinates():
    definition = gridworld(["..G", ".X.", "S.."], tabular=False)
    assert definition.observation_space == MultiDiscrete([3, 3])
    assert [obs.tolist() for obs, _, _ in walk(definition, [RIGHT, RIGHT, UP])] == [[1, 0], [2, 0], [2, 1]]


def test_numbers_are_the_models():
    """Of the reachable cells only, by x and then y."""
    definition = gridworld(["a.XG.", "SGX..", "XXX.."])
    assert definition.observation_space == Discrete(4)
    model = vecenv.model(definition)
    assert model.raw_states == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert model.id2state(0) == (0, 1) and model.state2id((1, 2)) == 3 and not model.is_reachable((3, 0))
    assert model.to_matrix(np.arange(4), fill=-1).tolist() == [
        [1, 3, -1, -1, -1],
        [0, 2, -1, -1, -1],
        [-1, -1, -1, -1, -1],
    ]
    envs = vecenv.make_vec(definition, 4)
    envs.reset(seed=0)
    model.put(envs, np.arange(4))
    assert envs.observe().tolist() == [0, 1, 2, 3]


def test_several_starts():
    definition = gridworld(["S.S", ".G.", "S.."])
    envs = vecenv.make_vec(definition, 30_000)
    obs, _ = envs.reset(seed=1)
    assert_frequencies(np.bincount(obs, minlength=9), [1 / 3, 0, 1 / 3, 0, 0, 0, 0, 0, 1 / 3], 13.8)
    assert vecenv.model(definition).starts == pytest.approx([1 / 3, 0, 1 / 3, 0, 0, 0, 0, 0, 1 / 3])


def test_noise_turns_moves():
    """Left, straight, right: .1, .2, .7."""
    definition = gridworld(["...", ".S.", "..G"], noise=(0.1, 0.2, 0.7))
    model = vecenv.model(definition)
    to, _, _, chances = model.transitions(model.state2id((1, 1)), "up")
    assert model.id2state(to) == [(0, 1), (1, 2), (2, 1)] and chances == pytest.approx([0.1, 0.2, 0.7])
    envs = vecenv.make_vec(definition, 20_000)
    envs.reset(seed=2)
    obs, *_ = envs.step(np.full(20_000, UP))
    counts = [int((obs == model.state2id(cell)).sum()) for cell in [(0, 1), (1, 2), (2, 1)]]
    assert_frequencies(counts, [0.1, 0.2, 0.7], 13.8)
    check_def(definition, num_steps=200, boundscheck=False)


def test_noise_without_chance_draws_nothing():
    definition = gridworld(["S.G"], noise=(0.0, 1.0, 0.0))
    view = vecenv.make(definition)
    view.reset(seed=3)
    before = view.np_random.bit_generator.state
    view.step(RIGHT)
    assert view.np_random.bit_generator.state == before


@jit
def slippery_on_the_left(state, action, params):
    """Straight on the right; on the left also back, or not at all."""
    if state.x > 0:
        return 0.0, 1.0, 0.0, 0.0, 0.0
    return 0.0, 0.5, 0.0, 0.3, 0.2


@jit
def too_much_below(state, action, params):
    return (0.5, 0.5) if state.y > 0 else (0.5, 0.6)


@jit
def not_a_tuple(state, action, params):
    return 1.0


def test_events_of_ones_own():
    definition = gridworld(["...", "S.G", "..."], noise=slippery_on_the_left)
    model = vecenv.model(definition)
    to, _, _, chances = model.transitions(model.state2id((0, 1)), "up")
    assert dict(zip(model.id2state(to), chances, strict=True)) == pytest.approx({(0, 2): 0.5, (0, 0): 0.3, (0, 1): 0.2})
    assert model.transitions(model.state2id((1, 1)), "right")[3].tolist() == [1]
    check_def(definition, num_steps=200, boundscheck=False)


@jit
def distance_reward(x, y, action, to_x, to_y, params):
    return 10 * x + y + 0.5 * action - (100 * to_x + to_y)


def test_rewards_of_ones_own():
    definition = gridworld(["..", "SG"], reward=distance_reward, noise=NOISE)
    model = vecenv.model(definition)
    to, rewards, ends, _ = model.transitions(model.state2id((0, 1)), "right")
    assert dict(zip(model.id2state(to), rewards.tolist(), strict=True)) == {
        (1, 1): 1.5 - 101, (0, 1): 1.5 - 1, (0, 0): 1.5
    }  # fmt: skip
    assert not any(ends)
    goal = model.state2id((1, 0))
    assert model.transitions(goal, 0)[1].tolist() == [0] and model.absorbing[goal]
    check_def(definition, num_steps=200, boundscheck=False)


def test_goals_of_different_rewards():
    model = vecenv.model(gridworld(["G.G", ".S."], goal_reward={(0, 1): 5, (2, 1): -7}, step_reward=0.25))
    top = model.state2id((1, 1))
    assert [float(model.transitions(top, action)[1][0]) for action in ("left", "right", "up")] == [5, -7, 0.25]


@pytest.mark.nojit
def test_a_fall_goes_back_to_the_start():
    definition = gridworld(["...", "SCG"], cliff="C", step_reward=-1, goal_reward=0)
    steps = walk(definition, [UP, RIGHT, DOWN, RIGHT, UP, RIGHT, RIGHT, DOWN], max_episode_steps=9)
    assert [(int(obs), reward, end) for obs, reward, end in steps] == [
        (1, -1, False),
        (2, -1, False),
        (0, -100, False),
        (0, -100, False),
        (1, -1, False),
        (2, -1, False),
        (4, -1, False),
        (3, 0, True),
    ]
    assert vecenv.model(definition).raw_states == [(0, 0), (0, 1), (1, 1), (2, 0), (2, 1)]


def test_wind():
    model = vecenv.model(gridworld(["...", "...", "S.G"], wind=(0, 1, -1)))
    assert model.id2state(model.transitions(model.state2id((1, 1)), "right")[0]) == [(2, 2)]
    assert model.id2state(model.transitions(model.state2id((2, 2)), "left")[0]) == [(1, 1)]
    assert model.id2state(model.transitions(model.state2id((0, 0)), "right")[0]) == [(1, 0)]


def test_noise_and_wind_against_a_slow_reference():
    """Oracle: the rules written out for one cell and action."""
    layout = ["..X.G", "S....", ".X.X.", "...a."]
    wind, noise = (0, 1, 0, 2, -1), (0.25, 0.5, 0.25)
    model = vecenv.model(gridworld(layout, wind=wind, noise=noise, step_reward=-0.1))
    letters = {(x, 3 - row): letter for row, line in enumerate(layout) for x, letter in enumerate(line)}

    def is_open(cell):
        return letters.get(cell, "X") != "X"

    for s, (x, y) in enumerate(model.raw_states):
        if letters[x, y] == "G":
            continue
        for action, (dx, dy) in enumerate([(0, 1), (1, 0), (0, -1), (-1, 0)]):
            expected = {}
            for chance, (ux, uy) in zip(noise, [(-dy, dx), (dx, dy), (dy, -dx)], strict=True):
                at = (x + ux, y + uy) if is_open((x + ux, y + uy)) else (x, y)
                for _ in range(abs(wind[x])):
                    pushed = at[0], at[1] + (1 if wind[x] > 0 else -1)
                    at = pushed if is_open(pushed) else at
                goal = letters[at] == "G"
                key = model.state2id(at), 1.0 if goal else -0.1, goal
                expected[key] = expected.get(key, 0.0) + chance
            to, rewards, ends, chances = model.transitions(s, action)
            assert dict(zip(zip(to, rewards.tolist(), ends.tolist(), strict=True), chances, strict=True)) == expected


def test_large_noisy_grid():
    """100x100 cells. Oracle: value iteration by shifted arrays."""
    size = 100
    layout = ["." * (size - 1) + "G", *["." * size] * (size - 2), "S" + "." * (size - 1)]
    model = vecenv.model(gridworld(layout, noise=NOISE))
    assert (model.num_states, model.num_actions) == (10_000, 4)
    # Three rows for each pair, but two for two actions in each of three corners, and one for each action at the goal.
    assert len(model.next_states) == 3 * 40_000 - 3 * 2 - 4 * 2
    values = np.zeros((size, size))  # by x and y
    while True:
        paid = values.copy()
        paid[-1, -1] = 1.0  # the discounted value of arriving in each cell, times 1 / .99
        paid = np.where(paid == 1.0, 1.0, 0.99 * paid)
        up, down = np.c_[paid[:, 1:], paid[:, -1]], np.c_[paid[:, 0], paid[:, :-1]]
        right, left = np.r_[paid[1:], paid[-1:]], np.r_[paid[:1], paid[:-1]]
        turns = [(left, up, right), (up, right, down), (right, down, left), (down, left, up)]
        new = np.max([0.1 * a + 0.8 * b + 0.1 * c for a, b, c in turns], axis=0)
        new[-1, -1] = 0.0
        if np.abs(new - values).max() < 1e-12:
            break
        values = new
    got = value_iteration(model, 0.99, 1e-12).values
    assert np.abs(got.reshape(size, size) - values).max() < 1e-9


def test_pictures():
    envs = vecenv.make_vec(gridworld(["a.G", "SXG"]), 1, render_mode="ansi")
    envs.reset(seed=0)
    assert envs.render() == ("a.G\nAXG\n",)
    view = vecenv.make(gridworld(["a.GX.", "SXGX."]), render_mode="rgb_array")
    view.reset(seed=0)
    frame = view.render()
    assert frame.shape == (128, 320, 3)
    assert frame[80, 90].tolist() == [90, 90, 90] and frame[16, 180].tolist() == [150, 215, 150]
    assert frame[32, 288].tolist() == [215, 215, 215] and frame[96, 32].tolist() == [45, 105, 190]


def test_one_kernel_serves_every_grid():
    first, second = (vecenv.make_vec(gridworld(layout), 2) for layout in (["S.G"], ["S..", "XXG"]))
    names = [envs._runner.kernels.step.py_func.__code__.co_name for envs in (first, second)]
    caches = [envs._runner.kernels.step._cache._cache_path for envs in (first, second)]
    assert names[0] == names[1] and caches[0] == caches[1]


@pytest.mark.nojit
@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"layout": ["SXG"]}, ValueError, r"row 0, column 0: cell \(0, 0\): no goal can be reached from this start"),
        ({"layout": ["S.G", "XXX", "..S"]}, ValueError, r"row 2, column 2: cell \(2, 0\): no goal can be reached"),
        ({"noise": (0.1, 0.8, 0.2)}, ValueError, r"noise: expected probabilities that add up to 1.*\n    0 \|S G\|"),
        ({"noise": (-0.1, 1.0, 0.1)}, ValueError, "noise: expected probabilities"),
        ({"noise": (float("nan"), 1.0, 0.1)}, ValueError, "noise: expected a finite number"),
        ({"noise": (0.5, 0.5)}, TypeError, "noise: expected probabilities for left, straight and right"),
        ({"noise": "much"}, TypeError, "noise: expected probabilities"),
        ({"noise": len}, TypeError, "noise: expected a @jit function"),
        ({"noise": too_much_below}, ValueError, r"row 0, column 0: cell \(0, 0\): events for up: .* add up to 1.1"),
        ({"noise": not_a_tuple}, ValueError, "events for up: expected a tuple of 1 to 5 probabilities, got 1.0"),
        ({"wind": (1, 2)}, ValueError, "wind: expected one int for each of 3 columns"),
        ({"wind": (0.5, 0, 0)}, TypeError, "wind: expected ints"),
        ({"cliff": "C"}, ValueError, "cliff: expected at least one cell labelled 'C'"),
        ({"cliff": "S"}, ValueError, "cliff: expected a label letter, got 'S'"),
        ({"layout": ["SCG", "S.."], "cliff": "C"}, ValueError, r"cell \(0, 1\): a world with a cliff has one start"),
        ({"goal_reward": {(0, 0): 1}}, ValueError, r"goal_reward: expected cells of goals, \[\(2, 0\)\], got \(0, 0\)"),
        ({"goal_reward": {}}, ValueError, "a reward for this goal too"),
        ({"goal_reward": "1"}, TypeError, "goal_reward: expected a number"),
        ({"step_reward": float("inf")}, ValueError, "step_reward: expected a finite number"),
        ({"reward": abs}, TypeError, "reward: expected a @jit function"),
        ({"reward": not_a_tuple}, TypeError, r"expected reward\(x, y, action, to_x, to_y, params\), got not_a_tuple"),
        ({"layout": ["S#G"]}, ValueError, "column 1: expected S, G, X"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        gridworld(**{"layout": ["S.G"], **options})


def test_snapshots_and_pickles():
    """A definition with functions of its own travels."""
    import pickle

    envs = vecenv.make_vec(gridworld(["...", "S.G"], noise=slippery_on_the_left), 8)
    envs.reset(seed=1)
    twin = pickle.loads(pickle.dumps(envs))
    actions = np.arange(8) % 4
    for _ in range(20):
        for got, expected in zip(envs.step(actions)[:4], twin.step(actions)[:4], strict=True):
            np.testing.assert_array_equal(got, expected)


def test_uniform_policy_needs_the_model_only():
    model = vecenv.model("ClassicGridworld-v1")
    assert uniform_policy(model).shape == (11, 4) and uniform_policy(model).sum() == 11
