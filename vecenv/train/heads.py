"""From a network's outputs to actions, their log-probabilities and entropy.

Noise is drawn for a whole rollout at once, and an action is a function of outputs and noise: PyTorch's own sampling
costs more than the network on a small batch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from torch import Tensor, nn


class Categorical(nn.Module):
    """Discrete actions. Outputs are logits `[..., n]`; samples are 0 to n - 1, int64 `[...]`."""

    dtype = torch.int64

    def __init__(self, space: spaces.Discrete) -> None:
        super().__init__()
        self.num_outputs, self.shape = int(space.n), ()
        self._start = int(space.start)

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Standard Gumbel numbers `[*shape, n]`: the largest of logits + noise is distributed by softmax(logits)."""
        return torch.empty(*shape, self.num_outputs).exponential_(generator=generator).log_().neg_()

    def sample(self, outputs: Tensor, noise: Tensor) -> Tensor:
        return (outputs + noise).argmax(-1)

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(-1)

    def actions(self, samples: Tensor) -> npt.NDArray[Any]:
        """Actions of the space, for `step`."""
        actions: npt.NDArray[Any] = samples.numpy()
        return actions + self._start if self._start else actions

    def log_prob_and_entropy(self, outputs: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Both `[...]`."""
        log_probs = outputs.log_softmax(-1)
        chosen = log_probs.gather(-1, samples.unsqueeze(-1)).squeeze(-1)
        return chosen, -(log_probs.exp() * log_probs).sum(-1)


class Gaussian(nn.Module):
    """Box actions of A numbers: normal, independent of each other, with deviations that do not depend on the state.

    Outputs are means `[..., A]`; samples are float32 `[..., A]`, unbounded. What `step` gets is clipped to the bounds,
    what is learned from is not.
    """

    dtype = torch.float32

    def __init__(self, space: spaces.Box) -> None:
        super().__init__()
        self.num_outputs = int(np.prod(space.shape))
        self.shape = (self.num_outputs,)
        self.log_std = nn.Parameter(torch.zeros(self.num_outputs))
        self._space = space

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Standard normal numbers `[*shape, A]`."""
        return torch.randn(*shape, self.num_outputs, generator=generator)

    def sample(self, outputs: Tensor, noise: Tensor) -> Tensor:
        return outputs + self.log_std.exp() * noise

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs

    def actions(self, samples: Tensor) -> npt.NDArray[Any]:
        """Actions of the space, for `step`."""
        given = samples.numpy().reshape(*samples.shape[:-1], *self._space.shape)
        actions: npt.NDArray[Any] = given.clip(self._space.low, self._space.high).astype(self._space.dtype, copy=False)
        return actions

    def log_prob_and_entropy(self, outputs: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Both `[...]`."""
        errors = (samples - outputs) * (-self.log_std).exp()
        width = self.log_std + 0.5 * math.log(2 * math.pi)
        entropy = (width + 0.5).sum().expand(outputs.shape[:-1])
        return -(0.5 * errors.square() + width).sum(-1), entropy


def head_of(space: spaces.Space[Any]) -> Categorical | Gaussian:
    """The distribution of actions of `space`.

    Raises:
        TypeError: there is none.
    """
    if isinstance(space, spaces.Discrete):
        return Categorical(space)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return Gaussian(space)
    raise TypeError(f"actions: expected Discrete or a Box of floats, got {space}")
