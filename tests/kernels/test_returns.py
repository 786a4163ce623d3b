"""GAE, returns, n-step and V-trace. Oracles: published tables, and the definitions as sums, one step at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vecenv.kernels import returns

NO = (0, 0, 0, 0)


def column(values, dtype=np.float64):
    """One row over time, `[T, 1]`."""
    return np.array(values, dtype)[:, np.newaxis]


def gae(rewards, values, next_values, terminated, truncated, gamma, gae_lambda):
    """Of one row, as lists."""
    terminated, truncated = column(terminated, bool), column(truncated, bool)
    rewards, values, next_values = column(rewards), column(values), column(next_values)
    out = np.empty_like(rewards), np.empty_like(rewards)
    valid = np.ones_like(terminated)
    flags = valid, terminated, terminated | truncated
    returns.gae(rewards, *flags, values, next_values, gamma, gae_lambda, *out)
    return out[0][:, 0].tolist(), out[1][:, 0].tolist()


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("next_values", "terminated", "truncated", "expected"),
    [
        ([2, 3, 4, 5], NO, NO, [4.413312, 3.6296, 2.68, 1.5]),
        ([2, 3, 4, 5], (0, 1, 0, 0), NO, [1.08, -1, 2.68, 1.5]),
        ([2, 7, 4, 5], NO, (0, 1, 0, 0), [5.616, 5.3, 2.68, 1.5]),
    ],
    ids=["no end", "terminated", "truncated"],
)
def test_gae_with_three_endings(next_values, terminated, truncated, expected):
    advantages, targets = gae([1, 1, 1, 1], [1, 2, 3, 4], next_values, terminated, truncated, 0.9, 0.8)
    np.testing.assert_allclose(advantages, expected, rtol=1e-14)
    np.testing.assert_allclose(targets, np.add(expected, [1, 2, 3, 4]), rtol=1e-14)


@pytest.mark.nojit
def test_gae_without_values_or_discount_counts_rewards():
    assert gae([1, 1, 1], [0, 0, 0], [0, 0, 0], (0, 0, 1), (0, 0, 0), 1.0, 1.0)[0] == [3, 2, 1]


@pytest.mark.nojit
def test_gae_at_truncation_and_termination_by_case():
    c031 = gae([1, 1, 1, 1], [1, 2, 3, 4], [2, 10, 4, 5], NO, (0, 1, 0, 0), 0.5, 0.5)
    assert c031 == ([2.0, 4.0, -0.125, -0.5], [3, 6, 2.875, 3.5])
    for terminated, truncated, expected in ((1, 0, 1.0), (0, 1, 10.0), (1, 1, 1.0)):  # C034
        assert gae([1], [0], [10], [terminated], [truncated], 0.9, 0.95)[0] == [expected]
    c036 = gae([0, 0, 0, 0], [1, 1, 100, 100], [1, 1, 100, 100], NO, (0, 1, 0, 1), 1.0, 1.0)
    assert c036[0] == [0, 0, 0, 0]
    c040 = gae([0, 1, 0], [5, 5, 100], [5, 100, 100], (0, 1, 0), (0, 0, 0), 0.95, 0.95)
    np.testing.assert_allclose(c040[0], [-3.86, -4.0, -5.0], rtol=1e-14)
    for unread in (9.0, -1e9, np.nan, np.inf):  # C041, C046
        c041 = gae([1, 1, 1], [2, 2, 2], [2, 2, unread], (0, 0, 1), (0, 0, 0), 0.9, 0.5)
        np.testing.assert_allclose(c041[0], [0.9575, 0.35, -1.0], rtol=1e-14)
    c044 = gae([0, 1], [0.3, 0.6], [0.6, 0.0], (0, 1), (0, 0), 0.9, 0.0)
    np.testing.assert_allclose(c044, ([0.24, 0.40], [0.54, 1.00]), rtol=1e-14)


@pytest.mark.nojit
def test_gae_of_agents_that_end_in_the_same_step_differently():
    """C037: columns do not mix."""
    terminated, truncated = np.array([[True, False]]), np.array([[False, True]])
    values, next_values, out = np.zeros((1, 2)), np.full((1, 2), 10.0), (np.empty((1, 2)), np.empty((1, 2)))
    flags = np.ones((1, 2), bool), terminated, terminated | truncated
    returns.gae(np.ones((1, 2)), *flags, values, next_values, 0.9, 0.95, *out)
    assert out[0].tolist() == [[1.0, 10.0]]


V_TRACE = {
    (1.0, 1.0): (
        [1.9349601974, 0.9444042398, 1.1796228241, 2.2016392163],
        [1.4349601974, 0.3444042398, 0.4796228241, 1.4016392163],
    ),
    (0.5, 1.5): (
        [1.8659718836, 1.2128376703, 1.6431646095, 1.8455],
        [0.8503546468, 0.5133664817, 0.0635225, 1.0455],
    ),
}


@pytest.mark.nojit
@pytest.mark.parametrize("bars", V_TRACE)
def test_v_trace(bars):
    """The table has ten decimals."""
    values, next_values = column([0.5, 0.6, 0.7, 0.8]), column([0.6, 0.7, 0.8, 0.9])
    ratios = column(np.subtract([-0.2, -1.5, -0.4, -0.6], [-0.5, -1, -0.7, -0.2]))
    never = np.zeros((4, 1), bool)
    out = np.empty((4, 1)), np.empty((4, 1))
    rewards = column([1, 0, -1, 2])
    returns.v_trace(rewards, ~never, never, never, values, next_values, ratios, 0.99, *bars, *out)
    np.testing.assert_allclose([part[:, 0] for part in out], V_TRACE[bars], rtol=0, atol=1e-10)


def n_step(rewards, terminated, truncated, n, gamma, stop):
    """Of one row in slots 0 to `stop` - 1 of a ring."""
    terminated, truncated = column(terminated, bool), column(truncated, bool)
    out = np.empty(stop), np.empty(stop), np.empty(stop, np.int64)
    returns.n_step(column(rewards), terminated, terminated | truncated, np.arange(stop), stop, n, gamma, *out)
    return [part.tolist() for part in out]


@pytest.mark.nojit
def test_n_step_by_case():
    sums, discounts, _ = n_step([1] * 6, [0] * 6, [0] * 6, 3, 0.5, stop=5)  # C057
    assert list(zip(sums, discounts, strict=True)) == [
        (1.75, 0.125), (1.75, 0.125), (1.75, 0.125), (1.5, 0.25), (1.0, 0.5)
    ]  # fmt: skip
    sums, discounts, lasts = n_step([1, 2, 4, 100, 0], [0] * 5, [0, 0, 1, 0, 0], 3, 0.5, stop=4)  # C058
    assert [total + discount * 16 for total, discount in zip(sums[:3], discounts[:3], strict=True)] == [5.0, 8.0, 12.0]
    assert lasts[:3] == [2, 2, 2]
    sums, discounts, _ = n_step([1, 2, 4, 100, 0], [0, 0, 1, 0, 0], [0] * 5, 3, 0.5, stop=4)
    assert sums[:3] == [3.0, 4.0, 4.0] and discounts[:3] == [0.0, 0.0, 0.0]
    _, discounts, _ = n_step([1, 1, 1], [0, 1, 0], [0] * 3, 1, 0.5, stop=2)  # C061
    assert discounts == [0.5, 0.0]


# --- random flags and lengths -----------------------------------------------------------------------------------------


@st.composite
def batches(draw):
    """Random arrays `[T, N]`; some steps are not valid, where a trajectory has ended before."""
    steps, rows = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = draw(st.sampled_from([0.0, 0.2, 0.6]))
    terminated = rng.random((steps, rows)) < share
    truncated = (rng.random((steps, rows)) < share) & ~terminated
    ended = terminated | truncated
    valid = np.ones((steps, rows), bool)
    valid[1:] = ~ended[:-1] | (rng.random((steps - 1, rows)) < 0.5)
    ended &= valid
    terminated &= valid
    rewards, values, next_values, ratios = rng.normal(size=(4, steps, rows))
    next_values[:-1][~ended[:-1]] = values[1:][~ended[:-1]]
    next_values[terminated] = np.nan  # never read
    return rewards, valid, terminated, ended, values, next_values, ratios


def trajectory(t, row, valid, ended):
    """The steps from t to the end of its trajectory or of the rollout."""
    for k in range(t, len(valid)):
        yield k
        if ended[k, row] or (k + 1 < len(valid) and not valid[k + 1, row]):
            return


@settings(deadline=None, max_examples=150)
@given(batches(), st.sampled_from([0.0, 0.5, 0.97, 1.0]), st.sampled_from([0.0, 0.7, 1.0]), st.integers(1, 5))
def test_as_the_definitions(arrays, gamma, gae_lambda, n):
    """Tolerance: the sums are the same, added in another order."""
    rewards, valid, terminated, ended, values, next_values, ratios = arrays
    flags, shape = (valid, terminated, ended), rewards.shape
    after = np.where(terminated, 0.0, next_values)
    expected = {name: np.zeros(shape) for name in ("A", "R", "G", "v", "pg", "n", "discount")}
    lasts = np.zeros(shape, np.int64)
    for t, row in zip(*np.nonzero(valid), strict=True):
        steps = list(trajectory(t, row, valid, ended))
        delta = {k: rewards[k, row] + gamma * after[k, row] - values[k, row] for k in steps}
        expected["A"][t, row] = sum((gamma * gae_lambda) ** (k - t) * delta[k] for k in steps)
        expected["R"][t, row] = expected["A"][t, row] + values[t, row]
        expected["G"][t, row] = sum(gamma ** (k - t) * rewards[k, row] for k in steps)
        expected["G"][t, row] += gamma ** len(steps) * after[steps[-1], row]
        rho, c = np.minimum(1.2, np.exp(ratios[:, row])), np.minimum(0.9, np.exp(ratios[:, row]))
        v = {
            s: values[s, row] + sum(gamma ** (k - s) * np.prod(c[s:k]) * rho[k] * delta[k] for k in steps if k >= s)
            for s in steps
        }
        following = v[t + 1] if len(steps) > 1 else after[t, row]
        expected["v"][t, row] = v[t]
        expected["pg"][t, row] = rho[t] * (rewards[t, row] + gamma * following - values[t, row])
        window = steps[:n]
        lasts[t, row] = window[-1] * shape[1] + row
        expected["n"][t, row] = sum(gamma ** (k - t) * rewards[k, row] for k in window)
        expected["discount"][t, row] = 0.0 if terminated[window[-1], row] else gamma ** len(window)
    got = {name: np.empty(shape) for name in expected}
    returns.gae(rewards, *flags, values, next_values, gamma, gae_lambda, got["A"], got["R"])
    returns.discounted_returns(rewards, *flags, next_values, gamma, got["G"])
    returns.v_trace(rewards, *flags, values, next_values, ratios, gamma, 1.2, 0.9, got["v"], got["pg"])
    for name in ("A", "R", "G", "v", "pg"):
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-11, atol=1e-12, err_msg=name)
    # The same steps anywhere in a ring of one slot more.
    where = np.flatnonzero(valid)
    for first in (0, len(rewards) // 2, len(rewards)):
        ring = [np.roll(np.concatenate([a, a[:1]]), first, axis=0) for a in (rewards, terminated, ended)]
        size = rewards.size + shape[1]
        out = np.empty(len(where)), np.empty(len(where)), np.empty(len(where), np.int64)
        stop = (first + len(rewards)) % (len(rewards) + 1)
        returns.n_step(*ring, (where + first * shape[1]) % size, stop, n, gamma, *out)
        np.testing.assert_allclose(out[0], expected["n"].ravel()[where], rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(out[1], expected["discount"].ravel()[where], rtol=1e-14)
        np.testing.assert_array_equal(out[2], (lasts.ravel()[where] + first * shape[1]) % size)


@pytest.mark.nojit
def test_float32_values_are_summed_in_float64():
    steps = 2000
    rewards, none = np.full((steps, 1), 0.1), np.zeros((steps, 1), bool)
    values = np.zeros((steps, 1), np.float32)
    out = np.empty_like(values), np.empty_like(values)
    returns.gae(rewards, ~none, none, none, values, values, 1.0, 1.0, *out)
    assert out[0][0, 0] == np.float32(200.0) and out[0].dtype == np.float32
