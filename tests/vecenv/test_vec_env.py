"""VecEnv: reset, step, modes, seeds, outputs, statistics, refusals, lifecycle.

Oracles: Gymnasium 1.4.0 where named (its error types, its SyncVectorEnv and RecordEpisodeStatistics), NumPy's streams,
and numbers worked out by hand. Case ids C... name the public reports that a test answers.
"""

from __future__ import annotations

import contextlib
import copy
import pickle
import re
import threading
import time
import warnings

import envs as e
import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

import vecenv
from vecenv import StepOut, make_vec, uniform
from vecenv.vec_env import VecEnv

every_env = pytest.mark.parametrize("name", e.ALL)
every_mode = pytest.mark.parametrize("mode", e.MODES)


def started(name="counter", n=4, mode="next_step", seed=0, **kwargs) -> VecEnv:
    envs = e.make(name, n, mode, **kwargs)
    envs.reset(seed=seed)
    return envs


@contextlib.contextmanager
def refused(envs: VecEnv, kind: type[Exception], message: str):
    """The call raises, and not a byte of the batch has changed."""
    before = e.checksum(envs)
    with pytest.raises(kind, match=message):
        yield
    assert e.checksum(envs) == before


# --- modes, by known numbers ------------------------------------------------------------------------------------------

CP9 = [0.14065097, 1.7603811, -0.21518604, -2.7778864]


def cartpole_at_zero(mode, **kwargs) -> VecEnv:
    envs = started("CartPole-v1", 1, mode, **kwargs)
    for name in ("x", "x_dot", "theta", "theta_dot"):
        envs.state[name][:] = 0
    return envs


def test_c001_next_step_shows_the_last_observation_and_resets_on_the_next_call():
    envs = cartpole_at_zero("next_step")
    for call in range(1, 12):
        obs, rewards, terminated, truncated, _ = envs.step([1])
        assert not truncated[0] and terminated[0] == (call == 9)
        assert rewards[0] == (call != 10)
        if call == 9:
            np.testing.assert_allclose(obs[0], CP9, atol=1e-6)
        if call == 10:
            assert (abs(obs) <= 0.05).all()


def test_same_step_shows_the_first_observation_of_the_next_episode():
    envs = cartpole_at_zero("same_step")
    for call in range(1, 10):
        obs, rewards, terminated, _, infos = envs.step([1])
        assert rewards[0] == 1 and terminated[0] == (call == 9)
        assert ("final_obs" in infos) == (call == 9)
    assert (abs(obs) <= 0.05).all() and infos["_final_obs"].tolist() == [True]
    np.testing.assert_allclose(infos["final_obs"][0], CP9, atol=1e-6)
    assert infos["final_info"] == {} and infos["_final_info"].tolist() == [True]
    assert envs.step([1])[1].tolist() == [1] and envs.state.elapsed.tolist() == [1]


def test_c026_termination_wins_over_the_limit():
    envs = cartpole_at_zero("disabled", max_episode_steps=9)
    for _ in range(9):
        _, _, terminated, truncated, _ = envs.step([1])
    assert terminated.tolist() == [True] and truncated.tolist() == [False]


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("mode", "ends"),
    [("next_step", [4, 9, 14, 19]), ("same_step", [4, 8, 12, 16, 20]), ("disabled", [4, 8, 12, 16, 20])],
)
def test_c004_periods_of_a_limit_of_four(mode, ends):
    envs = started("drift", 1, mode, max_episode_steps=4)
    assert envs.metadata["autoreset_mode"] is AutoresetMode[mode.upper()] is envs.autoreset_mode
    found = []
    for call in range(1, 21):
        _, rewards, terminated, truncated, _ = envs.step([[1.0]])
        assert not terminated[0]
        if truncated[0]:
            found.append(call)
        assert (rewards[0] == 0) == (mode == "next_step" and call % 5 == 0)
        if mode == "disabled":
            e.reset_ended(envs, terminated, truncated)
    assert found == ends


@pytest.mark.nojit
def test_c005_actions_of_rows_about_to_be_reset_are_ignored():
    """NaN and numbers out of range included, in every kind of action space; other rows are checked as ever."""
    envs = started("drift", 2, max_episode_steps=[1, 5])
    envs.step([[0.0], [0.0]])
    with refused(envs, ValueError, r"row 1: action \[nan\] is not finite; no row has moved"):
        envs.step([[np.nan], [np.nan]])
    obs, rewards, *_ = envs.step([[np.nan], [1.0]])
    assert np.isfinite(obs).all() and rewards[0] == 0 and rewards[1] != 0 and np.isfinite(envs.state.x).all()
    for name, wrong in (("counter", 99), ("pair", [9, -9]), ("bits", [2, 2, 2])):
        envs = started(name, 2, max_episode_steps=[1, 5])
        good = e.actions(envs, 3)
        envs.step(good[0])
        good[1][0] = wrong
        envs.step(good[1])
        good[2][1] = wrong
        with refused(envs, ValueError, "row 1: action"):
            envs.step(good[2])


@pytest.mark.nojit
def test_c009_every_auto_reset_draws_anew():
    envs = started("CartPole-v1", 4, "same_step", max_episode_steps=1)
    starts = np.concatenate([envs.step([0] * 4)[0] for _ in range(50)])
    assert len({row.tobytes() for row in starts}) == 200
    assert abs(starts.mean(axis=0)).max() < 0.009
    assert abs(starts.std(axis=0) - 0.1 / np.sqrt(12)).max() < 0.004


@pytest.mark.nojit
def test_c012_c015_disabled_refuses_ended_rows_and_resets_those_asked_for():
    envs = started("lake", 2, "disabled", params={"slippery": False})
    envs.state.cell = [14, 0]
    _, rewards, terminated, _, _ = envs.step([2, 1])
    assert rewards.tolist() == [1, 0] and terminated.tolist() == [True, False]
    with refused(envs, ResetNeeded, "row 0: its episode has ended; reset it with reset_mask"):
        envs.step([1, 1])
    obs, _ = envs.reset(options={"reset_mask": np.array([True, False])})
    assert obs.tolist() == [0, 4]
    assert envs.step([1, 1])[0].tolist() == [4, 8] and envs.state.elapsed.tolist() == [1, 2]


@pytest.mark.nojit
@pytest.mark.parametrize("is_first", [True, False])
def test_c012_a_mask_resets_one_row_of_four(is_first):
    """And does not wait for the others, which may not even have begun."""
    envs = e.make("CartPole-v1", 4, "disabled")
    if not is_first:
        envs.reset(seed=0)
        envs.step([0, 1, 0, 1])
    before = {name: column.copy() for name, column in e.columns(envs).items()}
    obs, _ = envs.reset(seed=[7, None, None, None], options={"reset_mask": np.array([True, False, False, False])})
    np.testing.assert_array_equal(obs[0], started("CartPole-v1", 1, seed=7).observe()[0])
    for name, column in e.columns(envs).items():
        if name.startswith("state.") or not is_first:  # the first reset of all gives every row its streams
            np.testing.assert_array_equal(column[1:], before[name][1:])
    assert envs.state.elapsed.tolist() == ([0] * 4 if is_first else [0, 1, 1, 1])


@pytest.mark.nojit
def test_absorb_keeps_ended_rows_as_they_are():
    envs = started("rooms", 3, "disabled", ended="absorb", max_episode_steps=[2, -1, 1])
    steps = e.actions(envs, 4)
    for call, step in enumerate(steps, 1):
        before = {name: column.copy() for name, column in e.columns(envs).items()}
        obs, rewards, _, truncated, infos = envs.step(step)
        gone = [call > 2, False, call > 1]
        assert truncated.tolist() == [call >= 2, False, True]
        assert envs.episode_ended.tolist() == [call == 2, False, call == 1]
        assert envs.ended_rows.tolist() == [k for k in (0, 2) if envs.episode_ended[k]]
        assert (rewards[gone] == 0).all() and rewards[1] != 0 and infos["_visits"].all()
        for name, column in e.columns(envs).items():
            if name != "engine.flags":
                np.testing.assert_array_equal(column[gone], before[name][gone])
        e.assert_same(obs, envs.observe())
    assert envs.state.elapsed.tolist() == [2, 4, 1]


# --- statistics -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "ends"), [("next_step", [3, 7, 11, 15]), ("same_step", [3, 6, 9, 12, 15])])
def test_c017_c122_gymnasiums_statistics_wrapper_agrees(mode, ends):
    """RecordEpisodeStatistics (Gymnasium 1.4.0) over us gives r and l of every episode, and ours are the same."""
    envs = RecordEpisodeStatistics(e.make("CartPole-v1", 2, mode, max_episode_steps=3))
    envs.reset(seed=0)
    found = []
    for call in range(1, 16):
        _, _, _, truncated, infos = envs.step(np.full(2, call % 2))
        assert isinstance(infos, dict)
        if truncated.any():
            found.append(call)
            assert infos["episode"]["l"].tolist() == [3, 3] and infos["episode"]["r"].tolist() == [3, 3]
            assert infos["_episode"].all()
            assert envs.unwrapped.episode_lengths.tolist() == [3, 3] and envs.unwrapped.episode_ended.all()
    assert found == ends


