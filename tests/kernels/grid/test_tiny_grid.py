"""TinyGrid against the facts and worked examples of reference systems, sections 1.2 and 1.3, and exact results for
random play (6.7)."""

import gymnasium
import numba
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from oracle import assert_mean, assert_same_bits, first_episodes

import vecenv

UP, RIGHT, DOWN, LEFT = range(4)


NUMBA_DISABLED = bool(numba.config.DISABLE_JIT)


def started(**arguments):
    view = vecenv.make("TinyGrid-v0", **arguments)
    obs, info = view.reset(seed=0)
    assert cell_of(obs) == 0 and info == {}
    return view


def cell_of(obs):
    assert obs.dtype == np.float32 and obs.shape == (9,) and sorted(obs)[:8] == [0] * 8 and obs.max() == 1
    return int(obs.argmax())


@pytest.mark.nojit
def test_bump_at_the_start():
    """Worked example 1."""
    obs, *rest = started().step(UP)
    assert obs[0] == 1 and rest == [-0.01, False, False, {}]


@pytest.mark.nojit
def test_shortest_way():
    """Worked example 2."""
    view = started()
    results = [view.step(action) for action in (RIGHT, RIGHT, DOWN, DOWN)]
    assert [cell_of(result[0]) for result in results] == [1, 2, 5, 8]
    assert [result[1] for result in results] == [-0.01, -0.01, -0.01, 1.0]
    assert [result[2:4] for result in results] == [(False, False)] * 3 + [(True, False)]
    assert sum(result[1] for result in results) == pytest.approx(0.97, abs=1e-12)
    assert view.envs.episode_returns[0] == pytest.approx(0.97, abs=1e-12)


@pytest.mark.nojit
def test_fifty_bumps_are_truncated():
    """Worked example 3."""
    view = started()
    for t in range(1, 51):
        assert view.step(UP)[1:4] == (-0.01, False, t == 50)
    assert view.envs.episode_returns[0] == pytest.approx(-0.5, abs=1e-12)


@pytest.mark.nojit
def test_goal_on_step_fifty_terminates_only():
    """Worked example 3."""
    view = started()
    for action in [UP] * 46 + [RIGHT, DOWN, RIGHT]:
        assert view.step(action)[2:4] == (False, False)
    assert view.step(DOWN)[1:4] == (1.0, True, False)


@pytest.mark.nojit
@pytest.mark.parametrize("ended", ["raise", "absorb"])
def test_the_goal_pays_once(ended):
    """Case C145: whoever has reached the goal gets nothing by stepping off and on it again."""
    envs = vecenv.make_vec("TinyGrid-v0", 2, autoreset_mode="disabled", ended=ended)
    envs.reset(seed=0)
    earned = sum(envs.step(np.array([action, UP]))[1][0] for action in (RIGHT, RIGHT, DOWN, DOWN))
    assert earned == pytest.approx(0.97, abs=1e-12)
    for action in (UP, DOWN):
        if ended == "raise":
            with pytest.raises(gymnasium.error.ResetNeeded, match="row 0: its episode has ended"):
                envs.step(np.array([action, UP]))
            with pytest.raises(gymnasium.error.ResetNeeded, match="row 0: its episode has ended"):
                envs.view(0).step(action)
        else:
            obs, rewards, terminated, truncated, _ = envs.step(np.array([action, UP]))
            assert cell_of(obs[0]) == 8 and rewards.tolist() == [0.0, -0.01]
            assert terminated.tolist() == [True, False] and not truncated.any()
    assert envs.episode_returns[0] == pytest.approx(0.97, abs=1e-12)
    envs.view(0).reset()
    assert envs.view(0).step(UP)[1] == -0.01


def test_snapshot_replays():
    """Worked example 4."""
    view = started()
    view.step(RIGHT)
    snapshot = view.envs.snapshot()
    first = view.step(DOWN)
    assert cell_of(first[0]) == 4
    view.step(RIGHT)
    assert view.step(DOWN)[1:3] == (1.0, True)
    view.envs.restore(snapshot)
    again = view.step(DOWN)
    assert_same_bits(again[0], first[0])
    assert again[1:] == first[1:]


