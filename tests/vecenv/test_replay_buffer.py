"""Replay buffers. Oracles: `lists.play`, a plain loop over Gymnasium's environments, with lists; hand-made arrays."""

from __future__ import annotations

import contextlib
import copy
from itertools import pairwise

import envs as e
import lists
import numpy as np
import pytest
from test_agents import AGENTS, DUEL

from vecenv import ReplayBuffer, make_vec
from vecenv.vec_env import VecEnv

N, CAPACITY, STEPS = 3, 10, 27


def collect(replay, actions, way):
    for step in actions:
        replay.step(step)
        if way == "restart" and (mask := replay.envs.episode_ended).any():
            replay.reset(options={"reset_mask": mask})


def stored(replay):
    """All indices that can be sampled."""
    return np.flatnonzero(replay._steps.valid)


@pytest.mark.parametrize("way", lists.WAYS)
@pytest.mark.parametrize(("name", "limit"), lists.CASES)
def test_as_lists(name, limit, way):
    """Every step that is kept, with the windows of every length, after the ring went round twice."""
    envs = lists.batch(name, N, way, max_episode_steps=limit)
    actions = e.actions(envs, STEPS, seed=2)
    history = lists.play(lists.singles(name, N, limit), way, actions, seed=7)
    replay = ReplayBuffer(envs, CAPACITY)
    replay.reset(seed=7)
    for start, stop in pairwise((0, 1, 4, 10, 11, STEPS)):
        collect(replay, actions[start:stop], way)
        kept = [(t, i) for t in range(max(0, stop - CAPACITY), stop) for i in range(N) if history[t][i]]
        index = {(t % (CAPACITY + 1)) * N + i: (t, i) for t, i in kept}
        assert stored(replay).tolist() == sorted(index) and len(replay) == len(index)
        if not kept:
            continue
        for n in (1, 2, 3, 20):
            batch = replay.gather(list(index), n=n, gamma=0.9)
            for k, (t, i) in enumerate(index.values()):
                run = lists.trajectory(history[:stop], t, i, n)
                lists.same(e.take(batch["obs"], k), run[0].obs)
                np.testing.assert_array_equal(batch["actions"][k], run[0].action)
                lists.same(e.take(batch["next_obs"], k), run[-1].next_obs)
                total = sum(0.9**j * step.reward for j, step in enumerate(run))
                factor = 0.0 if run[-1].terminated else 0.9 ** len(run)
                got = batch["rewards"][k], batch["discounts"][k]
                np.testing.assert_allclose(got, (total, factor), rtol=1e-13, atol=1e-13)  # powers, not products
                flags = batch["terminated"][k], batch["truncated"][k]
                assert flags == (run[-1].terminated, run[-1].truncated)


@pytest.mark.parametrize("mode", e.MODES)
def test_agents(mode):
    """An agent that has ended is not sampled until its row begins again; windows stay with their agent."""
    envs = VecEnv(DUEL, 2, autoreset_mode=mode)
    replay = ReplayBuffer(envs, 60)
    replay.reset(seed=3)
    rng = np.random.default_rng(0)
    took, ended, rewards = [], [], []
    for _ in range(50):
        took.append(
            envs.state.alive.ravel() & ~np.repeat(envs._memory.running(None).reshape(2, -1).sum(1) == 0, AGENTS)
        )
        _, reward, terminated, truncated, _ = replay.step(rng.choice(3, 2 * AGENTS, p=(0.6, 0.25, 0.15)))
        rewards.append(reward.copy())
        ended.append(terminated | truncated)
        if mode == "disabled" and (mask := envs.episode_ended).any():
            replay.reset(options={"reset_mask": mask})
    assert stored(replay).tolist() == np.flatnonzero(took).tolist()
    assert len(replay) < 50 * 2 * AGENTS
    batch = replay.gather(stored(replay), n=4, gamma=1.0)
    for index, total in zip(batch["indices"].tolist(), batch["rewards"].tolist(), strict=True):
        t, i = divmod(index, 2 * AGENTS)
        expected = 0.0
        for k in range(t, min(t + 4, 50)):
            expected += rewards[k][i]
            if ended[k][i]:
                break
        assert total == pytest.approx(expected, rel=1e-14)