@every_mode
def test_c020_nothing_is_carried_over_from_a_truncated_episode(mode):
    """Alternately cut off after 4 steps and terminated after 2, reward 1 each; Gymnasium's wrapper says the same."""
    envs = started("CartPole-v1", 1, mode, max_episode_steps=4)
    counted = RecordEpisodeStatistics(envs)
    counted.reset(seed=0)
    found = []
    for episode in range(4):
        for k in range(4 if episode % 2 == 0 else 2):
            if episode % 2 == 1 and k == 1:
                envs.state.x = 3.0
            _, _, terminated, truncated, infos = counted.step(np.array([k % 2]))
        assert (terminated[0], truncated[0]) == (episode % 2 == 1, episode % 2 == 0) and envs.episode_ended[0]
        found.append((float(envs.episode_returns[0]), int(envs.episode_lengths[0])))
        assert (infos["episode"]["r"][0], infos["episode"]["l"][0]) == found[-1]
        if mode == "next_step":
            counted.step(np.array([0]))
        elif mode == "disabled":
            counted.reset(options={"reset_mask": np.array([True])})
    assert found == [(4, 4), (2, 2), (4, 4), (2, 2)]


@pytest.mark.nojit
def test_c021_reset_clears_the_counter():
    envs = started("drift", 2, max_episode_steps=3)
    envs.step([[1.0]] * 2)
    envs.step([[1.0]] * 2)
    envs.reset()
    assert [envs.step([[1.0]] * 2)[3].tolist() for _ in range(3)] == [[False] * 2, [False] * 2, [True] * 2]
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert envs.episode_lengths.tolist() == [0, 3] and envs.episode_ended.tolist() == [False, True]


def test_c025_no_episode_outlives_its_limit():
    envs = started("drift", 64, max_episode_steps=200)
    rng = np.random.default_rng(0)
    lengths = np.zeros(64, np.int64)
    pending = np.zeros(64, np.bool_)
    for _ in range(1000):
        _, _, terminated, truncated, _ = envs.step(np.zeros((64, 1)))
        lengths = np.where(pending, 0, lengths + 1)
        np.testing.assert_array_equal(truncated, (lengths == 200) & ~pending)
        np.testing.assert_array_equal(envs.episode_lengths, lengths)
        assert not terminated.any()
        pending = truncated
        mask = rng.random(64) < 0.01
        if mask.any():
            envs.reset(options={"reset_mask": mask})
            lengths[mask], pending = 0, pending & ~mask


@pytest.mark.nojit
def test_statistics_are_copies():
    envs = started("counter", 2)
    for name in ("episode_returns", "episode_lengths", "episode_ended"):
        before = getattr(envs, name)
        before += np.array(1, before.dtype)
        np.testing.assert_array_equal(getattr(envs, name), np.zeros(2))


# --- seeds ------------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize(
    "seed", [0, 7, 2**31, 2**32 - 1, 2**64 - 2, 2**64, 2**70 + 3, 2**200, np.int64(5), np.uint8(3)]
)
def test_an_int_seeds_row_i_with_seed_plus_i(seed):
    """NumPy's stream of SeedSequence(seed + i), drawn from as Gymnasium does."""
    envs = e.make("CartPole-v1", 3)
    obs, _ = envs.reset(seed=seed)
    for i in range(3):
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(int(seed) + i)))
        np.testing.assert_array_equal(obs[i], rng.uniform(-0.05, 0.05, 4).astype(np.float32))
    assert envs.np_random_seed == tuple(int(seed) + i for i in range(3))


@pytest.mark.nojit
def test_a_list_seeds_rows_one_by_one_and_none_continues():
    whole, some = started(n=4, seed=10), started(n=4, seed=10)
    e.assert_same(whole.reset(seed=10)[0], some.reset(seed=[10, 11, 12, 13])[0])
    kept = some._memory.columns["engine.rng"][[0, 2]].copy()
    obs, _ = some.reset(seed=[None, 3, None, np.int32(4)])
    again, _ = started(n=4).reset(seed=[1, 3, 1, 4])
    np.testing.assert_array_equal(obs[[1, 3]], again[[1, 3]])
    expected = e.make("counter", 4)
    expected.reset(seed=0)
    expected._memory.columns["engine.rng"][[0, 2]] = kept
    np.testing.assert_array_equal(obs[[0, 2]], expected.reset()[0][[0, 2]])
    masked = started(n=4, seed=10)
    obs, _ = masked.reset(seed=[7, 8, None, 9], options={"reset_mask": np.array([True, False, True, False])})
    streams = started(n=4, seed=10)._memory.columns["engine.rng"]
    np.testing.assert_array_equal(masked._memory.columns["engine.rng"][[1, 3]], streams[[1, 3]])
    np.testing.assert_array_equal(obs[0], started(n=1, seed=7).observe()[0])


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("seed", "kind", "message"),
    [
        (-1, ValueError, "seed must be an int >= 0, got -1"),
        (1.0, TypeError, "seed must be an int >= 0, got 1.0"),
        (True, TypeError, "seed must be an int >= 0, got True"),
        ("7", TypeError, "seed must be an int >= 0, got '7'"),
        ([1, 2], ValueError, "seed: expected 3 entries, one per row, got 2"),
        ([1, 2, 3.0], TypeError, "seed must be an int >= 0, got 3.0"),
        ([1, 2, -3], ValueError, "seed must be an int >= 0, got -3"),
        (np.array(3), TypeError, r"seed: expected an int or 3 entries, one per row, got an array of shape \(\)"),
        (np.ones((3, 1), np.int64), TypeError, r"got an array of shape \(3, 1\)"),
        (np.ones(3), TypeError, "seed must be an int >= 0"),
    ],
)
def test_wrong_seeds(seed, kind, message):
    envs = started(n=3)
    with refused(envs, kind, message):
        envs.reset(seed=seed)


@pytest.mark.nojit
def test_c071_c073_streams_go_on_over_resets():
    def run(envs):
        return [envs.reset(seed=7)[0], *(envs.reset()[0] for _ in range(5))]

    first, second = run(e.make("CartPole-v1", 3)), run(e.make("CartPole-v1", 3))
    assert len({obs.tobytes() for obs in first}) == 6
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_c071_auto_resets_go_on_with_the_streams(mode):
    """Three episodes per row twice: the same runs; starts of all episodes differ."""

    def run():
        envs = e.make("CartPole-v1", 3, mode, max_episode_steps=5)
        starts, everything = [envs.reset(seed=7)[0]], []
        for call in range(17):
            obs, *rest, _ = envs.step(np.full(3, call % 2))
            everything += [obs, *rest]
            if (envs.state.elapsed == 0).all():
                starts.append(obs)
        return starts, everything

    (starts, everything), (_, again) = run(), run()
    for a, b in zip(everything, again, strict=True):
        e.assert_same(a, b)
    starts = np.concatenate(starts[:3])
    assert starts.shape == (9, 4) and len({row.tobytes() for row in starts}) == 9


def test_c067_without_a_seed_every_process_differs():
    code = "import vecenv; print(vecenv.make_vec('CartPole-v1', 4).reset()[0].tobytes().hex())"
    first, second = (e.python(code).stdout for _ in range(2))
    assert first != second
    rows = {first[k : k + 32] for k in range(0, 128, 32)}
    assert len(rows) == 4


@pytest.mark.nojit
def test_without_a_seed_every_batch_and_row_differs():
    starts = [e.make("CartPole-v1", 3).reset()[0] for _ in range(2)]
    assert len({row.tobytes() for obs in starts for row in obs}) == 6


def test_c069_c075_runs_repeat_whatever_was_made_or_compiled_before():
    def run(seed, warm):
        envs = e.make("dice", 32)
        if warm:
            envs.reset()
            envs.step(e.actions(envs, 1)[0])
            envs.observe()
            envs.snapshot()
        obs, _ = envs.reset(seed=seed)
        return [obs] + [envs.step(step)[:4] for step in e.actions(envs, 10)]

    runs = [run(seed, warm) for seed in (1, 2, 3) for warm in (False, True)]
    for cold, warm in zip(runs[::2], runs[1::2], strict=True):
        e.assert_same(tuple(cold), tuple(warm))
    assert len({run[0].tobytes() for run in runs}) == 3


