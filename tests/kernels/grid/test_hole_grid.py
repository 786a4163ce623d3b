"""GridWorld against the worked examples and values of reference systems 1.3, 6.4 and 6.7."""

import numpy as np
import pytest
from oracle import assert_mean, first_episodes

import vecenv
from vecenv.kernels.grid.hole_grid import MAP
from vecenv.planning import value_iteration

UP, RIGHT, DOWN, LEFT = range(4)
HOLES = [5, 7, 11, 12]


def started():
    view = vecenv.make("GridWorld-v0")
    obs, _ = view.reset(seed=0)
    assert obs.tolist() == [1] + [0] * 15 and obs.dtype == np.float32
    return view


@pytest.mark.nojit
def test_the_best_way():
    """Worked example 6: six steps, .95."""
    view = started()
    results = [view.step(action) for action in (DOWN, DOWN, RIGHT, DOWN, RIGHT, RIGHT)]
    assert [int(result[0].argmax()) for result in results] == [4, 8, 9, 13, 14, 15]
    assert [result[1] for result in results] == [-0.01] * 5 + [1]
    assert [result[2:4] for result in results] == [(False, False)] * 5 + [(True, False)]
    assert view.envs.episode_returns[0] == pytest.approx(0.95, abs=1e-12)


@pytest.mark.nojit
def test_a_hole_and_a_hundred_bumps():
    """Worked example 6."""
    view = started()
    view.step(RIGHT)
    assert view.step(DOWN)[1:4] == (-1.0, True, False)
    view = started()
    assert [view.step(LEFT)[2:4] for _ in range(100)] == [(False, False)] * 99 + [(False, True)]
    assert view.envs.episode_returns[0] == pytest.approx(-1, abs=1e-12)


def test_every_move_from_every_cell():
    """Against the rule written with a dictionary: 16 cells times actions -1 to 5."""
    moves = {UP: (-1, 0), RIGHT: (0, 1), DOWN: (1, 0), LEFT: (0, -1)}
    cells, actions = (grid.ravel() for grid in np.meshgrid(np.arange(16), np.arange(-1, 6)))
    envs = vecenv.make_vec("GridWorld-v0", len(cells))
    envs.reset(seed=0)
    envs.state.row[:], envs.state.col[:] = cells // 4, cells % 4
    obs, rewards, terminated, _, _ = envs.step(actions)
    for i, (cell, action) in enumerate(zip(cells, actions, strict=True)):
        down, right = moves.get(int(action), (0, 0))
        row, col = min(max(cell // 4 + down, 0), 3), min(max(cell % 4 + right, 0), 3)
        assert obs[i].argmax() == 4 * row + col and obs[i].sum() == 1
        expected = {"H": (-1.0, True), "G": (1.0, True)}.get(MAP[row][col], (-0.01, False))
        assert (rewards[i], terminated[i]) == expected


@pytest.mark.parametrize(
    "discount, table",
    [
        (1.0, [0.95, 0.96, 0.97, 0.96, 0.96, 0, 0.98, 0, 0.97, 0.98, 0.99, 0, 0, 0.99, 1, 0]),
        (
            0.99,
            [0.901980, 0.921192, 0.940598, 0.921192, 0.921192, 0, 0.9602, 0, 0.940598, 0.9602, 0.98, 0, 0, 0.98, 1, 0],
        ),
    ],
)
def test_best_values(discount, table):
    """Reference systems 6.4, to six decimals."""
    model = vecenv.model("GridWorld-v0")
    values = value_iteration(model, discount=discount, precision=1e-12).values
    assert values == pytest.approx(table, abs=5e-7) and np.flatnonzero(model.absorbing).tolist() == [*HOLES, 15]


def test_random_play():
    """Reference systems 6.7, without limit."""
    episodes = first_episodes(vecenv.make_vec("GridWorld-v0", 200_000, max_episode_steps=-1), seed=1)
    assert episodes.terminated.all()
    assert_mean(episodes.lengths, 7.672602)
    assert_mean(episodes.returns, -1.038846)
    assert_mean(episodes.returns - 0.01 * (1 - episodes.lengths) > 0, 0.013940)
