"""Wiring of one definition: where its columns, params and options lie in the arena and in the head.

Offsets and shared params are read from the head at run time, so one compiled kernel serves every N and every map.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from vecenv.kernels import rng as streams
from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.jit import Binder
from vecenv.kernels.soa import ALIGNMENT, WORD, Bytes, Column, ColumnType, Field, Layout, TableType, allocate
from vecenv.kernels.transform import sizes_of

# Bits of the flags column. NEXT_STEP resets a row with ENDED on its next call; RESETTING marks it during that call.
ENDED, TERMINATED, TRUNCATED, RESETTING, EPISODE_ENDED, UNRESET = 1, 2, 4, 8, 16, 128


def engine_columns(num_agents: int) -> tuple[Column, ...]:
    """The engine's part of the arena: 77 bytes per row with one agent, whose axis is left out."""
    agents = () if num_agents == 1 else (num_agents,)
    several = (
        Column("engine.alive", np.dtype(np.bool_), agents),
        Column("engine.ending", np.dtype(np.uint8), agents),  # TERMINATED or TRUNCATED, of agents that have ended
        Column("engine.length", np.dtype(np.int32), agents),  # steps that the agent was alive for
    )
    return (
        Column("engine.rng", np.dtype(np.uint64), (streams.WORDS,)),
        Column("engine.policy", np.dtype(np.uint64), (streams.POLICY_WORDS,)),
        Column("engine.elapsed", np.dtype(np.int32)),
        Column("engine.episode", np.dtype(np.int64)),
        Column("engine.total", np.dtype(np.float64), agents),
        Column("engine.flags", np.dtype(np.uint8)),
        *(several if num_agents > 1 else ()),
    )


def side_columns(num_agents: int) -> tuple[Column, ...]:
    """What is kept per row beside the arena: it stays with the VecEnv and is never part of a snapshot."""
    agents = () if num_agents == 1 else (num_agents,)
    return (
        Column("side.limit", np.dtype(np.int32)),
        Column("side.final_total", np.dtype(np.float64), agents),
        Column("side.final_length", np.dtype(np.int32), agents),
    )


HEAD_WORDS = (
    "num_rows",
    "closed",
    "busy",  # who has claimed the rows: 0 nobody, 1 the kernel that runs, else the number of a call
    "last_step",  # the number of the last step that moved rows
    "validate",
    "action_start",
    "action_count",
    "action_bounds",
    "mask_size",
    "given_params",  # bit k: this explicit reset was given random param k, so it is not drawn
)


@dataclass(frozen=True)
class Slot:
    """A column as a row function names it. `shape` keeps the names of sizes, which are run-time values."""

    name: str
    column: Column
    shape: tuple[int | str, ...]
    writable: bool
    base: str  # "arena" or "head"


