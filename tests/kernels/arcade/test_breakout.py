"""Breakout against a slow model in plain Python (`Wall`, below), and against MinAtar 1.0.15 where it is installed:
`pip install minatar`."""

import numpy as np
import pytest
from oracle import assert_follows

import vecenv

STAY, LEFT, RIGHT = range(3)


class Wall:
    """The rules, on sets of cells (row, column)."""

    def __init__(self, sticky=0.1):
        self.sticky = sticky

    def reset(self, rng):
        right_edge = rng.integers(0, 2) == 1
        self.ball, self.flight = ((3, 9), (1, -1)) if right_edge else ((3, 0), (1, 1))
        self.trail, self.paddle, self.action, self.over_brick = self.ball, 4, STAY, False
        self.build()

    def build(self):
        self.bricks = {(row, col) for row in (1, 2, 3) for col in range(10)}

    def step(self, action, rng):
        if rng.random() >= self.sticky:
            self.action = int(action)
        if self.action == LEFT and self.paddle > 0:
            self.paddle -= 1
        if self.action == RIGHT and self.paddle < 9:
            self.paddle += 1
        (row, col), (down, right) = self.ball, self.flight
        self.trail = self.ball
        was_over_brick, self.over_brick = self.over_brick, False
        if not 0 <= col + right <= 9:
            to_col, right = col, -right
        else:
            to_col = col + right
        cell = (row + down, to_col)
        reward, lost = 0.0, False
        if cell[0] == -1:
            cell, down = (0, to_col), 1
        elif cell in self.bricks:
            self.over_brick = True
            if not was_over_brick:
                self.bricks.remove(cell)
                reward, cell, down = 1.0, (row, to_col), -down
        elif cell[0] == 9:
            if not self.bricks:
                self.build()
            if col == self.paddle:
                cell, down = (8, to_col), -1
            elif to_col == self.paddle:
                cell, down, right = (8, to_col), -1, -right
            else:
                lost = True
        self.ball, self.flight = cell, (down, right)
        return reward, lost

    def obs(self):
        board = np.zeros((10, 10, 4))
        board[9, self.paddle, 0] = 1
        board[(*self.ball, 1)] = 1
        board[(*self.trail, 2)] = 1
        for cell in self.bricks:
            board[(*cell, 3)] = 1
        return board


def under_the_ball(envs, share):
    """Follow the ball, but for a share of random actions: whole walls."""

    def choose(rng):
        away = envs.state.col.astype(int) - envs.state.paddle
        wanted = np.where(away < 0, LEFT, np.where(away > 0, RIGHT, STAY))
        return np.where(rng.random(len(away)) < share, rng.integers(3, size=len(away)), wanted)

    return choose


@pytest.mark.parametrize("sticky", [0.1, 0.0])
def test_as_the_slow_model(sticky):
    walls = []

    class Counted(Wall):
        def build(self):
            walls.append(getattr(self, "bricks", None) == set())
            super().build()

    envs = vecenv.make_vec("Breakout-v0", 8, autoreset_mode="same_step", sticky_action_prob=sticky)
    choose = under_the_ball(envs, 0.02)
    assert_follows(envs, lambda: Counted(sticky), 2500, seed=1, choose=choose)
    assert sum(walls) > 0  # whole walls
    assert assert_follows(envs, lambda: Wall(sticky), 500, seed=2) > 100


@pytest.mark.parametrize("seed", range(4))
def test_in_lockstep_with_minatar(seed):
    """From the start that MinAtar draws, without sticky actions; from good to random play."""
    minatar = pytest.importorskip("minatar")
    oracle = minatar.Environment("breakout", sticky_action_prob=0.0)
    oracle.seed(seed)
    view = vecenv.make("Breakout-v0", sticky_action_prob=0.0)
    rng = np.random.default_rng(seed)
    share = (0.0, 0.02, 0.2, 1.0)[seed]
    rewards, episodes, terminated = 0.0, 0, True
    for _ in range(4000):
        if terminated:
            oracle.reset()
            view.reset(seed=seed)
            side = int(oracle.state()[3, 9, 1])
            view.state.col = view.state.last_col = 9 * side
            view.state.right = 1 - 2 * side
            episodes += 1
        action = rng.integers(3) if rng.random() < share else int(np.sign(view.state.col - view.state.paddle)) % 3
        action = {0: STAY, 1: RIGHT, 2: LEFT}[int(action)]
        obs, reward, terminated, _, _ = view.step(action)
        expected_reward, expected_end = oracle.act({STAY: 0, LEFT: 1, RIGHT: 3}[action])
        assert (reward, terminated) == (expected_reward, expected_end)
        np.testing.assert_array_equal(obs, oracle.state())
        rewards += reward
    assert rewards > 30 and (episodes > 20 or share < 1)


@pytest.mark.nojit
def test_first_steps_by_hand():
    view = vecenv.make("Breakout-v0", sticky_action_prob=0.0, render_mode="ansi")
    view.reset(seed=0)
    view.state.col = view.state.last_col = 0
    view.state.right = 1
    rows = ["." * 10] + ["#" * 10] * 2 + ["o#########"] + ["." * 10] * 5 + ["....=....."]
    assert view.render().splitlines() == rows
    for _ in range(5):  # to row 8, column 5
        assert view.step(RIGHT if view.state.paddle < 6 else STAY)[1:3] == (0.0, False)
    assert (view.state.row, view.state.col, view.state.paddle) == (8, 5, 6)
    obs, *_ = view.step(STAY)  # onto the paddle: back the way it came
    assert (view.state.row, view.state.col, view.state.down, view.state.right) == (8, 6, -1, -1)
    assert obs[8, 6].tolist() == [0, 1, 0, 0] and obs[8, 5].tolist() == [0, 0, 1, 0]
    rewards = [view.step(STAY)[1] for _ in range(5)]
    assert rewards == [0, 0, 0, 0, 1] and not (view.state.bricks >> 21) & 1


def test_sticky_actions():
    """The action of the step before comes again in a tenth of the steps."""
    n = 40_000
    envs = vecenv.make_vec("Breakout-v0", n)
    envs.reset(seed=0)
    envs.step(np.full(n, RIGHT))
    moved = (envs.state.paddle == 5).mean()
    assert abs(moved - 0.9) < 4.5 * np.sqrt(0.09 / n)


def test_wrong_options():
    with pytest.raises(ValueError, match="sticky_action_prob: expected a probability from 0 to 1, got 2"):
        vecenv.make_vec("Breakout-v0", 2, sticky_action_prob=2)
