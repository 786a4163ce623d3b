"""Several agents: rewards, flags and endings per agent, one random stream, counter and reset per row.

Oracle: `Duel` below, a slow model of the same game and of the contract in plain Python on `numpy.random.Generator`.
"""

from __future__ import annotations

import copy
import pickle

import envs as e
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector.utils import batch_space

from vecenv import I4, Array, BindError, EnvDef, Info, State, jit, make_vec
from vecenv.vec_env import VecEnv

AGENTS, LIMIT = 2, 6


class DuelState(State):
    health: Array[I4, AGENTS]


class DuelInfo(Info):
    health: I4


@jit
def duel_reset(state, params, rng):
    for agent in range(AGENTS):
        state.health[agent] = rng.integers(2, 6)


@jit
def duel_step(state, actions, params, rng, rewards, terminated, truncated):
    """Everybody pays their action in health and gets noise; an action of 2 by both is a draw for the second."""
    noise = rng.random()
    for agent in range(AGENTS):
        if state.alive[agent]:
            state.health[agent] -= actions[agent]
        rewards[agent] = noise + actions[agent]  # of those that have ended too: the engine takes it back
        terminated[agent] = state.health[agent] <= 0
    truncated[1] = actions[0] == 2 and actions[1] == 2


@jit
def duel_observe(state, params, agent, obs):
    obs[0] = state.health[agent]
    obs[1] = agent
    obs[2] = state.elapsed


@jit
def duel_info(state, params, agent, out):
    out.health = state.health[agent]


@jit
def duel_mask(state, params, agent, mask):
    for action in range(3):
        mask[action] = action <= state.health[agent]


DUEL = EnvDef(
    "Duel-v0", DuelState, e.NoParams, duel_reset, duel_step, duel_observe, num_agents=AGENTS,
    observation_space=spaces.Box(-10, 10, (3,)), action_space=spaces.Discrete(3), max_episode_steps=LIMIT,
    info_type=DuelInfo, info=duel_info, action_mask=duel_mask,
)  # fmt: skip


