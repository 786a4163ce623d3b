"""Catch against a slow model in plain Python, after the published rules of bsuite's."""

import numpy as np
import pytest
from oracle import assert_follows, assert_frequencies, assert_mean, first_episodes

import vecenv
from vecenv.planning import value_iteration


class Slow:
    def __init__(self, rows=10, columns=5):
        self.rows, self.columns = rows, columns

    def reset(self, rng):
        self.ball, self.paddle = [0, rng.integers(0, self.columns)], self.columns // 2

    def step(self, action, rng):
        self.paddle = min(max(self.paddle + (-1, 0, 1)[action], 0), self.columns - 1)
        self.ball[0] += 1
        if self.ball[0] == self.rows - 1:
            return (1.0 if self.ball[1] == self.paddle else -1.0), True
        return 0.0, False

    def obs(self):
        board = np.zeros((self.rows, self.columns))
        board[tuple(self.ball)] = board[self.rows - 1, self.paddle] = 1
        return board


@pytest.mark.parametrize("options", [{}, {"rows": 2, "columns": 3}, {"rows": 4, "columns": 1}], ids=repr)
def test_as_the_slow_model(options):
    envs = vecenv.make_vec("Catch-v0", 6, autoreset_mode="same_step", **options)
    assert assert_follows(envs, lambda: Slow(**options), 200, seed=3) == 6 * (200 // (options.get("rows", 10) - 1))


def test_every_ball_can_be_caught():
    """Values 1 at every start; random play catches as often as powers of the paddle's transition matrix say."""
    model = vecenv.model("Catch-v0")
    values = value_iteration(model, discount=1.0, precision=1e-12).values
    assert (values[model.starts > 0] == 1).all() and (model.starts > 0).sum() == 5
    moves = np.zeros((5, 5))
    for column in range(5):
        for change in (-1, 0, 1):
            moves[column, min(max(column + change, 0), 4)] += 1 / 3
    caught = np.linalg.matrix_power(moves, 9)[2].mean()  # the ball's column is uniform
    episodes = first_episodes(vecenv.make_vec("Catch-v0", 40_000), seed=1)
    assert (episodes.lengths == 9).all()
    assert_mean(episodes.returns, 2 * caught - 1)


def test_starts_and_text():
    envs = vecenv.make_vec("Catch-v0", 10_000)
    obs, _ = envs.reset(seed=0)
    assert_frequencies(obs[:, 0].sum(0), [0.2] * 5, 18.5)  # chi-square: once in 1000 seeds
    view = vecenv.make("Catch-v0", rows=3, columns=3, render_mode="ansi")
    view.reset(seed=0)
    view.state.column = 2
    assert view.render() == "..o\n...\n.=.\n"
    view.step(2)
    view.step(2)
    assert view.render() == "...\n...\n..@\n"


def test_wrong_options():
    with pytest.raises(ValueError, match="rows: expected 2 to 1000, got 1"):
        vecenv.make_vec("Catch-v0", 2, rows=1)
