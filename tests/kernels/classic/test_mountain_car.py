"""MountainCar against Gymnasium 1.4.0's MountainCar-v0: bit for bit with `math="libm"`, within one float32 ulp per step
otherwise."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from oracle import assert_lockstep, assert_same_bits, assert_same_ends, sync_vector_env, ulps_apart

import vecenv

BOTH = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)


def swing(obs, rng):
    """Push where the car is going, which reaches the goal; now and then at random."""
    return np.where(rng.random(len(obs)) < 0.1, rng.integers(3, size=len(obs)), np.where(obs[:, 1] < 0, 0, 2))


POLICIES = {"random": None, "swing": swing}
VARIANTS = {
    "default": {},
    "goal velocity": {"goal_velocity": 0.03},
    "out of reach": {"goal_velocity": 0.071},
    "short": {"max_episode_steps": 90},
}


def lockstep(variant, policy, mode, num_envs, num_steps, seed, reset_options=None):
    options = VARIANTS[variant]
    envs = vecenv.make_vec("MountainCar-v0", num_envs, autoreset_mode=mode, math="libm", **options)
    oracle = sync_vector_env("MountainCar-v0", num_envs, mode, **options)
    return assert_lockstep(envs, oracle, num_steps, seed, reset_options, POLICIES[policy])


@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("policy", POLICIES)
def test_lockstep_with_gymnasium(policy, mode):
    """Random play ends at the limit of 200 only."""
    assert lockstep("default", policy, mode, 16, 1000, seed=0) > (100 if policy == "swing" else 60)


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("variant", list(VARIANTS)[1:])
def test_lockstep_with_options(variant, mode):
    """Masked resets under DISABLED let few rows get to an end."""
    assert lockstep(variant, "swing", mode, 16, 250, seed=1) >= (0 if mode is AutoresetMode.DISABLED else 16)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("policy", POLICIES)
def test_lockstep_with_gymnasium_for_long(policy, mode, seed):
    assert lockstep("default", policy, mode, 64, 10_000, seed) >= 64 * (10_000 // 201)


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize(
    "options", [{"low": -0.9, "high": 0.4}, {"low": 0.49}, {"high": -1.5}, {"high": 0.6}], ids=repr
)
def test_lockstep_with_reset_options(mode, options):
    """Auto-resets go back to the default bounds; the caller's options stay as they are."""
    given = dict(options)
    if options.get("low", -0.6) > options.get("high", -0.4):
        with pytest.raises(ValueError, match="expected low <= high"):
            lockstep("default", "swing", mode, 16, 1, seed=6, reset_options=given)
        return
    assert lockstep("default", "swing", mode, 16, 150, seed=6, reset_options=given) >= 4
    assert given == options


def test_portable_is_within_one_ulp_of_gymnasium():
    """One step from 100,000 states: at random, at the wall, at full speed and around the goal. No flag differs."""
    n = 100_000
    rng = np.random.default_rng(2024)
    position, velocity = rng.uniform(-1.2, 0.6, n), rng.uniform(-0.07, 0.07, n)
    position[:1000], velocity[1000:2000] = -1.2, rng.choice([-0.07, 0.07, 0.0], 1000)
    position[2000:9000] = rng.uniform(0.45, 0.52, 7000)
    position[9000:9500] = 0.6
    actions = rng.integers(3, size=n)
    oracle = gymnasium.make("MountainCar-v0").unwrapped
    oracle.reset(seed=0)
    expected, expected_terminated = np.empty((n, 2), np.float32), np.empty(n, np.bool_)
    for i in range(n):
        oracle.state = np.array([position[i], velocity[i]])
        expected[i], reward, expected_terminated[i], _, _ = oracle.step(actions[i])
        assert reward == -1
    for math, allowed in (("portable", 1), ("libm", 0)):
        envs = vecenv.make_vec("MountainCar-v0", n, autoreset_mode="disabled", math=math)
        envs.reset(seed=0)
        envs.state.position, envs.state.velocity = position, velocity
        obs, rewards, terminated, truncated, _ = envs.step(actions)
        assert ulps_apart(obs, expected).max() <= allowed
        assert (rewards == -1).all() and not truncated.any()
        assert_same_bits(terminated, expected_terminated)
        assert 0.03 < terminated.mean() < 0.2


