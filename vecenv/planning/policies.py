"""Policies of values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vecenv.models import Bools, Floats, Ints, Model
from vecenv.planning.dynamic import TOLERANCE, action_values


def uniform_policy(model: Model) -> Floats:
    """Every action with the same probability: float64 `[S, A]`."""
    return np.full((model.num_states, model.num_actions), 1 / model.num_actions)


def best_actions(model: Model, values: npt.ArrayLike, discount: float, tolerance: float = TOLERANCE) -> Bools:
    """Which actions are the best ones of a state, or as good within `tolerance`: bool `[S, A]`."""
    q = action_values(model, values, discount)
    best: Bools = q >= q.max(1, keepdims=True) - tolerance
    return best


def greedy_policy(model: Model, values: npt.ArrayLike, discount: float, tolerance: float = TOLERANCE) -> Ints:
    """The first of the best actions of each state: int64 `[S]`."""
    first: Ints = best_actions(model, values, discount, tolerance).argmax(1)
    return first