#: Ten steps of many rows of environments that draw in `reset` or `step`, by digest.
STOCHASTIC = """
import hashlib
import vecenv

IDS = (
    "Acrobot-v1", "Blackjack-v1", "CartPole-v1", "CliffWalkingSlippery-v1", "FrozenLake-v1", "JacksCarRental-v0",
    "MountainCar-v0", "Pendulum-v1", "Racetrack1-v0", "Taxi-v4",
)

def play(num_envs, num_threads="auto"):
    digests = {}
    for id in IDS:
        envs = vecenv.make_vec(id, num_envs, num_threads=num_threads)
        envs.action_space.seed(0)
        parts = [envs.reset(seed=123)[0]]
        for _ in range(10):
            parts += envs.step(envs.action_space.sample())[:4]
        arrays = [array for part in parts for array in (part if isinstance(part, tuple) else (part,))]
        digests[id] = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
    return digests
"""


def test_c069_many_rows_repeat_in_one_process_and_in_another():
    """Seed 123, 32 and 1000 rows, with each number of threads there is."""
    namespace: dict = {}
    exec(STOCHASTIC, namespace)
    play = namespace["play"]
    first = [play(n) for n in (32, 1000)]
    assert [play(n, 1) for n in (32, 1000)] == first
    assert e.python(STOCHASTIC + "print([play(n) for n in (32, 1000)])").stdout.strip() == str(first)


# --- reset: masks and options -----------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"mask": np.ones(3, np.bool_)}, ValueError, "unknown key 'mask'; did you mean 'reset_mask'"),
        ({"reset_mask": [True, False, True]}, TypeError, "must be a numpy array, got <class 'list'>"),
        ({"reset_mask": np.ones(3, np.int64)}, TypeError, "must have `dtype=np.bool_`, got int64"),
        ({"reset_mask": np.ones(4, np.bool_)}, ValueError, r"must have shape `\(3,\)`, got \(4,\)"),
        ({"reset_mask": np.zeros(3, np.bool_)}, ValueError, "at least one True"),
        ({"start": 2.5}, TypeError, "reset option 'start': expected one int32, got 2.5"),
        ({"start": 2**31}, ValueError, "reset option 'start': 2147483648 does not fit int32"),
        ({"warm": "hot"}, TypeError, "reset option 'warm': expected one float64"),
        ({"strat": 2}, ValueError, "unknown key 'strat'; did you mean 'start' or 'state'|did you mean"),
        ({"state": {"att": 1}}, ValueError, "no state field 'att'; did you mean 'at'"),
        ({"state": {"at": 1.5}}, TypeError, "state 'at': expected int16"),
        ({"state": {"at": 40000}}, ValueError, "state 'at': row 0: 40000 does not fit int16"),
        ({"state": {"at": [1, 2]}}, ValueError, r"state 'at': expected shape \(3,\), got \(2,\)"),
        ({"state": {"heat": np.zeros((3, 4))}}, ValueError, r"state 'heat': expected shape \(3, 3\)"),
        ({"state": 3}, TypeError, "'state': expected a dict, got int"),
        ({"params": {"gravity": 3}}, ValueError, "no param 'gravity'"),
        ({"params": 3}, TypeError, "'params': expected a dict, got int"),
    ],
)
@pytest.mark.parametrize("mode", ["next_step", "disabled"])
def test_c013_wrong_options_change_nothing(options, kind, message, mode):
    """The types of a wrong mask are Gymnasium 1.4.0's; a misspelt key is an error: Gymnasium resets everything."""
    envs = started("rooms", 3, mode)
    given = copy.deepcopy(options)
    with refused(envs, kind, message):
        envs.reset(seed=3, options=options)
    assert str(given) == str(options)


@pytest.mark.nojit
def test_a_masked_reset_moves_only_its_rows_and_leaves_the_options_alone():
    envs = started("rooms", 4)
    for step in e.actions(envs, 3):
        obs, *_ = envs.step(step)
    before = {name: column.copy() for name, column in e.columns(envs).items()}
    mask = np.array([False, True, False, True])
    options = {"reset_mask": mask, "start": 5}
    after, infos = envs.reset(options=options)
    assert options.keys() == {"reset_mask", "start"} and options["reset_mask"] is mask and mask.sum() == 2
    e.assert_same(e.take(after, ~mask), e.take(obs, ~mask))
    assert after["at"].tolist()[1] == 5 and envs.state.elapsed.tolist() == [3, 0, 3, 0]
    assert infos["_visits"].tolist() == infos["_hottest"].tolist() == mask.tolist()
    assert infos["visits"].tolist() == [0] * 4 and (infos["hottest"] > 0).tolist() == mask.tolist()
    for name, column in e.columns(envs).items():
        np.testing.assert_array_equal(column[~mask], before[name][~mask])
    assert envs.reset(options={"reset_mask": ~np.zeros(4, np.bool_)})[1]["_visits"].all()


@pytest.mark.nojit
def test_options_hold_for_explicit_resets_only():
    envs = e.make("rooms", 2, "same_step", max_episode_steps=1)
    obs, _ = envs.reset(seed=0, options={"start": 7, "warm": 0.0})
    assert obs["at"].tolist() == [7, 7] and not obs["heat"].any()
    obs, *_ = envs.step([0, 0])
    assert obs["at"].tolist() == [0, 0] and obs["heat"].all()
    assert envs.reset()[0]["at"].tolist() == [0, 0]


@pytest.mark.nojit
def test_rows_can_start_from_given_fields():
    envs = started("rooms", 3)
    streams = envs._memory.columns["engine.rng"].copy()
    heat = np.arange(9, dtype=np.float64).reshape(3, 3)
    obs, infos = envs.reset(options={"state": {"at": [3, 4, 5], "heat": heat, "elapsed": 2, "alarm": True}})
    np.testing.assert_array_equal(obs["heat"], heat.astype(np.float32))
    assert obs["at"].tolist() == [3, 4, 5] and infos["hottest"].tolist() == [2, 5, 8] and infos["alarm"].all()
    assert envs.state.elapsed.tolist() == [2, 2, 2]
    assert (envs._memory.columns["engine.rng"] != streams).any(axis=1).all()  # the draws of reset are consumed
    envs.reset(options={"reset_mask": np.array([False, True, False]), "state": {"at": [9, 8, 7]}})
    assert envs.state.at.tolist() == [3, 8, 5]


@pytest.mark.nojit
def test_params_per_row_shared_and_drawn():
    envs = started("drift", 3, params={"gain": [0.0, 1.0, 2.0], "cost": 0.0}, max_episode_steps=2)
    envs.state.x = 0.0
    envs.step([[1.0]] * 3)
    assert envs.state.x.tolist() == [0, 1, 2] and envs.params["gain"].tolist() == [0, 1, 2]
    envs.reset(options={"reset_mask": np.array([True, False, False]), "params": {"gain": 5.0}})
    assert envs.params["gain"].tolist() == [5, 1, 2]
    for _ in range(4):
        envs.step([[1.0]] * 3)
    assert envs.params["gain"].tolist() == [5, 1, 2]  # over auto-resets
    snap = envs.snapshot([0, 2])
    other = envs.like(2)
    other.restore(snap)
    assert other.params["gain"].tolist() == [5, 2]
    with refused(envs, ValueError, "param 'cost' is shared by all rows, so it needs a reset of all rows"):
        envs.reset(options={"reset_mask": np.array([True, False, False]), "params": {"cost": 5.0}})
    envs.reset(options={"params": {"cost": 5.0}})
    assert envs.params["cost"] == 5.0
    with pytest.raises(ValueError, match=r"the snapshot has other columns: param\.gain"):
        started("drift", 3).restore(snap, rows=[0, 1])


@pytest.mark.nojit
def test_drawn_params_come_from_the_rows_own_stream():
    envs = e.make("drift", 3, params={"gain": uniform(2.0, 3.0)})
    envs.reset(seed=4)
    for i in range(3):
        rng = np.random.Generator(np.random.PCG64(4 + i))
        assert envs.params["gain"][i] == rng.uniform(2.0, 3.0) and envs.state.x[i] == rng.standard_normal()
    envs.reset(options={"params": {"gain": 1.0}})
    assert envs.params["gain"].tolist() == [1, 1, 1]
    envs.reset()
    assert ((envs.params["gain"] >= 2) & (envs.params["gain"] < 3)).all()
    for low, high in ((3, 2), (0, np.inf), (np.nan, 1)):
        with pytest.raises(ValueError, match="expected finite bounds with low <= high"):
            uniform(low, high)


@pytest.mark.nojit
def test_rows_never_reset():
    envs = e.make("rooms", 3)
    with refused(envs, ResetNeeded, "row 0 was never reset; call reset"):
        envs.step([0, 0, 0])
    with refused(envs, ResetNeeded, "row 0 was never reset"):
        envs.observe()
    obs, _ = envs.reset(options={"reset_mask": np.array([False, True, False]), "start": 3})
    assert obs["at"].tolist() == [0, 3, 0] and not obs["heat"][[0, 2]].any()
    with refused(envs, ResetNeeded, "row 0 was never reset; call reset.. first; no row has moved"):
        envs.step([0, 0, 0])
    with refused(envs, ResetNeeded, "row 2 was never reset"):
        envs.step([0, 0], rows=[1, 2])
    envs.step([0], rows=[1])