# --- cases ------------------------------------------------------------------------------------------------------------

CP9_LAST = [0.14065097, 1.7603811, -0.21518604, -2.7778864]


@pytest.mark.nojit
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_the_next_observation_of_an_end_is_the_last_one(mode):
    """C047, with its nine steps of CartPole from zeros; the tolerance is that of its eight digits."""
    envs = make_vec("CartPole-v1", 1, autoreset_mode=mode)
    replay = ReplayBuffer(envs, 20)
    replay.reset(seed=0, options={"state": dict.fromkeys(("x", "x_dot", "theta", "theta_dot"), 0.0)})
    for _ in range(9):
        replay.step(np.ones(1, np.int64))
    batch = replay.gather([8])
    np.testing.assert_allclose(batch["next_obs"][0], CP9_LAST, atol=1e-6)
    assert batch["terminated"][0] and batch["discounts"][0] == 0.0 and batch["rewards"][0] == 1.0
    for n in (2, 9, 30):
        np.testing.assert_allclose(replay.gather([8 - n + 1 if n <= 9 else 0], n=n)["next_obs"][0], CP9_LAST, atol=1e-6)


@pytest.mark.nojit
def test_reset_calls_are_not_samples():
    """C049: of 14 calls, 5 and 10 reset."""
    envs = lists.batch("Pendulum-v1", 1, "next_step", max_episode_steps=4)
    replay = ReplayBuffer(envs, 20)
    replay.reset(seed=0)
    for _ in range(14):
        replay.step(np.ones((1, 1), np.float32))
    assert len(replay) == 12 and stored(replay).tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13]
    drawn = replay.sample(3000, np.random.default_rng(0))["indices"]
    assert set(drawn.tolist()) == set(stored(replay).tolist())
    with pytest.raises(ValueError, match="indices: 4 is not a step that can be sampled"):
        replay.gather([3, 4])


def by_hand(rewards, terminated, truncated, count, capacity=10):
    """A buffer of one row with `count` steps, of which rewards and flags are replaced."""
    replay = ReplayBuffer(make_vec("FrozenLake-v1", 1, autoreset_mode="same_step"), capacity)
    replay.reset(seed=0)
    for _ in range(count):
        replay.step(np.zeros(1, np.int64))
    steps = replay._steps
    steps.rewards[:count, 0] = rewards
    steps.terminated[:count, 0], steps.truncated[:count, 0] = terminated, truncated
    steps.obs[0][: count + 1, 0] = np.arange(count + 1)
    steps.final_obs[0][:count, 0] = 100 + np.arange(count)
    replay._apart[:count, 0] = replay._ended[:count, 0] = np.logical_or(terminated, truncated)
    return replay


@pytest.mark.nojit
def test_n_step_by_case():
    batch = by_hand([1] * 5, [0] * 5, [0] * 5, 5).gather(range(5), n=3, gamma=0.5)  # C057
    assert batch["rewards"].tolist() == [1.75, 1.75, 1.75, 1.5, 1.0]
    assert batch["discounts"].tolist() == [0.125, 0.125, 0.125, 0.25, 0.5]
    assert batch["next_obs"].tolist() == [3, 4, 5, 5, 5]
    batch = by_hand([1, 2, 4, 100], [0] * 4, [0, 0, 1, 0], 4).gather([0, 1, 2], n=3, gamma=0.5)  # C058
    assert (batch["rewards"] + 16 * batch["discounts"]).tolist() == [5.0, 8.0, 12.0]
    assert batch["next_obs"].tolist() == [102] * 3 and batch["truncated"].all()
    batch = by_hand([1, 2, 4, 100], [0, 0, 1, 0], [0] * 4, 4).gather([0, 1, 2], n=3, gamma=0.5)
    assert (batch["rewards"] + 16 * batch["discounts"]).tolist() == [3.0, 4.0, 4.0]
    batch = by_hand([1, 1, 1], [0, 1, 0], [0] * 3, 3).gather([0, 1], n=1, gamma=0.5)  # C061
    assert batch["discounts"].tolist() == [0.5, 0.0]


