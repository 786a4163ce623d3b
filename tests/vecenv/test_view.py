"""Views: one row as a `gymnasium.Env`, live. Oracle: the batch itself, and Gymnasium 1.4.0's environment checker."""

from __future__ import annotations

import warnings

import envs as e
import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import vecenv
from vecenv.vec_env import VecEnv

every_env = pytest.mark.parametrize("name", e.ALL)


def started(name="counter", n=4, mode="next_step", seed=0, **kwargs) -> VecEnv:
    envs = e.make(name, n, mode, **kwargs)
    envs.reset(seed=seed)
    return envs


def single(envs: VecEnv, action):
    return action if envs.single_action_space.shape else int(action)


@every_env
def test_a_view_steps_only_its_row_and_shows_what_the_batch_does_to_it(name):
    envs, alone = started(name, 4), started(name, 1, seed=2)
    view = envs.view(2)
    for step in e.actions(envs, 6):
        before = {key: column.copy() for key, column in e.columns(envs).items()}
        got = view.step(single(envs, step[2]))
        obs, rewards, terminated, truncated, infos = alone.step(step[2:3])
        e.assert_same(got[0], envs._buffers.row(obs, 0))
        assert [type(part) for part in got[1:4]] == [float, bool, bool]
        assert got[1:4] == (rewards[0], terminated[0], truncated[0])
        assert got[4].keys() == {key for key in infos if not key.startswith("_")}
        for key, column in e.columns(envs).items():
            others = [0, 1, 3]
            np.testing.assert_array_equal(column[others], before[key][others])
        if got[2] or got[3]:
            break
    assert view.state.elapsed == envs.state.elapsed[2]
    envs.reset(seed=5)
    assert view.state.elapsed == 0


