"""Wiring of one definition: where its columns, params and options lie in the arena and in the head.

Offsets and shared params are read from the head at run time, so one compiled kernel serves every N and every map.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from vecenv.kernels import rng as streams
from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.soa import ALIGNMENT, WORD, Bytes, Column, ColumnType, Field, Layout, TableType, allocate

# Bits of the flags column. NEXT_STEP resets a row with ENDED on its next call; RESETTING marks it during that call.
ENDED, TERMINATED, TRUNCATED, RESETTING, EPISODE_ENDED, UNRESET = 1, 2, 4, 8, 16, 128

ENGINE_COLUMNS = (
    Column("engine.rng", np.dtype(np.uint64), (streams.WORDS,)),
    Column("engine.policy", np.dtype(np.uint64), (streams.POLICY_WORDS,)),
    Column("engine.elapsed", np.dtype(np.int32)),
    Column("engine.episode", np.dtype(np.int64)),
    Column("engine.total", np.dtype(np.float64)),
    Column("engine.flags", np.dtype(np.uint8)),
)
#: What is kept per row beside the arena: it stays with the VecEnv and is never part of a snapshot.
SIDE_COLUMNS = (
    Column("side.limit", np.dtype(np.int32)),
    Column("side.final_total", np.dtype(np.float64)),
    Column("side.final_length", np.dtype(np.int32)),
)
HEAD_WORDS = ("num_rows", "closed", "validate", "action_start", "action_count", "action_bounds")


class Wiring:
    """Layouts of one definition, and the names of all memory that its kernels touch."""

    def __init__(self, definition: EnvDef) -> None:
        self.definition = definition
        state = [_state_column(field, definition.id) for field in definition.state.fields]
        self.arena_layout = Layout([*state, *ENGINE_COLUMNS])
        self.side_layout = Layout(SIDE_COLUMNS)
        words = [*HEAD_WORDS]
        words += [column.name for column in (*self.arena_layout.columns, *SIDE_COLUMNS)]
        for field in definition.params.fields:
            sizes = field.type.ndim if isinstance(field.type, TableType) else 0
            words += [f"param.{field.name}", *(f"param.{field.name}.{k}" for k in range(sizes))]
        words += [f"option.{field.name}" for field in definition.options_type.fields]
        self.word = {name: k for k, name in enumerate(words)}
        self.scopes = self._scopes()
        self.action_bounds = _action_bounds(definition.action_space)

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
        return head

    def side_columns(self, head: Bytes, num_rows: int) -> dict[str, npt.NDArray[Any]]:
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
        columns = [column.name for column in (*self.arena_layout.columns, *SIDE_COLUMNS)]
        leaves = [f"action.{k}" for k in range(len(self.definition.action_leaves))]
        for k in range(len(self.definition.observation_leaves)):
            leaves += [f"obs.{k}", f"final_obs.{k}"]
        for field in self.definition.info_type.fields:
            leaves += [f"info.{field.name}", f"final_info.{field.name}"]
        return (*columns, *leaves, "tables", "rewards", "terminated", "truncated", "rows")

    def description(self) -> Any:
        """All that compiled accessors depend on, for the cache digest."""
        definition = self.definition
        leaves = [
            [(leaf.key, leaf.dtype.str, leaf.shape, type(leaf.space).__name__) for leaf in leaves]
            for leaves in (definition.observation_leaves, definition.action_leaves)
        ]
        fields = [
            [(field.name, field.dtype.str, getattr(field.type, "ndim", None)) for field in struct.fields]
            for struct in (definition.params, definition.options_type, definition.info_type)
        ]
        containers = type(definition.observation_space).__name__, type(definition.action_space).__name__
        return [self.arena_layout.digest, leaves, fields, containers, definition.invalid_action]

    def env_digest(self) -> str:
        """Names the variant of the environment: its spaces, fields and functions. Snapshots carry it.

        Functions count by name, not by content: a snapshot outlives a new Python version or a mended comment.
        """
        definition = self.definition
        functions = [definition.reset, definition.step, definition.observe, definition.info]
        names = [getattr(function, "__qualname__", None) for function in functions]
        chosen = sorted((name, function.__qualname__) for name, function in definition.functions.items())
        return hashlib.sha256(repr([definition.id, self.description(), names, chosen]).encode()).hexdigest()[:16]

    def state_fields(self) -> list[tuple[str, Column, bool, str]]:
        """(name, column, writable, base) of the fields an author sees in `state`."""
        columns = {c.name: c for c in (*self.arena_layout.columns, *SIDE_COLUMNS)}
        fields = [(f.name, columns[f"state.{f.name}"], True, "arena") for f in self.definition.state.fields]
        fields.append(("elapsed", columns["engine.elapsed"], False, "arena"))
        fields.append(("limit", columns["side.limit"], False, "head"))
        return fields

    def engine_fields(self) -> list[tuple[str, Column, bool, str]]:
        arena = [(c.name.split(".")[1], c, True, "arena") for c in ENGINE_COLUMNS]
        return arena + [(c.name.split(".")[1], c, True, "head") for c in SIDE_COLUMNS]


def _action_bounds(space: spaces.Space[Any]) -> npt.NDArray[np.int64] | None:
    """Lowest and highest value of each element of a MultiDiscrete or MultiBinary action, `[2, K]`."""
    if isinstance(space, spaces.MultiDiscrete):
        low = np.asarray(space.start, np.int64).ravel()
        return np.stack([low, low + np.asarray(space.nvec, np.int64).ravel() - 1])
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return np.stack([np.zeros(size, np.int64), np.ones(size, np.int64)])
    return None


def _state_column(field: Field, id: str) -> Column:
    assert isinstance(field.type, ColumnType)
    shape = []
    for size in field.type.shape:
        if isinstance(size, str):
            raise TypeError(f"{id}: field {field.name!r}: sizes that name options are not supported")
        shape.append(size)
    return Column(f"state.{field.name}", field.dtype, tuple(shape))
