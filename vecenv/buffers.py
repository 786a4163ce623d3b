"""Arrays that go into and come out of kernels: observations by leaf, step outputs, what may not overlap."""

from __future__ import annotations

import ctypes
import operator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from vecenv.kernels.envdef import Leaf
from vecenv.kernels.soa import Bytes

RECORDED = "out.actions"
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
    `final_obs` like the batched observation. A field that is None is made fresh.

    Two more are written if they are given. `actions`, like the batched action: a copy of the actions. `valid`, bool
    `[N]`: who took an action; false on the reset calls of NEXT_STEP, in absorbed rows, and for agents that had ended.
    """

    obs: Observation = None
    rewards: npt.NDArray[np.float64] | None = None
    terminated: npt.NDArray[np.bool_] | None = None
    truncated: npt.NDArray[np.bool_] | None = None
    final_obs: Observation = None
    actions: Any = None
    valid: npt.NDArray[np.bool_] | None = None
    #: By whoever made it from arrays that were checked as a whole.
    checked: Checked | None = field(default=None, repr=False, compare=False)

    @property
    def fields(self) -> tuple[Any, ...]:
        return self.obs, self.rewards, self.terminated, self.truncated, self.final_obs, self.actions, self.valid

    @property
    def records(self) -> bool:
        """Whether it asks for more than a kernel writes."""
        return self.actions is not None or self.valid is not None


class Outputs:
    """Makes the arrays that one step writes, or completes those that the user gave.

    Args:
        buffers: make observations.
        action_buffers: check actions.
        same_step: whether there are final observations.
    """

    def __init__(self, buffers: LeafBuffers, action_buffers: LeafBuffers, same_step: bool) -> None:
        self._buffers, self._action_buffers, self._same_step = buffers, action_buffers, same_step
        #: What was checked last.
        self._checked: Checked | None = None

    def new(self, count: int) -> StepOut:
        shape = count * self._buffers.num_agents
        return StepOut(
            self._buffers.empty(count),
            np.empty(shape, np.float64),
            np.empty(shape, np.bool_),
            np.empty(shape, np.bool_),
            self._buffers.empty(count) if self._same_step else None,
        )

    def complete(self, out: Any, count: int, actions: Any, arena: Bytes) -> StepOut:
        """`out` with fresh arrays where it has none.

        Raises:
            TypeError, ValueError: an array does not fit, or shares memory with another, the actions or the state.
        """
        if not isinstance(out, StepOut):
            raise TypeError(f"out: expected a StepOut, got {type(out).__name__}")
        fields = out.fields
        known = self._checked if out.checked is None or out.checked.owner is not self else out.checked
        if known is None or known.count != count or not known.still(fields):
            arrays = self._check(out, count)
            spans = [span(name, array) for name, array in arrays]
            check_no_overlap([*spans, span("the state", arena)])
            known = self._checked = Checked(self, fields, count, [array for _, array in arrays], spans)
        for array in actions if isinstance(actions, tuple) else (actions,):
            known.refuse_overlap("actions", array)
        shape = count * self._buffers.num_agents
        return StepOut(
            self._buffers.empty(count) if out.obs is None else out.obs,
            np.empty(shape, FLOAT) if out.rewards is None else out.rewards,
            np.empty(shape, BOOL) if out.terminated is None else out.terminated,
            np.empty(shape, BOOL) if out.truncated is None else out.truncated,
            self._buffers.empty(count) if out.final_obs is None and self._same_step else out.final_obs,
            out.actions,
            out.valid,
        )

    def record(self, out: StepOut, actions: Any, valid: npt.NDArray[np.bool_]) -> None:
        """Write what no kernel writes: the actions as kernels took them, and who took one."""
        if out.valid is not None:
            out.valid[:] = valid
        if out.actions is not None:
            given = actions if isinstance(actions, tuple) else (actions,)
            for target, source in zip(self._action_buffers.flat(out.actions), given, strict=True):
                target[...] = source

    def _check(self, out: StepOut, count: int) -> list[tuple[str, npt.NDArray[Any]]]:
        """The arrays of `out` by name."""
        arrays = []
        for name in ("obs", "final_obs"):
            if (given := getattr(out, name)) is not None:
                if name == "final_obs" and not self._same_step:
                    raise ValueError("out.final_obs: only SAME_STEP writes final observations")
                self._buffers.check(given, count, f"out.{name}")
                arrays += [(f"out.{name}", array) for array in self._buffers.flat(given)]
        if out.actions is not None:
            self._action_buffers.check(out.actions, count, "out.actions")
            arrays += [(RECORDED, array) for array in self._action_buffers.flat(out.actions)]
        for name, dtype in (("rewards", FLOAT), ("terminated", BOOL), ("truncated", BOOL), ("valid", BOOL)):
            if (given := getattr(out, name)) is not None:
                check_output(f"out.{name}", given, (count * self._buffers.num_agents,), dtype)
                arrays.append((f"out.{name}", given))
        return arrays


class Span(NamedTuple):
    """First byte and last byte + 1 of a contiguous array."""

    start: int
    end: int
    name: str


def address(array: npt.NDArray[Any]) -> int:
    """Of a writable contiguous array with elements; anything else raises. 0.3 us, `__array_interface__` takes 1.4."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]


def span(name: str, array: npt.NDArray[Any]) -> Span:
    start = address(array) if array.size else 0
    return Span(start, start + array.nbytes, name)


def check_no_overlap(spans: list[Span]) -> None:
    """Raise if two arrays share memory: kernels are compiled on the promise that nothing overlaps."""
    filled = sorted(part for part in spans if part.start < part.end)
    for first, second in pairwise(filled):
        if second.start < first.end:
            raise _share_memory(first.name, second.name)


def _share_memory(first: str, second: str) -> ValueError:
    return ValueError(f"{first} and {second} share memory; every array of a step has to be separate")


class Checked:
    """Arrays that were checked once: to see that they are still the same takes 1 us, to check them 12.

    Args:
        owner: the outputs of the batch that they are for.
        fields: those of the `StepOut` they came in.
        count: the number of rows.
        arrays: the arrays of the fields.
        spans: where they are.
    """

    def __init__(
        self, owner: Any, fields: tuple[Any, ...], count: int, arrays: list[npt.NDArray[Any]], spans: list[Span]
    ) -> None:
        self.owner, self._fields, self.count = owner, fields, count
        self._has_dict = any(isinstance(field, dict) for field in fields)  # its arrays may be exchanged
        self._spans = spans
        self._seen = [(a, a.shape, a.dtype, part.start) for a, part in zip(arrays, spans, strict=True)]

    def still(self, fields: tuple[Any, ...]) -> bool:
        """Whether these are the same arrays, and shape, dtype, memory and flags of none were changed in place."""
        if not all(map(operator.is_, self._fields, fields)) or self._has_dict:
            return False
        try:
            for array, shape, dtype, start in self._seen:
                if array.shape != shape or array.dtype is not dtype or address(array) != start:
                    return False
        except (TypeError, ValueError, BufferError):  # read-only now, not contiguous, or empty
            return False
        return True

    def refuse_overlap(self, name: str, array: npt.NDArray[Any]) -> None:
        """Raise if `array`, writable and contiguous, shares memory with one of these."""
        start, end, _ = span(name, array)
        for part in self._spans:
            if part.start < end and start < part.end and part.name != RECORDED:  # actions may stand where they go
                raise _share_memory(name, part.name)
