"""Rollouts. Oracles: `lists.play`, a plain loop over Gymnasium's environments that keeps lists; hand-made arrays."""

from __future__ import annotations

import copy
import pickle

import envs as e
import gymnasium
import lists
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_agents import AGENTS, DUEL, Duel

from vecenv import FrameStack, Rollout, StepOut, make_vec
from vecenv.vec_env import VecEnv

T, N = 12, 3


def collect(envs, rollout, actions, way):
    for t, step in enumerate(actions):
        envs.step(step, out=rollout[t])
        if way == "restart" and (mask := envs.episode_ended).any():
            rollout.restart(t + 1, mask, envs.reset(options={"reset_mask": mask})[0])


def values_of(obs, shape):
    return np.array([lists.value(e.take(obs, index)) for index in np.ndindex(*shape)]).reshape(shape)


def compare(envs, singles, way, steps, seed):
    """Two rollouts, one after the other: transitions, final observations, what follows, GAE, returns, n-step.

    Returns the flags that came up.
    """
    T, N = steps, envs.num_envs
    actions = e.actions(envs, 2 * T, seed=seed)
    whole = lists.play(singles, way, actions, seed)
    rollout = Rollout(envs, T)
    rollout.begin(envs.reset(seed=seed)[0])
    gamma, lam, n = 0.9, 0.8, 3
    endings = set()
    for part in range(2):
        if part:
            rollout.begin()
        history = whole[part * T : part * T + T]
        collect(envs, rollout, actions[part * T : part * T + T], way)
        final = rollout.final_obs_rows()
        cut = [(t, i) for t in range(T) for i in range(N) if history[t][i] and history[t][i].truncated]
        assert list(zip(final.t.tolist(), final.row.tolist(), strict=True)) == cut
        for k, (t, i) in enumerate(cut):
            lists.same(e.take(final.obs, k), history[t][i].next_obs)
        values, last_values = values_of(rollout.obs, (T, N)), values_of(rollout.last_obs, (N,))
        final_values = values_of(final.obs, (len(cut),))
        following = rollout.next_values(values, last_values, final_values)
        advantages, returns = rollout.gae(values, last_values, gamma, lam, final_values)
        sums = rollout.discounted_returns(gamma, last_values, final_values)
        targets, _ = rollout.v_trace(values, last_values, np.zeros((T, N)), gamma, final_values=final_values)
        windows = rollout.n_step(n, gamma)
        bootstrapped = windows.returns + windows.discounts * np.take_along_axis(following, windows.last, 0)
        if way in ("next_step", "absorb"):  # the values of the next step are these
            np.testing.assert_array_equal(rollout.gae(values, last_values, gamma, lam)[0], advantages)
        elif cut:
            with pytest.raises(ValueError, match=rf"final_values: row {cut[0][1]} was cut off .* step {cut[0][0]};"):
                rollout.gae(values, last_values, gamma, lam)
        for t, i in np.ndindex(T, N):
            it = history[t][i]
            assert rollout.valid[t, i] == (it is not None)
            if it is None:
                assert advantages[t, i] == returns[t, i] == sums[t, i] == windows.discounts[t, i] == 0.0
                continue
            lists.same(e.take(rollout.obs, (t, i)), it.obs)
            np.testing.assert_array_equal(rollout.actions[t, i], it.action)
            flags = rollout.terminated[t, i], rollout.truncated[t, i]
            assert (rollout.rewards[t, i], *flags) == (it.reward, it.terminated, it.truncated)
            endings.add(flags)
            run = lists.trajectory(history, t, i)
            after = [0.0 if step.terminated else lists.value(step.next_obs) for step in run]
            assert following[t, i] == after[0]
            delta = [s.reward + gamma * v - lists.value(s.obs) for s, v in zip(run, after, strict=True)]
            advantage = sum((gamma * lam) ** k * d for k, d in enumerate(delta))
            total = sum(gamma**k * s.reward for k, s in enumerate(run)) + gamma ** len(run) * after[-1]
            window = run[:n]
            target = (
                sum(gamma**k * s.reward for k, s in enumerate(window)) + gamma ** len(window) * after[len(window) - 1]
            )
            got = advantages[t, i], returns[t, i], sums[t, i], targets[t, i], bootstrapped[t, i]
            # On-policy, the V-trace target is the return. The sums are added in another order.
            expected = advantage, advantage + lists.value(it.obs), total, total, target
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    return endings


