"""Arrays that go into and come out of kernels: observations by leaf, step outputs, what may not overlap."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from vecenv.kernels.envdef import Leaf

FLOAT, BOOL = np.dtype(np.float64), np.dtype(np.bool_)
Observation = Any  # an array, or a dict or tuple of arrays


def by_row(array: npt.NDArray[Any], num_agents: int) -> npt.NDArray[Any]:
    """An array `[K * A, ...]`, agent fastest, by its rows: itself with one agent, else `[K, A, ...]`."""
    return array if num_agents == 1 else array.reshape(-1, num_agents, *array.shape[1:])


class LeafBuffers:
    """Batched arrays of one observation space: one array, or a dict or tuple of arrays, each `[K, *leaf.shape]`.

    With A agents K rows have `[K * A, *leaf.shape]`, agent fastest.
    """

    def __init__(self, space: spaces.Space[Any], leaves: tuple[Leaf, ...], num_agents: int = 1) -> None:
        self.leaves, self.num_agents = leaves, num_agents
        self.kind = (
            "dict" if isinstance(space, spaces.Dict) else "tuple" if isinstance(space, spaces.Tuple) else "array"
        )
        self.shape, self.dtype = leaves[0].shape, leaves[0].dtype

    def empty(self, count: int) -> Observation:
        count *= self.num_agents
        if self.kind == "array":
            return np.empty((count, *self.shape), self.dtype)
        arrays = [np.empty((count, *leaf.shape), leaf.dtype) for leaf in self.leaves]
        return self.join(arrays)

    def join(self, arrays: list[npt.NDArray[Any]]) -> Observation:
        if self.kind == "array":
            return arrays[0]
        if self.kind == "tuple":
            return tuple(arrays)
        return {str(leaf.key): array for leaf, array in zip(self.leaves, arrays, strict=True)}

    def arrays(self, observation: Observation) -> Any:
        """What a kernel takes: the array, or a tuple of the leaves."""
        if self.kind == "array":
            return observation
        if self.kind == "tuple":
            return tuple(observation)
        return tuple(observation[leaf.key] for leaf in self.leaves)

    def flat(self, observation: Observation) -> list[npt.NDArray[Any]]:
        return [observation] if self.kind == "array" else list(self.arrays(observation))

    def row(self, observation: Observation, i: int) -> Any:
        """A private copy of row i, as the single space has it (a Discrete leaf is a NumPy scalar); `[A, ...]` of it
        with several agents."""
        parts: list[Any] = [array[i].copy() for array in self.by_row(observation)]
        return self.join(parts)

    def by_row(self, observation: Observation) -> list[npt.NDArray[Any]]:
        """The arrays, indexed by row."""
        return [by_row(array, self.num_agents) for array in self.flat(observation)]

    def copy(self, observation: Observation) -> Observation:
        return self.join([array.copy() for array in self.flat(observation)])

    def check(self, observation: Observation, count: int, what: str) -> None:
        """Raise unless `observation` is a destination for `count` rows."""
        if self.kind == "dict" and (
            not isinstance(observation, dict) or set(observation) != {x.key for x in self.leaves}
        ):
            raise TypeError(f"{what}: expected a dict with the keys {[leaf.key for leaf in self.leaves]}")
        if self.kind == "tuple" and (not isinstance(observation, tuple) or len(observation) != len(self.leaves)):
            raise TypeError(f"{what}: expected a tuple of {len(self.leaves)} arrays")
        for leaf, array in zip(self.leaves, self.flat(observation), strict=True):
            name = what if leaf.key is None else f"{what}[{leaf.key!r}]"
            check_output(name, array, (count * self.num_agents, *leaf.shape), leaf.dtype)


def check_output(name: str, array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise unless `array` can be written by a kernel: exact shape and dtype, contiguous, aligned, writable."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name}: expected a NumPy array, got {type(array).__name__}")
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{name}: expected shape {shape} of {dtype}, got {array.shape} of {array.dtype}")
    if not array.flags.carray:
        raise ValueError(f"{name}: expected a writable C-contiguous array")


@dataclass
class StepOut:
    """Where `step(out=...)` writes: `rewards` float64 `[N]`, `terminated` and `truncated` bool `[N]`, `obs` and
    `final_obs` like the batched observation. A field that is None is made fresh."""

    obs: Observation = None
    rewards: npt.NDArray[np.float64] | None = None
    terminated: npt.NDArray[np.bool_] | None = None
    truncated: npt.NDArray[np.bool_] | None = None
    final_obs: Observation = None


class Outputs:
    """Makes the arrays that one step writes, or completes those that the user gave."""

    def __init__(self, buffers: LeafBuffers, same_step: bool) -> None:
        self._buffers, self._same_step = buffers, same_step
        #: What was checked last: the fields, the number of rows, and the arrays' spans in memory.
        self._checked: tuple[tuple[Any, ...], int, list[Span]] | None = None

    def new(self, count: int) -> StepOut:
        shape = count * self._buffers.num_agents
        return StepOut(
            self._buffers.empty(count),
            np.empty(shape, np.float64),
            np.empty(shape, np.bool_),
            np.empty(shape, np.bool_),
            self._buffers.empty(count) if self._same_step else None,
        )

    def complete(self, out: Any, count: int, taken: list[tuple[str, npt.NDArray[Any]]]) -> StepOut:
        """`out` with fresh arrays where it has none.

        Raises:
            TypeError, ValueError: an array does not fit, or shares memory with another or with what is `taken`.
        """
        if not isinstance(out, StepOut):
            raise TypeError(f"out: expected a StepOut, got {type(out).__name__}")
        fields = (out.obs, out.rewards, out.terminated, out.truncated, out.final_obs)
        known = self._checked
        if known and known[1] == count and all(map(operator.is_, known[0], fields)) and type(out.obs) is not dict:
            spans = known[2]  # the same arrays as in the last step: 2 us instead of 12
        else:
            spans = self._check(out, count)
            self._checked = fields, count, spans
        check_no_overlap(spans + [span(name, array) for name, array in taken])
        shape = count * self._buffers.num_agents
        return StepOut(
            self._buffers.empty(count) if out.obs is None else out.obs,
            np.empty(shape, FLOAT) if out.rewards is None else out.rewards,
            np.empty(shape, BOOL) if out.terminated is None else out.terminated,
            np.empty(shape, BOOL) if out.truncated is None else out.truncated,
            self._buffers.empty(count) if out.final_obs is None and self._same_step else out.final_obs,
        )

    def _check(self, out: StepOut, count: int) -> list[Span]:
        spans = []
        for name in ("obs", "final_obs"):
            if (given := getattr(out, name)) is not None:
                if name == "final_obs" and not self._same_step:
                    raise ValueError("out.final_obs: only SAME_STEP writes final observations")
                self._buffers.check(given, count, f"out.{name}")
                spans += [span(f"out.{name}", array) for array in self._buffers.flat(given)]
        for name, dtype in (("rewards", FLOAT), ("terminated", BOOL), ("truncated", BOOL)):
            if (given := getattr(out, name)) is not None:
                check_output(f"out.{name}", given, (count * self._buffers.num_agents,), dtype)
                spans.append(span(f"out.{name}", given))
        return spans


Span = tuple[int, int, str]


def span(name: str, array: npt.NDArray[Any]) -> Span:
    """First byte, last byte + 1 and name of a contiguous array."""
    start: int = array.__array_interface__["data"][0]
    return start, start + array.nbytes, name


def check_no_overlap(spans: list[Span]) -> None:
    """Raise if two arrays share memory: kernels are compiled on the promise that nothing overlaps."""
    filled = sorted(part for part in spans if part[0] < part[1])
    for (_, end, first), (start, _, second) in pairwise(filled):
        if start < end:
            raise ValueError(f"{first} and {second} share memory; every array of a step has to be separate")
