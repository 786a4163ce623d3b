"""Pong against a slow model in plain Python (`Court`, below) and the worked examples of reference systems 1.3."""

import numpy as np
import pytest
from oracle import assert_follows

import vecenv

UP, STAY, DOWN = range(3)


class Court:
    """The rules of reference systems 1.2, one after the other."""

    def __init__(self, num_players=1):
        self.num_players = num_players

    def serve(self, rng):
        self.x, self.y = 0.5, 0.3 + rng.uniform(0, 0.4)
        self.dx = -0.018 if rng.random() < 0.5 else 0.018
        self.dy = rng.uniform(-0.5, 0.5) * 0.018

    def reset(self, rng):
        self.paddles, self.points = [0.5, 0.5], [0, 0]
        self.serve(rng)

    def drive(self, side, action):
        if action == UP:
            self.paddles[side] -= 0.025
        if action == DOWN:
            self.paddles[side] += 0.025

    def step(self, action, rng):
        rewards = [0.0, 0.0]
        if self.num_players == 2:
            self.drive(0, action[0])
            self.drive(1, action[1])
        else:
            self.drive(0, action)
            self.paddles[1] += max(-0.015, min(0.015, self.y - self.paddles[1]))
        self.paddles = [max(0.1, min(0.9, paddle)) for paddle in self.paddles]
        old = self.x
        self.x += self.dx
        self.y += self.dy
        if self.y - 0.015 < 0:
            self.y, self.dy = 0.015, abs(self.dy)
        if self.y + 0.015 > 1:
            self.y, self.dy = 1 - 0.015, -abs(self.dy)
        for side in (0, 1):
            near = abs(self.y - self.paddles[side]) <= 0.1
            if side == 0:
                crossed = self.dx < 0 and old - 0.015 >= 0.05 and self.x - 0.015 < 0.05
            else:
                crossed = self.dx > 0 and old + 0.015 <= 0.95 and self.x + 0.015 > 0.95
            if near and crossed:
                self.dx = -self.dx
                self.x = 0.05 + 0.015 if side == 0 else 0.95 - 0.015
                self.dy += 0.6 * 0.018 * (self.y - self.paddles[side]) / 0.1
                self.dy = max(-1.2 * 0.018, min(1.2 * 0.018, self.dy))
                rewards[side] = 0.1
                break
        winner = 1 if self.x - 0.015 < 0 else 0 if self.x + 0.015 > 1 else None
        if winner is not None:
            rewards[winner], rewards[1 - winner] = 1.0, -1.0
            self.points[winner] += 1
            self.serve(rng)
        ended = max(self.points) == 7
        return (rewards, [ended, ended]) if self.num_players == 2 else (rewards[0], ended)

    def obs(self):
        left = [2 * self.x - 1, 2 * self.y - 1, self.dx / 0.018, self.dy / 0.018, *(2 * p - 1 for p in self.paddles)]
        return [left, mirror(left)] if self.num_players == 2 else left


def mirror(obs):
    return [-obs[0], obs[1], -obs[2], obs[3], obs[5], obs[4]]


def track(num_envs, share):
    """Actions that follow the ball, seen from both sides, but for a share of random ones."""

    def choose(rng):
        obs = choose.obs
        wanted = np.where(obs[:, 1] > obs[:, 4], DOWN, UP)
        return np.where(rng.random(num_envs) < share, rng.integers(3, size=num_envs), wanted)

    return choose


class Watched:
    """A batch whose last observations the policy sees."""

    def __init__(self, envs, choose):
        self.envs, self.choose = envs, choose

    def __getattr__(self, name):
        return getattr(self.envs, name)

    def reset(self, **arguments):
        obs, infos = self.envs.reset(**arguments)
        self.choose.obs = obs
        return obs, infos

    def step(self, actions):
        result = self.envs.step(actions)
        self.choose.obs = result[0]
        return result


@pytest.mark.parametrize("num_players", [1, 2])
def test_as_the_slow_model(num_players):
    envs = vecenv.make_vec("Pong-v0", 8, autoreset_mode="same_step", num_players=num_players)
    ended = assert_follows(envs, lambda: Court(num_players), num_steps=1000, seed=5)
    assert ended > 4
    assert np.abs(envs.state.left - 0.5).max() <= 0.4 and np.abs(envs.state.right - 0.5).max() <= 0.4


@pytest.mark.parametrize("num_players", [1, 2])
def test_as_the_slow_model_in_long_rallies(num_players):
    """Mostly good play: returns at all offsets, both walls, and the limit."""
    choose = track(4 * num_players, 0.3)
    envs = vecenv.make_vec("Pong-v0", 4, autoreset_mode="same_step", num_players=num_players)
    assert assert_follows(Watched(envs, choose), lambda: Court(num_players), 2001, seed=6, choose=choose) >= 4