@pytest.mark.nojit
def test_indices_are_not_changed_and_every_field_is_of_the_same_step():
    """C051."""
    envs = make_vec("FrozenLake-v1", 2, autoreset_mode="same_step")
    replay = ReplayBuffer(envs, 6)
    replay.reset(seed=0)
    for _ in range(6):
        replay.step(np.zeros(2, np.int64))
    marks = np.arange(12).reshape(6, 2)
    replay._steps.obs[0][:6], replay._steps.actions[0][:6], replay._steps.rewards[:6] = marks, marks, marks
    indices = np.array([3, 7])
    first, again = replay.gather(indices), replay.gather(indices)
    assert indices.tolist() == [3, 7] and not np.shares_memory(first["indices"], indices)
    e.assert_same(first, again)
    for name in ("obs", "actions", "rewards", "indices"):
        assert first[name].tolist() == [3, 7]


@pytest.mark.nojit
def test_nothing_is_copied():
    """A step's arrays are the ring's memory."""
    envs = make_vec("CartPole-v1", 2)
    replay = ReplayBuffer(envs, 3)
    replay.reset(seed=0)
    for _ in range(7):
        obs, rewards, terminated, truncated, _ = replay.step(np.zeros(2, np.int64))
        steps = replay._steps
        for mine, given in zip((steps.obs[0], steps.rewards, steps.terminated, steps.truncated),
                               (obs, rewards, terminated, truncated), strict=True):  # fmt: skip
            assert np.shares_memory(given, mine)


def test_rows_that_are_restored_or_reset_while_they_run():
    """What was left counts as cut off there: its window ends with its own last observation."""
    envs = make_vec("CartPole-v1", 2)
    replay = ReplayBuffer(envs, 8)
    replay.reset(seed=0)
    snap = envs.snapshot()
    seen = [replay.step(np.array([0, 1]))[0].copy() for _ in range(3)]
    envs.restore(snap[[1]], rows=[1])
    replay.begin(envs.observe(), [1])
    seen += [replay.step(np.array([0, 1]))[0].copy() for _ in range(2)]
    batch = replay.gather([3, 2], n=3, gamma=0.5)  # step 1 of row 1 and of row 0
    np.testing.assert_array_equal(batch["next_obs"], [seen[2][1], seen[3][0]])
    assert batch["rewards"].tolist() == [1.5, 1.75] and batch["discounts"].tolist() == [0.25, 0.125]
    np.testing.assert_array_equal(replay.gather([7])["obs"], replay.gather([1])["obs"])
    replay.reset(seed=1)  # all rows, in the middle
    assert len(replay) == 10
    np.testing.assert_array_equal(replay.gather([9], n=3)["next_obs"], seen[4][[1]])


# --- sampling ---------------------------------------------------------------------------------------------------------


def filled(**kwargs):
    envs = lists.batch("FrozenLake-v1", 4, "next_step", max_episode_steps=5)
    replay = ReplayBuffer(envs, 12, **kwargs)
    replay.reset(seed=0)
    for step in e.actions(envs, 30):
        replay.step(step)
    return replay


def chi_square(counts, expected):
    return float(((counts - expected) ** 2 / expected).sum())


def test_uniform():
    """Each valid step is as likely as any other: chi-square, 5 standard deviations above its mean."""
    replay = filled()
    indices = replay.sample(40_000, np.random.default_rng(1))["indices"]
    counts = np.bincount(indices, minlength=13 * 4)
    kept = stored(replay)
    assert len(kept) == len(replay) < 12 * 4 and counts[kept].sum() == 40_000
    freedom = len(kept) - 1
    assert chi_square(counts[kept], 40_000 / len(kept)) < freedom + 5 * np.sqrt(2 * freedom)
    again = filled().sample(40_000, np.random.default_rng(1))["indices"]
    np.testing.assert_array_equal(indices, again)