# --- actions ----------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("name", "actions", "kind", "message"),
    [
        ("lake", np.zeros(3, np.int64), ValueError, r"expected an array of shape \(4,\) of int64, got shape \(3,\)"),
        ("lake", np.zeros(5, np.int64), ValueError, r"shape \(4,\) of int64, got shape \(5,\)"),
        ("lake", np.zeros((4, 1), np.int64), ValueError, r"shape \(4,\) of int64, got shape \(4, 1\)"),
        ("lake", np.zeros((4, 2), np.int64), ValueError, r"shape \(4,\) of int64, got shape \(4, 2\)"),
        ("lake", np.zeros((1, 4), np.int64), ValueError, r"shape \(4,\) of int64, got shape \(1, 4\)"),
        ("lake", 3, TypeError, r"shape \(4,\) of int64, got 3"),
        ("lake", None, TypeError, r"shape \(4,\) of int64, got None"),
        ("lake", [0.0, 1.0, 1.0, 0.0], TypeError, r"shape \(4,\) of int64, got float64"),
        ("lake", [0, 1, 4, 0], ValueError, r"row 2: action 4 is outside Discrete\(4\)"),
        ("lake", [0, -1, 4, 0], ValueError, r"row 1: action -1 is outside Discrete\(4\)"),
        ("lake", np.array([0, 0, 0, 2**63], np.uint64), ValueError, "row 3: 9223372036854775808 does not fit int64"),
        ("lake", [0, 0, 0, 2**70], TypeError, "got object"),
        ("lake", [[0], [1, 2], [1], [1]], ValueError, "got a ragged sequence"),
        ("lake", ["a"] * 4, TypeError, "got <U1"),
        ("counter", [-1, 0, 1, 2], ValueError, r"row 3: action 2 is outside Discrete\(3, start=-1\)"),
        ("counter", [-1, -2, 1, 1], ValueError, r"row 1: action -2 is outside Discrete\(3, start=-1\)"),
        ("drift", [1.0] * 4, ValueError, r"shape \(4, 1\) of float32, got shape \(4,\)"),
        ("drift", np.zeros((4, 2)), ValueError, r"shape \(4, 1\) of float32, got shape \(4, 2\)"),
        ("drift", [[0], [np.inf], [0], [0]], ValueError, r"row 1: action \[inf\] is not finite"),
        ("drift", [[0], [0], [0], [-np.inf]], ValueError, r"row 3: action \[-inf\] is not finite"),
        ("drift", [[0], [0], [1e308], [0]], ValueError, r"row 2: action \[inf\] is not finite"),
        ("drift", [[0], [0], [1j], [0]], TypeError, "got complex128"),
        ("pair", [[0, 0], [3, 0], [0, 0], [0, 0]], ValueError, r"row 1: action \[3 0\] is outside MultiDiscrete"),
        ("pair", [[0, 0], [0, 0], [0, -1], [0, 0]], ValueError, r"row 2: action \[ 0 -1\] is outside MultiDiscrete"),
        ("bits", [[0, 1, 2]] * 4, ValueError, r"row 0: action \[0 1 2\] is outside MultiBinary"),
        ("bits", [[0, 1, 300]] * 4, ValueError, "row 0: .* does not fit int8"),
        ("blocks", np.full((4, 1, 2), 40000), ValueError, "row 0: .* does not fit int16"),
        ("blocks", np.zeros((4, 2)), ValueError, r"shape \(4, 1, 2\) of int16"),
    ],
)
def test_c092_c106_wrong_actions_move_nothing(name, actions, kind, message):
    envs = started(name, 4)
    with refused(envs, kind, message):
        envs.step(actions)
    rows = [3, 1, 0, 2]
    position = re.search(r"row (\d)", message)
    message = message if position is None else message.replace(position[0], f"row {rows[int(position[1])]}")
    with refused(envs, kind, message):
        envs.step(actions, rows=rows)


@pytest.mark.nojit
def test_a_refused_action_names_the_row_of_the_batch_and_not_its_position():
    for rows in ([5, 2, 4], [2, 3, 4]):
        envs = started("lake", 6)
        with refused(envs, ValueError, f"row {rows[1]}: action 7"):
            envs.step([0, 7, 0], rows=rows)
        envs = started("drift", 6)
        with refused(envs, ValueError, f"row {rows[2]}: action .nan. is not finite"):
            envs.step([[0], [0], [np.nan]], rows=rows)


def test_every_wrong_discrete_action_is_found_wherever_it_is():
    wrong = (2, -2, 3, -3, 2**62, -(2**62), 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1)
    envs = started("counter", 67)
    for row in range(67):
        actions = np.resize([-1, 0, 1], 67)
        actions[row] = wrong[row % len(wrong)]
        with refused(envs, ValueError, rf"row {row}: action {actions[row]} is outside Discrete\(3, start=-1\)"):
            envs.step(actions)


def test_c086_the_finiteness_check_survives_the_optimizer():
    envs = started("waves", 8)
    for wrong in (np.nan, np.inf, -np.inf):
        actions = np.zeros((8, 2))
        actions[3, 1] = wrong
        with refused(envs, ValueError, "row 3: action .* is not finite"):
            envs.step(actions)
    actions[3, 1] = 1e308
    envs.step(actions)
    assert envs.state.phase[3, 1] > 1e306


@pytest.mark.nojit
def test_strict_actions():
    loose, strict = started("drift", 2), started("drift", 2, strict_actions=True)
    for wrong in (2.5, -2.001):
        loose.step([[0.0], [wrong]])
        with refused(strict, ValueError, r"row 1: action .* is outside Box\(-2.0, 2.0"):
            strict.step([[0.0], [wrong]])
    strict.step([[2.0], [-2.0]])
    blocks = started("blocks", 2, strict_actions=True)
    with refused(blocks, ValueError, "row 0: action"):
        blocks.step(np.full((2, 1, 2), 101))


@pytest.mark.nojit
@pytest.mark.parametrize(
    "form",
    [
        list, tuple, np.array, lambda a: np.array(a, np.int32), lambda a: np.array(a, np.uint8),
        lambda a: np.array(a, np.int16)[::1], lambda a: np.repeat(np.array(a), 2)[::2], lambda a: np.array(a, ">i8"),
        lambda a: np.frombuffer(np.array(a, np.int64).tobytes(), np.int64), lambda a: [np.int64(x) for x in a],
    ],
)  # fmt: skip
def test_c102_c108_actions_of_every_form_are_the_same_action(form):
    envs = started("lake", 4, params={"slippery": False})
    envs.state.cell = 14
    assert envs.step(form([0, 1, 2, 3]))[0].tolist() == [13, 14, 15, 10]
    envs = started("lake", 4, params={"slippery": False})
    envs.state.cell = 14
    assert envs.step(form([0, 1, 2, 3]), rows=[3, 2, 1, 0])[0].tolist() == [13, 14, 15, 10]


@pytest.mark.nojit
def test_bools_are_zero_and_one():
    envs = started("lake", 2, params={"slippery": False})
    envs.state.cell = 14
    assert envs.step([False, True])[0].tolist() == [13, 14]


@pytest.mark.nojit
def test_the_callers_actions_are_left_alone():
    for name in e.ALL:
        envs = started(name, 3)
        actions = e.actions(envs, 1)[0]
        kept = actions.copy()
        envs.step(actions)
        np.testing.assert_array_equal(actions, kept)


def test_read_only_and_strided_arguments_compile_nothing(jit_only):
    envs = started("counter", 6)
    envs.step([0] * 6)
    envs.step([0, 0], rows=[0, 2])
    kernels = [envs._runner.kernels.step, envs._runner.kernels.step_rows]
    before = [len(kernel.signatures) for kernel in kernels]
    rows = np.array([4, 0, 1])
    rows.flags.writeable = False
    actions = np.zeros(6, np.int64)
    actions.flags.writeable = False
    envs.step(actions)
    envs.step(actions[::2], rows=rows)
    envs.step(np.zeros(12, np.int64)[::2])
    snap = envs.snapshot(rows)
    envs.restore(snap, rows=rows, from_rows=rows - 0 if rows.max() < 3 else None)
    assert [len(kernel.signatures) for kernel in kernels] == before


