"""Transforms of a batch: `make_vec(id, n, transforms=(FrameStack(4),))`.

A transform is part of the batch: what it keeps lies in the arena beside the state, so that snapshots, forks and pickles
hold it, and its hooks are compiled into the kernels. The first of several is next to the environment.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from vecenv.arguments import parse_choice, parse_int
from vecenv.kernels.envdef import EnvDef, RowFunction, leaves_of
from vecenv.kernels.frame_stack import hooks
from vecenv.kernels.soa import Column, shown
from vecenv.kernels.transform import BoundTransform
from vecenv.kernels.views import frame_names
from vecenv.memory import check_bytes


class FrameStack:
    """The last k observations as one, `[k, *shape]` with the oldest first; every leaf of a Dict or Tuple by itself.

    As `gymnasium.wrappers.FrameStackObservation(env, k, padding_type=padding)` around every row. A frame is taken once
    per transition: writes into `envs.state` between steps show in the frame of the next one, and in no other.

    Args:
        k: how many.
        padding: what an episode begins with in place of frames that are not there yet: "reset", its first observation,
            or "zero".

    Raises:
        TypeError, ValueError: k is no int, or less than 1; padding is something else.
    """

    def __init__(self, k: int, padding: str = "reset") -> None:
        self.k = parse_int(k, "FrameStack: k: expected an int >= 1")
        if not 1 <= self.k < 2**31:
            raise ValueError(f"FrameStack: k: expected an int >= 1 (and below 2**31), got {shown(k)}")
        self.padding = parse_choice(padding, "FrameStack: padding", "reset", "zero")

    def bind(self, definition: EnvDef, name: str, observe: RowFunction) -> BoundTransform:
        frame = sum(leaf.dtype.itemsize * math.prod(leaf.shape) for leaf in definition.observation_leaves)
        check_bytes(
            f"{self!r}: {self.k} observations of {definition.id}", self.k, 3 * frame
        )  # and bounds, low and high
        space: spaces.Space[Any] = batch_space(definition.observation_space, self.k)
        leaves = leaves_of(space, f"{definition.id}: {self!r}")
        columns = [
            Column(f"{name}.{frames}", leaf.dtype, leaf.shape)
            for frames, leaf in zip(frame_names(leaves), leaves, strict=True)
        ]
        columns.append(Column(f"{name}.newest", np.dtype(np.int32)))
        bound = hooks(observe, self.k, self.padding == "reset")
        return BoundTransform(repr(self), tuple(columns), space, definition.action_space, **bound)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameStack) and (self.k, self.padding) == (other.k, other.padding)

    def __hash__(self) -> int:
        return hash((self.k, self.padding))

    def __repr__(self) -> str:
        return f"FrameStack({self.k}, padding={self.padding!r})"