class Duel:
    """One row."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self) -> None:
        self.health = [int(self.rng.integers(2, 6)) for _ in range(AGENTS)]
        self.elapsed, self.alive = 0, [True] * AGENTS
        self.returns, self.lengths = [0.0] * AGENTS, [0] * AGENTS

    def step(self, actions):
        noise = self.rng.random()
        self.elapsed += 1
        rewards, terminated, truncated = [0.0] * AGENTS, [False] * AGENTS, [False] * AGENTS
        for agent in range(AGENTS):
            if not self.alive[agent]:
                continue
            self.health[agent] -= int(actions[agent])
            rewards[agent] = noise + actions[agent]
            self.returns[agent] += rewards[agent]
            self.lengths[agent] += 1
            terminated[agent] = self.health[agent] <= 0
            drawn = agent == 1 and actions[0] == 2 and actions[1] == 2
            truncated[agent] = (drawn or self.elapsed == LIMIT) and not terminated[agent]
        self.alive = [a and not (t or c) for a, t, c in zip(self.alive, terminated, truncated, strict=True)]
        return rewards, terminated, truncated

    @property
    def over(self) -> bool:
        return not any(self.alive)

    def obs(self):
        return [[self.health[agent], agent, self.elapsed] for agent in range(AGENTS)]

    def mask(self):
        return [[int(action <= self.health[agent]) for action in range(3)] for agent in range(AGENTS)]


def flat(parts):
    return np.concatenate([np.asarray(part) for part in parts])


@pytest.mark.nojit
@pytest.mark.parametrize("mode", e.MODES)
def test_as_the_model(mode):
    rows = 5
    envs = VecEnv(DUEL, rows, autoreset_mode=mode)
    assert (envs.num_envs, envs.num_rows, envs.num_agents) == (rows * AGENTS, rows, AGENTS)
    obs, infos = envs.reset(seed=3)
    models = [Duel(3 + i) for i in range(rows)]
    assert obs.shape == (rows * AGENTS, 3) and obs.dtype == np.float32
    np.testing.assert_array_equal(obs, flat(m.obs() for m in models))
    np.testing.assert_array_equal(infos["action_mask"], flat(m.mask() for m in models))
    actions = np.random.default_rng(0)
    seen = set()
    for _ in range(80):
        if mode == "disabled" and any(m.over for m in models):
            with pytest.raises(ResetNeeded, match=r"row \d: its episode has ended"):
                envs.step(np.zeros(rows * AGENTS, np.int64))
            obs, _ = envs.reset(options={"reset_mask": np.array([m.over for m in models])})
            for m in models:
                if m.over:
                    m.reset()
            np.testing.assert_array_equal(obs, flat(m.obs() for m in models))
        given = actions.choice(3, (rows, AGENTS), p=(0.6, 0.25, 0.15))
        obs, rewards, terminated, truncated, infos = envs.step(given.ravel())
        results, final, ended = [], [], []
        for m, action in zip(models, given, strict=True):
            if mode == "next_step" and m.over:
                m.reset()
                results.append(([0.0] * AGENTS, [False] * AGENTS, [False] * AGENTS))
                ended.append(False)
                continue
            results.append(m.step(action))
            ended.append(m.over)
            seen.add((tuple(results[-1][1]), tuple(results[-1][2]), m.over))
        returns, lengths = np.array([m.returns for m in models]), np.array([m.lengths for m in models])
        alive = np.array([m.alive for m in models])
        final = flat(m.obs() for m in models)
        if mode == "same_step":
            for m in models:
                if m.over:
                    m.reset()
            alive[ended] = True
            mask = np.repeat(ended, AGENTS)
            if any(ended):
                np.testing.assert_array_equal(infos["_final_obs"], mask)
                np.testing.assert_array_equal(infos["final_obs"][mask], final[mask])
                np.testing.assert_array_equal(infos["final_info"]["health"][mask], final[mask, 0])
                np.testing.assert_array_equal(envs.final_obs_rows, final.reshape(rows, AGENTS, 3)[ended].reshape(-1, 3))
            else:
                assert "final_obs" not in infos
        np.testing.assert_array_equal(obs, flat(m.obs() for m in models))
        for got, part in zip((rewards, terminated, truncated), zip(*results, strict=True), strict=True):
            np.testing.assert_array_equal(got, flat(part))
        np.testing.assert_array_equal(infos["health"], flat(m.health for m in models))
        np.testing.assert_array_equal(infos["action_mask"], flat(m.mask() for m in models))
        np.testing.assert_array_equal(envs.episode_returns, returns)
        np.testing.assert_array_equal(envs.episode_lengths, lengths)
        np.testing.assert_array_equal(envs.episode_ended, ended)
        np.testing.assert_array_equal(envs.ended_rows, np.flatnonzero(ended))
        np.testing.assert_array_equal(envs.state.alive, alive)
        np.testing.assert_array_equal(envs.action_masks(), flat(m.mask() for m in models).astype(bool))
    # One leaves early; one terminates while the other is cut off (C037, C127); the limit cuts off both.
    assert ((True, False), (False, False), False) in seen
    assert ((True, False), (False, True), True) in seen or ((False, True), (True, False), True) in seen
    assert ((False, False), (True, True), True) in seen


@pytest.mark.nojit
def test_whether_an_episode_is_over():
    """C127: over when one terminated and the other is truncated, not when only one has terminated."""
    envs = VecEnv(DUEL, 1, autoreset_mode="disabled")
    envs.reset(seed=0, options={"state": {"health": np.array([[2, 5]])}})
    _, _, terminated, truncated, _ = envs.step(np.array([2, 2]))
    assert terminated.tolist() == [True, False] and truncated.tolist() == [False, True] and envs.episode_ended.all()
    envs.reset(seed=0, options={"state": {"health": np.array([[2, 5]])}})
    _, _, terminated, truncated, _ = envs.step(np.array([2, 1]))
    assert terminated.tolist() == [True, False] and not truncated.any() and not envs.episode_ended.any()
    assert envs.state.alive.tolist() == [[False, True]]
    _, rewards, terminated, _, _ = envs.step(np.array([9, 0]))  # whoever has ended may send anything
    assert rewards[0] == 0.0 and rewards[1] > 0.0 and not terminated.any()


@pytest.mark.nojit
def test_actions_that_do_not_fit():
    envs = VecEnv(DUEL, 3)
    envs.reset(seed=0)
    before = e.checksum(envs)
    with pytest.raises(ValueError, match=r"row 1, agent 1: action 7 is outside Discrete\(3\); no row has moved"):
        envs.step(np.array([0, 0, 0, 7, 0, 0]))
    with pytest.raises(ValueError, match=r"row 2, agent 0: action -1 is outside Discrete\(3\); no row has moved"):
        envs.step(np.array([0, 1, -1, 0]), rows=[0, 2])
    with pytest.raises(ValueError, match=r"expected an array of shape \(6,\) of int64, got shape \(3,\)"):
        envs.step(np.zeros(3, np.int64))
    assert e.checksum(envs) == before


def play(envs, steps, seed=0):
    actions = np.random.default_rng(seed)
    out = []
    for _ in range(steps):
        out.append(envs.step(actions.integers(0, 3, envs.num_envs))[:4])
    return out


@pytest.mark.nojit
def test_rows_snapshots_copies_and_absorbing():
    envs = VecEnv(DUEL, 4)
    envs.reset(seed=1)
    play(envs, 3)
    snap, twin, other = envs.snapshot(), copy.deepcopy(envs), pickle.loads(pickle.dumps(envs))
    assert snap.num_rows == 4
    expected = play(envs, 20)
    envs.restore(snap)
    for batch in (envs, twin, other):
        for got, want in zip(play(batch, 20), expected, strict=True):
            for a, b in zip(got, want, strict=True):
                np.testing.assert_array_equal(a, b)
    # Some rows, in their order, and one row in all of another batch.
    one = VecEnv(DUEL, 1)
    one.restore(snap[[2]])
    envs.restore(snap)
    got = envs.step(np.array([1, 0, 0, 1]), rows=[2, 0])
    want = one.step(np.array([1, 0]))
    for a, b in zip(got[:4], want[:4], strict=True):
        np.testing.assert_array_equal(a[:2], b)
    # An ended row is absorbed agent by agent.
    absorbing = VecEnv(DUEL, 2, autoreset_mode="disabled", ended="absorb")
    absorbing.reset(seed=0, options={"state": {"health": np.array([[2, 5], [5, 5]])}})
    obs, _, terminated, truncated, _ = absorbing.step(np.array([2, 2, 0, 0]))
    for _ in range(2):
        again = absorbing.step(np.array([1, 1, 1, 1]))
        np.testing.assert_array_equal(again[0][:2], obs[:2])
        assert again[1][:2].tolist() == [0.0, 0.0] and (again[1][2:] > 0).all()
        assert again[2].tolist() == terminated.tolist() and again[3].tolist() == truncated.tolist()
        assert absorbing.episode_ended.tolist() == [False, False]


def test_a_view_and_plain_python(jit_only):
    envs, python = VecEnv(DUEL, 2), VecEnv(DUEL, 2)
    envs.reset(seed=5)
    python.reset(seed=5)
    view, twin = envs.view(1), python.view(1)
    assert view.observation_space == batch_space(DUEL.observation_space, AGENTS)
    assert view.action_space == spaces.MultiDiscrete([3, 3])
    for t in range(LIMIT):
        if not view.state.alive[0] and not view.state.alive[1]:
            break
        results = view.step([1, t % 2]), twin.step([1, t % 2], jit=False)
        for a, b in zip(*(result[:4] for result in results), strict=True):
            np.testing.assert_array_equal(a, b)
        assert results[0][0].shape == (AGENTS, 3) and results[0][1].shape == (AGENTS,)
        np.testing.assert_array_equal(results[0][4]["health"], results[1][4]["health"])
    assert e.checksum(envs) == e.checksum(python)
    assert envs.state.elapsed.tolist()[0] == 0


@jit
def field_reset(state, params, rng):
    state.health[0] = 1


@jit
def field_step(state, actions, params, rng, rewards, terminated, truncated):
    for agent in range(AGENTS):
        rewards[agent] = actions.push[agent, 1] + 10.0 * actions.kind[agent]


@jit
def field_observe(state, params, agent, obs):
    obs.who[0] = agent
    obs.when[0] = state.elapsed


@pytest.mark.nojit
def test_leaves_of_dict_spaces_have_the_agents_first():
    field = EnvDef(
        "Field-v0", DuelState, e.NoParams, field_reset, field_step, field_observe, num_agents=AGENTS,
        observation_space=spaces.Dict(who=spaces.Discrete(2), when=spaces.Box(0, 9, (1,))),
        action_space=spaces.Dict(push=spaces.Box(-1, 1, (3,), np.float32), kind=spaces.Discrete(4)),
    )  # fmt: skip
    envs = VecEnv(field, 3)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    for t in range(1, 4):
        actions = envs.action_space.sample()
        obs, rewards, *_ = envs.step(actions)
        np.testing.assert_array_equal(rewards, actions["push"][:, 1].astype(np.float64) + 10.0 * actions["kind"])
        assert obs["who"].tolist() == [0, 1] * 3 and obs["when"].tolist() == [[t]] * 6
    bad = {"push": np.zeros((6, 3), np.float32), "kind": np.array([0, 0, 0, 9, 0, 0])}
    with pytest.raises(ValueError, match=r"row 1, agent 1: action\['kind'\] 9 is outside Discrete\(4\)"):
        envs.step(bad)


@jit
def pair_observe(state, params, agent, obs):
    obs[0][0] = agent
    obs[1][0] = state.health[agent]


@pytest.mark.nojit
def test_final_observations_as_objects():
    """Of Tuple spaces, whose `final_obs` is Gymnasium's array of objects: one per agent of the rows that ended."""
    pair = EnvDef(
        "Pair-v0", DuelState, e.NoParams, duel_reset, duel_step, pair_observe, num_agents=AGENTS,
        observation_space=spaces.Tuple((spaces.Discrete(2), spaces.Box(-10, 10, (1,)))),
        action_space=spaces.Discrete(3), max_episode_steps=LIMIT,
    )  # fmt: skip
    envs = VecEnv(pair, 3, autoreset_mode="same_step")
    envs.reset(seed=0, options={"state": {"health": np.array([[5, 5], [1, 2], [5, 5]])}})
    *_, infos = envs.step(np.array([0, 0, 1, 2, 0, 0]))
    assert infos["_final_obs"].tolist() == [False, False, True, True, False, False]
    assert [final is None for final in infos["final_obs"]] == [True, True, False, False, True, True]
    for agent in range(AGENTS):
        who, health = infos["final_obs"][2 + agent]
        assert who == agent and health.tolist() == [0.0] and health.shape == (1,)


def test_definitions_that_are_refused():
    arguments = (DuelState, e.NoParams, duel_reset, duel_step, duel_observe)
    boxes = {"observation_space": spaces.Box(-10, 10, (3,)), "action_space": spaces.Discrete(3)}
    for number in (0, -1, 2.5, True, "2"):
        with pytest.raises(ValueError, match="num_agents: expected an int >= 1"):
            EnvDef("Duel-v0", *arguments, num_agents=number, **boxes)
    with pytest.raises(BindError, match=r"`step` takes \(state, action, params, rng\)"):
        EnvDef("Duel-v0", *arguments, **boxes)
    one = (DuelState, e.NoParams, duel_reset, e.counter_step, duel_observe)
    with pytest.raises(
        BindError, match=r"`step` takes \(state, actions, params, rng, rewards, terminated, truncated\)"
    ):
        EnvDef("Duel-v0", *one, num_agents=2, **boxes)
    assert make_vec(DUEL, 2).num_envs == 4
