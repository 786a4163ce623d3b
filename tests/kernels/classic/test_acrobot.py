"""Acrobot against Gymnasium 1.4.0's Acrobot-v1: with `math="libm"` bit for bit, but for the observations of resets, of
which NumPy computes sine and cosine in float32 (within one ulp); within one float32 ulp per step otherwise."""

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import acrobot as source
from gymnasium.vector import AutoresetMode
from oracle import assert_lockstep, assert_same_bits, assert_same_ends, sync_vector_env, ulps_apart

import vecenv
from vecenv.kernels.classic.acrobot import wrap

BOTH = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)
STATE = ("theta1", "theta2", "theta1_dot", "theta2_dot")


def swing(obs, rng):
    """Pump energy in with the second link, which reaches the goal; now and then at random."""
    return np.where(rng.random(len(obs)) < 0.1, rng.integers(3, size=len(obs)), np.where(obs[:, 4] < 0, 2, 0))


POLICIES = {"random": None, "swing": swing}
#: Options and params of ours, and the attributes of Gymnasium's environment that mean the same.
VARIANTS = {
    "default": ({}, {}, {}),
    "nips": ({"book_or_nips": "nips"}, {}, {"book_or_nips": "nips"}),
    "noise": ({"torque_noise_max": 0.7}, {}, {"torque_noise_max": 0.7}),
    "links": (
        {},
        {"link_length_1": 1.1, "link_mass_1": 0.8, "link_mass_2": 1.3, "link_com_pos_1": 0.45, "link_moi": 0.9},
        {"LINK_LENGTH_1": 1.1, "LINK_MASS_1": 0.8, "LINK_MASS_2": 1.3, "LINK_COM_POS_1": 0.45, "LINK_MOI": 0.9},
    ),
    "time step": ({}, {"dt": 0.05, "link_com_pos_2": 0.55}, {"dt": 0.05, "LINK_COM_POS_2": 0.55}),
}


def lockstep(variant, policy, mode, num_envs, num_steps, seed, reset_options=None, **limit):
    options, params, attributes = VARIANTS[variant]
    envs = vecenv.make_vec("Acrobot-v1", num_envs, autoreset_mode=mode, math="libm", params=params, **options, **limit)
    oracle = sync_vector_env("Acrobot-v1", num_envs, mode, **limit)
    for env in oracle.envs:
        for name, value in attributes.items():
            assert hasattr(env.unwrapped, name)
            setattr(env.unwrapped, name, value)
    return assert_lockstep(envs, oracle, num_steps, seed, reset_options, POLICIES[policy], loose_resets=True)


@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
def test_lockstep_with_gymnasium(mode):
    assert lockstep("default", "swing", mode, 16, 1000, seed=0) > 100


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("variant", VARIANTS)
def test_lockstep_with_options(variant, mode):
    assert lockstep(variant, "random", mode, 8, 100, seed=1, max_episode_steps=30) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("policy", POLICIES)
