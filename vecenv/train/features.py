"""What networks see: observations of any space as float32 vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn import functional


def num_features(space: spaces.Space[Any]) -> int:
    """Length of the vector that `encode` makes.

    Raises:
        TypeError: there is no encoding of this space.
    """
    if isinstance(space, (spaces.Box, spaces.MultiBinary)):
        return math.prod(space.shape)
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    if isinstance(space, spaces.Tuple):
        return sum(map(num_features, space.spaces))
    if isinstance(space, spaces.Dict):
        return sum(map(num_features, space.spaces.values()))
    raise TypeError(f"observations: expected Box, Discrete, MultiBinary, MultiDiscrete, Tuple or Dict, got {space}")


def encode(space: spaces.Space[Any], obs: Any) -> Tensor:
    """Observations `[..., *shape]` as float32 `[..., num_features(space)]`.

    Numbers are flattened as they are, what counts something is one-hot, and parts stand side by side. A float32 array
    is not copied: the tensor shares its memory.
    """
    if isinstance(space, spaces.Tuple):
        return torch.cat([encode(part, value) for part, value in zip(space.spaces, obs, strict=True)], -1)
    if isinstance(space, spaces.Dict):
        return torch.cat([encode(part, obs[key]) for key, part in space.spaces.items()], -1)
    array = torch.from_numpy(np.require(obs, requirements="W"))  # PyTorch warns of arrays that it may not write
    if isinstance(space, spaces.Discrete):
        return functional.one_hot(array.long() - int(space.start), int(space.n)).float()
    if isinstance(space, spaces.MultiDiscrete):
        numbers = (array.long() - torch.from_numpy(space.start)).flatten(-space.nvec.ndim)
        parts = [functional.one_hot(numbers[..., k], int(n)) for k, n in enumerate(space.nvec.ravel())]
        return torch.cat(parts, -1).float()
    dimensions = len(space.shape or ())
    if dimensions != 1:
        array = array.flatten(-dimensions) if dimensions else array.unsqueeze(-1)
    return array.float()


def select(obs: Any, index: Any) -> Any:
    """`obs[index]`, of every array in it."""
    if isinstance(obs, tuple):
        return tuple(part[index] for part in obs)
    if isinstance(obs, dict):
        return {key: part[index] for key, part in obs.items()}
    return obs[index]
