"""Batch kernels: equal to plain Python, independent of the batch, of its partition and of the order of rows.

Oracles: the same templates as plain Python (`python_*`), exactly; one row alone in a batch of one; and a few lines of
Python that know the three modes.
"""

from __future__ import annotations

import envs as e
import numpy as np
import pytest
from gymnasium import spaces

from vecenv import EnvDef
from vecenv.kernels.wiring import EPISODE_ENDED
from vecenv.vec_env import VecEnv

every_env = pytest.mark.parametrize("name", e.ALL)
every_mode = pytest.mark.parametrize("mode", e.MODES)


def python_step(envs: VecEnv, actions: np.ndarray):
    """What `envs.step(actions)` does, through the plain Python form of its kernel."""
    return envs._finish(None, actions, envs._outputs.new(envs.num_envs), jit=False)


def python_reset(envs: VecEnv):
    rows, obs = np.arange(envs.num_envs), envs._buffers.empty(envs.num_envs)
    info = envs._infos.new(envs.num_envs)
    reset = envs._runner.kernels.python_reset_rows
    reset(envs._head, envs._arena, rows, envs.num_envs, envs._buffers.arrays(obs), info)
    return obs, envs._infos.of_batch(info, envs.num_envs)


# --- compiled equals plain Python -------------------------------------------------------------------------------------


@every_mode
@pytest.mark.parametrize(("name", "math"), [*((name, "portable") for name in e.ALL), ("waves", "libm")])
def test_compiled_equals_plain_python_exactly(name, mode, math, jit_only):
    """Outputs, infos and every byte of the batch, over several episodes of every environment, mode and math."""
    compiled, twin = (e.make(name, 5, mode, math=math) for _ in range(2))
    compiled.reset(seed=3)
    twin.reset(seed=3)
    e.assert_same(compiled.reset(), python_reset(twin))
    assert e.arena(compiled) == e.arena(twin)
    ended = 0
    for actions in e.actions(compiled, 60):
        got, expected = compiled.step(actions), python_step(twin, actions)
        e.assert_same(got, expected)
        assert e.arena(compiled) == e.arena(twin)
        np.testing.assert_array_equal(compiled.episode_returns, twin.episode_returns)
        ended += compiled.episode_ended.sum()
        if mode == "disabled":
            e.reset_ended(compiled, *got[2:4])
            e.reset_ended(twin, *got[2:4])
    assert ended >= 5


@every_env
def test_a_view_without_jit_equals_the_compiled_batch(name, jit_only):
    """Whole episodes of `view.step(a, jit=False)` against `step` of all rows under DISABLED."""
    batch, single = e.make(name, 3, "disabled"), e.make(name, 3, "disabled")
    batch.reset(seed=8)
    single.reset(seed=8)
    for actions in e.actions(batch, 25):
        obs, rewards, terminated, truncated, _ = batch.step(actions)
        for i in range(3):
            action = actions[i] if batch.single_action_space.shape else int(actions[i])
            one, reward, done, cut, _ = single.view(i).step(action, jit=False)
            e.assert_same(e.take(obs, i), one)
            assert (reward, done, cut) == (rewards[i], terminated[i], truncated[i])
        assert e.arena(batch) == e.arena(single)
        e.reset_ended(batch, terminated, truncated)
        e.reset_ended(single, terminated, truncated)


# --- batch invariance -------------------------------------------------------------------------------------------------


@every_env
@every_mode
def test_row_i_of_4096_is_a_batch_of_one_seeded_s_plus_i(name, mode):
    """Observations, rewards, flags, infos, statistics; rows at tile and block edges and in the middle."""
    n, steps = 4096, 40
    batch = e.make(name, n, mode)
    first, _ = batch.reset(seed=100)
    rows = [0, 1, 63, 64, 511, 512, 1000, n - 1]
    actions = e.actions(batch, steps, num_envs=64)[:, np.arange(n) % 64]
    history = []
    for step in actions:
        result = batch.step(step)
        history.append((*result, batch.episode_returns, batch.episode_lengths, batch.episode_ended))
        if mode == "disabled":
            e.reset_ended(batch, *result[2:4])
    for i in rows:
        one = e.make(name, 1, mode)
        e.assert_same(e.take(first, slice(i, i + 1)), one.reset(seed=100 + i)[0])
        for t in range(steps):
            result = one.step(actions[t, i : i + 1])
            result = (*result, one.episode_returns, one.episode_lengths, one.episode_ended)
            e.assert_same(e.take(history[t][:4], slice(i, i + 1)), result[:4])
            e.assert_same(e.take(history[t][5:], slice(i, i + 1)), result[5:])
            e.assert_same(infos_of(history[t][4], i), infos_of(result[4], 0))
            if mode == "disabled":
                e.reset_ended(one, *result[2:4])