@every_env
@every_mode
def test_c110_c100_c102_samples_are_accepted_and_observations_lie_in_their_space(name, mode):
    """Sampled actions; dtypes of observations and final observations exactly the space's, `contains` true."""
    envs = started(name, 16, mode)
    envs.action_space.seed(0)
    single, batched = envs.single_observation_space, envs.observation_space
    spaces = (
        single.spaces.values()
        if isinstance(single, gymnasium.spaces.Dict)
        else (single.spaces if isinstance(single, gymnasium.spaces.Tuple) else [single])
    )
    for k in range(80):
        obs, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())
        assert batched.contains(obs)
        for leaf, space in zip(e.flat(obs), spaces, strict=True):
            assert leaf.dtype == space.dtype and leaf.shape == (16, *space.shape)
        assert rewards.dtype == np.float64 and terminated.dtype == truncated.dtype == np.bool_
        if k % 20 == 0:
            for i in range(16):
                assert single.contains(envs._buffers.row(obs, i))
        if "final_obs" in infos:
            for i in np.flatnonzero(infos["_final_obs"]):
                last = (
                    infos["final_obs"][i] if envs._buffers.kind == "tuple" else envs._buffers.row(infos["final_obs"], i)
                )
                assert single.contains(last)
        if mode == "disabled":
            e.reset_ended(envs, terminated, truncated)


@every_env
def test_c128_one_environment_is_a_batch_of_one(name):
    envs = started(name, 1)
    obs, rewards, terminated, truncated, _ = envs.step(envs.action_space.sample())
    assert all(leaf.shape[0] == 1 for leaf in e.flat(obs))
    assert rewards.shape == terminated.shape == truncated.shape == (1,) and envs.num_envs == 1
    assert envs.action_space == gymnasium.vector.utils.batch_space(envs.single_action_space, 1)
    assert envs.observation_space == gymnasium.vector.utils.batch_space(envs.single_observation_space, 1)


# --- rows= ------------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("rows", "kind", "message"),
    [
        ([1, 1], ValueError, "rows: row 1 occurs more than once"),
        ([0, 4], ValueError, "rows: row 4 is outside 0 to 3"),
        ([-1, 0], ValueError, "rows: row -1 is outside 0 to 3"),
        ([0.0, 1.0], TypeError, "rows: expected a one-dimensional int array or a bool mask, got shape .2,. of float64"),
        ([[0, 1]], TypeError, r"rows: expected a one-dimensional int array or a bool mask, got shape \(1, 2\)"),
        (1, TypeError, r"got shape \(\)"),
        ("01", TypeError, "rows: expected"),
        (np.ones(2, np.bool_), ValueError, r"rows: expected a bool mask of shape \(4,\), got shape \(2,\)"),
        ([0, 1, 2], ValueError, r"actions: expected an array of shape \(3,\) of int64, got shape \(2,\)"),
        (np.ones(4, np.bool_), ValueError, r"actions: expected an array of shape \(4,\)"),
    ],
)
def test_wrong_rows(rows, kind, message):
    envs = started("lake", 4)
    with refused(envs, kind, message):
        envs.step([0, 0], rows=rows)


@pytest.mark.nojit
def test_ended_rows_in_part_of_a_batch():
    envs = started("counter", 6, "disabled")
    envs.state.end = [99, 0, 99, 99, 0, 99]
    _, _, terminated, _, _ = envs.step([0] * 4, rows=[4, 0, 1, 2])
    assert terminated.tolist() == [True, False, True, False]
    assert envs.ended_rows.tolist() == [4, 1]
    np.testing.assert_array_equal(envs.final_obs_rows, envs.observe()[[4, 1]])
    with refused(envs, ResetNeeded, "row 1: its episode has ended"):
        envs.step([0, 0, 0], rows=[0, 1, 4])
    envs.step([0, 0, 0], rows=[0, 3, 2])
    assert envs.ended_rows.tolist() == [] and envs.episode_ended.tolist() == [False, True, False, False, True, False]


@pytest.mark.nojit
def test_ended_rows_and_final_observations_under_same_step():
    for kwargs in ({}, {"final_obs": "object"}, {"copy": False}):
        envs = started("counter", 6, "same_step", **kwargs)
        envs.state.end = [99, 0, 99, 99, 0, 99]
        _, _, _, _, infos = envs.step([0] * 4, rows=[4, 0, 1, 2])
        assert envs.ended_rows.tolist() == [4, 1] and infos["_final_obs"].tolist() == [True, False, True, False]
        last = envs.final_obs_rows
        assert last.shape == (2, 4) and (last[:, 3] == 1).all() and (last[:, 0] >= 1).all()
        for k, position in enumerate((0, 2)):
            np.testing.assert_array_equal(infos["final_obs"][position], last[k])
        assert infos["final_obs"][1] is None if kwargs.get("final_obs") else not infos["final_obs"][1].any()
        envs.step([0] * 6)
        assert envs.ended_rows.tolist() == [] and envs.final_obs_rows.shape == (0, 4)


# --- outputs ----------------------------------------------------------------------------------------------------------


@every_env
@every_mode
def test_c062_results_are_the_callers(name, mode):
    """Writable, never changed later, overlapping neither each other nor the batch."""
    envs = e.make(name, 5, mode)
    seen = []

    def keep(value):
        if isinstance(value, dict):
            for part in value.values():
                keep(part)
        elif isinstance(value, tuple):
            for part in value:
                keep(part)
        elif value.dtype != object:
            assert value.flags.writeable and not np.shares_memory(value, envs._arena)
            assert not any(np.shares_memory(value, other) for other, _ in seen[-40:])
            seen.append((value, value.copy()))

    keep(envs.reset(seed=0))
    for step in e.actions(envs, 12):
        result = envs.step(step)
        keep(result)
        keep(envs.observe())
        if mode == "disabled":
            keep(envs.reset(options={"reset_mask": np.arange(5) < 2})) if not (result[2] | result[3]).any() else (
                e.reset_ended(envs, *result[2:4])
            )
    for value, kept in seen:
        np.testing.assert_array_equal(value, kept)


@pytest.mark.nojit
def test_copy_false_returns_the_same_arrays_in_every_step():
    for name in ("counter", "rooms", "pair"):
        envs, copied = started(name, 3, "same_step", copy=False), started(name, 3, "same_step")
        first = envs.step(e.actions(envs, 1)[0])
        copied.step(e.actions(envs, 1)[0])
        for step in e.actions(envs, 12, seed=1):
            again, expected = envs.step(step), copied.step(step)
            for a, b in zip([*e.flat(first[0]), *first[1:4]], [*e.flat(again[0]), *again[1:4]], strict=True):
                assert a is b
            e.assert_same(again, expected)


def destination(envs: VecEnv, count: int) -> StepOut:
    new = envs._outputs.new(count)
    for leaf in [*e.flat(new.obs), new.rewards, new.terminated, new.truncated, *e.flat(new.final_obs)]:
        if leaf is not None:
            leaf.fill(1)
    return new


@every_env
@every_mode
def test_out_receives_what_a_step_returns(name, mode):
    envs, other = started(name, 6, mode), started(name, 6, mode)
    for k, step in enumerate(e.actions(envs, 15)):
        out = destination(envs, 6)
        if k % 3 == 1:
            out.rewards = out.obs = out.final_obs = None
        got, expected = envs.step(step, out=out), other.step(step)
        e.assert_same(got, expected)
        assert out.terminated is got[2] and out.truncated is got[3]
        if k % 3 != 1:
            assert out.rewards is got[1] and all(a is b for a, b in zip(e.flat(out.obs), e.flat(got[0]), strict=True))
        if mode == "disabled":
            e.reset_ended(envs, *got[2:4])
            e.reset_ended(other, *got[2:4])


@pytest.mark.nojit
def test_out_takes_one_step_of_a_rollout():
    envs, other = started("counter", 4, "same_step"), started("counter", 4, "same_step")
    obs, rewards, flags = np.zeros((5, 4, 4)), np.zeros((5, 4)), np.zeros((2, 5, 4), np.bool_)
    for t, step in enumerate(e.actions(envs, 5)):
        envs.step(step, out=StepOut(obs[t], rewards[t], flags[0, t], flags[1, t]))
        expected = other.step(step)
        e.assert_same((obs[t], rewards[t], flags[0, t], flags[1, t]), expected[:4])
    envs.step([0, 1], rows=[3, 1], out=StepOut(obs[0, :2], rewards[0, :2]))
    e.assert_same(obs[0, :2], other.step([0, 1], rows=[3, 1])[0])


def _out(**change):
    def build(envs):
        new = envs._outputs.new(4)
        for name, value in change.items():
            setattr(new, name, value(envs, new) if callable(value) else value)
        return new

    return build


