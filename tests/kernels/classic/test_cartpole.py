"""CartPole against Gymnasium 1.4.0's CartPole-v1 (bit for bit with `math="libm"`, within one float32 ulp otherwise) and
against the numbers of reference systems, sections 1.3, 6.5 and 7.1."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from oracle import (
    assert_lockstep,
    assert_mean,
    assert_same_bits,
    assert_same_ends,
    first_episodes,
    sync_vector_env,
    ulps_apart,
)

import vecenv

BOTH = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)
LAST = [0.14065097, 1.7603811, -0.21518604, -2.7778864]  # where always pushing right from rest ends


def started(state=(0.0, 0.0, 0.0, 0.0), **arguments):
    """A view with a given state."""
    view = vecenv.make("CartPole-v1", **arguments)
    view.reset(seed=0)
    put(view, state)
    return view


def put(view, state):
    view.state.x, view.state.x_dot, view.state.theta, view.state.theta_dot = state


def state_of(view):
    return [float(view.state.x), float(view.state.x_dot), float(view.state.theta), float(view.state.theta_dot)]


# --- Gymnasium --------------------------------------------------------------------------------------------------------


def lockstep(mode, num_envs, num_steps, seed, reset_options=None, **options):
    envs = vecenv.make_vec("CartPole-v1", num_envs, autoreset_mode=mode, math="libm", **options)
    oracle = sync_vector_env("CartPole-v1", num_envs, mode, **options)
    return assert_lockstep(envs, oracle, num_steps, seed, reset_options)


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("options", [{}, {"sutton_barto_reward": True}, {"max_episode_steps": 12}], ids=repr)
def test_lockstep_with_gymnasium(mode, options):
    assert lockstep(mode, 16, 1000, seed=4, **options) > 500


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("sutton_barto_reward", [False, True])
def test_lockstep_with_gymnasium_for_long(mode, sutton_barto_reward, seed):
    assert lockstep(mode, 64, 10_000, seed, sutton_barto_reward=sutton_barto_reward) > 10_000


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("options", [{"low": -0.2, "high": -0.1}, {"high": 0.1}, {"low": 0.0, "high": 0.2}], ids=repr)
def test_lockstep_with_reset_options(mode, options):
    """Auto-resets go back to the default bounds; the caller's options stay as they are."""
    given = dict(options)
    assert lockstep(mode, 16, 200, seed=6, reset_options=given) > 100
    assert given == options


def test_reset_bounds_hold_for_explicit_resets_only():
    envs = vecenv.make_vec("CartPole-v1", 64, autoreset_mode="same_step")
    obs, _ = envs.reset(seed=1, options={"low": 0.1, "high": 0.15})
    assert (obs >= 0.1).all() and (obs <= 0.15).all()
    for _ in range(40):
        obs, _, terminated, _, _ = envs.step(np.ones(64, np.int64))
        assert (np.abs(obs[terminated]) <= 0.05).all()


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"hihg": 1.0}, ValueError, "unknown key 'hihg'; did you mean 'high'"),
        ({"low": "a"}, TypeError, "reset option 'low': expected one float64, got 'a'"),
        ({"high": [1.0, 2.0]}, TypeError, "reset option 'high': expected one float64"),
    ],
)
def test_wrong_reset_options(options, error, message):
    envs = vecenv.make_vec("CartPole-v1", 2)
    before, _ = envs.reset(seed=1)
    with pytest.raises(error, match=message):
        envs.reset(options=options)
    assert_same_bits(envs.observe(), before)


def test_portable_is_within_one_ulp_of_gymnasium():
    """One step from 100,000 states, inside the thresholds and around them. States whose next position or angle is
    within one float32 ulp of a threshold might end or not; with this seed there are none."""
    n = 100_000
    rng = np.random.default_rng(2024)
    states = rng.uniform(-1, 1, (n, 4)) * [2.6, 4.0, 0.25, 4.0]
    actions = rng.integers(2, size=n)
    oracle = gymnasium.make("CartPole-v1").unwrapped
    oracle.reset(seed=0)
    expected, expected_terminated, exact = np.empty((n, 4), np.float32), np.empty(n, np.bool_), np.empty((n, 4))
    for i in range(n):
        oracle.state = states[i]
        oracle.steps_beyond_terminated = None
        expected[i], reward, expected_terminated[i], _, _ = oracle.step(actions[i])
        exact[i] = oracle.state
        assert reward == 1
    for math, allowed in (("portable", 1), ("libm", 0)):
        envs = vecenv.make_vec("CartPole-v1", n, autoreset_mode="disabled", math=math)
        envs.reset(seed=0)
        for k, name in enumerate(("x", "x_dot", "theta", "theta_dot")):
            setattr(envs.state, name, states[:, k])
        obs, rewards, terminated, truncated, _ = envs.step(actions)
        assert ulps_apart(obs, expected).max() <= allowed
        assert (rewards == 1).all() and not truncated.any()
        assert 0.1 < terminated.mean() < 0.9
        limits = np.array([2.4, 12 * 2 * np.pi / 360])
        close = np.abs(np.abs(exact[:, [0, 2]]) - limits) <= np.spacing(limits.astype(np.float32))
        assert close.sum() == 0
        assert_same_bits(terminated, expected_terminated)