@pytest.mark.parametrize("way", lists.WAYS)
@pytest.mark.parametrize(("name", "limit"), lists.CASES)
def test_as_lists(name, limit, way):
    envs = lists.batch(name, N, way, max_episode_steps=limit)
    endings = compare(envs, lists.singles(name, N, limit), way, T, seed=5)
    assert (False, True) in endings and ((True, False) in endings or name not in ("CartPole-v1", "FrozenLake-v1"))


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(lists.WAYS), st.integers(1, 9), st.integers(1, 4), st.integers(1, 7), st.integers(0, 2**31))
def test_any_length_and_limit_as_lists(way, steps, num_envs, limit, seed):
    envs = lists.batch("FrozenLake-v1", num_envs, way, max_episode_steps=limit)
    compare(envs, lists.singles("FrozenLake-v1", num_envs, limit), way, steps, seed)


@pytest.mark.parametrize("way", lists.WAYS)
def test_stacked_frames_as_lists(way):
    """What transforms make of observations; the oracle is Gymnasium's wrapper."""
    envs = lists.batch("FrozenLake-v1", N, way, max_episode_steps=3, transforms=(FrameStack(3),))
    singles = [gymnasium.wrappers.FrameStackObservation(row, 3) for row in lists.singles("FrozenLake-v1", N, 3)]
    assert (False, True) in compare(envs, singles, way, T, seed=3)


@pytest.mark.parametrize("mode", e.MODES)
def test_agents_as_the_model(mode):
    """Each agent is a trajectory of its own; one that has ended is not valid until its row begins again (C037)."""
    rows, steps = 4, 40
    envs = VecEnv(DUEL, rows, autoreset_mode=mode)
    rollout = Rollout(envs, steps)
    rollout.begin(envs.reset(seed=3)[0])
    models = [Duel(3 + i) for i in range(rows)]
    actions = np.random.default_rng(0).choice(3, (steps, rows, AGENTS), p=(0.6, 0.25, 0.15))
    expected = {}
    for t in range(steps):
        envs.step(actions[t].ravel(), out=rollout[t])
        for i, model in enumerate(models):
            if mode == "next_step" and model.over:
                model.reset()
                continue
            alive, before = list(model.alive), model.obs()
            result, after = model.step(actions[t, i]), model.obs()
            for a in range(AGENTS):
                if alive[a]:
                    kind = [part[a] for part in result]
                    expected[t, i * AGENTS + a] = lists.Transition(before[a], actions[t, i, a], *kind, after[a])
            if model.over and mode != "next_step":
                model.reset()
        if mode == "disabled" and (mask := envs.episode_ended).any():
            rollout.restart(t + 1, mask, envs.reset(options={"reset_mask": mask})[0])
    assert set(zip(*map(np.ndarray.tolist, np.nonzero(rollout.valid)), strict=True)) == set(expected)
    shape = steps, rows * AGENTS
    final = rollout.final_obs_rows()
    cut = [where for where in sorted(expected) if expected[where].truncated]
    assert list(zip(final.t.tolist(), final.row.tolist(), strict=True)) == cut and len(cut) > 5
    for k, where in enumerate(cut):
        np.testing.assert_array_equal(final.obs[k], expected[where].next_obs)
    values, last = values_of(rollout.obs, shape), values_of(rollout.last_obs, shape[1:])
    advantages, _ = rollout.gae(values, last, 0.9, 0.8, values_of(final.obs, (len(cut),)))
    for (t, i), it in expected.items():
        np.testing.assert_array_equal(rollout.obs[t, i], it.obs)
        assert rollout.rewards[t, i] == it.reward and rollout.actions[t, i] == it.action
        advantage, k = 0.0, t
        while True:
            s = expected[k, i]
            after = 0.0 if s.terminated else lists.value(np.float32(s.next_obs))
            delta = s.reward + 0.9 * after - lists.value(np.float32(s.obs))
            advantage += (0.9 * 0.8) ** (k - t) * delta
            k += 1
            if s.ended or k == steps:
                break
        np.testing.assert_allclose(advantages[t, i], advantage, rtol=1e-12, atol=1e-12)


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize("name", ["CartPole-v1", "rooms", "pair"])
def test_nothing_is_copied(name):
    """What a step returns is the rollout's memory, and so is what torch makes of it."""
    envs = lists.batch(name, N, "same_step", max_episode_steps=2)
    actions = e.actions(envs, 3)
    rollout = Rollout(envs, 3)
    rollout.begin(envs.reset(seed=0)[0])
    for t in range(3):
        obs, rewards, terminated, truncated, infos = envs.step(actions[t], out=rollout[t])
        where = rollout.last_obs if t == 2 else e.take(rollout.obs, t + 1)
        for mine, got in zip(e.flat(where), e.flat(obs), strict=True):
            assert got.shape == mine.shape and got.ctypes.data == mine.ctypes.data
        for mine, got in ((rollout.rewards, rewards), (rollout.terminated, terminated)):
            assert got.ctypes.data == mine[t].ctypes.data and np.shares_memory(got, mine)
        assert np.shares_memory(truncated, rollout.truncated)
        if name == "CartPole-v1" and t == 1:
            assert np.shares_memory(infos["final_obs"], rollout.final_obs)
    # The actions of a step may already stand where they are recorded.
    if name == "CartPole-v1":
        rollout.begin()
        rollout.actions[0] = [1, 0, 1]
        envs.step(rollout.actions[0], out=rollout[0])
        assert rollout.actions[0].tolist() == [1, 0, 1]
        torch = pytest.importorskip("torch")
        torch.from_numpy(rollout.rewards)[0, 0] = 7.0
        assert rollout.rewards[0, 0] == 7.0


