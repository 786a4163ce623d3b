"""Racetrack. Oracle: the rules with exact fractions, written out in the test."""

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from gymnasium.spaces import Discrete
from oracle import assert_frequencies

import vecenv
from vecenv.kernels.grid.racetrack import TRACK_1, TRACK_2

SMALL = ["XX..G", "X...G", "....X", "SS.XX"]


def drive(layout, x, y, vx, vy, action, speeds_up):
    """(cell, speed, what happened) by exact fractions."""
    if speeds_up:
        vx = min(max(vx + action // 3 - 1, 0), 4)
        vy = min(max(vy + action % 3 - 1, 0), 4)
    n = max(vx, vy)
    at = x, y
    for k in range(1, n + 1):
        at = math.floor(x + Fraction(vx * k, n) + Fraction(1, 2)), math.floor(y + Fraction(vy * k, n) + Fraction(1, 2))
        row = len(layout) - 1 - at[1]
        letter = layout[row][at[0]] if 0 <= row < len(layout) and at[0] < len(layout[0]) else "X"
        if letter in "XG":
            return at, (vx, vy), "off" if letter == "X" else "finish"
    return at, (vx, vy), "on"


def starts_of(layout):
    return [(x, len(layout) - 1 - r) for x in range(len(layout[0])) for r in range(len(layout)) if layout[r][x] == "S"]


@pytest.mark.parametrize("track, layout", [(1, TRACK_1), (2, TRACK_2), (SMALL, SMALL)], ids=["1", "2", "small"])
def test_model_is_the_rules(track, layout):
    model = vecenv.model("Racetrack1-v0", track=track, success_rate=0.75)
    starts = starts_of(layout)
    assert [model.id2state(s) for s in np.flatnonzero(model.starts)] == [(x, y, 0, 0) for x, y in starts]
    rng = np.random.default_rng(0)
    live = np.flatnonzero(~model.absorbing)
    for s in rng.choice(live, 300):
        action = int(rng.integers(9))
        expected = defaultdict(float)
        for speeds_up, chance in ((True, 0.75), (False, 0.25)):
            at, speed, what = drive(layout, *model.id2state(s), action, speeds_up)
            if what == "off":
                for start in starts:
                    expected[(*start, 0, 0), -1.0, False] += chance / len(starts)
            else:
                expected[(*at, *speed), 0.0 if what == "finish" else -1.0, what == "finish"] += chance
        to, rewards, ends, chances = model.transitions(s, action)
        got = dict(zip(zip(model.id2state(to), rewards.tolist(), ends.tolist(), strict=True), chances, strict=True))
        assert got == pytest.approx(expected)


@pytest.mark.parametrize(
    "layout, shape, num_starts, num_finish", [(TRACK_1, (32, 17), 6, 6), (TRACK_2, (30, 32), 23, 9)]
)
def test_tracks(layout, shape, num_starts, num_finish):
    """Sizes of the two tracks in the book's figure 5.5."""
    assert (len(layout), len(layout[0])) == shape and {len(row) for row in layout} == {shape[1]}
    assert layout[-1].count("S") == num_starts == "".join(layout).count("S")
    assert "".join(row[-1] for row in layout).count("G") == num_finish == "".join(layout).count("G")


@pytest.mark.nojit
def test_a_lap():
    view = vecenv.make("Racetrack1-v0", track=["..G", "...", "S.."], success_rate=1.0)
    assert view.reset(seed=0)[0].tolist() == [0, 0, 0, 0]
    crash = [view.step(action) for action in (8, 1, 5)]  # faster both ways; slower to the right; faster upwards
    assert [result[0].tolist() for result in crash] == [[1, 1, 1, 1], [1, 2, 0, 1], [0, 0, 0, 0]]
    assert [result[1:4] for result in crash] == [(-1, False, False)] * 3
    lap = [view.step(action) for action in (8, 4)]
    assert lap[-1][0].tolist() == [2, 2, 1, 1] and lap[-1][1:3] == (0, True)


def test_frequencies_of_success_and_starts():
    n = 40_000
    envs = vecenv.make_vec("Racetrack2-v0", n)
    obs, _ = envs.reset(seed=3)
    assert_frequencies(np.bincount(obs[:, 0], minlength=32), [1 / 23] * 23 + [0] * 9, 48.3)  # once in 1000 seeds
    assert (obs[:, 1:] == 0).all()
    obs, *_ = envs.step(np.full(n, 5))
    assert_frequencies(np.bincount(obs[:, 3], minlength=2), [0.1, 0.9], 10.8)


@pytest.mark.nojit
def test_numbers():
    envs = vecenv.make_vec("Racetrack1-v0", 4, track=SMALL, tabular=True)
    assert envs.single_observation_space == Discrete(5 * 4 * 25)
    envs.reset(seed=0)
    envs.state.x[:], envs.state.y[:], envs.state.vx[:], envs.state.vy[:] = 2, 1, 3, 4
    assert envs.observe().tolist() == [25 * (4 * 2 + 1) + 5 * 3 + 4] * 4


@pytest.mark.nojit
@pytest.mark.parametrize(
    "options, message",
    [
        ({"track": 3}, "track: expected 1, 2 or a layout, got 3"),
        ({"track": ["S.a.G"]}, r"column 2: cell \(2, 0\): a track has no labels, got 'a'"),
        ({"track": ["..G"]}, "at least one start"),
        ({"success_rate": 1.5}, "success_rate: expected a probability from 0 to 1, got 1.5"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        vecenv.make("Racetrack1-v0", **options)


@pytest.mark.nojit
def test_text():
    view = vecenv.make("Racetrack1-v0", track=["XXG", "S.."], render_mode="ansi")
    view.reset(seed=0)
    assert view.render() == "XXG\nA..\n"
