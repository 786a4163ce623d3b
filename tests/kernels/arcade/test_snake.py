"""Snake against a slow model in plain Python (`Board`, below) and the worked examples of reference systems 1.3."""

import math

import numpy as np
import pytest
from oracle import assert_follows, assert_frequencies

import vecenv

UP, DOWN, LEFT, RIGHT = range(4)
MOVES = {UP: (0, -1), DOWN: (0, 1), LEFT: (-1, 0), RIGHT: (1, 0)}
OPPOSITE = {UP: DOWN, DOWN: UP, LEFT: RIGHT, RIGHT: LEFT}


class Board:
    """The rules of reference systems 1.2, with bodies as lists of (column, row), head first."""

    def __init__(self, width=10, height=10, num_snakes=1, observation="compact"):
        self.width, self.height, self.num_snakes, self.observation = width, height, num_snakes, observation

    def reset(self, rng):
        w, h = self.width, self.height
        starts = [(w // 4, h // 4), (3 * w // 4, h // 4), (w // 4, 3 * h // 4), (3 * w // 4, 3 * h // 4)]
        self.bodies = [[start] for start in starts[: self.num_snakes]]
        self.directions = [RIGHT, LEFT, RIGHT, LEFT][: self.num_snakes]
        self.lengths = [1] * self.num_snakes
        self.alive = [True] * self.num_snakes
        self.food = self.cell(rng)

    def cell(self, rng):
        row, column = divmod(int(rng.integers(0, self.width * self.height)), self.width)
        return column, row

    def distance(self, k):
        dx, dy = (abs(a - b) for a, b in zip(self.bodies[k][0], self.food, strict=True))
        return math.sqrt(min(dx, self.width - dx) ** 2 + min(dy, self.height - dy) ** 2)

    def step(self, action, rng):
        actions = [action] if self.num_snakes == 1 else action
        death, bonus = (-0.5, 0.1) if self.num_snakes == 1 else (-0.1, 1.0)
        rewards, before, full = [0.0] * self.num_snakes, {}, False
        playing = [k for k in range(self.num_snakes) if self.alive[k]]
        for k in playing:
            before[k] = self.distance(k)
            wanted = int(actions[k]) if actions[k] in (UP, DOWN, LEFT) else RIGHT
            if wanted != OPPOSITE[self.directions[k]]:
                self.directions[k] = wanted
            (x, y), (dx, dy) = self.bodies[k][0], MOVES[self.directions[k]]
            self.bodies[k].insert(0, ((x + dx) % self.width, (y + dy) % self.height))
            if len(self.bodies[k]) > self.lengths[k]:
                self.bodies[k].pop()
        for k in playing:
            head = self.bodies[k][0]
            others = [self.bodies[j] for j in range(self.num_snakes) if j != k and self.alive[j]]
            if head in self.bodies[k][1:] or any(head in other for other in others):
                self.alive[k] = False
                rewards[k] = death
                continue
            rewards[k] = 0.01 + bonus * max(len(self.bodies[k]) - 3, 0)
            if head == self.food:
                rewards[k] += 1
                self.lengths[k] += 1
                taken = {cell for body in self.bodies for cell in body}
                if len(taken) == self.width * self.height:
                    full = True
                else:
                    self.food = self.cell(rng)
                    while self.food in taken:
                        self.food = self.cell(rng)
            rewards[k] += 2 * (before[k] - self.distance(k)) / max(self.width, self.height)
        ended = [full or not alive for alive in self.alive]
        return (rewards[0], ended[0]) if self.num_snakes == 1 else (rewards, ended)

    def obs(self):
        parts = [self.compact(k) if self.observation == "compact" else self.grid(k) for k in range(self.num_snakes)]
        return parts[0] if self.num_snakes == 1 else parts

    def compact(self, k):
        (x, y), (fx, fy) = self.bodies[k][0], self.food
        return [(fx - x) / self.width, (fy - y) / self.height, *(float(self.directions[k] == d) for d in range(4))]

    def grid(self, k):
        planes = np.zeros((5, self.height, self.width))
        for j, body in enumerate(self.bodies):
            for x, y in body:
                planes[0 if j == k else 2, y, x] = 1
        x, y = self.bodies[k][0]
        planes[1, y, x] = 1
        x, y = self.food
        planes[3, y, x] = 1
        planes[4, [0, -1], :] = planes[4, :, [0, -1]] = 1
        return planes


def greedy(envs, share):
    """Actions towards the food, but for a share of random ones: long snakes."""
    low, high = (-1, 6) if envs.num_agents == 1 else (0, 4)

    def choose(rng):
        columns, rows = envs.state.columns, envs.state.rows
        right = (envs.state.food_column[:, np.newaxis] - columns).ravel()
        down = (envs.state.food_row[:, np.newaxis] - rows).ravel()
        wanted = np.where(right != 0, np.where(right > 0, RIGHT, LEFT), np.where(down > 0, DOWN, UP))
        return np.where(rng.random(len(wanted)) < share, rng.integers(low, high, size=len(wanted)), wanted)

    return choose


@pytest.mark.parametrize("observation", ["compact", "grid"])
@pytest.mark.parametrize("width, height, num_snakes", [(10, 10, 1), (7, 5, 2), (9, 9, 4)])
def test_as_the_slow_model(width, height, num_snakes, observation):
    options = {"width": width, "height": height, "num_snakes": num_snakes, "observation": observation}
    envs = vecenv.make_vec("Snake-v0", 12, autoreset_mode="same_step", **options)
    ended = assert_follows(envs, lambda: Board(**options), 500, seed=num_snakes, choose=greedy(envs, 0.1))
    assert ended > 20


@pytest.mark.parametrize("width, height, num_snakes", [(2, 2, 1), (2, 2, 4), (3, 2, 1), (3, 3, 2), (2, 3, 3)])
def test_small_boards_become_full(width, height, num_snakes):
    """A full board ends the episode of all."""
    options = {"width": width, "height": height, "num_snakes": num_snakes}
    envs = vecenv.make_vec("Snake-v0", 32, autoreset_mode="same_step", **options)
    full = []

    class Counted(Board):
        def step(self, action, rng):
            result = super().step(action, rng)
            taken = {cell for body in self.bodies for cell in body}
            full.append(len(taken) == width * height and any(self.alive) and np.all(result[1]))
            return result

    assert assert_follows(envs, lambda: Counted(**options), 600, seed=3) > 100
    assert sum(full) > 0


def placed(head, food, direction=RIGHT, **options):
    view = vecenv.make("Snake-v0", **options)
    view.reset(seed=0)
    state = view.state
    state.board.fill(0)
    state.columns[0], state.rows[0] = head
    state.bodies[0, 0] = cell = 10 * head[1] + head[0]
    state.board[cell] = 1
    state.directions[0] = direction
    state.food_column, state.food_row = food
    return view


@pytest.mark.parametrize(
    "food, action, direction, reward",
    [
        ((7, 5), RIGHT, RIGHT, 0.17619038),
        ((9, 2), LEFT, LEFT, 0.21),  # around the edge
        ((9, 2), RIGHT, RIGHT, -0.19),
    ],
)
def test_one_step(food, action, direction, reward):
    """Worked example 9."""
    assert placed((2, 2), food, direction).step(action)[1] == pytest.approx(reward, abs=5e-9)


def test_eaten_food_comes_back_alike_after_a_restore():
    """Worked example 9: the snapshot holds the random stream."""
    view = placed((4, 4), (4, 3))
    snapshot = view.envs.snapshot()
    first = view.step(UP)
    food = view.state.food_column, view.state.food_row
    assert view.state.lengths[0] == 2 and food != (4, 3)
    for _ in range(20):
        view.step(view.action_space.sample())
    view.envs.restore(snapshot)
    again = view.step(UP)
    assert again[0].tolist() == first[0].tolist() and again[1:] == first[1:]
    assert (view.state.food_column, view.state.food_row) == food


def grown(length):
    """A view on a snake that is going to have this length, and its first moves in a 2x2 block."""
    view = placed((4, 4), (9, 9))
    view.state.lengths[0] = length
    return view


def test_round_and_round():
    """Worked example 9: a snake of 4 cells circles in a block of four for ever; one of 5 dies on the fourth move of the
    loop."""
    circle = [RIGHT, DOWN, LEFT, UP]
    view = grown(4)
    for t in range(100):
        assert not view.step(circle[t % 4])[2]
    view = grown(5)
    assert [view.step(action)[2] for action in circle] == [False, False, False, True]
    assert view.envs.episode_returns[0] < 0


def test_no_way_back():
    view = placed((4, 4), (9, 9))
    obs = view.step(LEFT)[0]
    assert obs[2:].tolist() == [0, 0, 0, 1] and view.state.columns[0] == 5


def test_in_a_head_on_the_second_snake_lives():
    envs = vecenv.make_vec("Snake-v0", 1, num_snakes=2, width=8, height=4)
    envs.reset(seed=0)
    envs.state.food_row[:] = 3
    _, rewards, terminated, _, _ = envs.step(np.array([RIGHT, LEFT]))  # at columns 2 and 6
    assert not terminated.any()
    _, rewards, terminated, _, _ = envs.step(np.array([RIGHT, LEFT]))
    assert terminated.tolist() == [True, False] and rewards[0] == -0.1
    _, rewards, terminated, _, _ = envs.step(np.array([RIGHT, LEFT]))  # through the dead one
    assert terminated.tolist() == [False, False] and rewards[0] == 0


def test_starts_and_food():
    envs = vecenv.make_vec("Snake-v0", 30_000, num_snakes=4, width=20, height=20)
    envs.reset(seed=0)
    assert envs.state.columns[7].tolist() == [5, 15, 5, 15] and envs.state.rows[7].tolist() == [5, 5, 15, 15]
    assert envs.state.directions[7].tolist() == [RIGHT, LEFT, RIGHT, LEFT]
    cells = envs.state.food_row.astype(int) * 20 + envs.state.food_column
    assert_frequencies(np.bincount(cells, minlength=400), [1 / 400] * 400, 490)  # chi-square: once in 1000 seeds


def test_text():
    view = vecenv.make("Snake-v0", render_mode="ansi", width=4, height=3)
    view.reset(seed=0)  # the head at column 1 of row 0
    view.state.food_column, view.state.food_row = 3, 2
    view.state.lengths[0] = 3
    view.step(RIGHT)
    view.step(DOWN)
    assert view.render() == ".aa.\n..A.\n...*\n"


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"width": 1}, ValueError, "width: expected 2 to 255, got 1"),
        ({"height": 2.5}, TypeError, "height: expected an int, got 2.5"),
        ({"num_snakes": 5}, ValueError, "num_snakes: expected 1 to 4, got 5"),
        ({"observation": "pixels"}, ValueError, "observation: expected 'compact' or 'grid', got 'pixels'"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        vecenv.make_vec("Snake-v0", 2, **options)
