"""Pendulum against Gymnasium 1.4.0's Pendulum-v1: bit for bit with `math="libm"`, within one float32 ulp per step
otherwise."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from oracle import assert_lockstep, assert_same_bits, sync_vector_env, ulps_apart

import vecenv

BOTH = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)


def strong(obs, rng):
    """Torques up to twice the range, which are cut off, both bounds and zeros of both signs."""
    torques = rng.uniform(-4, 4, (len(obs), 1))
    exact = rng.choice([-2.0, 2.0, 0.0, -0.0], (len(obs), 1))
    return np.where(rng.random((len(obs), 1)) < 0.2, exact, torques).astype(np.float32)


def swing_up(obs, rng):
    """Pump energy in, which turns the pendulum over and over."""
    return np.where(obs[:, 2:] < 0, -2, 2).astype(np.float32)


POLICIES = {"random": None, "strong": strong, "swing up": swing_up}


def lockstep(policy, mode, num_envs, num_steps, seed, reset_options=None, **options):
    envs = vecenv.make_vec("Pendulum-v1", num_envs, autoreset_mode=mode, math="libm", **options)
    oracle = sync_vector_env("Pendulum-v1", num_envs, mode, **options)
    return assert_lockstep(envs, oracle, num_steps, seed, reset_options, POLICIES[policy])


@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
def test_lockstep_with_gymnasium(mode):
    assert lockstep("random", mode, 16, 1000, seed=0) >= 64


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize(
    "policy, options",
    [
        ("strong", {"max_episode_steps": 25}),
        ("swing up", {"max_episode_steps": 70, "g": 9.81}),
        ("random", {"max_episode_steps": 20, "g": 0}),
        ("random", {"max_episode_steps": 20, "g": -3.7}),
    ],
    ids=repr,
)
def test_lockstep_with_options(policy, options, mode):
    assert lockstep(policy, mode, 16, 210, seed=1, **options) >= (1 if mode is AutoresetMode.DISABLED else 16)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("policy", POLICIES)
def test_lockstep_with_gymnasium_for_long(policy, mode, seed):
    assert lockstep(policy, mode, 64, 10_000, seed) >= 64 * (10_000 // 201)


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("options", [{"x_init": 0.1, "y_init": 0.0}, {"x_init": 20.0}, {"y_init": 8}], ids=repr)
def test_lockstep_with_reset_options(mode, options):
    """Auto-resets go back to the defaults; the caller's options stay as they are."""
    given = dict(options)
    assert lockstep("random", mode, 16, 60, seed=6, reset_options=given, max_episode_steps=25) >= 16
    assert given == options


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"x_init": -1.0}, ValueError, "reset option 'x_init': expected a number >= 0, got -1.0"),
        ({"y_init": np.nan}, ValueError, "reset option 'y_init': expected a number, got nan"),
        ({"y_init": "a"}, TypeError, "reset option 'y_init': expected one float64, got 'a'"),
        ({"x_ini": 1.0}, ValueError, "unknown key 'x_ini'; did you mean 'x_init'"),
    ],
)
def test_wrong_reset_options(options, error, message):
    """Gymnasium's draw refuses negative ones too, without their name."""
    envs = vecenv.make_vec("Pendulum-v1", 2)
    before, _ = envs.reset(seed=1)
    with pytest.raises(error, match=message):
        envs.reset(options=options)
    assert_same_bits(envs.observe(), before)


def test_portable_is_within_one_ulp_of_gymnasium():
    """One step from 100,000 states, angles of several turns included. A reward is a float64, and x * x is for pow and
    powf there: that is 1e-15 of its size, and a float32 ulp (2**-31) of the torque's share, which is up to 0.004."""
    n = 100_000
    rng = np.random.default_rng(2024)
    theta, theta_dot = rng.uniform(-30, 30, n), rng.uniform(-8, 8, n)
    theta[:1000] = np.repeat(np.arange(-5, 5) * np.pi, 100)  # upright and hanging
    theta_dot[1000:2000] = rng.choice([-8.0, 8.0, 0.0], 1000)
    actions = strong(theta, rng)
    oracle = gymnasium.make("Pendulum-v1").unwrapped
    oracle.reset(seed=0)
    expected, expected_rewards = np.empty((n, 3), np.float32), np.empty(n)
    for i in range(n):
        oracle.state = np.array([theta[i], theta_dot[i]])
        expected[i], expected_rewards[i], *_ = oracle.step(actions[i])
    for math in ("portable", "libm"):
        envs = vecenv.make_vec("Pendulum-v1", n, autoreset_mode="disabled", math=math)
        envs.reset(seed=0)
        envs.state.theta, envs.state.theta_dot = theta, theta_dot
        obs, rewards, terminated, truncated, _ = envs.step(actions)
        assert not terminated.any() and not truncated.any()
        if math == "libm":
            assert_same_bits(obs, expected)
            assert_same_bits(rewards, expected_rewards)
        else:
            assert ulps_apart(obs, expected).max() <= 1
            np.testing.assert_allclose(rewards, expected_rewards, rtol=1e-15, atol=2**-31)


def started(theta, theta_dot, **options):
    view = vecenv.make("Pendulum-v1", **options)
    view.reset(seed=0)
    view.state.theta, view.state.theta_dot = theta, theta_dot
    return view