@pytest.mark.nojit
def test_copies_stay_whole():
    envs = make_vec("CartPole-v1", 2)
    rollout = Rollout(envs, 2)
    rollout.begin(envs.reset(seed=0)[0])
    envs.step(np.zeros(2, np.int64), out=rollout[0])
    for other in (copy.deepcopy(rollout), pickle.loads(pickle.dumps(rollout))):
        snap = envs.snapshot()
        obs = envs.step(np.ones(2, np.int64), out=other[1])[0]
        np.testing.assert_array_equal(other.last_obs, obs)
        np.testing.assert_array_equal(other.obs, np.stack([rollout.obs[0], rollout.obs[1]]))
        assert other.final_obs_rows().t.size == 0
        envs.restore(snap)
    # The same rollout takes steps of another batch of the same shapes.
    like = envs.like(2)
    like.reset(seed=0)
    like.step(np.zeros(2, np.int64), out=rollout[0])
    np.testing.assert_array_equal(rollout.obs[1], like.observe())


@pytest.mark.nojit
def test_steps_of_fewer_fields():
    """`valid` and `actions` of a StepOut of one's own; some rows, in their order."""
    envs = lists.batch("FrozenLake-v1", 3, "next_step", max_episode_steps=1)
    envs.reset(seed=0)
    valid, actions = np.empty(3, bool), np.empty(3, np.int64)
    for expected in (True, False, True):
        envs.step([2, 1, 0], out=StepOut(valid=valid, actions=actions))
        assert valid.tolist() == [expected] * 3 and actions.tolist() == [2, 1, 0]
    envs.step([1, 2], rows=[2, 0], out=StepOut(valid=valid[:2], actions=actions[:2]))
    assert valid[:2].tolist() == [False, False] and actions.tolist() == [1, 2, 0]
    before = e.checksum(envs)
    for out, message in (
        (StepOut(valid=np.empty(2, bool)), r"out.valid: expected shape \(3,\) of bool"),
        (StepOut(actions=np.empty(3)), r"out.actions: expected shape \(3,\) of int64"),
        (StepOut(terminated=valid, valid=valid), "out.* and out.* share memory"),
    ):
        with pytest.raises(ValueError, match=message):
            envs.step([0, 0, 0], out=out)
    assert e.checksum(envs) == before