def test_in_proportion_to_priority():
    replay = filled(priority_exponent=0.5)
    kept = stored(replay)
    fresh = replay.sample(10, np.random.default_rng(0))
    assert fresh["weights"].tolist() == [1.0] * 10  # all alike
    priorities = np.arange(len(kept), dtype=float) ** 2
    replay.update_priorities(kept, priorities)
    batch = replay.sample(40_000, np.random.default_rng(1), beta=1.0)
    share = np.sqrt(priorities) / np.sqrt(priorities).sum()
    counts = np.bincount(batch["indices"], minlength=13 * 4)[kept]
    assert counts[0] == 0 and counts.sum() == 40_000
    freedom = len(kept) - 2
    assert chi_square(counts[1:], 40_000 * share[1:]) < freedom + 5 * np.sqrt(2 * freedom)
    weights = 1 / (len(kept) * share[np.searchsorted(kept, batch["indices"])])
    np.testing.assert_allclose(batch["weights"], weights / weights.max(), rtol=1e-12)
    # New steps get the highest priority so far; what is overwritten is forgotten, and may not be given a priority.
    before = stored(replay)
    replay.step(np.zeros(4, np.int64))
    tree = replay._tree[len(replay._tree) // 2 :]
    newest = np.setdiff1d(stored(replay), before)
    assert len(newest) and (tree[newest] == np.sqrt(priorities[-1])).all()
    gone = np.setdiff1d(before, stored(replay))
    assert len(gone)
    replay.update_priorities(gone, np.ones(len(gone)))
    assert (tree[np.setdiff1d(np.arange(len(tree)), stored(replay))] == 0).all()
    # The last of two priorities counts; when all are 0 there is nothing to draw.
    replay.update_priorities([newest[0], newest[0]], [9.0, 4.0])
    assert tree[newest[0]] == 2.0
    replay.update_priorities(stored(replay), np.zeros(len(replay)))
    with pytest.raises(ValueError, match="all priorities are 0"):
        replay.sample(1, np.random.default_rng(0))


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [None, 0.6])
@pytest.mark.parametrize(("name", "way"), [("CartPole-v1", "same_step"), ("rooms", "next_step"), ("pair", "restart")])
@pytest.mark.parametrize("steps", [0, 7, 25])
def test_a_run_goes_on_bit_for_bit(name, way, steps, exponent, tmp_path):
    """Buffer, batch and generator are saved, and all that follows is the same."""

    def run(replay, actions, rng):
        batches = []
        for step in actions:
            collect(replay, [step], way)
            batches.append(replay.sample(8, rng, n=3))
            if exponent is not None:
                replay.update_priorities(batches[-1]["indices"], rng.random(8))
        return batches

    envs = lists.batch(name, N, way, max_episode_steps=9)
    replay, rng = ReplayBuffer(envs, CAPACITY, priority_exponent=exponent), np.random.default_rng(0)
    actions = e.actions(envs, steps + 20)
    replay.reset(seed=0)
    run(replay, actions[:steps], rng)
    replay.save(tmp_path / "replay.npz")
    snap, generator = envs.snapshot(), copy.deepcopy(rng)
    expected = run(replay, actions[steps:], rng)

    other = lists.batch(name, N, way, max_episode_steps=9)
    other.restore(snap)
    loaded = ReplayBuffer(other, CAPACITY, priority_exponent=exponent)
    for part in loaded._steps.obs:
        part[:] = 1  # what was there before does not matter
    loaded.load(tmp_path / "replay.npz")
    got = run(loaded, actions[steps:], generator)
    for a, b in zip(got, expected, strict=True):
        e.assert_same(a, b)
    assert len(loaded) == len(replay)
    assert [path.name for path in tmp_path.iterdir()] == ["replay.npz"]