@pytest.mark.nojit
@pytest.mark.parametrize(
    "theta, theta_dot, torque, reward, velocity",
    [
        (0.0, 0.0, 0.0, 0.0, 0.0),
        (0.0, 0.0, 2.0, -0.004, 0.3),
        (0.0, 0.0, -5.0, -0.004, -0.3),  # cut off to -2
        (np.pi / 2, 0.0, 0.0, -((np.pi / 2) ** 2), 0.75),
        (np.pi, 8.0, 2.0, -16.2736044, 8.0),  # the worst
        (5 * np.pi / 2, 1.0, 0.0, -((np.pi / 2) ** 2 + 0.1), 1.75),
    ],
)
def test_one_step(theta, theta_dot, torque, reward, velocity):
    view = started(theta, theta_dot)
    obs, got, terminated, truncated, _ = view.step(np.array([torque], np.float32))
    assert got == pytest.approx(reward, abs=1e-7) and not terminated and not truncated
    assert float(view.state.theta_dot) == pytest.approx(velocity, abs=1e-7)
    angle = theta + 0.05 * velocity
    np.testing.assert_allclose(obs, np.float32([np.cos(angle), np.sin(angle), velocity]), atol=1e-6)


@pytest.mark.nojit
@pytest.mark.parametrize(
    "start, torque, reward, after",
    [
        ((0.0, 0.0), 2.0, -0.004, (np.cos(0.015), np.sin(0.015), 0.3)),
        ((np.pi, 0.0), 0.0, -9.8696044, (-1.0, 0.0, 0.0)),
        ((0.0, 8.0), 2.0, -6.404, (0.921061, 0.38941833, 8.0)),
    ],
)
def test_rewards_are_of_the_state_before_the_step(start, torque, reward, after):
    """Case C154: upright, hanging, and at full speed."""
    obs, got, *_ = started(*start).step(np.array([torque], np.float32))
    assert got == pytest.approx(reward, abs=5.1e-8)
    np.testing.assert_allclose(obs, after, rtol=0, atol=1e-6)


def test_observations_lie_on_the_circle():
    """Case C154: 10,000 of them."""
    envs = vecenv.make_vec("Pendulum-v1", 50, autoreset_mode="same_step")
    envs.action_space.seed(1)
    obs, _ = envs.reset(seed=1)
    for _ in range(200):
        assert np.abs(np.square(obs[:, :2].astype(np.float64)).sum(axis=1) - 1).max() < 1e-6
        obs, *_ = envs.step(envs.action_space.sample())


@pytest.mark.nojit
@pytest.mark.parametrize(
    "mode, ends, resets",
    [
        ("next_step", [4, 9, 14, 19], [5, 10, 15, 20]),
        ("same_step", [4, 8, 12, 16, 20], []),
        ("disabled", [4, 8, 12, 16, 20], []),
    ],
)
def test_periods_of_a_limit_of_four(mode, ends, resets):
    """Case C004: 20 calls; under NEXT_STEP every fifth only resets, for a reward of exactly 0."""
    envs = vecenv.make_vec("Pendulum-v1", 1, autoreset_mode=mode, max_episode_steps=4)
    assert envs.metadata["autoreset_mode"] is AutoresetMode[mode.upper()]
    envs.reset(seed=0)
    calls = []
    for _ in range(20):
        calls.append([float(part[0]) for part in envs.step(np.array([[1.0]], np.float32))[1:4]])
        if mode == "disabled" and calls[-1][2]:
            envs.reset(options={"reset_mask": np.array([True])})
    assert [call for call, (_, _, truncated) in enumerate(calls, 1) if truncated] == ends
    assert [call for call, (reward, _, _) in enumerate(calls, 1) if reward == 0] == resets
    assert not any(terminated for _, terminated, _ in calls)


@pytest.mark.nojit
def test_the_action_of_a_row_about_to_be_reset_is_ignored():
    """Case C005: not a number for row 0, which is reset; row 1 moves as it does in a batch without it."""
    envs, alone = vecenv.make_vec("Pendulum-v1", 2), vecenv.make_vec("Pendulum-v1", 1)
    envs.reset(seed=0, options={"state": {"elapsed": [199, 0]}})
    alone.reset(seed=1)
    torques = [[[0.5], [0.5]], [[np.nan], [1.5]], *[[[-1.0], [2.0]]] * 10]
    for call, torque in enumerate(torques):
        obs, rewards, _, truncated, _ = envs.step(np.array(torque, np.float32))
        expected, expected_rewards, *_ = alone.step(np.array(torque[1:], np.float32))
        assert np.isfinite(obs).all() and truncated.tolist() == [call == 0, False]
        assert (rewards[0] == 0) == (call == 1)
        assert_same_bits(obs[1:], expected)
        assert_same_bits(rewards[1:], expected_rewards)
    assert envs.state.elapsed.tolist() == [10, 12]


def test_starts():
    """Uniform: the angle between -pi and pi, the velocity between -1 and 1."""
    envs = vecenv.make_vec("Pendulum-v1", 20_000)
    envs.reset(seed=3)
    for values, bound in ((envs.state.theta, np.pi), (envs.state.theta_dot, 1.0)):
        assert np.abs(values).max() <= bound and abs(values.mean()) < 5 * bound / np.sqrt(3 * 20_000)
        assert values.std() == pytest.approx(bound / np.sqrt(3), rel=0.02)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"g": None}, TypeError, "g: expected a number, got None"),
        ({"g": np.inf}, ValueError, "g: expected a finite number, got inf"),
        ({"gravity": 9.81}, TypeError, "unknown option 'gravity'"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        vecenv.make_vec("Pendulum-v1", 2, **options)


@pytest.mark.parametrize("id", ["Pendulum-v0", "vecenv/Pendulum-v0"])
def test_the_old_version_is_out_of_date(id):
    """As for `gymnasium.make`, which warns as well."""
    with pytest.raises(gymnasium.error.DeprecatedEnv, match=f"'{id}' is out of date; use 'Pendulum-v1'"):
        vecenv.make_vec(id, 2)
    with pytest.warns(DeprecationWarning, match="out of date"), pytest.raises(gymnasium.error.DeprecatedEnv):
        gymnasium.make(id)