def test_a_step_that_is_refused_changes_nothing():
    envs = make_vec("CartPole-v1", 2)
    rollout = Rollout(envs, 2)
    rollout.begin(envs.reset(seed=0)[0])
    before = e.checksum(envs)
    with pytest.raises(ValueError, match="row 1: action 5"):
        envs.step(np.array([0, 5]), out=rollout[0])
    assert e.checksum(envs) == before and not rollout.valid.any()
    out = rollout[0]
    out.rewards = np.empty(3)  # a StepOut is checked again when its fields are others
    with pytest.raises(ValueError, match=r"out.rewards: expected shape"):
        envs.step(np.zeros(2, np.int64), out=out)
    fresh = Rollout(envs, 2)
    fresh.begin(envs.observe())
    fresh[0].terminated.flags.writeable = False
    with pytest.raises(ValueError, match=r"out.terminated: expected a writable"):
        envs.step(np.zeros(2, np.int64), out=fresh[0])
    assert e.checksum(envs) == before


# --- cases ------------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("mode", "next_value", "terminated", "expected"),
    [
        (None, 3, False, [4.413312, 3.6296, 2.68, 1.5]),
        ("next_step", 3, True, [1.08, -1, 2.68, 1.5]),
        ("same_step", 7, False, [5.616, 5.3, 2.68, 1.5]),
    ],
)
def test_table_of_three_endings(mode, next_value, terminated, expected):
    """Through a rollout: V of the final observation is 7, that of the observation after the reset is 3."""
    envs = make_vec("FrozenLake-v1", 1, autoreset_mode=mode or "next_step")
    rollout = Rollout(envs, 4)
    rollout.begin(envs.reset(seed=0)[0])
    for t in range(4):
        assert rollout[t].rewards.shape == (1,)
    rollout.rewards[:], rollout.valid[:], rollout.terminated[:], rollout.truncated[:] = 1.0, True, False, False
    if mode:
        (rollout.terminated if terminated else rollout.truncated)[1] = True
    if mode == "next_step":
        with pytest.raises(ValueError, match="row 0 ended in step 1 and was reset before step 2"):
            rollout.gae(np.ones((4, 1)), 0.0, 0.9, 0.8)
        rollout._steps.moved[1] = True
    final_values = [next_value] if mode == "same_step" else None
    advantages, returns = rollout.gae([[1], [2], [3], [4]], [5], 0.9, 0.8, final_values)
    np.testing.assert_allclose(advantages[:, 0], expected, rtol=1e-14)
    np.testing.assert_allclose(returns[:, 0], np.add(expected, [1, 2, 3, 4]), rtol=1e-14)


@pytest.mark.nojit
def test_reset_calls_are_not_samples():
    """C049: of 14 calls, 5 and 10 reset. C046: at an end the next observation is the last one, and nothing is NaN."""
    envs = lists.batch("Pendulum-v1", 1, "next_step", max_episode_steps=4)
    rollout = Rollout(envs, 14)
    obs = envs.reset(seed=0)[0]
    rollout.begin(obs)
    seen = [obs.copy()]
    for t in range(14):
        seen.append(envs.step(np.ones((1, 1), np.float32), out=rollout[t])[0].copy())
    assert np.flatnonzero(~rollout.valid[:, 0]).tolist() == [4, 9] and rollout.rewards[[4, 9], 0].tolist() == [0.0, 0.0]
    final = rollout.final_obs_rows()
    assert final.t.tolist() == [3, 8, 13]
    np.testing.assert_array_equal(final.obs, np.concatenate([seen[4], seen[9], seen[14]]))
    batches = list(rollout.minibatches(5, np.random.default_rng(0), t=np.arange(14)[:, np.newaxis]))
    assert [len(part["t"]) for part in batches] == [5, 5, 2]
    assert sorted(np.concatenate([part["t"] for part in batches]).tolist()) == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13]
    advantages, returns = rollout.gae(np.random.default_rng(0).normal(size=(14, 1)), [0.5], 0.9, 0.8)
    assert np.isfinite(advantages).all() and np.isfinite(returns).all()


