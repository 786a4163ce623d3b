"""`Snapshot`: a private copy of some rows, to be restored, branched, stored and loaded."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vecenv.arguments import parse_choice
from vecenv.kernels.arena import Rows, copy_rows
from vecenv.kernels.soa import Bytes, Column, Layout, allocate, as_array, shown

if TYPE_CHECKING:
    from vecenv.memory import Memory

MAGIC = b"VECENV03"


@dataclass(frozen=True, eq=False)
class Snapshot:
    """State, random streams, counters and flags of `num_rows` rows. It never changes after it was taken.

    Made by `VecEnv.snapshot`; `snap[rows]` selects rows; `save` and `load` keep it in a file without pickle.

    Attributes:
        env_id: the environment's id.
        env_digest: hash of its functions and layout.
        params_digest: hash of the shared params and tables that were in force.
        transforms: what stood between the environment and the batch, in words, the innermost first.
        layout: how the bytes are divided into columns.
        num_rows: number of rows.
        arena: the bytes.
    """

    env_id: str
    env_digest: str
    params_digest: str
    transforms: tuple[str, ...]
    layout: Layout
    num_rows: int
    arena: Bytes

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, rows: Any) -> Snapshot:
        """A snapshot of some rows: an int, a slice, an int array or a bool mask."""
        numbers = np.arange(self.num_rows)
        if isinstance(rows, slice):
            numbers = numbers[rows]
        else:
            which = as_array(rows, "rows", "an int, a slice, an int array or a bool mask")
            numbers = np.atleast_1d(numbers[which]) if which.size else numbers[:0]
        if numbers.ndim != 1 or len(numbers) == 0:
            raise IndexError(f"a snapshot needs at least one row, got {shown(rows)}")
        return self._take(numbers)

    def _take(self, rows: Rows) -> Snapshot:
        arena = allocate(int(self.layout.offsets(len(rows))[-1]))
        copy_rows(self.layout, arena, len(rows), np.arange(len(rows)), self.arena, self.num_rows, rows)
        arena.flags.writeable = False
        return dataclasses.replace(self, num_rows=len(rows), arena=arena)

    def overwrite(
        self, env_digest: str, params_digest: str, transforms: tuple[str, ...], copy: Callable[[Bytes], Any]
    ) -> None:
        """For `VecEnv.snapshot(out=...)`: take what `copy(arena)` writes, and what it was copied from."""
        self.arena.flags.writeable = True
        try:
            copy(self.arena)
        finally:
            self.arena.flags.writeable = False
        object.__setattr__(self, "env_digest", env_digest)
        object.__setattr__(self, "params_digest", params_digest)
        object.__setattr__(self, "transforms", transforms)

    def __repr__(self) -> str:
        return f"Snapshot({self.env_id}, num_rows={self.num_rows})"

    def to_bytes(self) -> bytes:
        """The snapshot as bytes: a magic word, the SHA-256 of the rest, a JSON header, the rows."""
        header = {
            "env_id": self.env_id,
            "env_digest": self.env_digest,
            "params_digest": self.params_digest,
            "transforms": self.transforms,
            "num_rows": self.num_rows,
            "columns": [[c.name, c.dtype.str, list(c.shape)] for c in self.layout.columns],
        }
        text = json.dumps(header).encode()
        content = len(text).to_bytes(8, "little") + text + self.arena.tobytes()
        return MAGIC + hashlib.sha256(content).digest() + content

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_bytes()` to `path`."""
        target = Path(path)
        temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        try:
            temporary.write_bytes(self.to_bytes())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Snapshot:
        """Read a snapshot that `save` wrote.

        Raises:
            ValueError: the file is not a snapshot, or is cut short or damaged.
        """
        return Snapshot.from_bytes(Path(path).read_bytes(), str(path))

    @staticmethod
    def from_bytes(content: bytes, name: str = "the snapshot") -> Snapshot:
        """The snapshot that `to_bytes` wrote.

        Args:
            content: the bytes.
            name: what errors call them.

        Raises:
            ValueError: they are not a snapshot, or are cut short or damaged.
        """
        if content[:8] != MAGIC:
            raise ValueError(f"{name}: not a vecenv snapshot (expected {MAGIC!r} at the start, got {content[:8]!r})")
        head = len(MAGIC) + hashlib.sha256().digest_size
        if hashlib.sha256(content[head:]).digest() != content[len(MAGIC) : head]:
            raise ValueError(f"{name}: damaged snapshot: its bytes do not match its SHA-256")
        start = head + 8 + int.from_bytes(content[head : head + 8], "little")
        try:
            header = json.loads(content[head + 8 : start])
            columns = [Column(column, np.dtype(dtype), tuple(shape)) for column, dtype, shape in header["columns"]]
            num_rows = int(header["num_rows"])
            env_id, env_digest = str(header["env_id"]), str(header["env_digest"])
            params_digest = str(header["params_digest"])
            transforms = tuple(map(str, header["transforms"]))
            layout = Layout(columns)
            expected = int(layout.offsets(num_rows)[-1])
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"{name}: damaged snapshot header: {error}") from error
        data = content[start:]
        if len(data) != expected:
            raise ValueError(f"{name}: damaged snapshot: expected {expected} bytes of rows, got {len(data)}")
        arena = allocate(expected)
        arena[:] = np.frombuffer(data, np.uint8)
        arena.flags.writeable = False
        return Snapshot(env_id, env_digest, params_digest, transforms, layout, num_rows, arena)


def check_out(out: Any, env_id: str, layout: Layout, count: int) -> None:
    """Raise unless `out` is a snapshot that can be overwritten with `count` rows of this layout."""
    if not isinstance(out, Snapshot):
        raise TypeError(f"snapshot: out: expected a Snapshot, got {type(out).__name__}")
    if out.env_id != env_id or out.layout.digest != layout.digest or out.num_rows != count:
        raise ValueError(f"snapshot: out: expected {env_id} with {count} rows, got {out!r}")


def check_restorable(snap: Any, env_id: str, memory: Memory, params: str) -> None:
    """Raise unless `snap` is of the environment, layout and (unless ignored) shared params of `memory`."""
    if not isinstance(snap, Snapshot):
        raise TypeError(f"restore: expected a Snapshot, got {type(snap).__name__}")
    parse_choice(params, "restore: params", "match", "ignore")
    if snap.env_id != env_id:
        raise ValueError(f"restore: expected a snapshot of {env_id}, got {snap!r}")
    if snap.layout.digest != memory.layout.digest:
        raise ValueError(f"restore: the snapshot has other columns: {memory.layout.difference(snap.layout)}")
    if snap.transforms != memory.transforms:
        raise ValueError(
            f"restore: the snapshot was taken through {_words(snap.transforms)}, "
            f"this batch is seen through {_words(memory.transforms)}"
        )
    if snap.env_digest != memory.wiring.env_digest():
        raise ValueError(f"restore: the snapshot is of another version or variant of {env_id}")
    if params == "match" and snap.params_digest != memory.params_digest:
        raise ValueError("restore: the snapshot was taken under other params; pass params='ignore' to take it anyway")


def _words(transforms: tuple[str, ...]) -> str:
    return ", ".join(transforms) or "no transforms"