def test_files_that_do_not_fit(tmp_path):
    path = tmp_path / "replay.npz"
    replay = filled()
    replay.save(path)
    before = replay.gather(stored(replay), n=3)
    frozen = lists.batch("FrozenLake-v1", 4, "next_step")
    for other, message in (
        (ReplayBuffer(frozen, 11), "expected FrozenLake-v1 with capacity 11, got FrozenLake-v1 with capacity 12"),
        (ReplayBuffer(make_vec("CartPole-v1", 4), 12), "expected CartPole-v1 with capacity 12, got FrozenLake-v1"),
        (ReplayBuffer(make_vec("FrozenLake-v1", 3), 12), r"rewards: expected shape \(13, 3\) of float64"),
        (ReplayBuffer(frozen, 12, priority_exponent=0.5), r"leaves: expected shape \(52,\) of float64, got \(0,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            other.load(path)
        assert len(other) == 0
    content = path.read_bytes()
    for k in range(0, len(content), 41):  # a changed byte is refused, unless it means nothing
        path.write_bytes(content[:k] + bytes([content[k] ^ 1]) + content[k + 1 :])
        with contextlib.suppress(ValueError):
            replay.load(path)
        e.assert_same(replay.gather(stored(replay), n=3), before)
    for damaged in (b"", b"nothing", content[:-100]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="not a replay buffer, or damaged"):
            replay.load(path)
    np.save(path.with_suffix(".npy"), np.zeros(3))
    with pytest.raises(ValueError, match="not a replay buffer, or damaged"):
        replay.load(path.with_suffix(".npy"))
    with pytest.raises(FileNotFoundError):
        replay.load(tmp_path / "none.npz")
    e.assert_same(replay.gather(stored(replay), n=3), before)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_what_is_refused():
    envs = make_vec("CartPole-v1", 2, autoreset_mode="disabled", max_episode_steps=2)
    rng = np.random.default_rng(0)
    for capacity, kind in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(kind, match="capacity: expected an int >= 1"):
            ReplayBuffer(envs, capacity)
    with pytest.raises(TypeError, match="ReplayBuffer: expected a VecEnv"):
        ReplayBuffer(None, 3)
    with pytest.raises(ValueError, match="priority_exponent: expected a number from 0 to 1"):
        ReplayBuffer(envs, 3, priority_exponent=2)
    replay, zeros = ReplayBuffer(envs, 3), np.zeros(2, np.int64)
    mask = {"reset_mask": np.ones(2, bool)}
    for call, kind, message in (
        (lambda: replay.step(zeros), ValueError, r"step: call replay.reset\(\) first"),
        (lambda: replay.reset(options=mask), ValueError, r"reset of some rows: call replay.reset\(\) first"),
        (lambda: replay.begin(np.zeros((2, 4), np.float32), [0]), ValueError, "begin of some rows: call"),
        (lambda: replay.sample(2, rng), ValueError, "the buffer has no steps yet"),
        (lambda: replay.sample(2, 0), TypeError, "rng: expected a numpy.random.Generator"),
    ):
        with pytest.raises(kind, match=message):
            call()
    replay.reset(seed=0)
    before = e.checksum(envs)
    with pytest.raises(ValueError, match="row 1: action 3"):
        replay.step(np.array([0, 3]))
    assert e.checksum(envs) == before and len(replay) == 0
    for _ in range(2):
        replay.step(zeros)
    for call, kind, message in (
        (lambda: replay.sample(0, rng), ValueError, "size: expected an int >= 1"),
        (lambda: replay.sample(2, rng, n=0), ValueError, "n: expected an int >= 1"),
        (lambda: replay.sample(2, rng, gamma=-1), ValueError, "gamma: expected a number from 0 to 1"),
        (lambda: replay.sample(2, rng, beta="x"), TypeError, "beta: expected a number from 0 to 1"),
        (lambda: replay.gather([0, 8]), ValueError, "indices: 8 is outside 0 to 7"),
        (lambda: replay.gather([0.5]), TypeError, "indices: expected a one-dimensional int array"),
        (lambda: replay.update_priorities([0], [1]), ValueError, "made without a priority_exponent"),
    ):
        with pytest.raises(kind, match=message):
            call()
    envs.reset(options=mask)
    before = e.checksum(envs)
    with pytest.raises(ValueError, match="row 0 has ended and was reset, but not by this buffer"):
        replay.step(zeros)
    assert e.checksum(envs) == before and len(replay) == 4
    first = ReplayBuffer(envs, 3, priority_exponent=0.5)
    first.reset(seed=0)
    first.step(zeros)
    for priorities, kind, message in (
        ([1.0], ValueError, r"priorities: expected shape \(2,\), got \(1,\)"),
        ([1.0, -1.0], ValueError, "priorities: expected finite numbers that are not negative, got -1"),
        ([np.nan, 1.0], ValueError, "priorities: expected finite numbers"),
        (["a", "b"], TypeError, "priorities: expected numbers"),
    ):
        with pytest.raises(kind, match=message):
            first.update_priorities([0, 1], priorities)