def test_portable_ends_when_gymnasium_does():
    """Case C104: 1000 seeds, each with the same start and actions: all first episodes end on the same step, and all
    observations on the way are close."""
    assert assert_same_ends("CartPole-v1", 1000, num_close=501, atol=1e-7) == 1000


# --- known numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize(
    "integrator, start, actions, expected",
    [
        ("euler", (0, 0, 0, 0), (1,), (0, 0.1951219512, 0, -0.2926829268)),
        ("euler", (0, 0, 0, 0), (1, 1), (0.0039024390, 0.3902439024, -0.0058536585, -0.5853658537)),
        ("euler", (0.01, 0.02, 0.03, 0.04), (0,), (0.0104, -0.1755390171, 0.0308, 0.3419952238)),
        ("semi_implicit", (0, 0, 0, 0), (1,), (0.0039024390, 0.1951219512, -0.0058536585, -0.2926829268)),
        ("semi_implicit", (0, 0, 0, 0), (1, 1), (0.0117089765, 0.3903268719, -0.0175977837, -0.5872062571)),
        ("semi_implicit", (0.01, 0.02, 0.03, 0.04), (0,), (0.0064892197, -0.1755390171, 0.0368399045, 0.3419952238)),
    ],
)
def test_steps_from_known_states(integrator, start, actions, expected):
    view = started(start, integrator=integrator)
    for action in actions:
        obs, *_ = view.step(action)
    np.testing.assert_allclose(state_of(view), expected, rtol=0, atol=6e-11)
    assert_same_bits(obs, np.array(state_of(view)).astype(np.float32))


@pytest.mark.nojit
@pytest.mark.parametrize("integrator, same, alternating", [("euler", 9, 33), ("semi_implicit", 8, 31)])
def test_known_endings(integrator, same, alternating):
    for actions, end in (([0] * 40, same), ([1] * 40, same), ([0, 1] * 20, alternating)):
        view = started(integrator=integrator)
        for t in range(1, end + 1):
            _, reward, terminated, truncated, _ = view.step(actions[t - 1])
            assert (reward, terminated, truncated) == (1.0, t == end, False)


@pytest.mark.nojit
@pytest.mark.parametrize("state", [(3, 0, 0, 0), (-3, 0, 0, 0), (0, 0, 0.5, 0), (0, 0, -0.5, 0)])
@pytest.mark.parametrize("action", [0, 1])
def test_outside_the_thresholds_any_action_ends(state, action):
    """Worked example 7."""
    assert started(state).step(action)[1:4] == (1.0, True, False)


def test_step_500_is_truncated():
    """Worked example 7: the counter stands at 499."""
    view = started()
    view.envs.state.elapsed = 499
    assert view.step(1)[1:4] == (1.0, False, True)


@pytest.mark.parametrize(
    "last_step_reward, on_termination, on_truncation", [("one", 1, 1), ("zero_on_termination", 0, 1), ("zero", 0, 0)]
)
def test_last_step_reward(last_step_reward, on_termination, on_truncation):
    """Reference systems 7.1: Gymnasium, rl-traits, Thrust."""
    view = started(last_step_reward=last_step_reward, max_episode_steps=5)
    assert [view.step(a)[1] for a in (0, 1, 0, 1, 0)] == [1, 1, 1, 1, on_truncation]
    view.reset(seed=0)
    put(view, (3, 0, 0, 0))
    assert view.step(0)[1:4] == (on_termination, True, False)
    view = started(last_step_reward=last_step_reward, max_episode_steps=-1)
    view.envs.state.elapsed = 499
    assert view.step(0)[1:4] == (1.0, False, False)


def test_termination_on_the_last_step_is_termination_only():
    """Cases C026 and C001's fixture: the ninth push to the right ends the episode, at a limit of nine."""
    view = started(max_episode_steps=9)
    for _ in range(8):
        assert view.step(1)[1:4] == (1.0, False, False)
    obs, *rest = view.step(1)
    np.testing.assert_allclose(obs, LAST, atol=1e-6)
    assert rest == [1.0, True, False, {}]