@pytest.mark.nojit
def test_minibatches_do_not_mix_axes():
    """C054."""
    envs = make_vec("FrozenLake-v1", 4)
    rollout = Rollout(envs, 4)
    rollout.begin(envs.reset(seed=0)[0])
    for t in range(4):
        envs.step(np.zeros(4, np.int64), out=rollout[t])
    marks = 10 * np.arange(4)[:, np.newaxis] + np.arange(4)
    rollout.obs[:] = rollout.actions[:] = marks
    rollout.valid[:], rollout.valid[2, 1] = True, False
    pairs = np.stack([marks, -marks], axis=2)
    for seed in range(3):
        seen = []
        for part in rollout.minibatches(5, np.random.default_rng(seed), logp=marks.astype(np.float32), pairs=pairs):
            for name in ("actions", "logp"):
                np.testing.assert_array_equal(part[name], part["obs"])
            np.testing.assert_array_equal(part["pairs"], np.stack([part["obs"], -part["obs"]], axis=1))
            seen += part["obs"].tolist()
        assert sorted(seen) == sorted(set(marks.ravel().tolist()) - {21}) and seen != sorted(seen)
    assert rollout.obs[:, 2].tolist() == [2, 12, 22, 32]


@pytest.mark.nojit
@pytest.mark.parametrize("name", ["rooms", "pair"])
def test_minibatches_of_dicts_and_tuples(name):
    envs = lists.batch(name, 3, "same_step", max_episode_steps=4)
    rollout = Rollout(envs, 6)
    rollout.begin(envs.reset(seed=0)[0])
    collect(envs, rollout, e.actions(envs, 6), "same_step")
    number = np.arange(18).reshape(6, 3)
    for part in rollout.minibatches(4, np.random.default_rng(0), number=number):
        assert type(part["obs"]) is type(rollout.obs)
        for k, mark in enumerate(part["number"].tolist()):
            lists.same(e.take(part["obs"], k), e.take(rollout.obs, divmod(mark, 3)))
            np.testing.assert_array_equal(part["actions"][k], rollout.actions[divmod(mark, 3)])


@pytest.mark.nojit
@pytest.mark.parametrize(("num_envs", "steps", "size", "sizes"), [
    (1, 1, 1, [1]), (2, 1, 2, [2]), (1, 4, 4, [4]), (2, 4, 3, [3, 3, 2])
])  # fmt: skip
def test_small_batches(num_envs, steps, size, sizes):
    """C131: the row axis stays, and a size that does not divide leaves a smaller last minibatch."""
    envs = make_vec("CartPole-v1", num_envs)
    rollout = Rollout(envs, steps)
    rollout.begin(envs.reset(seed=0)[0])
    for t in range(steps):
        envs.step(np.zeros(num_envs, np.int64), out=rollout[t])
    advantages, _ = rollout.gae(np.zeros((steps, num_envs), np.float32), np.zeros(num_envs), 0.99, 0.95)
    assert advantages.shape == (steps, num_envs) and advantages.dtype == np.float32
    parts = list(rollout.minibatches(size, np.random.default_rng(0), advantages=advantages))
    assert [len(part["advantages"]) for part in parts] == sizes and parts[0]["obs"].shape == (sizes[0], 4)
    with pytest.raises(ValueError, match=r"size: expected at most"):
        rollout.minibatches(steps * num_envs + 1, np.random.default_rng(0))


