"""Dynamic programming on sparse models.

All kernels take the rows of a model (`vecenv.models.Model`): those of pair s * A + a are offsets[pair] up to
offsets[pair + 1]. `weights` are their probabilities times the discount, 0 where the episode ends; `rewards` is the
expected reward of each pair, float64 `[S * A]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vecenv.kernels.jit import kernel

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@kernel
def action_values(
    offsets: Ints, next_states: Ints, weights: Floats, rewards: Floats, values: Floats, q: Floats
) -> None:
    """Write Q(s, a) of the values V(s) into `q`, `[S * A]`."""
    for pair in range(len(q)):
        total = rewards[pair]
        for row in range(offsets[pair], offsets[pair + 1]):
            total += weights[row] * values[next_states[row]]
        q[pair] = total


@kernel
def iterate_values(
    offsets: Ints,
    next_states: Ints,
    weights: Floats,
    rewards: Floats,
    in_place: bool,
    precision: float,
    max_sweeps: int,
    values: Floats,
) -> Any:
    """Sweep V(s) = max over a of Q(s, a) until no value changes by more than `precision`.

    In place, a sweep sees its own new values; synchronously, only those of the sweep before. Returns (number of sweeps,
    largest change of the last one).
    """
    num_states = len(values)
    num_actions = len(rewards) // num_states
    source = values if in_place else values.copy()
    sweeps, change = 0, np.inf
    while sweeps < max_sweeps and not change <= precision:
        change = 0.0
        for s in range(num_states):
            best = -np.inf
            for pair in range(s * num_actions, (s + 1) * num_actions):
                total = rewards[pair]
                for row in range(offsets[pair], offsets[pair + 1]):
                    total += weights[row] * source[next_states[row]]
                best = max(best, total)
            change = max(change, abs(best - source[s]))
            values[s] = best
        if not in_place:
            source[:] = values
        sweeps += 1
    return sweeps, change


@kernel
def evaluate_policy(
    offsets: Ints,
    next_states: Ints,
    weights: Floats,
    rewards: Floats,
    policy: Floats,
    in_place: bool,
    precision: float,
    max_sweeps: int,
    values: Floats,
) -> Any:
    """Sweep V(s) = sum over a of policy[s * A + a] Q(s, a) until no value changes by more than `precision`.

    Returns (number of sweeps, largest change of the last one).
    """
    num_states = len(values)
    num_actions = len(rewards) // num_states
    source = values if in_place else values.copy()
    sweeps, change = 0, np.inf
    while sweeps < max_sweeps and not change <= precision:
        change = 0.0
        for s in range(num_states):
            value = 0.0
            for pair in range(s * num_actions, (s + 1) * num_actions):
                if policy[pair] > 0.0:
                    total = rewards[pair]
                    for row in range(offsets[pair], offsets[pair + 1]):
                        total += weights[row] * source[next_states[row]]
                    value += policy[pair] * total
            change = max(change, abs(value - source[s]))
            values[s] = value
        if not in_place:
            source[:] = values
        sweeps += 1
    return sweeps, change