def test_portable_ends_when_gymnasium_does():
    """Case C104: 1000 seeds, the same start and actions: all episodes end on the same step, at the goal."""
    assert assert_same_ends("MountainCar-v0", 1000, swing) > 900


def started(position, velocity, **options):
    view = vecenv.make("MountainCar-v0", **options)
    view.reset(seed=0)
    view.state.position, view.state.velocity = position, velocity
    return view


@pytest.mark.nojit
@pytest.mark.parametrize(
    "position, velocity, action, after",
    [
        (-1.19, -0.05, 0, (-1.2, 0.0)),  # the wall stops the car
        (-np.pi / 6, 0.0, 2, (-np.pi / 6 + 0.001, 0.001)),  # cos(3 x) is 0 at the bottom
        (-np.pi / 6, 0.0, 1, (-np.pi / 6, 0.0)),
        (-np.pi / 6, 0.07, 2, (-np.pi / 6 + 0.07, 0.07)),
        (0.0, 0.0, 1, (-0.0025, -0.0025)),
        (0.59, 0.07, 2, (0.6, 0.07)),
    ],
)
def test_one_step(position, velocity, action, after):
    obs, reward, *_ = started(position, velocity).step(action)
    np.testing.assert_allclose(obs, np.float32(after), rtol=1e-6, atol=1e-12)
    assert reward == -1


@pytest.mark.nojit
@pytest.mark.parametrize(
    "start, action, after, terminated",
    [
        ((0.49, 0.06), 2, (0.5507484, 0.06074844), True),
        ((-0.5, 0.0), 2, (-0.49917683, 0.00082316), False),
        ((-1.199, -0.05), 0, (-1.2, 0.0), False),
    ],
)
def test_a_step_costs_1_at_the_goal_too(start, action, after, terminated):
    """Case C133: a goal, a push from rest, and the wall."""
    obs, *rest = started(*start).step(action)
    np.testing.assert_allclose(obs, after, rtol=0, atol=5.1e-8)
    assert rest == [-1.0, terminated, False, {}]


@pytest.mark.nojit
@pytest.mark.parametrize("goal_velocity, terminated", [(0.0, True), (0.02, True), (0.03, False)])
def test_the_goal_asks_for_a_velocity(goal_velocity, terminated):
    assert started(0.49, 0.025, goal_velocity=goal_velocity).step(1)[2] is terminated


def test_idling_lasts_200_steps():
    """Case C025: no action, 64 rows that masked resets bring out of step; every episode that is left alone has 200."""
    envs = vecenv.make_vec("MountainCar-v0", 64, autoreset_mode="same_step")
    rng = np.random.default_rng(0)
    envs.reset(seed=0)
    ends = 0
    age = np.zeros(64, np.int64)
    for _ in range(1000):
        _, _, terminated, truncated, _ = envs.step(np.ones(64, np.int64))
        age += 1
        assert not terminated.any()
        assert_same_bits(truncated, age == 200)
        assert (envs.episode_returns[truncated] == -200).all()
        ends += int(truncated.sum())
        mask = rng.random(64) < 0.002
        if mask.any():
            envs.reset(options={"reset_mask": mask})
        age[truncated | mask] = 0
    assert ends > 100


def test_start_positions():
    """Uniform from -0.6 to -0.4, at rest: mean -0.5 and deviation 0.2 / sqrt(12), within five standard errors."""
    obs, _ = vecenv.make_vec("MountainCar-v0", 20_000).reset(seed=3)
    assert (obs[:, 1] == 0).all() and obs[:, 0].min() >= np.float32(-0.6) and obs[:, 0].max() <= np.float32(-0.4)
    assert abs(obs[:, 0].mean() + 0.5) < 5 * 0.0577 / np.sqrt(20_000)
    assert abs(obs[:, 0].std() - 0.2 / np.sqrt(12)) < 0.001


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"goal_velocity": "fast"}, TypeError, "goal_velocity: expected a number, got 'fast'"),
        ({"goal_velocity": np.nan}, ValueError, "goal_velocity: expected a finite number, got nan"),
        ({"goal_speed": 0.0}, TypeError, "unknown option 'goal_speed'; did you mean 'goal_velocity'"),
        ({"params": {"goal_velocity": 0.0}}, ValueError, "'goal_velocity' follows from the options"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        vecenv.make_vec("MountainCar-v0", 2, **options)