def test_lockstep_with_gymnasium_for_long(policy, mode, seed):
    assert lockstep("default", policy, mode, 64, 10_000, seed) >= 64 * (10_000 // 501)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("variant", list(VARIANTS)[1:])
def test_lockstep_of_variants_for_long(variant, seed):
    assert lockstep(variant, "swing", AutoresetMode.NEXT_STEP, 64, 2000, seed) > 64


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("options", [{"low": -3.0, "high": 3.0}, {"high": -0.1}], ids=repr)
def test_lockstep_with_reset_options(mode, options):
    """Auto-resets go back to the default bounds; the caller's options stay as they are."""
    given = dict(options)
    assert lockstep("default", "swing", mode, 16, 60, seed=6, reset_options=given, max_episode_steps=25) >= 16
    assert given == options


def stepped_by_gymnasium(states, actions):
    oracle = gymnasium.make("Acrobot-v1").unwrapped
    oracle.reset(seed=0)
    n = len(states)
    obs, rewards, terminated = np.empty((n, 6), np.float32), np.empty(n), np.empty(n, np.bool_)
    for i in range(n):
        oracle.state = states[i]
        obs[i], rewards[i], terminated[i], *_ = oracle.step(actions[i])
    return obs, rewards, terminated


@pytest.mark.parametrize("n", [50, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("math, max_steps", [("portable", 120), ("libm", None)])
def test_ends_when_gymnasium_does(math, max_steps, n):
    """Case C104: seeds 0 to n - 1, the same start and actions: all episodes end on the same step, at the goal. The
    motion is chaotic: from about step 150 on portable arithmetic goes a way of its own, and 2 of 1000 episodes, of 206
    and 319 steps, end on other steps than Gymnasium's."""
    assert assert_same_ends("Acrobot-v1", n, swing, max_steps=max_steps, math=math) > 0.9 * n


@pytest.mark.parametrize("n", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_portable_is_within_one_ulp_of_gymnasium(n):
    """One step from random states, at full speeds and at those that play reaches. No flag differs."""
    rng = np.random.default_rng(2024)
    states = rng.uniform(-1, 1, (n, 4)) * [np.pi, np.pi, 4 * np.pi, 9 * np.pi]
    states[: n // 2, 2:] *= 0.2  # what play reaches
    actions = rng.integers(3, size=n)
    expected, expected_rewards, expected_terminated = stepped_by_gymnasium(states, actions)
    for math, allowed in (("portable", 1), ("libm", 0)):
        envs = vecenv.make_vec("Acrobot-v1", n, autoreset_mode="disabled", math=math)
        envs.reset(seed=0)
        for k, name in enumerate(STATE):
            setattr(envs.state, name, states[:, k])
        obs, rewards, terminated, truncated, _ = envs.step(actions)
        assert ulps_apart(obs, expected).max() <= allowed
        assert not truncated.any()
        assert_same_bits(terminated, expected_terminated)
        assert_same_bits(rewards, expected_rewards)
        assert 0.1 < terminated.mean() < 0.5


@pytest.mark.nojit
def test_wrap_is_gymnasiums_loop():
    rng = np.random.default_rng(1)
    angles = np.concatenate([rng.uniform(-13 * np.pi, 13 * np.pi, 20_000), np.arange(-13, 14) * np.pi])
    for angle in angles:
        assert wrap(angle) == source.wrap(angle, -np.pi, np.pi)
    for angle in (1e3, -1e3, 12345.6):
        assert wrap(angle) == pytest.approx(source.wrap(angle, -np.pi, np.pi), abs=1e-9)


def test_no_step_turns_more_than_six_times(monkeypatch):
    """What `wrap` counts on: from states at the bounds of speed Gymnasium's angles before its loop stay below 13 pi."""
    angles = []
    monkeypatch.setattr(source, "wrap", lambda x, low, high: angles.append(x) or x)
    rng = np.random.default_rng(3)
    n = 3000
    states = np.concatenate([rng.uniform(-np.pi, np.pi, (n, 2)), rng.choice([-4, 4, 0], (n, 2)) * np.pi], axis=1)
    states[:, 3] *= 9 / 4
    stepped_by_gymnasium(states, rng.integers(3, size=n))
    assert len(angles) == 2 * n and 2 * np.pi < np.abs(angles).max() < 13 * np.pi


@pytest.mark.nojit
@pytest.mark.parametrize("action", [0, 1, 2])
def test_hanging_at_rest(action):
    """d1 = 4.5 and d2 = 1.75: the second link's acceleration is torque / (1.25 - 1.75**2 / 4.5)."""
    view = vecenv.make("Acrobot-v1", params={"dt": 1e-6})
    view.reset(seed=0)
    for name in STATE:
        setattr(view.state, name, 0.0)
    obs, reward, terminated, truncated, _ = view.step(action)
    expected = (action - 1) / (1.25 - 1.75**2 / 4.5) * 1e-6
    assert float(view.state.theta2_dot) == pytest.approx(expected, rel=1e-6, abs=1e-20)
    assert float(view.state.theta1_dot) == pytest.approx(-expected * 1.75 / 4.5, rel=1e-6, abs=1e-20)
    assert obs[:4].tolist() == [1, pytest.approx(0), 1, pytest.approx(0)]
    assert (reward, terminated, truncated) == (-1.0, False, False)


@pytest.mark.nojit
@pytest.mark.parametrize("theta1, theta2, reward", [(np.pi, 0.0, 0.0), (np.pi / 2, np.pi / 2, -1.0), (2.2, 0.0, 0.0)])
def test_the_goal_is_a_height(theta1, theta2, reward):
    view = vecenv.make("Acrobot-v1", params={"dt": 1e-9})
    view.reset(seed=0)
    for name, value in zip(STATE, (theta1, theta2 - 1e-6, 0.0, 0.0), strict=True):
        setattr(view.state, name, value)
    assert view.step(1)[1:3] == (reward, reward == 0)


def test_energy_is_kept_without_torque():
    """Runge-Kutta in small steps: kinetic and potential energy of the two rods, from their positions, stay put."""
    envs = vecenv.make_vec("Acrobot-v1", 100, autoreset_mode="disabled", ended="absorb", params={"dt": 0.005})
    envs.reset(seed=0, options={"low": -1.0, "high": 1.0})

    def energy():
        a, b, v, w = (np.asarray(getattr(envs.state, name)) for name in STATE)
        u = v + w
        kinetic = 0.5 * (0.25 + 1 + 1) * v**2 + 0.5 * (0.25 + 1) * u**2 + 0.5 * v * u * np.cos(b)
        return kinetic - 9.8 * (0.5 * np.cos(a) + np.cos(a) + 0.5 * np.cos(a + b))

    before = energy()
    for _ in range(300):
        envs.step(np.ones(100, np.int64))
    np.testing.assert_allclose(energy(), before, atol=1e-5)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"book_or_nips": "paper"}, ValueError, "book_or_nips is one of book, nips, got 'paper'"),
        ({"torque_noise_max": -1}, ValueError, "torque_noise_max: expected a number >= 0, got -1"),
        ({"torque_noise_max": None}, TypeError, "torque_noise_max: expected a number, got None"),
        ({"params": {"torque_noise_max": 1.0}}, ValueError, "'torque_noise_max' follows from the options"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        vecenv.make_vec("Acrobot-v1", 2, **options)