READ_ONLY = np.zeros(4)
READ_ONLY.flags.writeable = False
SHARED = np.zeros(16)


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("out", "kind", "message"),
    [
        (lambda x: 3, TypeError, "out: expected a StepOut, got int"),
        (lambda x: tuple(x.step([0] * 4)), TypeError, "out: expected a StepOut, got tuple"),
        (
            _out(rewards=np.zeros(3)),
            ValueError,
            r"out.rewards: expected shape \(4,\) of float64, got \(3,\) of float64",
        ),
        (_out(rewards=np.zeros((4, 1))), ValueError, r"out.rewards: expected shape \(4,\)"),
        (_out(rewards=np.zeros(4, np.float32)), ValueError, r"out.rewards: expected .* got \(4,\) of float32"),
        (_out(rewards=[0.0] * 4), TypeError, "out.rewards: expected a NumPy array, got list"),
        (_out(rewards=np.zeros(8)[::2]), ValueError, "out.rewards: expected a writable C-contiguous array"),
        (_out(rewards=READ_ONLY), ValueError, "out.rewards: expected a writable C-contiguous array"),
        (_out(rewards=np.frombuffer(bytearray(33), np.uint8)[1:].view(np.float64)), ValueError, "out.rewards"),
        (_out(terminated=np.zeros(4, np.uint8)), ValueError, "out.terminated: expected shape .* of bool"),
        (_out(truncated=np.zeros(4)), ValueError, "out.truncated: expected shape .* of bool, got .* float64"),
        (_out(obs=np.zeros((4, 4), np.float32)), ValueError, r"out.obs: expected shape \(4, 4\) of float64"),
        (_out(obs=np.zeros((4, 4)).T), ValueError, "out.obs: expected a writable C-contiguous array"),
        (_out(obs={"x": np.zeros((4, 4))}), TypeError, "out.obs: expected a NumPy array, got dict"),
        (_out(truncated=lambda x, o: o.terminated), ValueError, "out.terminated and out.truncated share memory"),
        (_out(rewards=SHARED[:4], obs=SHARED.reshape(4, 4)), ValueError, "share memory"),
        (_out(rewards=lambda x, o: x.state.noise), ValueError, "the state and out.rewards share memory"),
        (_out(final_obs=np.zeros((4, 4))), ValueError, "out.final_obs: only SAME_STEP writes final observations"),
    ],
)
def test_c092_wrong_destinations_move_nothing(out, kind, message):
    envs = started("counter", 4)
    out = out(envs)
    with refused(envs, kind, message):
        envs.step([0] * 4, out=out)


@pytest.mark.nojit
def test_destinations_of_dict_and_tuple_observations():
    rooms, pair = started("rooms", 2), started("pair", 2)
    zero = e.actions(rooms, 1)[0]
    for wrong, message in (
        ({}, "expected a dict with the keys"),
        ((1, 2, 3), "expected a dict with the keys"),
        ({**rooms._buffers.empty(2), "extra": 3}, "expected a dict with the keys"),
    ):
        with refused(rooms, TypeError, message):
            rooms.step(zero, out=StepOut(obs=wrong))
    with refused(rooms, ValueError, r"out.obs\['heat'\]: expected shape \(2, 3\) of float32"):
        rooms.step(zero, out=StepOut(obs={**rooms._buffers.empty(2), "heat": np.zeros((2, 3))}))
    with refused(pair, TypeError, "expected a tuple of 2 arrays"):
        pair.step(e.actions(pair, 1)[0], out=StepOut(obs=(np.zeros(2, np.int64),)))
    with refused(pair, ValueError, r"out.obs\[1\]: expected shape \(2, 2\) of float32"):
        pair.step(e.actions(pair, 1)[0], out=StepOut(obs=(np.zeros(2, np.int64), np.zeros((2, 2)))))


@pytest.mark.nojit
def test_actions_may_not_be_a_destination():
    envs = started("waves", 4)
    shared = np.zeros((4, 2))
    with refused(envs, ValueError, "share memory"):
        envs.step(shared, out=StepOut(rewards=shared.reshape(8)[:4]))


# --- infos ------------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
def test_infos_of_same_step():
    """Top level: the new episode's; `final_info`: the old one's; masks everywhere (Gymnasium 1.4.0's form)."""
    envs = started("rooms", 3, "same_step", max_episode_steps=[1, -1, 2])
    _, _, _, _, infos = envs.step([0, 0, 0])
    assert infos["_final_info"].tolist() == infos["_final_obs"].tolist() == [True, False, False]
    final = infos["final_info"]
    assert final["visits"].tolist() == [1, 0, 0] and final["_visits"].tolist() == [True, False, False]
    assert infos["visits"].tolist() == [0, 1, 1] and infos["_visits"].all()
    assert infos["final_obs"]["board"][0].sum() == 90 and not infos["final_obs"]["board"][1:].any()
    assert infos["visits"].dtype == np.int32 and infos["alarm"].dtype == np.bool_
    listed = DictInfoToList(e.make("rooms", 3, "same_step", max_episode_steps=1, final_obs="object"))
    listed.reset(seed=0)
    assert all(info["final_info"]["visits"] == 1 for info in listed.step(np.zeros(3, np.int64))[4])


@pytest.mark.nojit
def test_infos_can_be_left_out():
    envs = started("rooms", 2, "same_step", infos=False, max_episode_steps=1)
    infos = envs.step([0, 0])[4]
    assert infos.keys() == {"final_obs", "_final_obs", "final_info", "_final_info"} and infos["final_info"] == {}
    assert envs.reset()[1] == {}


@pytest.mark.nojit
@pytest.mark.parametrize("name", ["rooms", "pair", "counter"])
def test_final_observations_as_objects_are_gymnasiums(name):
    """Against SyncVectorEnv over views of our own: object array of single observations or None."""
    ours = e.make(name, 3, "same_step", final_obs="object", max_episode_steps=2)
    theirs = gymnasium.vector.SyncVectorEnv(
        [lambda: e.make(name, 1, "disabled", max_episode_steps=2).view(0)] * 3, autoreset_mode="SameStep"
    )
    ours.reset(seed=5)
    theirs.reset(seed=5)
    for step in e.actions(ours, 9):
        got, expected = ours.step(step), theirs.step(step)
        assert got[4].keys() == expected[4].keys()
        if "final_obs" in got[4]:
            assert got[4]["final_obs"].dtype == object
            for a, b in zip(got[4]["final_obs"], expected[4]["final_obs"], strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    e.assert_same(a, b)
            np.testing.assert_array_equal(got[4]["_final_obs"], expected[4]["_final_obs"])
            assert got[4]["final_info"].keys() == expected[4]["final_info"].keys()
            for key, value in got[4]["final_info"].items():
                np.testing.assert_array_equal(value, expected[4]["final_info"][key])
        for a, b in zip(e.flat(got[0]), e.flat(expected[0]), strict=True):
            np.testing.assert_array_equal(a, b)


def test_c065_infos_do_not_grow():
    """Steps with frequent ends: no container holds itself, and memory stays where it was."""
    envs = started("rooms", 16, "same_step", max_episode_steps=2)
    steps = e.actions(envs, 64)

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def walk(value, path):
        assert all(value is not above for above in path)
        if isinstance(value, dict):
            for part in value.values():
                walk(part, [*path, value])

    for k in range(6000):
        infos = envs.step(steps[k % 64])[4]
        if k == 2000:
            before = resident()
    walk(infos, [])
    assert resident() - before < 5e6


# --- state ------------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
def test_state_columns_are_live_and_writable():
    envs = started("rooms", 3)
    envs.state.at[1] = 5
    envs.state.heat = 0.25
    envs.state.board[2, 1, 3] = 200
    obs = envs.observe()
    assert obs["at"].tolist() == [0, 5, 0] and (obs["heat"] == 0.25).all() and obs["board"][2, 1, 3] == 200
    assert list(envs.state) == ["board", "heat", "at", "alarm", "elapsed"] and set(envs.state) == set(dir(envs.state))
    assert np.shares_memory(envs.state.at, envs.state["at"])
    with pytest.raises(AttributeError, match="no field 'att'; there are: board, heat, at, alarm, elapsed"):
        _ = envs.state.att
    with pytest.raises(AttributeError, match="no field 'att'"):
        envs.state.att = 3
    with pytest.raises(ValueError, match=r"expected shape \(3,\), got \(2,\)"):
        envs.state.at = [1, 2]
    assert repr(envs.state).startswith("StateColumns(board: uint8[3, 3, 4], heat: float32[3, 3]")


@pytest.mark.nojit
def test_observing_moves_nothing():
    envs = started("rooms", 3)
    before = e.checksum(envs)
    first, second = envs.observe(), envs.observe()
    e.assert_same(first, second)
    assert e.checksum(envs) == before


@pytest.mark.nojit
def test_call_get_attr_set_attr_and_np_random():
    envs = started("drift", 3, params={"gain": [1.0, 2.0, 3.0]})
    assert envs.get_attr("x") == tuple(envs.state.x) and envs.get_attr("gain") == (1, 2, 3)
    assert envs.get_attr("cost") == (np.float32(0.3),) * 3
    envs.set_attr("x", [4.0, 5.0, 6.0])
    envs.set_attr("gain", 7.0)
    assert envs.state.x.tolist() == [4, 5, 6] and envs.params["gain"].tolist() == [7, 7, 7]
    with pytest.raises(AttributeError, match="no state field or param per row 'speed'; there are: x, elapsed, gain"):
        envs.set_attr("speed", 3)
    with refused(envs, ValueError, r"expected shape \(3,\), got \(2,\)"):
        envs.set_attr("x", [1.0, 2.0])
    before = e.checksum(envs)
    draws = [rng.random() for rng in envs.np_random]
    assert draws == [rng.random() for rng in envs.np_random] and len(set(draws)) == 3
    assert e.checksum(envs) == before
    assert envs.call("row") == (0, 1, 2)


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("kwargs", "kind", "message"),
    [
        ({"num_envs": 0}, ValueError, "num_envs: expected an int >= 1, got 0"),
        ({"num_envs": -1}, ValueError, "num_envs: expected an int >= 1, got -1"),
        ({"num_envs": 2.5}, TypeError, "num_envs: expected an int >= 1, got 2.5"),
        ({"num_envs": True}, ValueError, "num_envs: expected an int >= 1, got True"),
        ({"num_envs": "3"}, TypeError, "num_envs: expected an int >= 1, got '3'"),
        ({"max_episode_steps": 0}, ValueError, r"max_episode_steps: expected -1 \(none\) or an int from 1.*, got 0"),
        ({"max_episode_steps": -2}, ValueError, "max_episode_steps: expected -1"),
        ({"max_episode_steps": 2**31}, ValueError, "max_episode_steps: expected -1"),
        ({"max_episode_steps": 2.5}, TypeError, "max_episode_steps: expected None, -1, an int >= 1 or an int array"),
        ({"max_episode_steps": True}, TypeError, "max_episode_steps: expected None"),
        ({"max_episode_steps": [3]}, TypeError, r"an int array of shape \(2,\), got \[3\]"),
        ({"max_episode_steps": [3, 0]}, ValueError, "max_episode_steps: row 1: expected -1 .* got 0"),
        ({"autoreset_mode": "next"}, ValueError, "expected an AutoresetMode or one of 'next_step', 'same_step'"),
        ({"autoreset_mode": None}, ValueError, "autoreset_mode: expected"),
        ({"num_threads": 0}, ValueError, "num_threads: expected 'auto' or"),
        ({"num_threads": -1}, ValueError, "num_threads: expected"),
        ({"num_threads": 10**6}, ValueError, "num_threads: expected"),
        ({"num_threads": True}, ValueError, "num_threads: expected"),
        ({"num_threads": "all"}, ValueError, "num_threads: expected"),
        ({"math": "fast"}, ValueError, "math: expected 'portable' or 'libm', got 'fast'"),
        ({"render_mode": "human"}, ValueError, "render_mode"),
        ({"final_obs": "list"}, ValueError, "final_obs: expected 'dense' or 'object', got 'list'"),
        ({"ended": "stay"}, ValueError, "ended: expected 'raise' or 'absorb', got 'stay'"),
        ({"ended": "absorb"}, ValueError, "ended='absorb' belongs to autoreset_mode='disabled', got 'next_step'"),
        ({"params": {"gravty": 3}}, ValueError, "no param 'gravty'; did you mean 'gravity'"),
        ({"params": {"gravity": "x"}}, TypeError, "param 'gravity': expected one float64, got 'x'"),
        ({"params": {"gravity": [1.0] * 3}}, ValueError, r"param 'gravity': expected shape \(2,\), got \(3,\)"),
        ({"colour": 3}, TypeError, "unknown option 'colour'"),
        ({"integrator": "rk4"}, ValueError, "integrator is one of euler, semi_implicit, got 'rk4'"),
    ],
)
def test_c113_c094_wrong_arguments(kwargs, kind, message):
    """The right error only, also from finalizers (which pytest would turn into a second one)."""
    with pytest.raises(kind, match=message):
        make_vec("CartPole-v1", **{"num_envs": 2, **kwargs})