def infos_of(infos: dict, i: int) -> dict:
    """What concerns row i, as Gymnasium's masks say."""
    return {
        key: infos_of(value, i) if key == "final_info" else e.take(value, i)
        for key, value in infos.items()
        if not key.startswith("_") and infos[f"_{key}"][i]
    }


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 511, 512, 513, 575, 1003, 10007])
@every_mode
def test_any_number_of_rows(n, mode):
    """Row i is the same row whatever N: sizes around the 64-row blocks and 512-row tiles, and odd ones."""
    reference = e.make("counter", 2048, mode)
    batch = e.make("counter", n, mode)
    reference.reset(seed=0)
    batch.reset(seed=0)
    k = min(n, 2048)
    for actions in e.actions(reference, 20, num_envs=2048):
        expected = reference.step(actions)
        got = batch.step(np.resize(actions, n))
        e.assert_same(e.take(got[:4], slice(k)), e.take(expected[:4], slice(k)))
        np.testing.assert_array_equal(batch.episode_returns[:k], reference.episode_returns[:k])
        if mode == "disabled":
            e.reset_ended(reference, *expected[2:4])
            e.reset_ended(batch, *got[2:4])


@pytest.mark.slow
def test_a_million_and_three_rows():
    n = 1_000_003
    batch = e.make("CartPole-v1", n, "same_step")
    batch.reset(seed=0)
    for t in range(50):
        obs, *_ = batch.step(np.full(n, t % 2))
    last = e.make("CartPole-v1", 2, "same_step")
    last.reset(seed=n - 2)
    for t in range(50):
        expected, *_ = last.step(np.full(2, t % 2))
    np.testing.assert_array_equal(obs[-2:], expected)


# --- any rows, in any order -------------------------------------------------------------------------------------------


@every_env
@every_mode
def test_any_partition_of_the_rows_equals_the_full_step(name, mode):
    """Ranges, lists out of order, masks and single rows, in any order: outputs in the order given, the same arena."""
    n = 70
    whole, parts = e.make(name, n, mode), e.make(name, n, mode)
    whole.reset(seed=1)
    parts.reset(seed=1)
    rng = np.random.default_rng(0)
    for t, actions in enumerate(e.actions(whole, 24)):
        expected = whole.step(actions)
        order = rng.permutation(n)
        cut = int(rng.integers(1, n))
        mask = np.zeros(n, np.bool_)
        mask[order[:cut]] = True
        groups = [
            [order[:cut], order[cut:]],
            [np.arange(cut), np.arange(cut, n)[::-1]],
            [mask, ~mask],
            [[int(row)] for row in order],
            [order.astype(np.int16)],
            [np.arange(n)],
        ][t % 6]
        for rows in groups:
            numbers = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows)
            got = parts.step(actions[numbers], rows=rows)
            e.assert_same(got[:4], e.take(expected[:4], numbers))
            for k, row in enumerate(numbers):
                e.assert_same(infos_of(got[4], k), infos_of(expected[4], row))
        assert e.arena(whole) == e.arena(parts)
        np.testing.assert_array_equal(whole.episode_returns, parts.episode_returns)
        np.testing.assert_array_equal(whole.episode_lengths, parts.episode_lengths)
        if mode == "disabled":
            e.reset_ended(whole, *expected[2:4])
            e.reset_ended(parts, *expected[2:4])


def test_partial_steps_move_only_their_rows():
    envs = e.make("rooms", 9)
    envs.reset(seed=0)
    before = {name: column.copy() for name, column in e.columns(envs).items()}
    for rows in ([4], [7, 2], [3, 4, 5]):
        envs.step(np.zeros(len(rows), np.int64), rows=rows)
    moved = {2, 3, 4, 5, 7}
    for name, column in e.columns(envs).items():
        for i in set(range(9)) - moved:
            np.testing.assert_array_equal(column[i], before[name][i], err_msg=f"{name} of row {i}")
    assert envs.state.elapsed.tolist() == [0, 0, 1, 1, 2, 1, 0, 1, 0]


def test_a_step_of_no_rows():
    envs = e.make("rooms", 3)
    envs.reset(seed=0)
    before = e.checksum(envs)
    for rows in ([], np.zeros(3, np.bool_), np.empty(0, np.int64)):
        obs, rewards, terminated, truncated, infos = envs.step([], rows=rows)
        assert [leaf.shape[0] for leaf in e.flat(obs)] == [0, 0, 0]
        assert rewards.shape == terminated.shape == truncated.shape == (0,) and infos["visits"].shape == (0,)
    assert e.checksum(envs) == before


# --- three modes against a few lines of Python ------------------------------------------------------------------------


class StepsState(e.State):
    left: e.I4
    episode: e.I4


class StepsInfo(e.Info):
    left: e.I4


@e.jit
def steps_reset(state, params, rng):
    state.left = rng.integers(1, 6)
    state.episode = rng.integers(0, 1000)


@e.jit
def steps_step(state, action, params, rng):
    state.left -= 1
    return state.left + 0.5, state.left == 0, action == 1


