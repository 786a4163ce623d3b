"""What users pass to a VecEnv, checked and brought into the one form that kernels take. Nothing here moves a row."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from vecenv.kernels.envdef import EnvDef, close_matches
from vecenv.kernels.seeding import normalize_seed
from vecenv.kernels.soa import convert_scalar

Rows = npt.NDArray[np.int64]


def parse_num_envs(num_envs: Any) -> int:
    try:
        number = operator.index(num_envs)
    except TypeError:
        raise TypeError(f"num_envs: expected an int >= 1, got {num_envs!r}") from None
    if isinstance(num_envs, bool) or number < 1:
        raise ValueError(f"num_envs: expected an int >= 1, got {num_envs!r}")
    return number


def parse_autoreset_mode(mode: Any) -> AutoresetMode:
    """A member, its value ("NextStep") or its name in any case ("next_step")."""
    if isinstance(mode, AutoresetMode):
        return mode
    if isinstance(mode, str):
        for member in AutoresetMode:
            if mode == member.value or mode.upper() == member.name:
                return member
    names = ", ".join(repr(member.name.lower()) for member in AutoresetMode)
    raise ValueError(f"autoreset_mode: expected an AutoresetMode or one of {names}, got {mode!r}")


def parse_limits(limit: Any, definition: EnvDef, num_envs: int) -> npt.NDArray[np.int32]:
    """Step limit of every row, -1 for none: from None (the definition's), -1, an int >= 1 or an int array `[N]`."""
    if limit is None:
        limit = -1 if definition.max_episode_steps is None else definition.max_episode_steps
    array = np.asarray(limit)
    if array.dtype.kind not in "iu" or array.shape not in ((), (num_envs,)):
        raise TypeError(
            f"max_episode_steps: expected None, -1, an int >= 1 or an int array of shape ({num_envs},), got {limit!r}"
        )
    bad = (array == 0) | (array < -1) | (array >= 2**31)
    if bad.any():
        where = "" if array.shape == () else f"row {int(np.flatnonzero(bad)[0])}: "
        value = array if array.shape == () else array[bad][0]
        raise ValueError(f"max_episode_steps: {where}expected -1 (none) or an int from 1 to 2**31 - 1, got {value}")
    return np.broadcast_to(array, (num_envs,)).astype(np.int32)


def parse_threads(num_threads: Any) -> int:
    if num_threads == "auto" or (num_threads == 1 and not isinstance(num_threads, bool)):
        return 1
    raise ValueError(f"num_threads: expected 'auto' or 1 (steps run on one thread), got {num_threads!r}")


def parse_rows(rows: Any, num_envs: int, what: str = "rows", unique: bool = True) -> Rows:
    """Row numbers as int64 `[K]`, from a bool mask `[N]` or ints; in the order given."""
    array = np.asarray(rows)
    if array.dtype == np.bool_:
        if array.shape != (num_envs,):
            raise ValueError(f"{what}: expected a bool mask of shape ({num_envs},), got shape {array.shape}")
        return np.flatnonzero(array)
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(
            f"{what}: expected a one-dimensional int array or a bool mask, got shape {array.shape} of {array.dtype}"
        )
    bad = (array < 0) | (array >= num_envs)
    if bad.any():
        raise ValueError(f"{what}: row {array[bad][0]} is outside 0 to {num_envs - 1}")
    numbers = np.array(array, np.int64)  # a copy: for a read-only array Numba would compile every kernel anew
    if unique:
        values, counts = np.unique(numbers, return_counts=True)
        if len(values) != len(numbers):
            raise ValueError(f"{what}: row {values[counts > 1][0]} occurs more than once")
    return numbers


def parse_seeds(seed: Any, num_envs: int) -> list[int | None] | None:
    """A seed per row, or None: an int s gives s + i, a sequence of length N its entries (None: keep the stream)."""
    if seed is None:
        return None
    if isinstance(seed, np.ndarray) and seed.ndim != 1:
        raise TypeError(f"seed: expected an int or {num_envs} entries, one per row, got an array of shape {seed.shape}")
    if isinstance(seed, (Sequence, np.ndarray)) and not isinstance(seed, (str, bytes)):
        if len(seed) != num_envs:
            raise ValueError(f"seed: expected {num_envs} entries, one per row, got {len(seed)}")
        return [None if entry is None else normalize_seed(entry) for entry in seed]
    first = normalize_seed(seed)
    return [first + i for i in range(num_envs)]


def parse_reset_mask(mask: Any, num_envs: int) -> Rows:
    """Rows of `options["reset_mask"]`, with Gymnasium 1.4's checks and error types."""
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"`options['reset_mask']` must be a numpy array, got {type(mask)}")
    if mask.shape != (num_envs,):
        raise ValueError(f"`options['reset_mask']` must have shape `({num_envs},)`, got {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"`options['reset_mask']` must have `dtype=np.bool_`, got {mask.dtype}")
    if not mask.any():
        raise ValueError(f"`options['reset_mask']` must contain a boolean array with at least one True, got {mask}")
    return np.flatnonzero(mask)


def parse_reset_options(options: Mapping[str, Any], definition: EnvDef) -> dict[str, Any]:
    """The author's reset options with their defaults; unknown keys raise."""
    fields = {field.name: field for field in definition.options_type.fields}
    for key in options:
        if key not in fields:
            known = ["reset_mask", *fields]
            raise ValueError(f"reset options: unknown key {key!r}{close_matches(str(key), known)}")
    where = f"{definition.id}: reset option"
    return {name: convert_scalar(field, options.get(name, field.default), where) for name, field in fields.items()}


class ActionParser:
    """Brings actions of one definition into a C-contiguous array `[K, *shape]` of the space's dtype."""

    def __init__(self, definition: EnvDef) -> None:
        self.space = definition.action_space
        leaf = definition.action_leaves[0]
        self.dtype, self.shape = leaf.dtype, leaf.shape

    def __call__(self, actions: Any, count: int) -> npt.NDArray[Any]:
        expected = f"expected an array of shape {(count, *self.shape)} of {self.dtype}"
        try:
            array = np.asarray(actions)
        except ValueError as error:
            raise ValueError(f"actions: {expected}, got a ragged sequence") from error
        if array.ndim == 0:
            raise TypeError(f"actions: {expected}, got {actions!r}")
        if array.shape != (count, *self.shape):
            raise ValueError(f"actions: {expected}, got shape {array.shape}")
        kinds = "buif" if self.dtype.kind == "f" else "bui"
        if array.dtype.kind not in kinds:
            raise TypeError(f"actions: {expected}, got {array.dtype}")
        with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf, which the kernel refuses by row
            converted = np.array(array, dtype=self.dtype, order="C")
        if self.dtype.kind != "f" and array.dtype != self.dtype:
            changed = (converted != array) if array.dtype.kind != "b" else np.zeros(1, np.bool_)
            if changed.any():
                row = int(np.argwhere(changed)[0][0])
                raise ValueError(f"actions: row {row}: {array[row]} does not fit {self.dtype}")
        return converted

    def describe(self, action: Any) -> str:
        """Why an action that a kernel refused is wrong."""
        if isinstance(self.space, spaces.Box):
            return f"action {action} is not finite"
        return f"action {action} is outside {self.space}"