class Wiring:
    """Layouts of one definition, and the names of all memory that its kernels touch.

    Args:
        definition: the environment.
        per_row: params that have a value per row.
        random: those of them that every reset draws anew.
    """

    def __init__(
        self, definition: EnvDef, per_row: frozenset[str] = frozenset(), random: frozenset[str] = frozenset()
    ) -> None:
        self.definition = definition
        self.shared_params = tuple(field for field in definition.params.fields if field.name not in per_row)
        self.row_params = tuple(field for field in definition.params.fields if field.name in per_row)
        self.random_params = tuple(field for field in self.row_params if field.name in random)
        state = [_state_column(field, definition) for field in definition.state.fields]
        params = [Column(f"param.{field.name}", field.dtype) for field in self.row_params]
        transforms = [column for transform in definition.transforms for column in transform.columns]
        self._engine = engine_columns(definition.num_agents)
        self.arena_layout = Layout([*state, *params, *transforms, *self._engine])
        self.side_layout = Layout(side_columns(definition.num_agents))
        self._columns = {c.name: c for c in (*self.arena_layout.columns, *self.side_layout.columns)}
        self.action_bounds = _action_bounds(definition.action_space)
        words = [*HEAD_WORDS, *self._columns]
        for field in self.shared_params:
            sizes = field.type.ndim if isinstance(field.type, TableType) else 0
            words += [f"param.{field.name}", *(f"param.{field.name}.{k}" for k in range(sizes))]
        words += [f"{end}.{field.name}" for field in self.random_params for end in ("low", "high")]
        words += [f"option.{field.name}" for field in definition.options_type.fields]
        words += [f"size.{name}" for name in definition.sizes]
        for kind, leaves in (("obs", definition.observation_leaves), ("action", definition.step_leaves)):
            words += [f"{kind}.{k}.{axis}" for k, leaf in enumerate(leaves) for axis in range(len(leaf.cells))]
        self.word = {name: k for k, name in enumerate(words)}
        self.scopes = self._scopes()
        self._env_digest: str | None = None

    # --- memory -------------------------------------------------------------------------------------------------------

    def head_nbytes(self, num_rows: int) -> tuple[int, int]:
        """(start of the side columns, size of the head) in bytes."""
        side = -(-len(self.word) * WORD // ALIGNMENT) * ALIGNMENT
        return side, side + int(self.side_layout.offsets(num_rows)[-1])

    def new_arena(self, num_rows: int) -> Bytes:
        """A zeroed arena whose rows were never reset."""
        arena = allocate(int(self.arena_layout.offsets(num_rows)[-1]))
        self.arena_layout.carve(arena, num_rows)["engine.flags"][:] = UNRESET
        return arena

    def new_head(self, num_rows: int) -> Bytes:
        side, nbytes = self.head_nbytes(num_rows)
        head = allocate(nbytes)
        words = head[: len(self.word) * WORD].view(np.int64)
        words[self.word["num_rows"]] = num_rows
        words[self.word["validate"]] = 1
        for layout, base in ((self.arena_layout, 0), (self.side_layout, side)):
            for column, offset in zip(layout.columns, layout.offsets(num_rows)[:-1], strict=True):
                words[self.word[column.name]] = base + offset
        space = self.definition.action_space
        if isinstance(space, spaces.Discrete):
            words[self.word["action_start"]] = space.start
            words[self.word["action_count"]] = space.n
        elif self.action_bounds is not None:
            words[self.word["action_bounds"]] = self.action_bounds.ctypes.data
            words[self.word["action_count"]] = self.action_bounds.shape[1]
        definition = self.definition
        if definition.action_mask is not None:
            words[self.word["mask_size"]] = definition.info_arrays[-1][2][0]
        for name, size in definition.sizes.items():
            words[self.word[f"size.{name}"]] = size
        for kind, leaves in (("obs", definition.observation_leaves), ("action", definition.step_leaves)):
            for k, leaf in enumerate(leaves):
                for axis, size in enumerate(leaf.cells):
                    words[self.word[f"{kind}.{k}.{axis}"]] = size
        return head

    def carve_side(self, head: Bytes, num_rows: int) -> dict[str, npt.NDArray[Any]]:
        return self.side_layout.carve(head, num_rows, self.head_nbytes(num_rows)[0])

    def write_scalars(self, head: Bytes, prefix: str, fields: tuple[Field, ...], values: dict[str, Any]) -> None:
        """Put scalar params or options (8-byte words: int64 or float64) and addresses of tables into the head."""
        words = head[: len(self.word) * WORD].view(np.int64)
        for field in fields:
            k = self.word[f"{prefix}.{field.name}"]
            value = values[field.name]
            if isinstance(field.type, TableType):
                words[k] = value.ctypes.data
                words[k + 1 : k + 1 + value.ndim] = value.shape
            elif field.dtype.kind == "f":
                words[k : k + 1].view(np.float64)[0] = value
            else:
                words[k] = np.asarray(value).astype(np.int64)

    # --- names of memory that do not overlap --------------------------------------------------------------------------

    def _scopes(self) -> tuple[str, ...]:
        leaves = [f"action.{k}" for k in range(len(self.definition.step_leaves))]
        for k in range(len(self.definition.observation_leaves)):
            leaves += [f"obs.{k}", f"final_obs.{k}"]
        for name, _, _ in self.definition.info_arrays:
            leaves += [f"info.{name}", f"final_info.{name}"]
        return (*self._columns, *leaves, "tables", "rewards", "terminated", "truncated", "rows")

    def description(self) -> Any:
        """All that compiled accessors depend on, for the cache digest. Sizes named by options are not among it."""
        definition = self.definition
        sized = bool(definition.sizes)
        leaves = [
            [
                (leaf.key, leaf.dtype.str, len(leaf.shape) if sized else leaf.shape, type(leaf.space).__name__)
                for leaf in part
            ]
            for part in (definition.observation_leaves, definition.step_leaves)
        ]
        fields = [
            [(field.name, field.dtype.str, getattr(field.type, "ndim", None)) for field in part]
            for part in (self.shared_params, self.row_params, self.random_params, definition.options_type.fields)
        ]
        state = [(slot.name, slot.column.dtype.str, slot.shape) for slot in self.state_slots()]
        infos: list[Any] = [
            (field.name, field.dtype.str, getattr(field.type, "shape", ())) for field in definition.info_type.fields
        ]
        if definition.action_mask is not None:
            infos.append(("action_mask", None if sized else definition.info_arrays[-1][2]))
        containers = type(definition.observation_space).__name__, type(definition.action_space).__name__
        rest = [containers, definition.invalid_action, list(definition.sizes), definition.num_agents]
        transforms = [transform.key for transform in definition.transforms]
        return [state, leaves, fields, infos, *rest, *([transforms] if transforms else [])]

    def env_digest(self) -> str:
        """Names the variant of the environment: its spaces, fields, functions and constants. Snapshots carry it.

        Functions count by their names and by the constants that they read, not by their code: a snapshot outlives a new
        Python version or a mended comment, and is not taken by a closure over another number.
        """
        if self._env_digest is None:
            self._env_digest = self._compute_env_digest()
        return self._env_digest

    def _compute_env_digest(self) -> str:
        definition = self.definition
        functions = [definition.reset, definition.step, definition.observe, definition.info]
        names = [getattr(function, "__qualname__", None) for function in functions]
        chosen = sorted((name, function.__qualname__) for name, function in definition.functions.items())
        constants = bound_functions(definition).constants()
        parts = [definition.id, self.description(), self.arena_layout.digest, names, chosen, constants]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def state_slots(self) -> list[Slot]:
        """The fields an author sees in `state`."""
        slots = []
        for field in self.definition.state.fields:
            assert isinstance(field.type, ColumnType)
            slots.append(Slot(field.name, self._columns[f"state.{field.name}"], field.type.shape, True, "arena"))
        slots.append(Slot("elapsed", self._columns["engine.elapsed"], (), False, "arena"))
        slots.append(Slot("limit", self._columns["side.limit"], (), False, "head"))
        if (agents := self.definition.num_agents) > 1:
            slots.append(Slot("alive", self._columns["engine.alive"], (agents,), False, "arena"))
        return slots

    def engine_slots(self) -> list[Slot]:
        slots = [Slot(c.name.split(".")[1], c, c.shape, True, "arena") for c in self._engine]
        return slots + [Slot(c.name.split(".")[1], c, c.shape, True, "head") for c in self.side_layout.columns]

    def transform_slots(self) -> list[list[Slot]]:
        """What the hooks of each transform see in `own`."""

        def slot(column: Column) -> Slot:
            shape: tuple[int | str, ...] = tuple(sizes_of(column)) if self.definition.sizes else column.shape
            return Slot(column.name.split(".", 2)[2], column, shape, True, "arena")

        return [[slot(column) for column in transform.columns] for transform in self.definition.transforms]

    def param_slots(self) -> list[Slot]:
        """The params with a value per row."""
        return [Slot(field.name, self._columns[f"param.{field.name}"], (), True, "arena") for field in self.row_params]


def bound_functions(definition: EnvDef) -> Binder:
    """The definition's functions with all that they read, as they were when first asked for."""
    if "functions" not in definition.kernels:
        binder = Binder("portable", compiled=False, replace=definition.functions, frozen=definition.frozen)
        for function in row_functions(definition):
            if function is not None:
                binder.clone(function)
        definition.kernels["functions"] = binder
    found: Binder = definition.kernels["functions"]
    return found


def row_functions(definition: EnvDef) -> tuple[Any, ...]:
    return definition.reset, definition.step, definition.observe, definition.info, definition.action_mask


def _action_bounds(space: spaces.Space[Any]) -> npt.NDArray[np.int64] | None:
    """Lowest and highest value of each element of a MultiDiscrete or MultiBinary action, `[2, K]`."""
    if isinstance(space, spaces.MultiDiscrete):
        low = np.asarray(space.start, np.int64).ravel()
        return np.stack([low, low + np.asarray(space.nvec, np.int64).ravel() - 1])
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return np.stack([np.zeros(size, np.int64), np.ones(size, np.int64)])
    return None


def _state_column(field: Field, definition: EnvDef) -> Column:
    assert isinstance(field.type, ColumnType)
    shape = []
    for size in field.type.shape:
        if isinstance(size, str) and size not in definition.sizes:
            raise TypeError(
                f"{definition.id}: field {field.name!r} has the size {size!r}, which is not in sizes; "
                f"pass EnvDef(..., sizes={{{size!r}: ...}})"
            )
        shape.append(definition.sizes[size] if isinstance(size, str) else size)
    return Column(f"state.{field.name}", field.dtype, tuple(shape))
