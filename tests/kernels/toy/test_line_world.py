"""LineWorld against the table of reference systems, section 3: known runs, and exact results for random play."""

import numpy as np
import pytest
from oracle import assert_mean, first_episodes

import vecenv


@pytest.mark.nojit
def test_always_right():
    view = vecenv.make("LineWorld-v0")
    assert view.reset(seed=0) == (0, {"steps": 0})
    results = [view.step(1) for _ in range(4)]
    assert [int(result[0]) for result in results] == [1, 2, 3, 4]
    assert [result[1:4] for result in results] == [(0, False, False)] * 3 + [(1, True, False)]
    assert [result[4] for result in results] == [{"steps": t} for t in (1, 2, 3, 4)]


@pytest.mark.nojit
def test_always_left():
    view = vecenv.make("LineWorld-v0")
    view.reset(seed=0)
    for t in range(1, 21):
        obs, *rest, info = view.step(0)
        assert (int(obs), rest, info) == (0, [0, False, t == 20], {"steps": t})


def test_goal_on_the_last_step_terminates_only():
    view = vecenv.make("LineWorld-v0")
    view.reset(seed=0)
    for action in [0] * 16 + [1] * 3:
        assert view.step(action)[2:4] == (False, False)
    assert view.step(1)[1:] == (1.0, True, False, {"steps": 20})


def test_step_after_the_end_is_an_error():
    view = vecenv.make("LineWorld-v0", start=3)
    view.reset(seed=0)
    assert view.step(1)[2]
    with pytest.raises(Exception, match="row 0: its episode has ended"):
        view.step(1)


def test_steps_in_the_infos_of_a_batch():
    """The count of the running episode; of the ended one in `final_info`."""
    envs = vecenv.make_vec("LineWorld-v0", 2, autoreset_mode="same_step", n=3)
    _, infos = envs.reset(seed=0)
    assert infos["steps"].dtype == np.int64 and infos["steps"].tolist() == [0, 0]
    *_, infos = envs.step(np.array([1, 0]))
    assert infos["steps"].tolist() == [1, 1] and "final_info" not in infos
    *_, infos = envs.step(np.array([1, 0]))
    assert infos["steps"].tolist() == [0, 2] and infos["_steps"].all()
    assert infos["final_info"]["steps"][0] == 2 and infos["final_info"]["_steps"].tolist() == [True, False]


@pytest.mark.parametrize("start, mean", list(enumerate([20, 18, 14, 8])))
def test_mean_length_of_random_play_without_limit(start, mean):
    envs = vecenv.make_vec("LineWorld-v0", 50_000, max_episode_steps=-1, start=start)
    assert_mean(first_episodes(envs, seed=start).lengths, mean)


def test_random_play_within_the_limit():
    episodes = first_episodes(vecenv.make_vec("LineWorld-v0", 100_000), seed=1)
    assert_mean(episodes.terminated, 0.6424198151)
    assert_mean(episodes.terminated & (episodes.lengths <= 4), 0.0625)
    assert_mean(episodes.terminated & (episodes.lengths <= 10), 0.3359375)
    assert (episodes.lengths[~episodes.terminated] == 20).all()


@pytest.mark.parametrize("n, start", [(2, 0), (3, 1), (1000, 990)])
def test_other_sizes(n, start):
    view = vecenv.make("LineWorld-v0", n=n, start=start)
    assert view.observation_space.n == n and view.reset(seed=0)[0] == start
    for cell in range(start + 1, n):
        assert view.step(1)[:3] == (cell, float(cell == n - 1), cell == n - 1)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"start": 4}, ValueError, r"start: expected a cell from 0 to n - 2 = 3 .*, got 4"),
        ({"start": -1}, ValueError, "start: expected a cell from 0 to n - 2 = 3 .*, got -1"),
        ({"n": 1}, ValueError, "n: expected at least 2 cells, got 1"),
        ({"n": 5.0}, TypeError, "n: expected an int, got 5.0"),
        ({"start": True}, TypeError, "start: expected an int, got True"),
        ({"start": "0"}, TypeError, "start: expected an int, got '0'"),
        ({"strat": 1}, TypeError, "unknown option 'strat'; did you mean 'start'"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        vecenv.make_vec("LineWorld-v0", 2, **options)


def test_an_action_outside_the_space_is_refused():
    envs = vecenv.make_vec("LineWorld-v0", 3)
    envs.reset(seed=0)
    with pytest.raises(ValueError, match="row 1: action 2 is outside Discrete"):
        envs.step(np.array([1, 2, 0]))
    assert envs.observe().tolist() == [0, 0, 0]
