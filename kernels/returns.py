"""Advantages and returns: GAE(lambda), discounted returns, V-trace, n-step.

All but `n_step` take arrays `[T, N]`, rows last, and go through time backwards:

    valid       whether the row took an action; where it did not, results are 0
    terminated  the task ended with the step: what comes after is worth 0, and `next_values` is not read
    ended       nothing of the trajectory comes after the step: it terminated, or was cut off
    values      V of the observation that the action was chosen on
    next_values V of the observation that the step led to, the last of the episode where it ended

Sums are float64, whatever the arrays are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vecenv.kernels.jit import kernel

Floats = npt.NDArray[Any]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@kernel
def gae(
    rewards: Float64s,
    valid: Bools,
    terminated: Bools,
    ended: Bools,
    values: Floats,
    next_values: Floats,
    gamma: float,
    gae_lambda: float,
    advantages: Floats,
    returns: Floats,
) -> None:
    """Write A = delta + gamma lambda A', with delta = r + gamma V' - V, and the returns A + V."""
    steps, rows = rewards.shape
    later = np.zeros(rows)
    for t in range(steps - 1, -1, -1):
        for i in range(rows):
            following = 0.0 if terminated[t, i] else gamma * next_values[t, i]
            trace = 0.0 if ended[t, i] else gamma * gae_lambda * later[i]
            advantage = rewards[t, i] + following - values[t, i] + trace
            later[i] = advantage if valid[t, i] else 0.0
            advantages[t, i] = later[i]
            returns[t, i] = later[i] + values[t, i] if valid[t, i] else 0.0


@kernel
def discounted_returns(
    rewards: Float64s,
    valid: Bools,
    terminated: Bools,
    ended: Bools,
    next_values: Floats,
    gamma: float,
    returns: Floats,
) -> None:
    """Write G = r + gamma G', where G' is V' after a step that was cut off and after the last one."""
    steps, rows = rewards.shape
    later = np.zeros(rows)
    for t in range(steps - 1, -1, -1):
        last = t == steps - 1
        for i in range(rows):
            following = next_values[t, i] if last or ended[t, i] else later[i]
            total = rewards[t, i] + (0.0 if terminated[t, i] else gamma * following)
            later[i] = total if valid[t, i] else 0.0
            returns[t, i] = later[i]


@kernel
def v_trace(
    rewards: Float64s,
    valid: Bools,
    terminated: Bools,
    ended: Bools,
    values: Floats,
    next_values: Floats,
    log_ratios: Floats,
    gamma: float,
    rho_bar: float,
    c_bar: float,
    targets: Floats,
    advantages: Floats,
) -> None:
    """Write the V-trace targets v and the policy-gradient advantages rho (r + gamma v' - V) of IMPALA.

    `log_ratios` is log pi(a|s) - log mu(a|s) of the policy that learns and the one that acted. v' is V' after a step
    that was cut off and after the last one.
    """
    steps, rows = rewards.shape
    later = np.zeros(rows)  # v - V of the step after
    for t in range(steps - 1, -1, -1):
        for i in range(rows):
            ratio = np.exp(log_ratios[t, i])
            rho, c = min(rho_bar, ratio), min(c_bar, ratio)
            base = 0.0 if terminated[t, i] else gamma * next_values[t, i]
            trace = 0.0 if ended[t, i] else gamma * later[i]
            error = rewards[t, i] + base - values[t, i]
            later[i] = rho * error + c * trace if valid[t, i] else 0.0
            targets[t, i] = later[i] + values[t, i] if valid[t, i] else 0.0
            advantages[t, i] = rho * (error + trace) if valid[t, i] else 0.0


@kernel
def n_step(
    rewards: Float64s,
    terminated: Bools,
    ended: Bools,
    indices: Ints,
    stop: int,
    n: int,
    gamma: float,
    returns: Float64s,
    discounts: Float64s,
    lasts: Ints,
) -> None:
    """Sum the rewards of up to n steps from each of `indices`, for targets `returns + discounts * V(next)`.

    The arrays are a ring of steps, `[S, N]`; an index is s * N + row. A window ends where the trajectory does, or
    before slot `stop`. `lasts` are the indices of the last steps; `discounts` is gamma**k after k rewards, or 0 if the
    last of them terminated.
    """
    slots, rows = rewards.shape
    for j in range(len(indices)):
        slot, row = indices[j] // rows, indices[j] % rows
        total, discount = rewards[slot, row], gamma
        for _ in range(n - 1):
            following = slot + 1 if slot + 1 < slots else 0
            if ended[slot, row] or following == stop:
                break
            slot = following
            total += discount * rewards[slot, row]
            discount *= gamma
        returns[j] = total
        discounts[j] = 0.0 if terminated[slot, row] else discount
        lasts[j] = slot * rows + row
