"""What users pass to a VecEnv, checked and brought into the one form that kernels take. Nothing here moves a row."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from vecenv.kernels.envdef import EnvDef, Leaf, close_matches
from vecenv.kernels.seeding import normalize_seed
from vecenv.kernels.soa import TAKES, TableType, as_array, cast, convert_scalar, shown
from vecenv.kernels.transform import Transform

Rows = npt.NDArray[np.int64]


def parse_num_envs(num_envs: Any) -> int:
    number = 0 if isinstance(num_envs, bool) else parse_int(num_envs, "num_envs: expected an int >= 1")
    if number < 1:
        raise ValueError(f"num_envs: expected an int >= 1, got {shown(num_envs)}")
    return number


def parse_int(value: Any, expected: str) -> int:
    """A Python int, a NumPy integer or a 0-d integer array; a bool is none."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{expected}, got {shown(value)}") from None


def parse_count(value: Any, what: str) -> int:
    number = parse_int(value, f"{what}: expected an int >= 1")
    if number < 1:
        raise ValueError(f"{what}: expected an int >= 1, got {shown(value)}")
    return number


def parse_flag(value: Any, what: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{what}: expected True or False, got {shown(value)}")
    return bool(value)


def parse_choice(value: Any, what: str, *choices: str) -> str:
    if not isinstance(value, str) or value not in choices:
        expected = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
        raise ValueError(f"{what}: expected {expected}, got {shown(value)}")
    return str(value)


def parse_mapping(given: Any, what: str, expected: str = "a dict") -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise TypeError(f"{what}: expected {expected}, got {type(given).__name__}")
    return given


def parse_autoreset_mode(mode: Any) -> AutoresetMode:
    """A member, its value ("NextStep") or its name in any case ("next_step")."""
    if isinstance(mode, AutoresetMode):
        return mode
    if isinstance(mode, str):
        for member in AutoresetMode:
            if mode == member.value or mode.upper() == member.name:
                return member
    names = ", ".join(repr(member.name.lower()) for member in AutoresetMode)
    raise ValueError(f"autoreset_mode: expected an AutoresetMode or one of {names}, got {shown(mode)}")


def parse_limits(limit: Any, definition: EnvDef, num_envs: int) -> npt.NDArray[np.int32]:
    """Step limit of every row, -1 for none: from None (the definition's), -1, an int >= 1 or an int array `[N]`."""
    if limit is None:
        limit = -1 if definition.max_episode_steps is None else definition.max_episode_steps
    expected = f"None, -1, an int >= 1 or an int array of shape ({num_envs},)"
    array = as_array(limit, "max_episode_steps", expected)
    if array.dtype.kind not in "iu" or array.shape not in ((), (num_envs,)):
        raise TypeError(f"max_episode_steps: expected {expected}, got {shown(limit)}")
    bad = (array == 0) | (array < -1) | (array >= 2**31)
    if bad.any():
        where = "" if array.shape == () else f"row {int(np.flatnonzero(bad)[0])}: "
        value = array if array.shape == () else array[bad][0]
        raise ValueError(f"max_episode_steps: {where}expected -1 (none) or an int from 1 to 2**31 - 1, got {value}")
    return np.broadcast_to(array, (num_envs,)).astype(np.int32)


def parse_transforms(transforms: Any) -> tuple[Transform, ...]:
    """Transforms such as `FrameStack(4)` in a tuple or list, the innermost first."""
    expected = "transforms: expected a tuple of transforms such as (FrameStack(4),)"
    if not isinstance(transforms, (tuple, list)):
        raise TypeError(f"{expected}, got {shown(transforms)}")
    for k, each in enumerate(transforms):
        if isinstance(each, type) or not callable(getattr(each, "bind", None)):
            raise TypeError(f"{expected}, got {shown(each)} at position {k}")
    return tuple(transforms)


def parse_threads(num_threads: Any) -> int:
    is_int = isinstance(num_threads, (int, np.integer)) and not isinstance(num_threads, bool)
    if not ((is_int and num_threads == 1) or (isinstance(num_threads, str) and num_threads == "auto")):
        raise ValueError(f"num_threads: expected 'auto' or 1 (steps run on one thread), got {shown(num_threads)}")
    return 1


def parse_rows(rows: Any, num_envs: int, what: str = "rows", unique: bool = True) -> Rows:
    """Row numbers as int64 `[K]`, from a bool mask `[N]` or ints; in the order given."""
    array = as_array(rows, what, "a one-dimensional int array or a bool mask")
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
        seen = np.zeros(num_envs, np.bool_)
        seen[numbers] = True
        if np.count_nonzero(seen) != len(numbers):
            values, counts = np.unique(numbers, return_counts=True)
            raise ValueError(f"{what}: row {values[counts > 1][0]} occurs more than once")
    return numbers


def parse_row(row: Any, num_envs: int, what: str) -> int:
    """One row number."""
    number = parse_int(row, f"{what}: expected a row number from 0 to {num_envs - 1}")
    if not 0 <= number < num_envs:
        raise ValueError(f"{what}: row {shown(row)} is outside 0 to {num_envs - 1}")
    return number


Seeds = range | list[int | None]


def parse_seeds(seed: Any, num_envs: int) -> Seeds | None:
    """A seed per row, or None: an int s gives s + i, a sequence of length N its entries (None: keep the stream)."""
    if seed is None:
        return None
    if isinstance(seed, np.ndarray) and seed.ndim != 1:
        raise TypeError(f"seed: expected an int or {num_envs} entries, one per row, got an array of shape {seed.shape}")
    if isinstance(seed, (Sequence, np.ndarray)) and not isinstance(seed, (str, bytes)):
        if len(seed) != num_envs:
            raise ValueError(f"seed: expected {num_envs} entries, one per row, got {len(seed)}")
        return [None if entry is None else _seed_of_row(i, entry) for i, entry in enumerate(seed)]
    first = normalize_seed(seed)
    return range(first, first + num_envs)


def _seed_of_row(row: int, seed: Any) -> int:
    try:
        return normalize_seed(seed)
    except (TypeError, ValueError) as error:
        raise type(error)(f"row {row}: {error}") from None


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


def parse_ended(ended: Any, mode: AutoresetMode) -> str:
    """What DISABLED does when an ended row is stepped."""
    choice = parse_choice(ended, "ended", "raise", "absorb")
    if choice == "absorb" and mode is not AutoresetMode.DISABLED:
        raise ValueError(f"ended='absorb' belongs to autoreset_mode='disabled', got {mode.name.lower()!r}")
    return choice


def parse_reset_options(options: Mapping[str, Any], definition: EnvDef) -> dict[str, Any]:
    """The author's reset options with their defaults; unknown keys raise."""
    fields = {field.name: field for field in definition.options_type.fields}
    for key in options:
        if key not in fields:
            known = ["reset_mask", "params", "state", *fields]
            raise ValueError(f"reset options: unknown key {shown(key)}{close_matches(key, known)}")
    where = f"{definition.id}: reset option"
    values = {name: convert_scalar(field, options.get(name, field.default), where) for name, field in fields.items()}
    for name, value in values.items():
        if np.isnan(value):
            raise ValueError(f"{where} {name!r}: expected a number, got {value}")
    if definition.check_options is not None:
        definition.check_options(values)
    return values


class ActionParser:
    """Brings actions of one definition into what kernels take: a C-contiguous array `[K, *shape]` of the space's dtype,
    or a tuple of them for Dict and Tuple spaces; `[K * A, *shape]` with A agents.

    Args:
        definition: the environment.
        strict: refuse Box actions outside their bounds.
    """

    def __init__(self, definition: EnvDef, strict: bool = False) -> None:
        self.space, self.leaves, self.strict = definition.action_space, definition.action_leaves, strict
        self.num_agents = definition.num_agents
        self.composite = isinstance(self.space, (spaces.Dict, spaces.Tuple))
        self.dtype, self.shape = self.leaves[0].dtype, self.leaves[0].shape

    def empty(self, count: int) -> Any:
        arrays = tuple(np.zeros((count * self.num_agents, *leaf.shape), leaf.dtype) for leaf in self.leaves)
        return arrays if self.composite else arrays[0]

    def __call__(self, actions: Any, count: int, rows: Rows | None = None) -> Any:
        """`rows` are the numbers of the rows that the actions are for, to name them; None for all."""
        if not self.composite:
            return self._leaf(self.leaves[0], actions, count, "actions", rows)
        keys = [leaf.key for leaf in self.leaves]
        if isinstance(self.space, spaces.Dict):
            if not isinstance(actions, Mapping) or set(actions) != set(keys):
                got = sorted(actions) if isinstance(actions, Mapping) else type(actions).__name__
                raise TypeError(f"actions: expected a dict with the keys {keys}, got {got}")
        elif not isinstance(actions, (tuple, list)) or len(actions) != len(keys):
            raise TypeError(f"actions: expected a tuple of {len(keys)} arrays, got {type(actions).__name__}")
        return tuple(self._leaf(leaf, actions[leaf.key], count, f"actions[{leaf.key!r}]", rows) for leaf in self.leaves)

    def one(self, action: Any) -> Any:
        """A single action, or one per agent, as a batch of one row."""
        if self.num_agents > 1:
            return self(action, 1)
        if not self.composite:
            return self(self._alone(action), 1)
        if isinstance(action, Mapping):
            return self({key: self._alone(part) for key, part in action.items()}, 1)
        if isinstance(action, (tuple, list)):
            return self(tuple(map(self._alone, action)), 1)
        return self(action, 1)

    def _alone(self, action: Any) -> npt.NDArray[Any]:
        return as_array(action, "action", f"one of {self.space}")[np.newaxis]

    def _leaf(self, leaf: Leaf, actions: Any, count: int, what: str, rows: Rows | None) -> npt.NDArray[Any]:
        shape = (count * self.num_agents, *leaf.shape)
        expected = f"expected an array of shape {shape} of {leaf.dtype}"
        array = as_array(actions, what, expected.removeprefix("expected "))
        if array.ndim == 0:
            raise TypeError(f"{what}: {expected}, got {shown(actions)}")
        if array.shape != shape:
            raise ValueError(f"{what}: {expected}, got shape {array.shape}")
        kinds = "buif" if leaf.dtype.kind == "f" else "bui"
        if array.dtype.kind not in kinds:
            raise TypeError(f"{what}: {expected}, got {array.dtype}")
        with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf, which is refused by row
            converted = np.array(array, dtype=leaf.dtype, order="C")
        if leaf.dtype.kind != "f" and array.dtype != leaf.dtype and array.dtype.kind != "b":
            changed = converted != array
            if changed.any():
                k = int(np.argwhere(changed)[0][0])
                raise ValueError(f"{what}: {self.place(k, rows)}: {array[k]} does not fit {leaf.dtype}")
        return converted

    def place(self, position: int, rows: Rows | None) -> str:
        """Whose action it is, in words."""
        k, agent = divmod(position, self.num_agents)
        row = f"row {k if rows is None else rows[k]}"
        return row if self.num_agents == 1 else f"{row}, agent {agent}"

    def first_bad(self, actions: Any, running: npt.NDArray[np.bool_]) -> tuple[int, str] | None:
        """Position and reason of the first action of a running row that the kernel itself does not check."""
        for leaf, array in zip(self.leaves, actions if self.composite else (actions,), strict=True):
            bad = running & self._bad(leaf, array)
            if bad.any():
                k = int(np.flatnonzero(bad)[0])
                name = "" if leaf.key is None else f"[{leaf.key!r}]"
                return k, f"action{name} {array[k]} {self._why(leaf.space, array[k])}"
        return None

    def _bad(self, leaf: Leaf, array: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """`[K]`: whether an action is not finite or, except for Box without `strict`, outside its bounds."""
        space = leaf.space
        if isinstance(space, spaces.Discrete):
            bad = (array < space.start) | (array >= space.start + space.n)
        elif isinstance(space, spaces.MultiDiscrete):
            bad = (array < space.start) | (array >= space.start + space.nvec)
        elif isinstance(space, spaces.MultiBinary):
            bad = (array < 0) | (array > 1)
        else:
            assert isinstance(space, spaces.Box)
            bad = ~np.isfinite(array)
            if self.strict:
                bad |= (array < space.low) | (array > space.high)
        rows: npt.NDArray[np.bool_] = bad.any(axis=tuple(range(1, bad.ndim)))
        return rows

    def describe(self, action: Any) -> str:
        """Why an action that a kernel refused is wrong."""
        return f"action {action} {self._why(self.space, action)}"

    @staticmethod
    def _why(space: spaces.Space[Any], action: Any) -> str:
        if isinstance(space, spaces.Box) and not np.isfinite(action).all():
            return "is not finite"
        return f"is outside {space}"


# --- params and state -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Uniform:
    """A param drawn uniformly from [low, high) for each row at each reset."""

    low: float
    high: float


def uniform(low: float, high: float) -> Uniform:
    """For `make_vec(params={"length": uniform(0.3, 0.7)})`: every reset draws the param from the row's own stream.

    Raises:
        TypeError, ValueError: unless both are finite numbers and low <= high.
    """
    expected = "uniform: expected finite bounds with low <= high"
    for bound in (low, high):
        array = as_array(bound, "uniform", "finite bounds with low <= high")
        if array.shape != () or array.dtype.kind not in "iuf":
            raise TypeError(f"{expected}, got {shown(low)} and {shown(high)}")
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ValueError(f"{expected}, got {shown(low)} and {shown(high)}")
    return Uniform(float(low), float(high))


@dataclass(frozen=True)
class ParamValues:
    """Shared params by name, and those with a value per row: an array `[N]`, or `Uniform`."""

    shared: dict[str, Any]
    per_row: dict[str, npt.NDArray[Any] | Uniform]


def parse_params(given: Mapping[str, Any] | None, definition: EnvDef, num_envs: int) -> ParamValues:
    """Split params into shared ones and those per row."""
    fields = {field.name: field for field in definition.params.fields}
    given = {} if given is None else parse_mapping(given, "params", "a dict of values by name")
    shared = dict(given)
    per_row: dict[str, npt.NDArray[Any] | Uniform] = {}
    for name, value in given.items():
        field = fields.get(name)
        if field is None or isinstance(field.type, TableType):
            continue
        is_random, what = isinstance(value, Uniform), f"param {name!r}"
        if not is_random and as_array(value, what, f"a number or an array of shape ({num_envs},)").ndim == 0:
            continue
        if name in definition.fixed_params:
            raise ValueError(f"{definition.id}: param {name!r} follows from the options and cannot be given")
        if is_random and field.dtype != np.float64:
            raise TypeError(f"{definition.id}: param {name!r}: only F8 params can be drawn, this is {field.dtype}")
        per_row[name] = value if is_random else convert_column(field.dtype, value, (num_envs,), what)
        del shared[name]
    values = definition.resolve_params(shared)
    return ParamValues({name: value for name, value in values.items() if name not in per_row}, per_row)


def parse_reset_params(
    given: Any, definition: EnvDef, per_row: Mapping[str, Any], num_envs: int, all_rows: bool
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """`options["params"]`: columns `[N]` of params per row, and shared params (only for a reset of all rows)."""
    given = parse_mapping(given, "reset options: 'params'")
    fields = {field.name: field for field in definition.params.fields}
    rows: dict[str, npt.NDArray[Any]] = {}
    shared: dict[str, Any] = {}
    for name, value in given.items():
        if name not in fields:
            raise ValueError(f"reset options: no param {shown(name)}{close_matches(name, fields)}")
        if name in definition.fixed_params:
            raise ValueError(f"reset options: param {name!r} follows from the options and cannot be given")
        if name in per_row:
            rows[name] = convert_column(fields[name].dtype, value, (num_envs,), f"reset options: param {name!r}")
        elif not all_rows:
            raise ValueError(
                f"reset options: param {name!r} is shared by all rows, so it needs a reset of all rows; "
                f"make_vec(params={{{name!r}: array}}) gives it a value per row"
            )
        else:
            shared[name] = value
    resolved = definition.resolve_params(shared)
    return rows, {name: resolved[name] for name in shared}


def parse_reset_state(
    given: Any, columns: Mapping[str, npt.NDArray[Any]], limits: npt.NDArray[np.int32], rows: Rows | None
) -> dict[str, npt.NDArray[Any]]:
    """`options["state"]`: columns `[N, ...]` of state fields that `rows`, or all, start from."""
    given = parse_mapping(given, "reset options: 'state'")
    parsed = {}
    for name, value in given.items():
        if name not in columns:
            raise ValueError(f"reset options: no state field {shown(name)}{close_matches(name, columns)}")
        what, column = f"reset options: state {name!r}", columns[name]
        parsed[name] = convert_column(column.dtype, value, column.shape, what)
        if name == "elapsed":
            check_elapsed(parsed[name], np.where(limits < 0, limits, limits - 1), what, rows)
    return parsed


def check_elapsed(values: npt.NDArray[Any], limits: npt.NDArray[np.int32], what: str, rows: Rows | None = None) -> None:
    """Raise where a step count `[N]` is negative or above its row's limit (-1 for none); of `rows`, or of all."""
    most = np.where(limits < 0, 2**31 - 2, limits)
    bad = (values < 0) | (values > most)
    for i in np.flatnonzero(bad) if rows is None else rows[bad[rows]]:
        raise ValueError(f"{what}: row {i}: expected 0 to {most[i]}, got {values[i]}")


def convert_column(dtype: np.dtype[Any], value: Any, shape: tuple[int, ...], what: str) -> npt.NDArray[Any]:
    """`value`, one number or an array that broadcasts to `shape`, as a column of `dtype`."""
    array = as_array(value, what, f"{dtype} of shape {shape}")
    if array.dtype.kind not in TAKES[dtype.kind]:
        raise TypeError(f"{what}: expected {dtype} of shape {shape}, got {array.dtype}")
    try:
        wide = np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"{what}: expected shape {shape}, got {array.shape}") from None
    converted, bad = cast(wide, dtype)
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        raise ValueError(f"{what}: row {row}: {wide[row]} does not fit {dtype}")
    return converted