def test_rows_that_are_restored_or_forked():
    """A running episode that is left counts as truncated, and its last observation is kept."""
    envs = make_vec("CartPole-v1", 3)
    rollout = Rollout(envs, 4)
    rollout.begin(envs.reset(seed=0)[0])
    snap = envs.snapshot()
    for t in range(4):
        obs = envs.step(np.array([0, 1, 0]), out=rollout[t])[0].copy()
        if t == 1:
            left = obs
            envs.restore(snap[[0]], rows=[1])
            rollout.restart(2, [1], envs.observe())
    final = rollout.final_obs_rows()
    assert (final.t.tolist(), final.row.tolist()) == ([1], [1])
    np.testing.assert_array_equal(final.obs, left[[1]])
    np.testing.assert_array_equal(rollout.obs[2, 1], rollout.obs[0, 0])
    values = np.arange(12.0).reshape(4, 3)
    advantages, _ = rollout.gae(values, np.zeros(3), 1.0, 1.0, [100.0])
    assert advantages[:, 1].tolist() == [2 + 100 - 1, 1 + 100 - 4, 2 + 0 - 7, 1 + 0 - 10]


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_what_is_refused():
    envs = make_vec("CartPole-v1", 2)
    obs = envs.reset(seed=0)[0]
    for steps, kind in ((0, ValueError), (2.5, TypeError), (True, TypeError)):
        with pytest.raises(kind, match="num_steps: expected an int >= 1"):
            Rollout(envs, steps)
    with pytest.raises(TypeError, match="Rollout: expected a VecEnv"):
        Rollout("CartPole-v1", 3)
    rollout = Rollout(envs, 2)
    for call, kind, message in (
        (lambda: rollout[0], ValueError, r"call begin\(obs\) first"),
        (rollout.begin, ValueError, "no complete rollout to go on from"),
        (lambda: rollout.begin(obs[:1]), ValueError, r"begin: obs: expected shape \(2, 4\)"),
        (lambda: rollout.begin(obs.astype(float)), ValueError, "begin: obs: expected shape .* of float32"),
        (lambda: rollout.restart(1, [0], obs), ValueError, "restart: t: expected"),
        (rollout.final_obs_rows, ValueError, "the rollout has 0 of 2 steps"),
    ):
        with pytest.raises(kind, match=message):
            call()
    rollout.begin(obs)
    for t, kind, message in (
        (1, ValueError, "step 0 comes first"), (-1, IndexError, "steps 0 to 1"), (2, IndexError, "steps 0 to 1"),
        ("0", TypeError, "expected a step"),
    ):  # fmt: skip
        with pytest.raises(kind, match=message):
            rollout[t]
    for t in range(2):
        envs.step(np.zeros(2, np.int64), out=rollout[t])
    values, rng = np.zeros((2, 2)), np.random.default_rng(0)
    for call, kind, message in (
        (lambda: rollout.restart(1, [0], obs), ValueError, "restart: t: expected the next step, 2, got 1"),
        (lambda: rollout.restart(2, [5], obs), ValueError, "restart: mask: row 5 is outside 0 to 1"),
        (lambda: rollout.gae(values.T[:1], 0, 0.9, 0.9), ValueError, r"values: expected shape \(2, 2\), got \(1, 2\)"),
        (lambda: rollout.gae("v", 0, 0.9, 0.9), TypeError, "values: expected numbers"),
        (lambda: rollout.gae(values, np.zeros(3), 0.9, 0.9), ValueError, "last_values: expected shape"),
        (lambda: rollout.gae(values, 0, 0.9, 0.9, np.zeros(1)), ValueError, r"final_values: expected shape \(0,\)"),
        (lambda: rollout.gae(values, 0, 1.1, 0.9), ValueError, "gamma: expected a number from 0 to 1, got 1.1"),
        (lambda: rollout.gae(values, 0, 0.9, np.nan), ValueError, "gae_lambda: expected a number"),
        (lambda: rollout.discounted_returns("x"), TypeError, "gamma: expected a number"),
        (lambda: rollout.n_step(0, 0.9), ValueError, "n: expected an int >= 1"),
        (lambda: rollout.v_trace(values, 0, values, 0.9, rho_bar=0), ValueError, "rho_bar: expected a number above 0"),
        (lambda: rollout.v_trace(values, 0, values[0], 0.9), ValueError, "log_ratios: expected shape"),
        (lambda: rollout.minibatches(0, rng), ValueError, "size: expected an int >= 1"),
        (lambda: rollout.minibatches(2, 3), TypeError, "rng: expected a numpy.random.Generator"),
        (lambda: rollout.minibatches(2, rng, obs=values), ValueError, "'obs' is the rollout's own"),
        (lambda: rollout.minibatches(2, rng, a=values[0]), ValueError, r"a: expected shape \(2, 2\)"),
    ):  # fmt: skip
        with pytest.raises(kind, match=message):
            call()