@e.jit
def steps_observe(state, params, obs):
    obs[0] = state.left
    obs[1] = state.episode
    obs[2] = state.elapsed


@e.jit
def steps_info(state, params, out):
    out.left = state.left


STEPS = EnvDef(
    "Steps-v0", StepsState, e.NoParams, steps_reset, steps_step, steps_observe,
    observation_space=spaces.Box(-np.inf, np.inf, (3,), np.float64), action_space=spaces.Discrete(2),
    info_type=StepsInfo, info=steps_info,
)  # fmt: skip


class Model:
    """One row of STEPS with a limit of 4, in a mode, drawing from NumPy's generator."""

    def __init__(self, seed: int, mode: str) -> None:
        self.rng, self.mode = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed))), mode
        self.reset()

    def reset(self) -> None:
        self.left, self.episode = int(self.rng.integers(1, 6)), int(self.rng.integers(0, 1000))
        self.elapsed, self.total, self.ended, self.shown = 0, 0.0, False, (0.0, 0)

    @property
    def obs(self):
        return [self.left, self.episode, self.elapsed]

    def step(self, action: int):
        """(obs, reward, terminated, truncated, final obs or None, info, episode ended, return, length)."""
        if self.mode == "next_step" and self.ended:
            self.reset()
            return self.obs, 0.0, False, False, None, self.left, False, 0.0, 0
        self.left -= 1
        self.elapsed += 1
        reward = self.left + 0.5
        self.total += reward
        terminated = self.left == 0
        truncated = not terminated and (action == 1 or self.elapsed >= 4)
        self.ended = terminated or truncated
        shown, final = (self.total, self.elapsed), None
        ended = self.ended
        if ended and self.mode != "next_step":
            final = self.obs if self.mode == "same_step" else None
            if self.mode == "same_step":
                self.reset()
        return self.obs, reward, terminated, truncated, final, self.left, ended, *shown


@pytest.mark.nojit
@every_mode
def test_modes_flags_infos_and_statistics_against_a_model(mode):
    n = 7
    envs = VecEnv(STEPS, n, autoreset_mode=mode, max_episode_steps=4)
    obs, infos = envs.reset(seed=50)
    models = [Model(50 + i, mode) for i in range(n)]
    assert obs.tolist() == [model.obs for model in models]
    assert infos["left"].tolist() == [model.left for model in models] and infos["_left"].all()
    rng = np.random.default_rng(1)
    for _ in range(40):
        actions = (rng.random(n) < 0.1).astype(np.int64)
        obs, rewards, terminated, truncated, infos = envs.step(actions)
        rows = [model.step(int(action)) for model, action in zip(models, actions, strict=True)]
        expected_obs, expected_rewards, dones, cuts, finals, left, ended, returns, lengths = zip(*rows, strict=True)
        assert obs.tolist() == [list(o) for o in expected_obs]
        assert (rewards.tolist(), terminated.tolist(), truncated.tolist()) == (
            list(expected_rewards), list(dones), list(cuts),
        )  # fmt: skip
        assert infos["left"].tolist() == list(left) and infos["_left"].all()
        assert envs.episode_ended.tolist() == list(ended)
        assert envs.episode_returns.tolist() == list(returns)
        assert envs.episode_lengths.tolist() == list(lengths)
        if any(final is not None for final in finals):
            mask = [final is not None for final in finals]
            assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == mask
            assert infos["final_obs"].tolist() == [final or [0, 0, 0] for final in finals]
            assert infos["final_info"]["_left"].tolist() == mask
            assert infos["final_info"]["left"].tolist() == [final[0] if final else 0 for final in finals]
        else:
            assert infos.keys() == {"left", "_left"}
        if mode == "disabled" and any(ended):
            envs.reset(options={"reset_mask": np.array(ended)})
            for model, over in zip(models, ended, strict=True):
                if over:
                    model.reset()
            assert not envs.episode_ended.any()
    assert not (e.columns(envs)["engine.flags"] & ~np.uint8(EPISODE_ENDED | 15)).any()


@pytest.mark.nojit
def test_termination_wins_over_both_kinds_of_truncation():
    envs = VecEnv(STEPS, 3, autoreset_mode="disabled", max_episode_steps=[1, 1, -1])
    envs.reset(seed=0)
    envs.state.left = [1, 2, 1]
    _, _, terminated, truncated, _ = envs.step([1, 1, 1])
    assert terminated.tolist() == [True, False, True] and truncated.tolist() == [False, True, False]


@pytest.mark.nojit
def test_the_counter_saturates():
    envs = VecEnv(STEPS, 1, autoreset_mode="disabled")
    envs.reset(seed=0)
    envs.state.left = 1000
    envs.state.elapsed = 2**31 - 2
    for _ in range(3):
        _, _, terminated, truncated, _ = envs.step([0])
        assert not terminated[0] and not truncated[0] and envs.state.elapsed[0] == 2**31 - 1