@pytest.mark.nojit
@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, "SameStep", "same_step", "SAME_STEP", "Same_Step"])
def test_modes_have_many_names(mode):
    assert make_vec("CartPole-v1", 1, autoreset_mode=mode).autoreset_mode is AutoresetMode.SAME_STEP


@pytest.mark.nojit
def test_like_makes_a_batch_of_the_same_layout():
    envs = started("drift", 3, "same_step", params={"gain": [1.0, 2.0, 3.0], "cost": 0.5}, max_episode_steps=[5, 6, 7])
    other = envs.like(5, autoreset_mode="disabled", max_episode_steps=9)
    assert other.num_envs == 5 and other.autoreset_mode is AutoresetMode.DISABLED and other.params["cost"] == 0.5
    other.restore(envs.snapshot(), rows=[4, 0, 2])
    np.testing.assert_array_equal(other.state.x[[4, 0, 2]], envs.state.x)
    assert other.params["gain"][[4, 0, 2]].tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="like: unknown argument 'num_env'"):
        envs.like(5, num_env=3)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda envs: pickle.loads(pickle.dumps(envs))], ids=["copy", "pickle"])
@pytest.mark.parametrize("name", ["dice", "rooms", "CartPole-v1"])
def test_copies_play_on_equally_and_apart(name, how):
    envs = started(name, 4, "same_step", max_episode_steps=7)
    for step in e.actions(envs, 5):
        envs.step(step)
    twin = how(envs)
    assert e.arena(twin) == e.arena(envs)
    np.testing.assert_array_equal(twin.episode_returns, envs.episode_returns)
    envs.fork(0, [1], rng="fresh")
    twin.fork(0, [1], rng="fresh")
    for step in e.actions(envs, 20, seed=2):
        e.assert_same(envs.step(step), twin.step(step))
    before = e.arena(envs)
    twin.reset()
    assert e.arena(envs) == before
    envs.close()
    with pytest.raises(ClosedEnvironmentError):
        how(envs).reset()


@pytest.mark.nojit
def test_boundscheck_names_row_and_line_and_moves_nothing():
    envs, loose = started("outside", 3, boundscheck=True), started("outside", 3)
    for step in e.actions(envs, 3):
        e.assert_same(envs.step(step), loose.step(step))
    envs.state.at[1] = 12
    with refused(envs, IndexError, r'row 1: index .* in outside_step \(file ".*envs.py", line \d+\); no row has moved'):
        envs.step([0, 0, 0])
    with refused(envs, IndexError, "row 1: "):
        envs.step([0, 0], rows=[2, 1])
    envs.step([0, 0], rows=[0, 2])


# --- lifecycle --------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
def test_c112_nothing_runs_after_close():
    envs = started("rooms", 3)
    view, snap = envs.view(1), envs.snapshot()
    actions = e.actions(envs, 1)[0]
    envs.close()
    assert envs.closed
    before = e.checksum(envs)
    for call in (
        lambda: envs.step(actions),
        lambda: envs.step(actions.tolist()),
        lambda: envs.step([0], rows=[1]),
        lambda: envs.step(3),
        envs.reset,
        envs.render,
        envs.snapshot,
        envs.observe,
        lambda: envs.restore(snap),
        lambda: envs.fork(0, [1]),
        lambda: envs.view(0),
        lambda: envs.call("render"),
        lambda: view.step(0),
        lambda: view.step(0, jit=False),
        view.reset,
    ):
        with pytest.raises(ClosedEnvironmentError, match="is closed; make a new one"):
            call()
    envs.close()
    view.close()
    assert e.checksum(envs) == before
    assert snap[0].num_rows == 1


@pytest.mark.nojit
def test_repr():
    assert repr(make_vec("CartPole-v1", 3)) == "VecEnv(vecenv/CartPole-v1, num_envs=3)"
    assert repr(e.make("drift", 3)) == "VecEnv(num_envs=3)"


def test_c098_forked_processes_neither_hang_nor_harm():
    """A batch stepped before a fork works in the child; one made in the child too; the parent goes on."""
    code = """
import multiprocessing, sys, warnings
import numpy as np
import vecenv
def child(envs, queue):
    first = envs.step(np.zeros(4, np.int64))[0].tolist()
    own = vecenv.make_vec("CartPole-v1", 4)
    own.reset(seed=0)
    queue.put((first, own.step(np.zeros(4, np.int64))[0].tolist()))
envs = vecenv.make_vec("CartPole-v1", 4)
envs.reset(seed=0)
envs.step(np.zeros(4, np.int64))
context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=child, args=(envs, queue))
warnings.simplefilter("ignore")
process.start()
first, own = queue.get(timeout=60)
process.join(60)
assert process.exitcode == 0
assert envs.step(np.zeros(4, np.int64))[0].tolist() == first
other = vecenv.make_vec("CartPole-v1", 4)
other.reset(seed=0)
assert other.step(np.zeros(4, np.int64))[0].tolist() == own
"""
    e.python(code, timeout=100)


@pytest.mark.parametrize("setting", ["one core", "one thread"])
def test_c094_fewer_cores_than_the_machine_has(setting):
    code = "import os\n"
    if setting == "one core":
        code += "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    code += "import vecenv; e = vecenv.make_vec('CartPole-v1', 9); e.reset(seed=1); e.step([0] * 9)"
    e.python(code, NUMBA_NUM_THREADS="1" if setting == "one thread" else None)


