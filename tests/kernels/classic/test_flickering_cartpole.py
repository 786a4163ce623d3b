"""FlickeringCartPole against CartPole, which is in lockstep with Gymnasium, and NumPy's own random streams."""

import numpy as np
import pytest
from oracle import assert_mean, assert_same_bits

import vecenv
from vecenv.kernels.classic.flickering_cartpole import chances


@pytest.mark.parametrize("options", [{}, {"blank_probability": 0.2, "mean_run": 4}], ids=repr)
def test_cartpole_with_blanks(options):
    """The first episodes of seeded rows are CartPole's, and blank by one more draw per observation."""
    n = 12
    flickering = vecenv.make_vec("FlickeringCartPole-v0", n, autoreset_mode="disabled", ended="absorb", **options)
    full = vecenv.make_vec("CartPole-v1", n, autoreset_mode="disabled", ended="absorb")
    obs, full_obs = flickering.reset(seed=4)[0], full.reset(seed=4)[0]
    rngs = [np.random.default_rng(4 + i) for i in range(n)]
    for rng in rngs:
        rng.uniform(size=4)
    p, run = options.get("blank_probability", 0.5), options.get("mean_run")
    blank = np.array([rng.random() < p for rng in rngs])
    ended = np.zeros(n, bool)
    policy, seen = np.random.default_rng(0), 0
    for _ in range(60):
        assert_same_bits(obs, np.where(blank[:, np.newaxis], np.float32(0), full_obs))
        seen += int((~ended).sum())
        actions = policy.integers(2, size=n)
        obs, *rest, _ = flickering.step(actions)
        full_obs, *full_rest, _ = full.step(actions)
        for got, expected in zip(rest, full_rest, strict=True):
            assert_same_bits(got, expected)
        for i in np.flatnonzero(~ended):
            enter, stay = (p, p) if run is None else (p / (run * (1 - p)), 1 - 1 / run)
            blank[i] = rngs[i].random() < (stay if blank[i] else enter)
        ended = rest[1] | rest[2]
    assert seen > 10 * n


@pytest.mark.nojit
def test_probabilities_of_runs():
    """Reference systems 6.7."""
    assert chances(0.5, 4) == {"first": 0.5, "begin": 0.25, "stay": 0.75}
    assert chances(0.2, 4)["begin"] == pytest.approx(0.0625, abs=1e-15)
    assert chances(0.3, None) == {"first": 0.3, "begin": 0.3, "stay": 0.3}


@pytest.mark.parametrize("p, mean_run", [(0.5, None), (0.5, 4), (0.2, 4)])
def test_share_and_length_of_runs(p, mean_run):
    """Runs that have begun and ended within 200 steps of chains that never end: means within 4.5 standard errors, but
    for the longest runs, which are cut off with probability 0.75^150."""
    n, num_steps = 2000, 200
    options = {} if mean_run is None else {"mean_run": mean_run}
    params = {"x_threshold": 1e9, "theta_threshold": 1e9}
    envs = vecenv.make_vec(
        "FlickeringCartPole-v0", n, max_episode_steps=-1, params=params, blank_probability=p, **options
    )
    envs.reset(seed=1)
    blank = np.empty((num_steps, n), bool)
    for t in range(num_steps):
        blank[t] = envs.state.blank
        envs.step(np.full(n, t % 2))
    assert_mean(blank.mean(0), p)
    assert_mean(blank[0].astype(float), p)
    runs = []
    for row in blank.T:
        changes = np.flatnonzero(np.diff(row.astype(int))) + 1
        starts = [c for c in changes if row[c] and c < 50]
        runs += [int(changes[changes > c][0] - c) for c in starts]
    assert_mean(np.array(runs), mean_run or 1 / (1 - p))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"blank_probability": 1.1}, "blank_probability: expected a probability from 0 to 1, got 1.1"),
        ({"mean_run": 0.5}, "mean_run: expected at least 1 step, got 0.5"),
        ({"mean_run": 2, "blank_probability": 0.0}, "blank_probability: expected a number between 0 and 1"),
        ({"mean_run": 2, "blank_probability": 0.9}, "needs runs of 9 or more steps, got 2"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        vecenv.make_vec("FlickeringCartPole-v0", 2, **options)
