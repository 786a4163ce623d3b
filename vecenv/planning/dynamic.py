"""Dynamic programming: policy evaluation, value iteration, policy iteration."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vecenv.kernels import planning as kernels
from vecenv.models import Floats, Ints, Model

MAX_SWEEPS = 100_000
#: Action values that differ by less are equal: sweeps and the order of sums leave such differences.
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Values:
    """Values of all states, and how they came about.

    Attributes:
        values: V(s), float64 `[S]`.
        sweeps: how many sweeps over all states there were.
        change: the largest change of a value in the last one.
    """

    values: Floats
    sweeps: int
    change: float


@dataclass(frozen=True, eq=False)
class Plan:
    """An optimal policy.

    Attributes:
        policy: an action number for each state, int64 `[S]`.
        values: its values, float64 `[S]`.
        improvements: how often the policy was improved.
        sweeps: sweeps of all evaluations together.
    """

    policy: Ints
    values: Floats
    improvements: int
    sweeps: int


def action_values(model: Model, values: npt.ArrayLike, discount: float) -> Floats:
    """Q(s, a) of the values V(s): float64 `[S, A]`."""
    q = np.empty(model.num_states * model.num_actions)
    kernels.action_values(*_rows(model, discount), state_values(model, values), q)
    return q.reshape(model.num_states, model.num_actions)


def value_iteration(
    model: Model,
    discount: float,
    precision: float = 1e-3,
    *,
    in_place: bool = True,
    max_sweeps: int = MAX_SWEEPS,
    values: npt.ArrayLike | None = None,
) -> Values:
    """Values of the best policy.

    Args:
        model: of the environment.
        discount: of a value one step later, from 0 to 1.
        precision: sweeps stop when no value has changed by more.
        in_place: a sweep, in the order of states, sees its own new values; else only those of the sweep before.
        max_sweeps: when to give up.
        values: to start from, `[S]`; zeros if None.

    Raises:
        RuntimeError: values still change by more than `precision` after `max_sweeps` sweeps.
        ValueError: an argument is outside its range.
    """
    result = _start(model, values)
    arguments = _in_place(in_place), _precision(precision), _max_sweeps(max_sweeps)
    return _finished(
        "value_iteration", result, precision, *kernels.iterate_values(*_rows(model, discount), *arguments, result)
    )


def policy_evaluation(
    model: Model,
    policy: npt.ArrayLike,
    discount: float,
    precision: float = 1e-3,
    *,
    in_place: bool = True,
    max_sweeps: int = MAX_SWEEPS,
    values: npt.ArrayLike | None = None,
) -> Values:
    """Values of a policy: an action number for each state, int `[S]`, or probabilities of actions, float `[S, A]`.

    Other arguments and errors as in `value_iteration`.
    """
    result = _start(model, values)
    chances = policy_probabilities(model, policy).ravel()
    arguments = _in_place(in_place), _precision(precision), _max_sweeps(max_sweeps)
    swept = kernels.evaluate_policy(*_rows(model, discount), chances, *arguments, result)
    return _finished("policy_evaluation", result, precision, *swept)


def policy_iteration(
    model: Model,
    discount: float,
    precision: float = 1e-10,
    *,
    policy: npt.ArrayLike | None = None,
    max_sweeps: int = MAX_SWEEPS,
    tolerance: float = TOLERANCE,
) -> Plan:
    """Evaluate a policy and make it greedy, until it stays as it is.

    Args:
        model: of the environment.
        discount: of a value one step later, from 0 to 1.
        precision: of each evaluation, see `policy_evaluation`.
        policy: to start from; the uniformly random one if None.
        max_sweeps: when to give up one evaluation.
        tolerance: an action is kept unless another one is better by more.

    Raises:
        RuntimeError: an evaluation does not settle. With discount 1 that happens where a policy never ends.
        ValueError: an argument is outside its range.
    """
    uniform = np.full((model.num_states, model.num_actions), 1 / model.num_actions)
    chances = uniform if policy is None else policy_probabilities(model, policy)
    improvements, sweeps = 0, 0
    while True:
        evaluated = policy_evaluation(model, chances, discount, precision, max_sweeps=max_sweeps)
        sweeps += evaluated.sweeps
        q = action_values(model, evaluated.values, discount)
        now = chances.argmax(1)
        is_certain = chances.max(1) == 1.0
        stays = is_certain & (np.take_along_axis(q, now[:, np.newaxis], 1)[:, 0] >= q.max(1) - tolerance)
        better = np.where(stays, now, (q >= q.max(1, keepdims=True) - tolerance).argmax(1))
        if stays.all():
            return Plan(better, evaluated.values, improvements, sweeps)
        chances = np.eye(model.num_actions)[better]
        improvements += 1


# --- arguments --------------------------------------------------------------------------------------------------------


def policy_probabilities(model: Model, policy: npt.ArrayLike) -> Floats:
    """A policy as probabilities, float64 `[S, A]`.

    Raises:
        ValueError: it has another shape, actions that do not exist, or rows that are no probabilities.
    """
    array = np.asarray(policy)
    num_states, num_actions = model.num_states, model.num_actions
    if array.shape == (num_states,) and array.dtype.kind in "iu":
        if (wrong := np.flatnonzero((array < 0) | (array >= num_actions))).size:
            s = int(wrong[0])
            raise ValueError(f"policy: state {s}: expected an action from 0 to {num_actions - 1}, got {array[s]}")
        chosen: Floats = np.eye(num_actions)[array]
        return chosen
    if array.shape != (num_states, num_actions) or array.dtype.kind not in "buif":
        raise ValueError(
            f"policy: expected an action for each state, int [{num_states}], or probabilities "
            f"[{num_states}, {num_actions}], got {array.dtype} of shape {array.shape}"
        )
    chances: Floats = np.ascontiguousarray(array, np.float64)
    bad = ~((chances >= 0).all(1) & (np.abs(chances.sum(1) - 1) <= 1e-9))
    if bad.any():
        s = int(np.flatnonzero(bad)[0])
        raise ValueError(f"policy: state {s}: expected probabilities that add up to 1, got {chances[s].tolist()}")
    return chances


def state_values(model: Model, values: npt.ArrayLike) -> Floats:
    """Values as an array of their own, float64 `[S]`."""
    array = np.array(values, np.float64)
    if array.shape != (model.num_states,):
        raise ValueError(f"values: expected one for each of {model.num_states} states, got shape {array.shape}")
    return array


def _start(model: Model, values: npt.ArrayLike | None) -> Floats:
    return np.zeros(model.num_states) if values is None else state_values(model, values)


def _rows(model: Model, discount: float) -> tuple[Ints, Ints, Floats, Floats]:
    """What kernels take: offsets, next states, discounted weights, expected rewards."""
    if not 0.0 <= discount <= 1.0:
        raise ValueError(f"discount: expected a number from 0 to 1, got {discount!r}")
    weights: Floats = np.where(model.terminals, 0.0, discount * model.probabilities)
    pairs = np.repeat(np.arange(len(model.offsets) - 1), np.diff(model.offsets))
    rewards = np.bincount(pairs, model.probabilities * model.rewards, len(model.offsets) - 1)
    return model.offsets, model.next_states, weights, rewards.astype(np.float64)


def _precision(precision: float) -> float:
    if not precision >= 0.0:
        raise ValueError(f"precision: expected a number >= 0, got {precision!r}")
    return float(precision)


def _max_sweeps(max_sweeps: int) -> int:
    if operator.index(max_sweeps) < 1:
        raise ValueError(f"max_sweeps: expected an int >= 1, got {max_sweeps!r}")
    return operator.index(max_sweeps)


def _in_place(in_place: bool) -> bool:
    if not isinstance(in_place, (bool, np.bool_)):
        raise TypeError(f"in_place: expected True or False, got {in_place!r}")
    return bool(in_place)


def _finished(what: str, values: Floats, precision: float, sweeps: Any, change: Any) -> Values:
    if not change <= precision:
        raise RuntimeError(
            f"{what}: values still change by {change:.3g} after {sweeps:,} sweeps, more than the precision "
            f"{precision:.3g}; with discount 1 they settle only where episodes end"
        )
    return Values(values, int(sweeps), float(change))
