"""MountainCarContinuous against Gymnasium 1.4.0's MountainCarContinuous-v0: bit for bit with `math="libm"`, within one
float32 ulp per step otherwise. The numbers are NumPy 2's, whose float32 scalars keep their type beside Python's."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from oracle import assert_lockstep, assert_same_bits, sync_vector_env, ulps_apart

import vecenv

BOTH = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)


def swing(obs, rng):
    """Push where the car is going, which reaches the goal; pushes outside the range, both bounds and zeros of both
    signs among them."""
    pushes = np.where(obs[:, 1:] < 0, -1.0, 1.0) * rng.uniform(0.4, 1.6, (len(obs), 1))
    exact = rng.choice([-1.0, 1.0, 0.0, -0.0, 1.0000001, -30.0], (len(obs), 1))
    return np.where(rng.random((len(obs), 1)) < 0.1, exact, pushes).astype(np.float32)


POLICIES = {"random": None, "swing": swing}
VARIANTS = {
    "default": {},
    "goal velocity": {"goal_velocity": 0.03, "max_episode_steps": 150},
    "full speed": {"goal_velocity": 0.07, "max_episode_steps": 150},
    "out of reach": {"goal_velocity": np.nextafter(0.07, 1).item(), "max_episode_steps": 150},
    "backwards": {"goal_velocity": -1, "max_episode_steps": 100},
}


def lockstep(variant, policy, mode, num_envs, num_steps, seed, reset_options=None):
    options = VARIANTS[variant]
    envs = vecenv.make_vec("MountainCarContinuous-v0", num_envs, autoreset_mode=mode, math="libm", **options)
    oracle = sync_vector_env("MountainCarContinuous-v0", num_envs, mode, **options)
    return assert_lockstep(envs, oracle, num_steps, seed, reset_options, POLICIES[policy])


@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("policy", POLICIES)
def test_lockstep_with_gymnasium(policy, mode):
    """Random play ends at the limit of 999 only."""
    assert lockstep("default", policy, mode, 16, 1000, seed=0) >= (100 if policy == "swing" else 16)


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("variant", list(VARIANTS)[1:])
def test_lockstep_with_options(variant, mode):
    """Masked resets under DISABLED let few rows get to an end."""
    assert lockstep(variant, "swing", mode, 16, 200, seed=1) >= (0 if mode is AutoresetMode.DISABLED else 16)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("policy", POLICIES)
def test_lockstep_with_gymnasium_for_long(policy, mode, seed):
    assert lockstep("default", policy, mode, 64, 10_000, seed) >= 64 * (10_000 // 1000)


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("options", [{"low": -1.19, "high": 0.44}, {"high": 0.6}, {"low": -2, "high": -1.3}], ids=repr)
def test_lockstep_with_reset_options(mode, options):
    """Auto-resets go back to the default bounds; the caller's options stay as they are."""
    given = dict(options)
    assert lockstep("default", "swing", mode, 16, 150, seed=6, reset_options=given) > 0
    assert given == options


def random_states(n, rng):
    """At random, at the wall, at full speed and around the goal."""
    position, velocity = rng.uniform(-1.2, 0.6, n), rng.uniform(-0.07, 0.07, n)
    position[:1000], velocity[1000:3000] = -1.2, rng.choice([-0.07, 0.07, 0.0], 2000)
    position[2000:9000] = rng.uniform(0.38, 0.47, 7000)
    position[9000:9500] = 0.6
    position[9500:9600], velocity[9500:9600] = 0.45 - 0.07, 0.07
    return position, velocity


@pytest.mark.parametrize("first", [False, True], ids=["later", "first"])
def test_portable_is_within_one_ulp_of_gymnasium(first):
    """One step from 100,000 states; the first step of an episode starts from float64. No flag and no reward differs."""
    n = 100_000
    rng = np.random.default_rng(2024)
    position, velocity = random_states(n, rng)
    if not first:
        position, velocity = (values.astype(np.float32).astype(np.float64) for values in (position, velocity))
    actions = np.where(
        rng.random((n, 1)) < 0.3, swing(np.stack([position, velocity], 1), rng), rng.uniform(-1, 1, (n, 1))
    )
    actions = actions.astype(np.float32)
    oracle = gymnasium.make("MountainCarContinuous-v0").unwrapped
    oracle.reset(seed=0)
    expected, expected_terminated = np.empty((n, 2), np.float32), np.empty(n, np.bool_)
    expected_rewards = np.empty(n)
    for i in range(n):
        oracle.state = np.array([position[i], velocity[i]], np.float64 if first else np.float32)
        expected[i], expected_rewards[i], expected_terminated[i], *_ = oracle.step(actions[i])
    for math, allowed in (("portable", 1), ("libm", 0)):
        envs = vecenv.make_vec("MountainCarContinuous-v0", n, autoreset_mode="disabled", math=math)
        envs.reset(seed=0)
        envs.state.position, envs.state.velocity = position, velocity
        envs.state.elapsed = 0 if first else 1
        obs, rewards, terminated, truncated, _ = envs.step(actions)
        assert ulps_apart(obs, expected).max() <= allowed
        assert not truncated.any()
        assert_same_bits(terminated, expected_terminated)
        assert_same_bits(rewards, expected_rewards)
        assert 0.03 < terminated.mean() < 0.3


def started(position, velocity, **options):
    view = vecenv.make("MountainCarContinuous-v0", **options)
    view.reset(seed=0)
    view.state.position, view.state.velocity = position, velocity
    return view


@pytest.mark.nojit
@pytest.mark.parametrize(
    "position, velocity, push, after, reward, terminated",
    [
        (-1.19, -0.05, 0.0, (-1.2, 0.0), 0.0, False),  # the wall stops the car
        (-np.pi / 6, 0.0, 1.0, (-np.pi / 6 + 0.0015, 0.0015), -0.1, False),  # cos(3 x) is 0 at the bottom
        (-np.pi / 6, 0.0, 3.0, (-np.pi / 6 + 0.0015, 0.0015), -0.9, False),
        (0.0, 0.0, 0.0, (-0.0025, -0.0025), 0.0, False),
        (0.43, 0.04, 0.5, (0.47004, 0.04004), 99.975, True),
    ],
)
def test_one_step(position, velocity, push, after, reward, terminated):
    view = started(position, velocity)
    obs, got, ended, _, _ = view.step(np.array([push], np.float32))
    np.testing.assert_allclose(obs, np.float32(after), rtol=1e-3, atol=1e-9)
    assert got == pytest.approx(reward, abs=1e-12) and ended is terminated


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"goal_velocity": "fast"}, TypeError, "goal_velocity: expected a number, got 'fast'"),
        ({"goal_speed": 0.0}, TypeError, "unknown option 'goal_speed'; did you mean 'goal_velocity'"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        vecenv.make_vec("MountainCarContinuous-v0", 2, **options)
