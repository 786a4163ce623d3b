"""ContinuousLqr against a slow model in plain Python and the numbers of reference systems 1.3."""

import numpy as np
import pytest
from oracle import assert_follows

import vecenv


class Slow:
    def reset(self, rng):
        self.x, self.v = 0.5, 0.0

    def step(self, action, rng):
        force = min(max(float(action[0]), -1.0), 1.0)
        self.v += force - 0.1 * self.v
        self.x += self.v
        return -(self.x * self.x) - 0.01 * (force * force), False

    def obs(self):
        return [self.x, self.v]


def test_as_the_slow_model():
    """Forces beyond the bounds are clipped."""
    envs = vecenv.make_vec("ContinuousLqr-v0", 4, autoreset_mode="same_step")
    forces = assert_follows(
        envs, Slow, 160, seed=0, choose=lambda rng: rng.uniform(-1.5, 1.5, (4, 1)).astype(np.float32)
    )
    assert forces == 12  # three limits of four rows


@pytest.mark.nojit
def test_fifty_times_nothing():
    """Worked example 12: -12.5, truncated at 0.5."""
    view = vecenv.make("ContinuousLqr-v0")
    view.reset(seed=0)
    results = [view.step(np.zeros(1, np.float32)) for _ in range(50)]
    assert [result[2:4] for result in results] == [(False, False)] * 49 + [(False, True)]
    assert view.envs.episode_returns[0] == pytest.approx(-12.5, abs=1e-12) and view.state.position == 0.5


def gains(num_steps):
    """Of the best linear policy, first step first, by the Riccati recursion."""
    a, b = np.array([[1, 0.9], [0, 0.9]]), np.array([[1.0], [1.0]])
    cost, value, result = np.diag([1.0, 0.0]), np.zeros((2, 2)), []
    for _ in range(num_steps):
        ahead = cost + value  # the reward is that of the state after the step
        gain = np.linalg.solve(0.01 + b.T @ ahead @ b, b.T @ ahead @ a)
        value = a.T @ ahead @ (a - b @ gain)
        result.append(gain[0])
    return result[::-1]


def test_the_best_return():
    """Worked example 12. Actions are float32."""
    view = vecenv.make("ContinuousLqr-v0")
    view.reset(seed=0)
    best = gains(50)
    assert best[0] == pytest.approx([0.9746, 0.8915], abs=5e-5)
    for gain in best:
        state = np.array([view.state.position, view.state.velocity])
        view.step(np.array([-gain @ state], np.float32))
    assert view.envs.episode_returns[0] == pytest.approx(-0.0043353058, abs=5e-11)