@every_env
def test_env_checker(name):
    """Gymnasium's own checks; of its warnings only those on unbounded spaces and on ids that are not registered."""
    view = e.make(name, 3, "disabled").view(1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(view, skip_render_check=True)
    allowed = (
        "infinity",
        "infinite",
        "symmetric",
        "image",
        "not within",
        "registered",
        "spec",
        "Box observation space",
    )
    for warning in caught:
        assert any(word in str(warning.message) for word in allowed), warning.message


@pytest.mark.nojit
def test_an_ended_view_refuses_and_never_resets_itself():
    for mode in e.MODES:
        envs = started("drift", 3, mode, max_episode_steps=2)
        view = envs.view(1)
        assert [view.step([0.5])[3] for _ in range(2)] == [False, True]
        for jit in (True, False):
            before = e.checksum(envs)
            with pytest.raises(ResetNeeded, match="row 1: its episode has ended"):
                view.step([0.5], jit=jit)
            assert e.checksum(envs) == before
        obs, info = view.reset()
        assert obs.shape == (1,) and info == {} and view.state.elapsed == 0
        assert envs.state.elapsed.tolist() == [0, 0, 0]


@pytest.mark.nojit
def test_next_step_resets_a_row_that_a_view_ended():
    envs = started("drift", 2, max_episode_steps=2)
    view = envs.view(1)
    view.step([0.5])
    view.step([0.5])
    assert envs.episode_ended.tolist() == [False, True] and envs.ended_rows.tolist() == [1]
    _, rewards, _, truncated, _ = envs.step([[0.5], [0.5]])
    assert rewards[1] == 0 and not truncated.any() and envs.state.elapsed.tolist() == [1, 0]
    envs = started("drift", 2, "same_step", max_episode_steps=2)
    view = envs.view(1)
    view.step([0.5])
    view.step([0.5])
    with pytest.raises(ResetNeeded, match="row 1: its episode has ended; reset it with reset_mask"):
        envs.step([[0.5], [0.5]])


@pytest.mark.nojit
def test_a_view_resets_its_row_with_seed_and_options():
    envs, alone = started("rooms", 3), e.make("rooms", 1)
    before = {key: column.copy() for key, column in e.columns(envs).items()}
    obs, info = envs.view(1).reset(seed=77, options={"start": 4})
    expected, infos = alone.reset(seed=77, options={"start": 4})
    e.assert_same(obs, alone._buffers.row(expected, 0))
    assert info == {"visits": 0, "hottest": infos["hottest"][0], "alarm": False}
    assert [type(value) for value in info.values()] == [int, float, bool]
    for key, column in e.columns(envs).items():
        np.testing.assert_array_equal(column[[0, 2]], before[key][[0, 2]])
    checksum = e.checksum(envs)
    for kwargs, kind, message in (
        ({"seed": -1}, ValueError, "seed must be an int >= 0"),
        ({"seed": 1.5}, TypeError, "seed must be an int >= 0"),
        ({"options": {"reset_mask": np.ones(3, np.bool_)}}, ValueError, "a view resets its own row"),
        ({"options": {"strat": 3}}, ValueError, "unknown key 'strat'"),
    ):
        with pytest.raises(kind, match=message):
            envs.view(1).reset(**kwargs)
    assert e.checksum(envs) == checksum


@pytest.mark.nojit
@pytest.mark.parametrize("jit", [True, False])
def test_actions_of_every_form(jit):
    """C108: from the square left of the goal, all forms of an action do the same."""
    for action, cell in ((0, 13), (1, 14), (2, 15), (3, 10)):
        for form in (int, np.int64, np.int32, np.uint8, np.array, lambda a: np.array(a, np.int16)):
            envs = started("lake", 2, params={"slippery": False})
            envs.state.cell = 14
            assert envs.view(1).step(form(action), jit=jit)[0] == cell
    envs = started("lake", 2)
    before = e.checksum(envs)
    for wrong, kind in ((4, ValueError), (-1, ValueError), (2**70, ValueError), (1.0, TypeError), ("1", TypeError),
                        ([1], ValueError), (None, TypeError), (np.array([1, 2]), ValueError)):  # fmt: skip
        with pytest.raises(kind, match="action"):
            envs.view(1).step(wrong, jit=jit)
    assert e.checksum(envs) == before
    with pytest.raises(ValueError, match=r"row 1: action 4 is outside Discrete\(4\)"):
        envs.view(1).step(4, jit=jit)


@every_env
def test_c110_samples_are_accepted(name):
    envs = started(name, 2, "disabled")
    view = envs.view(1)
    view.action_space.seed(0)
    for _ in range(100):
        obs, _, terminated, truncated, _ = view.step(view.action_space.sample())
        assert view.observation_space.contains(obs)
        if terminated or truncated:
            view.reset()


@pytest.mark.nojit
def test_what_views_refuse():
    envs = started("counter", 3)
    for wrong, kind in ((3, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError), ("1", TypeError)):
        with pytest.raises(kind, match="view: "):
            envs.view(wrong)
    with pytest.raises(ResetNeeded, match="row 2 was never reset"):
        e.make("counter", 3).view(2).step(0)
    with pytest.raises(AttributeError, match="no field"):
        _ = envs.view(0).state.speed
    with pytest.raises(AttributeError, match="`limit` is read-only"):
        envs.view(0).state.limit = 3


@pytest.mark.nojit
def test_fields_by_name():
    envs = started("rooms", 3)
    view = envs.view(2)
    view.state.at = 7
    view.state.heat[1] = 0.75
    assert envs.state.at.tolist() == [0, 0, 7] and envs.state.heat[2, 1] == 0.75
    assert "at=7" in str(view) and "row 2" in repr(view) and "Rooms-v0" in repr(view)
    obs, *_ = view.step(0)
    obs["board"][:] = 9
    assert (envs.observe()["board"][2] != 9).any()


@pytest.mark.nojit
def test_the_rows_stream():
    envs = started("counter", 3, seed=10)
    before = e.checksum(envs)
    first = envs.view(1).np_random.random()
    assert first == envs.view(1).np_random.random() and e.checksum(envs) == before
    rng = np.random.Generator(np.random.PCG64(123))
    rng.integers(0, 10)  # leaves half a word behind
    envs.view(1).np_random = rng
    obs, _ = envs.view(1).reset()
    assert obs[1] == np.int64(rng.integers(3, 9))


@pytest.mark.nojit
def test_make_is_a_view_that_owns_its_batch():
    env = vecenv.make("CartPole-v1", max_episode_steps=3)
    assert isinstance(env, gymnasium.Env) and env.envs.num_envs == 1
    obs, _ = env.reset(seed=3)
    np.testing.assert_array_equal(obs, vecenv.make_vec("CartPole-v1", 4).reset(seed=0)[0][3])
    assert [env.step(k % 2)[3] for k in range(3)] == [False, False, True]
    env.close()
    env.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        env.reset()
    shared = started("CartPole-v1", 2)
    shared.view(0).close()
    shared.step([0, 0])
    with pytest.raises(TypeError, match="unknown option 'colour'"):
        vecenv.make("CartPole-v1", colour=3)