def test_spaces():
    """Worked example 5."""
    view = started()
    assert view.observation_space == Box(0, 1, (9,), np.float32)
    assert view.action_space == Discrete(4)


@pytest.mark.parametrize("action", [4, 7, -1, -(2**63), 2**63 - 1])
def test_any_other_action_stays_and_costs(action):
    """Worked example 5, from the middle."""
    view = started()
    view.step(RIGHT)
    view.step(DOWN)
    obs, *rest = view.step(action)
    assert cell_of(obs) == 4 and rest == [-0.01, False, False, {}]
    assert view.state.elapsed == 3


def test_every_move_from_every_cell():
    """Against the rule written as a table: 9 cells times actions -1 to 5."""
    moves = {UP: (-1, 0), RIGHT: (0, 1), DOWN: (1, 0), LEFT: (0, -1)}
    cells, actions = (grid.ravel() for grid in np.meshgrid(np.arange(9), np.arange(-1, 6)))
    envs = vecenv.make_vec("TinyGrid-v0", len(cells))
    envs.reset(seed=0)
    envs.state.row[:], envs.state.col[:] = cells // 3, cells % 3
    obs, rewards, terminated, _, _ = envs.step(actions)
    for i, (cell, action) in enumerate(zip(cells, actions, strict=True)):
        down, right = moves.get(int(action), (0, 0))
        row, col = min(max(cell // 3 + down, 0), 2), min(max(cell % 3 + right, 0), 2)
        goal = (row, col) == (2, 2)
        assert cell_of(obs[i]) == 3 * row + col
        assert (rewards[i], terminated[i]) == (1.0 if goal else -0.01, goal)


def test_random_play_without_limit():
    episodes = first_episodes(vecenv.make_vec("TinyGrid-v0", 50_000, max_episode_steps=-1), seed=1)
    assert episodes.terminated.all()
    assert_mean(episodes.lengths, 27)
    assert_mean(episodes.returns, 0.74)


def test_random_play_within_the_limit():
    episodes = first_episodes(vecenv.make_vec("TinyGrid-v0", 100_000), seed=2)
    assert_mean(episodes.terminated, 0.872069)
    assert (episodes.lengths[~episodes.terminated] == 50).all()


def test_rewards_are_params():
    envs = vecenv.make_vec("TinyGrid-v0", 1, params={"step_reward": -1.0, "goal_reward": 5.0})
    envs.reset(seed=0)
    assert [envs.step(np.array([a]))[1][0] for a in (RIGHT, RIGHT, DOWN, DOWN)] == [-1, -1, -1, 5]


def test_wrong_options():
    with pytest.raises(TypeError, match="unknown option 'sise'; did you mean 'size'"):
        vecenv.make_vec("TinyGrid-v0", 2, sise=5)
    with pytest.raises(ValueError, match="size: expected at least 2, got 1"):
        vecenv.make_vec("TinyGrid-v0", 2, size=1)
    with pytest.raises(TypeError, match=r"size: expected an int, got 2\.5"):
        vecenv.make_vec("TinyGrid-v0", 2, size=2.5)
    with pytest.raises(TypeError, match="expected an array"):
        started().envs.step(np.array([0.5]))


@pytest.mark.parametrize("size", [2, 5, 9])
def test_size_is_a_run_time_value(size):
    """One kernel serves every size: the diagonal walk visits the cells of the rules, and nothing compiles anew."""
    grid = vecenv.make_vec("TinyGrid-v0", 7, size=size)
    other = vecenv.make_vec("TinyGrid-v0", 7)
    assert grid.single_observation_space.shape == (size * size,)
    obs, _ = grid.reset()
    assert obs.argmax(1).tolist() == [0] * 7
    for k in range(1, size):
        grid.step(np.full(7, 1))
        obs, rewards, terminated, _, _ = grid.step(np.full(7, 2))
        assert obs.sum() == 7 and obs.argmax(1).tolist() == [k * (size + 1)] * 7
    assert terminated.all() and (rewards == 1.0).all()
    if not NUMBA_DISABLED:
        assert grid._runner.kernels.step.stats.cache_path == other._runner.kernels.step.stats.cache_path