def test_c088_two_threads_on_two_batches():
    """Different batches are independent; what they compute is what they compute alone."""
    results: dict[int, list] = {}

    def run(k: int) -> None:
        envs = started("dice", 64, seed=k)
        results[k] = [envs.step(step)[:4] for step in e.actions(envs, 100)]

    threads = [threading.Thread(target=run, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(2):
        envs = started("dice", 64, seed=k)
        for got, step in zip(results[k], e.actions(envs, 100), strict=True):
            e.assert_same(got, envs.step(step)[:4])


def test_one_batch_from_two_threads_is_refused_or_in_turn(jit_only):
    """Never a torn step: each call either runs whole or raises before anything moves."""
    envs = started("CartPole-v1", 200_000, "same_step")
    counts = [0, 0]
    errors: list[Exception] = []

    def run(k: int) -> None:
        actions = np.zeros(200_000, np.int64)
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            try:
                envs.step(actions)
                counts[k] += 1
            except RuntimeError as error:
                errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("is being stepped by another thread" in str(error) for error in errors)
    alone = started("CartPole-v1", 1, "same_step", seed=199_999)
    for _ in range(sum(counts)):
        alone.step([0])
    np.testing.assert_array_equal(envs.state.x[-1], alone.state.x[0])


# --- Gymnasium's own entry points -------------------------------------------------------------------------------------


@pytest.mark.nojit
def test_gymnasiums_make_vec():
    envs = gymnasium.make_vec("vecenv/CartPole-v1", num_envs=3)
    assert type(envs) is VecEnv and envs.num_envs == 3 and envs.unwrapped is envs
    obs, _ = envs.reset(seed=1)
    ours = make_vec("CartPole-v1", 3)
    np.testing.assert_array_equal(obs, ours.reset(seed=1)[0])
    assert ours.spec.id == envs.spec.id == "vecenv/CartPole-v1"
    again = gymnasium.make_vec(envs.spec)
    assert again.num_envs == 3 and again.spec == envs.spec
    assert gymnasium.envs.registration.EnvSpec.from_json(envs.spec.to_json()).id == "vecenv/CartPole-v1"
    other = gymnasium.make_vec(
        "vecenv/CartPole-v1", num_envs=2, autoreset_mode="same_step", max_episode_steps=2, math="libm"
    )
    other.reset(seed=0)
    assert other.autoreset_mode is AutoresetMode.SAME_STEP and other.math == "libm"
    other.step([0, 0])
    assert other.step([0, 0])[3].all()


@pytest.mark.nojit
def test_gymnasiums_make_and_sync_vector_env():
    """Its TimeLimit is the limiter then; `sync` gives the episodes that we give."""
    env = gymnasium.make("vecenv/CartPole-v1", max_episode_steps=3)
    env.reset(seed=1)
    assert [env.step(k % 2)[3] for k in range(3)] == [False, False, True]
    assert env.unwrapped.envs._memory.side["side.limit"].tolist() == [-1]
    theirs = gymnasium.make_vec("vecenv/CartPole-v1", num_envs=2, vectorization_mode="sync")
    ours = make_vec("CartPole-v1", 2)
    np.testing.assert_array_equal(theirs.reset(seed=4)[0], ours.reset(seed=4)[0])
    for k in range(60):
        a, b = theirs.step(np.array([k % 2, 0])), ours.step([k % 2, 0])
        for x, y in zip(a[:4], b[:4], strict=True):
            np.testing.assert_array_equal(x, y)


def faces(id: str, **options):
    """The ways to one environment of an id, each a function that steps it and returns (terminated, truncated)."""
    limit = options.get("max_episode_steps")
    single = {
        "make": vecenv.make(id, **options),
        "view of a batch": make_vec(id, 3, autoreset_mode="disabled", **options).view(2),
        "gymnasium.make": gymnasium.make(f"vecenv/{id}", **options),
    }
    batches = {mode: make_vec(id, 2, autoreset_mode=mode, **options) for mode in e.MODES}
    batches["gymnasium.make_vec"] = gymnasium.make_vec(f"vecenv/{id}", num_envs=2, **options)
    rest = {name: value for name, value in options.items() if name != "max_episode_steps"}
    batches["sync"] = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make(f"vecenv/{id}", max_episode_steps=limit, **rest)] * 2
    )
    for name, env in single.items():
        env.reset(seed=0)
        yield name, lambda action, env=env: env.step(action)[2:4]
    for name, envs in batches.items():
        envs.reset(seed=0)
        yield name, lambda action, envs=envs: tuple(part[1] for part in envs.step(np.stack([action] * 2))[2:4])


@pytest.mark.parametrize(
    ("id", "options", "actions", "last"),
    [
        ("Pendulum-v1", {"max_episode_steps": 4}, [np.zeros(1, np.float32)] * 4, (False, True)),
        ("FrozenLake-v1", {"is_slippery": False}, [1, 1, 2, 2, 1, 2], (True, False)),
    ],
)
def test_c125_every_face_reports_the_same_flags(id, options, actions, last):
    """A limit of four, and the walk to the goal."""
    names = []
    for name, step in faces(id, **options):
        names.append(name)
        for action in actions[:-1]:
            assert step(action) == (False, False), name
        assert step(actions[-1]) == last, name
    assert len(names) == 8


@pytest.mark.nojit
def test_c158_versions_of_ids():
    """As Gymnasium 1.4.0's, whose own are asked too: no version is the newest, with a warning; older versions are out
    of date, newer ones do not exist."""
    for name, newest in (("Taxi", "Taxi-v4"), ("vecenv/CliffWalking", "CliffWalking-v1")):
        with pytest.warns(UserWarning, match=f"'{name}' has no version: using the newest, '{newest}'"):
            envs = make_vec(name, 2)
        assert envs.definition.id == newest and envs.spec.id == f"vecenv/{newest}"
        with pytest.warns(UserWarning, match=newest):
            view = vecenv.make(name)
        assert view.spec.id == f"vecenv/{newest}"
    with pytest.warns(UserWarning, match="Taxi-v4"):
        assert gymnasium.make_vec("vecenv/Taxi", num_envs=2).definition.id == "Taxi-v4"
    with pytest.warns(UserWarning, match="Taxi-v4"):
        assert gymnasium.make("Taxi").spec.id == "Taxi-v4"
    for id, kind, message in (
        ("Taxi-v3", gymnasium.error.DeprecatedEnv, "Taxi-v4"),
        ("Taxi-v9", gymnasium.error.VersionNotFound, "Taxi-v4"),
        ("Taxy", gymnasium.error.NameNotFound, "did you mean 'Taxi-v4'"),
    ):
        with pytest.raises(kind, match=message):
            make_vec(id, 2)
        with pytest.raises(kind), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium also warns of deprecated ids
            gymnasium.make_vec(id, num_envs=2)


@pytest.mark.nojit
def test_an_id_without_version_is_the_newest_registered():
    versions = [f"Versions-v{k}" for k in (2, 10, 9)]
    try:
        for id in versions:
            vecenv.register(id, lambda: e.definition("drift"))
        with pytest.warns(UserWarning, match="'Versions-v10'"):
            assert make_vec("Versions", 2).spec.id == "vecenv/Versions-v10"
    finally:
        for id in versions:
            vecenv.unregister(id)


@pytest.mark.nojit
def test_registering():
    def build(size: int = 3):
        return e.definition("drift")

    with pytest.raises(ValueError, match="id: expected a name with a version such as 'MyGrid-v0', got 'Drift'"):
        vecenv.register("Drift", build)
    with pytest.raises(ValueError, match="'CartPole-v1' is registered already"):
        vecenv.register("CartPole-v1", build)
    with pytest.raises(TypeError, match="needs a build function"):
        vecenv.register("Drift-v7")
    with pytest.raises(TypeError, match="takes no build function"):
        vecenv.register(e.definition("drift"), build)
    if "Registered-v0" not in vecenv.registered_ids():
        vecenv.register("Registered-v0", build)
    assert make_vec("Registered-v0", 2, size=4).num_envs == 2
    with pytest.raises(TypeError, match="unknown option 'sze'; did you mean 'size'"):
        make_vec("Registered-v0", 2, sze=4)
    with pytest.raises(TypeError, match="is built already and takes no options, got 'size'"):
        make_vec(e.definition("drift"), 2, size=4)
    for wrong, kind, message in (
        ("CartPol-v1", gymnasium.error.NameNotFound, "'CartPol-v1' does not exist; did you mean 'CartPole-v1'"),
        ("CartPole-v7", gymnasium.error.VersionNotFound, "'CartPole-v7' does not exist; there is: CartPole-v1"),
        (3, TypeError, "expected an id or an EnvDef, got 3"),
    ):
        with pytest.raises(kind, match=message):
            make_vec(wrong, 2)


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs = gymnasium.make_vec("vecenv/CartPole-v1", num_envs=2)
        envs.reset(seed=0)
        envs.step(envs.action_space.sample())
        envs.close()