def test_next_step_shows_the_last_observation():
    """Case C001."""
    envs = vecenv.make_vec("CartPole-v1", 1, autoreset_mode="next_step")
    envs.reset(seed=0)
    for name in ("x", "x_dot", "theta", "theta_dot"):
        setattr(envs.state, name, 0.0)
    calls = [envs.step(np.array([1])) for _ in range(11)]
    np.testing.assert_allclose(calls[0][0][0], [0, 0.19512195, 0, -0.29268293], atol=1e-6)
    np.testing.assert_allclose(calls[1][0][0], [0.00390244, 0.3902439, -0.00585366, -0.58536585], atol=1e-6)
    np.testing.assert_allclose(calls[8][0][0], LAST, atol=1e-6)
    assert (np.abs(calls[9][0]) <= 0.05).all()
    assert [float(call[1][0]) for call in calls] == [1.0] * 9 + [0.0, 1.0]
    assert [bool(call[2][0]) for call in calls] == [False] * 8 + [True, False, False]


def test_every_reset_draws_a_new_start():
    """Case C009: 200 reset observations of 4 rows, uniform between -0.05 and 0.05."""
    envs = vecenv.make_vec("CartPole-v1", 4, autoreset_mode="same_step")
    starts = [list(envs.reset(seed=3)[0])]
    policy = np.random.default_rng(3)
    collected = [[start] for start in starts[0]]
    while min(map(len, collected)) < 50:
        obs, _, terminated, _, _ = envs.step(policy.integers(2, size=4))
        for i in np.flatnonzero(terminated):
            collected[i].append(obs[i])
    values = np.array([row[:50] for row in collected]).reshape(200, 4)
    assert len(np.unique(values, axis=0)) == 200
    assert (np.abs(values.mean(axis=0)) < 0.009).all()
    assert (np.abs(values.std(axis=0) - 0.1 / np.sqrt(12)) < 0.004).all()


def test_lengths_under_next_step():
    """Case C017: reset calls belong to no episode."""
    envs = vecenv.make_vec("CartPole-v1", 1, max_episode_steps=3)
    envs.reset(seed=0)
    ends = []
    for call in range(1, 16):
        envs.step(np.array([call % 2]))
        if envs.episode_ended[0]:
            ends.append((call, int(envs.episode_lengths[0]), float(envs.episode_returns[0])))
    assert ends == [(call, 3, 3.0) for call in (3, 7, 11, 15)]


def test_reset_starts_the_count_anew():
    """Case C021."""
    envs = vecenv.make_vec("CartPole-v1", 1, max_episode_steps=3)
    envs.reset(seed=0)
    for action in (0, 1):
        envs.step(np.array([action]))
    envs.reset()
    assert [bool(envs.step(np.array([action]))[3][0]) for action in (0, 1, 0)] == [False, False, True]


def test_terminal_observations_lie_in_the_space():
    """Case C100: a fallen pole is inside the box, which is twice as wide as the thresholds."""
    envs = vecenv.make_vec("CartPole-v1", 8, autoreset_mode="same_step")
    envs.reset(seed=5)
    policy = np.random.default_rng(5)
    seen = 0
    for _ in range(300):
        *_, infos = envs.step(policy.integers(2, size=8))
        if "final_obs" in infos:
            for obs in infos["final_obs"][infos["_final_obs"]]:
                seen += 1
                assert obs.dtype == np.float32 and envs.single_observation_space.contains(obs)
                assert abs(obs[2]) > 0.2094 or abs(obs[0]) > 2.4
    assert seen > 50


@pytest.mark.parametrize("integrator, mean, median, least", [("euler", 22.3, 19, 8), ("semi_implicit", 20.7, 17, 7)])
def test_random_play(integrator, mean, median, least):
    """Reference systems 6.5, from 20,000 episodes: their mean has a standard error of .085 and is rounded to .05."""
    lengths = first_episodes(vecenv.make_vec("CartPole-v1", 20_000, integrator=integrator), seed=1).lengths
    assert_mean(lengths, mean, rounding=0.05 + 3 * 0.085)
    assert np.median(lengths) == median
    assert lengths.min() == least


def test_gravity_is_a_param():
    view = started((0, 0, 0.1, 0), params={"gravity": 0.0, "force_mag": 0.0})
    for _ in range(20):
        view.step(1)
    assert state_of(view) == [0, 0, 0.1, 0]


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"integrator": "rk4"}, ValueError, "integrator is one of euler, semi_implicit, got 'rk4'"),
        ({"last_step_reward": 1}, ValueError, "last_step_reward is one of one, zero_on_termination, zero, got 1"),
        ({"sutton_barto_reward": True, "last_step_reward": "zero"}, ValueError, "leaves nothing to last_step_reward"),
        ({"integrater": "euler"}, TypeError, "unknown option 'integrater'; did you mean 'integrator'"),
        ({"params": {"gravty": 1.0}}, ValueError, "no param 'gravty'; did you mean 'gravity'"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        vecenv.make_vec("CartPole-v1", 2, **options)
