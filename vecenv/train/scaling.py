"""Running normalisation of observations and rewards. Statistics move between rollouts only.

So the policy that acts and the update that follows see the same numbers: the ratio of probabilities begins at 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LIMIT = 10.0  # normalised numbers are clipped to this
EPSILON = 1e-8


class RunningMoments:
    """Mean and variance of all samples so far, float64 `[F]`, by the formula of Chan, Golub, LeVeque (1979)."""

    def __init__(self, size: int) -> None:
        self.count, self.mean, self.var = 0, np.zeros(size), np.ones(size)

    def update(self, samples: Floats) -> None:
        """Take in samples `[K, F]`."""
        count = len(samples)
        if count == 0:
            return
        total = self.count + count
        mean, var = samples.mean(0), samples.var(0)
        delta = mean - self.mean
        self.var = (self.var * self.count + var * count + delta**2 * self.count * count / total) / total
        self.mean = self.mean + delta * count / total
        self.count = total

    def state_dict(self) -> dict[str, Any]:
        """Private copies; `update` replaces arrays and writes into none."""
        return {"count": self.count, "mean": torch.from_numpy(self.mean), "var": torch.from_numpy(self.var)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count, self.mean, self.var = state["count"], state["mean"].numpy(), state["var"].numpy()


class ObservationScale(nn.Module):
    """Features minus their mean, over their deviation, clipped to 10. As they are until the first `update`.

    What it needs to scale are buffers, part of a module's `state_dict`; what it needs to go on is in `moments`.
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.moments = RunningMoments(size)
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("factor", torch.ones(size))

    def forward(self, features: Tensor) -> Tensor:
        """`[..., F]` to `[..., F]`."""
        return features.sub(self.mean).mul_(self.factor).clamp_(-LIMIT, LIMIT)

    def update(self, features: Tensor) -> None:
        """Take in features `[K, F]`, as they were before scaling."""
        self.moments.update(features.double().numpy())
        self.refresh()

    def refresh(self) -> None:
        """Scale by `moments` from now on."""
        self.mean.copy_(torch.from_numpy(self.moments.mean))
        self.factor.copy_(torch.from_numpy(1.0 / np.sqrt(self.moments.var + EPSILON)))


class RewardScale:
    """Rewards over the deviation of the discounted sums that they add up to in each environment, clipped to 10.

    The mean stays: subtracting it would change the task.
    """

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.moments, self._gamma = RunningMoments(1), gamma
        self._sums = np.zeros(num_envs)  # of the running episodes

    def __call__(self, rewards: Floats, ended: Bools) -> Floats:
        """Take in the rewards of a rollout, `[T, N]`, and return them scaled.

        Args:
            rewards: as the environments gave them.
            ended: whether an episode ended with the step, `[T, N]`.
        """
        sums, running = np.empty_like(rewards), self._sums
        for t in range(len(rewards)):
            sums[t] = running * self._gamma + rewards[t]
            running = np.where(ended[t], 0.0, sums[t])
        self._sums = running
        self.moments.update(sums.reshape(-1, 1))
        scaled: Floats = rewards / np.sqrt(self.moments.var + EPSILON)
        return scaled.clip(-LIMIT, LIMIT)

    def state_dict(self) -> dict[str, Any]:
        return {**self.moments.state_dict(), "sums": torch.from_numpy(self._sums)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.moments.load_state_dict(state)
        self._sums = state["sums"].numpy()
