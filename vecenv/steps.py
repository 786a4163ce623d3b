"""`Steps`: the arrays of consecutive steps of one batch, which `VecEnv.step(out=...)` writes in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from vecenv.arguments import Rows, parse_rows
from vecenv.buffers import Checked, LeafBuffers, Observation, Span, StepOut, address
from vecenv.kernels.soa import shown
from vecenv.vec_env import VecEnv

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]


class Steps:
    """S slots of N environments, N * A with A agents.

    A slot holds one step and what its action was chosen on; what the step led to is the observation of the next slot
    or, where that one begins another trajectory, a final observation.

    Attributes:
        obs, final_obs: observations by leaf, each `[S, N, ...]`.
        actions: by leaf, each `[S, N, ...]`.
        rewards: float64 `[S, N]`.
        terminated, truncated, valid: bool `[S, N]`.
        moved: bool `[S, N]`: whether `begin` has moved the final observation to `final_obs`.
        num_rows, num_agents, num_envs: the batch's.
    """

    def __init__(self, envs: VecEnv, slots: int, what: str) -> None:
        if not isinstance(envs, VecEnv):
            raise TypeError(f"{what}: expected a VecEnv, got {shown(envs)}")
        self.num_rows, self.num_agents, self.num_envs = envs.num_rows, envs.num_agents, envs.num_envs
        self.same_step = envs.autoreset_mode is AutoresetMode.SAME_STEP
        self.buffers, self.action_buffers = envs._buffers, envs._action_buffers
        self.obs = self._leaves(self.buffers, slots)
        #: Takes memory only where it is written.
        self.final_obs = self._leaves(self.buffers, slots)
        self.actions = self._leaves(self.action_buffers, slots)
        shape = slots, self.num_envs
        self.rewards = np.zeros(shape)
        self.terminated, self.truncated = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        self.valid, self.moved = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        #: Whose steps these are and where, so that a step need not check arrays that fit and are apart by construction.
        self._whole: tuple[Any, list[tuple[str, int]]] | None = (envs._outputs, self._starts())

    def _leaves(self, buffers: LeafBuffers, slots: int) -> list[Array]:
        return [np.empty((slots, self.num_envs, *leaf.shape), leaf.dtype) for leaf in buffers.leaves]

    def out(self, slot: int, following: int) -> StepOut:
        """Where the step of `slot` writes; `following` is the slot after it."""
        obs, final_obs = [leaf[following] for leaf in self.obs], [leaf[slot] for leaf in self.final_obs]
        actions = [leaf[slot] for leaf in self.actions]
        out = StepOut(
            self.buffers.join(obs),
            self.rewards[slot],
            self.terminated[slot],
            self.truncated[slot],
            self.buffers.join(final_obs) if self.same_step else None,
            self.action_buffers.join(actions),
            self.valid[slot],
        )
        if self._whole is not None:
            owner, starts = self._whole
            arrays = [*obs, *final_obs, *actions, out.rewards, out.terminated, out.truncated, out.valid]
            slots = [following] * len(obs) + [slot] * (len(arrays) - len(obs))
            spans = [
                Span(start + k * array.nbytes, start + (k + 1) * array.nbytes, name)
                for (name, start), k, array in zip(starts, slots, arrays, strict=True)
            ]
            out.checked = Checked(owner, out.fields, self.num_rows, arrays, spans)
        return out

    def _starts(self) -> list[tuple[str, int]]:
        """Name and address of all arrays that steps write, in the order of `out`."""
        leaves = [("obs", leaf) for leaf in self.obs] + [("final_obs", leaf) for leaf in self.final_obs]
        leaves += [("actions", leaf) for leaf in self.actions]
        leaves += [(name, getattr(self, name)) for name in ("rewards", "terminated", "truncated", "valid")]
        return [(f"out.{name}", address(array) if array.size else 0) for name, array in leaves]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_whole": None}  # addresses of here

    def begin(self, obs: Observation, slot: int, previous: int | None, mask: Any, what: str) -> Rows:
        """Let the rows of `mask`, or all, begin a trajectory with `obs` in `slot`; keep what step `previous` led to.

        Returns:
            The environments, N * A with A agents, that begin.
        """
        rows = np.arange(self.num_rows) if mask is None else parse_rows(mask, self.num_rows, f"{what}: mask")
        agents = np.arange(self.num_agents)
        chosen: Rows = (rows[:, np.newaxis] * self.num_agents + agents).ravel()
        self.buffers.check(obs, self.num_rows, f"{what}: obs")
        if previous is not None:
            keep = chosen[~self.apart(slice(previous, previous + 1))[0, chosen]]
            for leaf, final in zip(self.obs, self.final_obs, strict=True):
                final[previous, keep] = leaf[slot, keep]
            self.moved[previous, chosen] = True
        for leaf, given in zip(self.obs, self.buffers.flat(obs), strict=True):
            leaf[slot, chosen] = given[chosen]
        return chosen

    def apart(self, slots: slice) -> Bools:
        """`[slots, N]`: where the final observation stands in `final_obs`, because the next slot begins anew."""
        moved = self.moved[slots]
        if not self.same_step:
            return moved.copy()
        ended = self.terminated[slots] | self.truncated[slots]
        if self.num_agents > 1:  # the row is reset when none of its agents goes on
            goes_on = (self.valid[slots] & ~ended).reshape(-1, self.num_rows, self.num_agents).any(axis=2)
            ended = np.repeat(~goes_on, self.num_agents, axis=1)
        return ended | moved