def started(x, y, dx, dy, left=0.5, right=0.5, **arguments):
    view = vecenv.make("Pong-v0", **arguments)
    view.reset(seed=0)
    state = view.state
    state.x, state.y, state.dx, state.dy, state.left, state.right = x, y, dx, dy, left, right
    return view


@pytest.mark.nojit
def test_one_step():
    """Worked example 10."""
    view = started(0.07, 0.5, -0.018, 0.0)
    assert view.step(STAY)[1:] == (0.1, False, False, {})
    assert (view.state.x, view.state.dx, view.state.dy) == (0.065, 0.018, 0.0)
    view = started(0.07, 0.55, -0.018, 0.0)
    assert view.step(STAY)[1] == 0.1
    assert (view.state.x, view.state.dx) == (0.065, 0.018)
    assert view.state.dy == pytest.approx(0.0054, abs=1e-15) and view.state.right == pytest.approx(0.515, abs=1e-15)
    view = started(0.07, 0.70, -0.018, 0.0)
    assert view.step(STAY)[1] == 0 and view.state.x == pytest.approx(0.052, abs=1e-15) and view.state.dx == -0.018
    view = started(0.5, 0.02, -0.018, -0.009)
    view.step(STAY)
    assert (view.state.y, view.state.dy) == (0.015, 0.009)
    view = started(0.93, 0.5, 0.018, 0.0)
    assert view.step(STAY)[1] == 0 and view.state.dx == -0.018  # the tracker returns it
    assert view.state.x == pytest.approx(0.935, abs=1e-15)


@pytest.mark.nojit
def test_a_ball_that_nobody_returns():
    """Worked example 10: it crosses the paddle's line on step 25 and is a point on step 27."""
    view = started(0.5, 0.9, -0.018, 0.0, left=0.1)
    for t in range(1, 28):
        reward = view.step(STAY)[1]
        if t < 27:
            assert reward == 0 and (view.state.x - 0.015 < 0.05) == (t >= 25)
    assert reward == -1 and view.state.right_score == 1 and view.state.x == 0.5
    assert 0.3 <= view.state.y < 0.7 and abs(view.state.dy) <= 0.009


@pytest.mark.nojit
def test_seven_points_win():
    view = started(0.99, 0.9, 0.018, 0.0, right=0.1)
    view.state.left_score = 6
    assert view.step(STAY)[1:3] == (1.0, True)
    view = started(0.01, 0.9, -0.018, 0.0)
    view.state.right_score = 6
    assert view.step(STAY)[1:3] == (-1.0, True)


def test_paddles_stay():
    """Worked example 11."""
    envs = vecenv.make_vec("Pong-v0", 3, num_players=2)
    envs.reset(seed=1)
    for _ in range(10):
        envs.step(np.full(6, STAY))
    assert (envs.state.left == 0.5).all() and (envs.state.right == 0.5).all()


def test_the_other_player_sees_the_mirrored_court():
    """Worked example 11: mirroring twice changes nothing. Both play alike from both sides."""
    envs = vecenv.make_vec("Pong-v0", 4, num_players=2)
    obs, _ = envs.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(300):
        for left, right in obs.reshape(4, 2, 6):
            assert mirror(left.tolist()) == right.tolist() and mirror(mirror(left.tolist())) == left.tolist()
        obs, rewards, *_ = envs.step(rng.integers(3, size=8))
        pairs = rewards.reshape(4, 2)
        assert all(sum(pair) == 0 or sorted(pair) == [0, 0.1] for pair in pairs.tolist())


@pytest.mark.parametrize("action", [3, -1, 2**63 - 1])
def test_any_other_action_stays(action):
    view = started(0.5, 0.5, 0.018, 0.0)
    view.step(action)
    assert view.state.left == 0.5


def test_serves_go_to_both_sides():
    envs = vecenv.make_vec("Pong-v0", 20_000)
    obs, _ = envs.reset(seed=0)
    assert abs((obs[:, 2] > 0).mean() - 0.5) < 0.02
    assert np.abs(obs[:, 1]).max() <= 0.4 and np.abs(obs[:, 3]).max() <= 0.5 and obs[:, 3].std() > 0.25


@pytest.mark.parametrize("num_players", [0, 3, True, "2"])
def test_wrong_options(num_players):
    with pytest.raises(ValueError, match="num_players: expected 1 or 2"):
        vecenv.make_vec("Pong-v0", 2, num_players=num_players)
