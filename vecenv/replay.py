"""`ReplayBuffer`: the last steps of a batch in a ring, sampled at random."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vecenv.arguments import parse_count, parse_mapping, parse_reset_mask
from vecenv.buffers import Observation
from vecenv.kernels import replay as kernels
from vecenv.kernels.returns import n_step
from vecenv.kernels.soa import as_array, shown
from vecenv.rollout import parse_share
from vecenv.steps import Steps
from vecenv.vec_env import Arrays, VecEnv

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class ReplayBuffer:
    """The last steps of a batch, `[capacity, N]`, written in place by `step` and sampled with n-step returns.

        replay = ReplayBuffer(envs, capacity=10_000)
        obs, infos = replay.reset(seed=0)
        for _ in range(100_000):
            obs, rewards, terminated, truncated, infos = replay.step(policy(obs))
            batch = replay.sample(256, rng, n=3, gamma=0.99)
            targets = batch["rewards"] + batch["discounts"] * V(batch["next_obs"])

    The next observation of a sample is the true one in every auto-reset mode: that of the end where an episode ended.
    Steps in which no action was taken (reset calls of NEXT_STEP, absorbed rows, agents that had ended) are never
    sampled. With A agents N is N * A, agent fastest.

    Args:
        envs: the batch. Step and reset it through the buffer; after a restore or fork, call `begin`.
        capacity: number of steps of every row that are kept.
        priority_exponent: sample in proportion to priority ** priority_exponent (proportional prioritised replay; .6 is
            usual), and let samples have `weights`. None samples uniformly.
    """

    def __init__(self, envs: VecEnv, capacity: int, *, priority_exponent: float | None = None) -> None:
        self.capacity = parse_count(capacity, "capacity")
        self.envs = envs
        # One slot more: what the newest step led to stands in the slot that is written next.
        self._slots = self.capacity + 1
        self._steps = Steps(envs, self._slots, "ReplayBuffer")
        shape = self._slots, self._steps.num_envs
        self._apart, self._ended = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        #: The slot that is written next, whether there is a slot before it, how many were ever begun; valid steps.
        self._slot, self._has_previous, self._used, self._count = 0, False, 0, 0
        self.priority_exponent = None
        if priority_exponent is not None:
            self.priority_exponent = parse_share(priority_exponent, "priority_exponent")
            self._tree = np.zeros(2 << (shape[0] * shape[1] - 1).bit_length())
        #: The highest priority ever given, to its power: what new steps get.
        self._highest = 1.0

    def __len__(self) -> int:
        """How many steps can be sampled."""
        return self._count

    # --- collecting ---------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: Any = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """`envs.reset`, all rows or those of `options["reset_mask"]`; what is stored stays."""
        mask = None
        if options is not None and "reset_mask" in parse_mapping(options, "reset: options", "a dict or None"):
            mask = parse_reset_mask(options["reset_mask"], self._steps.num_rows)
            self._check_begun("reset of some rows")
        obs, infos = self.envs.reset(seed=seed, options=options)
        self.begin(obs, mask)
        return obs, infos

    def begin(self, obs: Observation, mask: Any = None) -> None:
        """Say that rows begin a new trajectory, because they were reset, restored or forked by hand.

        What their last step led to is kept; a trajectory that was running counts as truncated.

        Args:
            obs: observations `[N, ...]` of all rows now.
            mask: bool mask `[rows]` or row numbers; None for all.
        """
        if mask is not None:
            self._check_begun("begin of some rows")
        previous = (self._slot - 1) % self._slots if self._has_previous else None
        chosen = self._steps.begin(obs, self._slot, previous, mask, "begin")
        if previous is not None:
            self._apart[previous, chosen] = self._ended[previous, chosen] = True
        self._used = max(self._used, self._slot + 1)

    def step(self, actions: Any) -> Arrays:
        """`envs.step(actions)` of all rows into the buffer. What it returns are views that last for `capacity` steps.

        Raises:
            ValueError: `reset` or `begin` was never called, or a row was reset otherwise.
            Whatever `envs.step` raises.
        """
        self._check_begun("step")
        slot, following = self._slot, (self._slot + 1) % self._slots
        if self._has_previous:
            previous = (slot - 1) % self._slots
            unknown = self.envs._memory.running(None) & self._ended[previous] & ~self._apart[previous]
            if unknown.any():
                row = int(np.flatnonzero(unknown)[0]) // self._steps.num_agents
                raise ValueError(
                    f"row {row} has ended and was reset, but not by this buffer: reset by replay.reset, "
                    "or call replay.begin(obs, mask) after it"
                )
        self._forget(following)
        result = self.envs.step(actions, out=self._steps.out(slot, following))
        steps = self._steps
        steps.moved[slot] = False
        self._apart[slot] = steps.apart(slice(slot, slot + 1))[0]
        self._ended[slot] = steps.terminated[slot] | steps.truncated[slot] | self._apart[slot]
        self._count += int(np.count_nonzero(steps.valid[slot]))
        if self.priority_exponent is not None:
            fresh = np.where(steps.valid[slot], self._highest, 0.0)
            kernels.write_range(self._tree, slot * steps.num_envs, fresh)
        self._slot, self._has_previous = following, True
        self._used = max(self._used, following + 1)
        return result

    def _forget(self, slot: int) -> None:
        """The oldest step, whose observation is about to be overwritten."""
        self._count -= int(np.count_nonzero(self._steps.valid[slot]))
        self._steps.valid[slot] = False
        if self.priority_exponent is not None:
            kernels.write_range(self._tree, slot * self._steps.num_envs, np.zeros(self._steps.num_envs))

    def _check_begun(self, what: str) -> None:
        if self._used == 0:
            raise ValueError(f"{what}: call replay.reset() first")

    # --- sampling -----------------------------------------------------------------------------------------------------

    def sample(
        self, size: int, rng: np.random.Generator, *, n: int = 1, gamma: float = 0.99, beta: float = 0.4
    ) -> dict[str, Any]:
        """Random steps, with replacement.

        Args:
            size: B, how many.
            rng: draws them; equal generators draw equal samples.
            n, gamma: as in `gather`.
            beta: how far `weights` make up for priorities, from 0 (not) to 1 (fully).

        Returns:
            What `gather` returns and, with priorities, "weights" `[B]`: (number of steps * probability) ** -beta,
            divided by the largest of this batch.

        Raises:
            TypeError, ValueError: an argument does not fit, or there is nothing to sample.
        """
        size, beta = parse_count(size, "size"), parse_share(beta, "beta")
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng: expected a numpy.random.Generator, got {shown(rng)}")
        if self._count == 0:
            raise ValueError("sample: the buffer has no steps yet")
        if self.priority_exponent is None:
            return self.gather(self._draw(size, rng), n=n, gamma=gamma)
        total = self._tree[1]
        if not total > 0.0:
            raise ValueError("sample: all priorities are 0")
        indices = np.empty(size, np.int64)
        kernels.draw(self._tree, rng.random(size), indices)
        batch = self.gather(indices, n=n, gamma=gamma)
        weights = (self._count * self._tree[len(self._tree) // 2 + indices] / total) ** -beta
        return {**batch, "weights": weights / weights.max()}

    def _draw(self, size: int, rng: np.random.Generator) -> Ints:
        """Steps drawn uniformly from those that are valid: what is not is drawn again."""
        valid, end = self._steps.valid.reshape(-1), self._used * self._steps.num_envs
        indices = rng.integers(end, size=size)
        while len(refused := np.flatnonzero(~valid[indices])):
            indices[refused] = rng.integers(end, size=len(refused))
        return indices

    def gather(self, indices: Any, *, n: int = 1, gamma: float = 0.99) -> dict[str, Any]:
        """Steps by index, with n-step returns.

        A window of n steps ends early where its episode or trajectory does, and at the newest step.

        Args:
            indices: `[B]`, of a former sample; they are not changed.
            n: the largest number of rewards that are summed.
            gamma: the discount.

        Returns:
            A dict of arrays `[B, ...]`:
            "obs", "actions": of the step (dicts or tuples for such spaces).
            "rewards": float64, the discounted sum of k rewards.
            "next_obs": what the k-th step led to.
            "discounts": float64, gamma**k, or 0 if the k-th step terminated: the factor of the value of "next_obs".
            "terminated", "truncated": bool, of the k-th step.
            "indices": int64, names of the steps until they are overwritten, for `update_priorities`.

        Raises:
            TypeError, ValueError: an argument does not fit, or an index is not that of a step to sample.
        """
        n, gamma = parse_count(n, "n"), parse_share(gamma, "gamma")
        chosen, steps = self._parse_indices(indices), self._steps
        bad = ~steps.valid.reshape(-1)[chosen]
        if bad.any():
            raise ValueError(f"indices: {chosen[bad][0]} is not a step that can be sampled")
        count = len(chosen)
        rewards, discounts, lasts = np.empty(count), np.empty(count), np.empty(count, np.int64)
        n_step(steps.rewards, steps.terminated, self._ended, chosen, self._slot, n, gamma, rewards, discounts, lasts)
        obs, next_obs, actions = [], [], []
        for leaf, final in zip(map(_flat, steps.obs), map(_flat, steps.final_obs), strict=True):
            obs.append(np.empty((count, leaf.shape[1]), leaf.dtype))
            next_obs.append(np.empty_like(obs[-1]))
            kernels.gather(leaf, chosen, obs[-1])
            kernels.gather_next(leaf, final, self._apart.reshape(-1), lasts, steps.num_envs, next_obs[-1])
        for leaf in map(_flat, steps.actions):
            actions.append(np.empty((count, leaf.shape[1]), leaf.dtype))
            kernels.gather(leaf, chosen, actions[-1])
        return {
            "obs": _shaped(steps.buffers, obs),
            "actions": _shaped(steps.action_buffers, actions),
            "rewards": rewards,
            "next_obs": _shaped(steps.buffers, next_obs),
            "discounts": discounts,
            "terminated": steps.terminated.reshape(-1)[lasts],
            "truncated": steps.truncated.reshape(-1)[lasts],
            "indices": chosen,
        }

    def update_priorities(self, indices: Any, priorities: Any) -> None:
        """Give steps new priorities, for example |error| + 1e-6; of an index that occurs twice the last counts.

        Steps that were overwritten since they were sampled and are not valid any more keep priority 0.

        Args:
            indices: `[B]`, of a sample.
            priorities: `[B]`, finite and not negative.

        Raises:
            TypeError, ValueError: an array does not fit, or the buffer samples uniformly.
        """
        if self.priority_exponent is None:
            raise ValueError("update_priorities: the buffer was made without a priority_exponent")
        chosen = self._parse_indices(indices)
        given = as_array(priorities, "priorities", f"numbers of shape {chosen.shape}")
        if given.dtype.kind not in "fiu":
            raise TypeError(f"priorities: expected numbers of shape {chosen.shape}, got {given.dtype}")
        if given.shape != chosen.shape:
            raise ValueError(f"priorities: expected shape {chosen.shape}, got {given.shape}")
        if (bad := ~(np.isfinite(given) & (given >= 0))).any():
            raise ValueError(f"priorities: expected finite numbers that are not negative, got {given[bad][0]}")
        values = given.astype(np.float64) ** self.priority_exponent
        still = self._steps.valid.reshape(-1)[chosen]
        self._highest = max(self._highest, float(values.max(initial=0.0)))
        kernels.write(self._tree, chosen[still], values[still])

    def _parse_indices(self, indices: Any) -> Ints:
        """A private copy."""
        array = as_array(indices, "indices", "a one-dimensional int array")
        if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
            raise TypeError(f"indices: expected a one-dimensional int array, got shape {array.shape} of {array.dtype}")
        end = self._slots * self._steps.num_envs
        if (bad := (array < 0) | (array >= end)).any():
            raise ValueError(f"indices: {array[bad][0]} is outside 0 to {end - 1}")
        return np.array(array, np.int64)

    # --- files --------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that is stored to `path`, without pickle.

        With it, a snapshot of the batch and the state of the generator, a run goes on bit for bit.
        """
        target = Path(path)
        temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as file:
                np.savez(file, **self._contents())  # type: ignore[arg-type]  # none is named allow_pickle
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)

    def _contents(self) -> dict[str, Array]:
        """Arrays by name: the slots in use and, of the final observations, those that stand apart."""
        steps, used = self._steps, slice(self._used)
        numbers = self._slots, self._slot, self._has_previous, self._used, self._count
        contents = {
            "id": np.array(self.envs.definition.id),
            "numbers": np.array(numbers, np.int64),
            "highest": np.array(self._highest),
            "leaves": np.empty(0),
        }
        for name in ("rewards", "terminated", "truncated", "valid", "moved"):
            contents[name] = getattr(steps, name)[used]
        contents["apart"], contents["ended"] = self._apart[used], self._ended[used]
        for k, (leaf, final) in enumerate(zip(steps.obs, steps.final_obs, strict=True)):
            contents[f"obs.{k}"], contents[f"final_obs.{k}"] = leaf[used], final[used][self._apart[used]]
        for k, leaf in enumerate(steps.actions):
            contents[f"actions.{k}"] = leaf[used]
        if self.priority_exponent is not None:
            first = len(self._tree) // 2
            contents["leaves"] = self._tree[first : first + self._used * steps.num_envs]
        return contents

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read what `save` wrote, from a buffer of the same environment, batch size, capacity and kind of sampling.

        The batch itself is restored by its own snapshot.

        Raises:
            ValueError: the file is damaged, or of another kind of buffer. Nothing has changed.
        """
        try:
            with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
                given = {name: file[name] for name in file.files}
            slots, slot, has_previous, used, count = given["numbers"].tolist()
            saved_id = str(given["id"])
        except (zipfile.BadZipFile, EOFError, RuntimeError, TypeError, ValueError, KeyError) as error:
            raise ValueError(f"{path}: not a replay buffer, or damaged: {error}") from error
        if saved_id != self.envs.definition.id or slots != self._slots:
            raise ValueError(
                f"{path}: expected {self.envs.definition.id} with capacity {self.capacity}, "
                f"got {saved_id} with capacity {slots - 1}"
            )
        steps = self._steps
        columns = {name: getattr(steps, name) for name in ("rewards", "terminated", "truncated", "valid", "moved")}
        columns |= {"apart": self._apart, "ended": self._ended}
        columns |= {f"obs.{k}": leaf for k, leaf in enumerate(steps.obs)}
        columns |= {f"actions.{k}": leaf for k, leaf in enumerate(steps.actions)}
        shapes = {name: ((used, *column.shape[1:]), column.dtype) for name, column in columns.items()}
        apart = given["apart"] if "apart" in given else np.zeros(0, np.bool_)
        for k, leaf in enumerate(steps.final_obs):
            shapes[f"final_obs.{k}"] = (np.count_nonzero(apart), *leaf.shape[2:]), leaf.dtype
        leaves = 0 if self.priority_exponent is None else used * steps.num_envs
        shapes["leaves"] = (leaves,), np.dtype(np.float64)
        for name, (shape, dtype) in shapes.items():
            if name not in given or given[name].shape != shape or given[name].dtype != dtype:
                got = f"{given[name].shape} of {given[name].dtype}" if name in given else "nothing"
                raise ValueError(f"{path}: {name}: expected shape {shape} of {dtype}, got {got}")
        for name, column in columns.items():
            column[:used] = given[name]
        steps.valid[used:] = False
        for k, leaf in enumerate(steps.final_obs):
            leaf[:used][apart] = given[f"final_obs.{k}"]
        if self.priority_exponent is not None:
            self._tree[:] = 0.0
            kernels.write_range(self._tree, 0, given["leaves"])
        self._slot, self._has_previous, self._used, self._count = slot, bool(has_previous), used, count
        self._highest = float(given["highest"])


def _flat(leaf: Array) -> Array:
    """`[S, N, ...]` as `[S * N, D]`, the same memory."""
    return leaf.reshape(leaf.shape[0] * leaf.shape[1], -1)


def _shaped(buffers: Any, arrays: list[Array]) -> Any:
    """`[B, D]` by leaf as the space has it, `[B, ...]`."""
    parts = [array.reshape(-1, *leaf.shape) for array, leaf in zip(arrays, buffers.leaves, strict=True)]
    return buffers.join(parts)
