"""MaskedCartPole against CartPole, which is in lockstep with Gymnasium, and reference systems 6.5."""

import numpy as np
import pytest
from oracle import assert_same_bits

import vecenv


@pytest.mark.parametrize("options", [{}, {"integrator": "semi_implicit", "last_step_reward": "zero"}], ids=repr)
def test_position_and_angle_of_cartpole(options):
    masked = vecenv.make_vec("MaskedCartPole-v0", 16, autoreset_mode="same_step", max_episode_steps=30, **options)
    full = vecenv.make_vec("CartPole-v1", 16, autoreset_mode="same_step", max_episode_steps=30, **options)
    assert_same_bits(masked.reset(seed=3)[0], full.reset(seed=3)[0][:, [0, 2]])
    rng = np.random.default_rng(0)
    num_ended = 0
    for _ in range(300):
        actions = rng.integers(2, size=16)
        obs, *rest, infos = masked.step(actions)
        full_obs, *full_rest, full_infos = full.step(actions)
        assert_same_bits(obs, full_obs[:, [0, 2]])
        for got, expected in zip(rest, full_rest, strict=True):
            assert_same_bits(got, expected)
        if "final_obs" in infos:
            assert_same_bits(infos["final_obs"], full_infos["final_obs"][:, [0, 2]])
            num_ended += int(infos["_final_obs"].sum())
    assert num_ended > 100


@pytest.mark.nojit
def test_thrusts_numbers():
    """Semi-implicit steps of reference systems 6.5, and no reward for the last step."""
    view = vecenv.make("MaskedCartPole-v0", integrator="semi_implicit", last_step_reward="zero")

    def start():
        view.reset(seed=0, options={"low": 0.0, "high": 0.0})

    start()
    view.step(1)
    state = view.state
    got = [state.x, state.x_dot, state.theta, state.theta_dot]
    assert got == pytest.approx([0.0039024390, 0.1951219512, -0.0058536585, -0.2926829268], abs=5e-11)
    obs = view.step(1)[0]
    assert obs == pytest.approx([0.0117089765, -0.0175977837], abs=1e-8)
    for actions, end in (([1, 1], 8), ([0, 1], 31)):
        start()
        rewards = []
        terminated = False
        while not terminated:
            _, reward, terminated, _, _ = view.step(actions[len(rewards) % 2])
            rewards.append(reward)
        assert rewards == [1.0] * (end - 1) + [0.0]


def test_wrong_options():
    with pytest.raises(ValueError, match="integrator is one of euler, semi_implicit, got 'rk4'"):
        vecenv.make_vec("MaskedCartPole-v0", 2, integrator="rk4")
    with pytest.raises(ValueError, match="expected low <= high"):
        vecenv.make_vec("MaskedCartPole-v0", 2).reset(options={"low": 1.0, "high": 0.0})
