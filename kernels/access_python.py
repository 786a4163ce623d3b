"""What the templates in `batch.py` do to memory, in plain Python: NumPy views of the same bytes.

The same names as in `access_compiled.py`. This is what runs for `view.step(a, jit=False)` and under
NUMBA_DISABLE_JIT=1.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from vecenv.kernels import rng as streams
from vecenv.kernels.envdef import Leaf, flat_leaves
from vecenv.kernels.row import CellsTwin, RecordTwin, RowTwin, widen
from vecenv.kernels.soa import WORD, Bytes, Column, Field, TableType, compute_dtype
from vecenv.kernels.wiring import Wiring


class PythonAccessors:
    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring

    def table(self) -> dict[str, Any]:
        wiring, definition = self.wiring, self.wiring.definition
        discrete = isinstance(definition.action_space, spaces.Discrete)
        return {
            "state_columns": self.columns(wiring.state_fields()),
            "engine_columns": self.columns(wiring.engine_fields()),
            "borrow": lambda arrays: arrays,
            "row_at": lambda row, i: RowTwin(row._columns, row._readonly, int(i)),
            "rng_at": lambda row: streams.load(row._columns["rng"][row._i]),
            "rng_done": lambda rng, row: streams.store(row._columns["rng"][row._i], rng),
            "zero_state": _zero_state,
            "flag_bits": _flag_bits,
            "head_word": lambda head, name: int(self.words(head)[wiring.word[name]]),
            "lowest_bit": lambda bits: (int(bits) & -int(bits)).bit_length() - 1,
            "params_of": self.record("param", definition.params.fields),
            "options_of": self.record("option", definition.options_type.fields),
            "action_at": (lambda arrays, j: widen(arrays[j])) if discrete else _views(definition.action_leaves, False),
            "flat_action_at": _views(flat_leaves(definition.action_leaves), False),
            "action_bounds": lambda head: CellsTwin(np.asarray(wiring.action_bounds), False),
            "observation_at": _views(definition.observation_leaves, True),
            "final_observation_at": _views(definition.observation_leaves, True),
            "zero_final": _zero_final,
            "info_at": self.info_row(),
            "final_info_at": self.info_row(),
            "load_row": lambda rows, j: int(rows[j]),
            "store_reward": _set_element,
            "store_terminated": _set_element,
            "store_truncated": _set_element,
            "unpack": _unpack_python,
        }

    def words(self, head: Bytes) -> npt.NDArray[np.int64]:
        return head[: len(self.wiring.word) * WORD].view(np.int64)

    def columns(self, fields: list[tuple[str, Column, bool, str]]) -> Callable[[Bytes, Bytes], RowTwin]:
        readonly = frozenset(name for name, _, writable, _ in fields if not writable)

        def columns(head: Bytes, arena: Bytes) -> RowTwin:
            num_rows = int(self.words(head)[self.wiring.word["num_rows"]])
            views = self.wiring.arena_layout.carve(arena, num_rows)
            views |= self.wiring.side_columns(head, num_rows)
            return RowTwin({name: views[column.name] for name, column, _, _ in fields}, readonly)

        return columns

    def record(self, prefix: str, fields: tuple[Field, ...]) -> Callable[[Bytes], RecordTwin]:
        word = self.wiring.word

        def record(head: Bytes) -> RecordTwin:
            words = self.words(head)
            values: dict[str, Any] = {}
            for field in fields:
                k = word[f"{prefix}.{field.name}"]
                if isinstance(field.type, TableType):
                    shape = tuple(int(size) for size in words[k + 1 : k + 1 + field.type.ndim])
                    values[field.name] = CellsTwin(_array_at(int(words[k]), field.dtype, shape), False)
                else:
                    view = words[k : k + 1].view(np.float64) if field.dtype.kind == "f" else words[k : k + 1]
                    values[field.name] = view.astype(compute_dtype(field.dtype))[0]
            return RecordTwin(values)

        return record

    def info_row(self) -> Callable[[Any, int], RowTwin]:
        names = [field.name for field in self.wiring.definition.info_type.fields]
        return lambda arrays, j: RowTwin(dict(zip(names, arrays, strict=True)), frozenset(), int(j))


def _array_at(address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A read-only view of a table that the VecEnv keeps alive."""
    nbytes = dtype.itemsize * int(np.prod(shape))
    buffer = memoryview((ctypes.c_uint8 * nbytes).from_address(address))
    array: npt.NDArray[Any] = np.frombuffer(buffer, dtype=dtype).reshape(shape)
    array.flags.writeable = False
    return array


def _views(leaves: tuple[Leaf, ...], writable: bool) -> Callable[[Any, int], Any]:
    def view(leaf: Leaf, array: npt.NDArray[Any], j: int) -> CellsTwin:
        return CellsTwin(array.reshape(len(array), *leaf.cells)[j], writable)

    def views(arrays: Any, j: int) -> Any:
        if leaves[0].key is None:
            return view(leaves[0], arrays, j)
        parts = [view(leaf, array, j) for leaf, array in zip(leaves, arrays, strict=True)]
        if isinstance(leaves[0].key, str):
            return RecordTwin({str(leaf.key): part for leaf, part in zip(leaves, parts, strict=True)})
        return tuple(parts)

    return views


def _zero_state(row: RowTwin) -> None:
    for name, column in row._columns.items():
        if name not in row._readonly:
            column[row._i] = 0


def _flag_bits(columns: RowTwin, i: int, count: int, bit: int) -> int:
    hits = columns._columns["flags"][i : i + count] & bit
    return sum(1 << k for k, hit in enumerate(hits) if hit)


def _zero_final(arrays: Any, low: int, high: int) -> None:
    for array in arrays if isinstance(arrays, tuple) else (arrays,):
        array[low:high] = 0


def _set_element(array: npt.NDArray[Any], j: int, value: Any) -> None:
    array[j] = value


def _unpack_python(result: Any) -> tuple[Any, Any, Any]:
    if not isinstance(result, tuple) or len(result) not in (2, 3):
        raise TypeError(f"`step` returns (reward, terminated) or (reward, terminated, truncated), got {result!r}")
    reward, terminated, *truncated = result
    return np.float64(reward), np.bool_(terminated), np.bool_(truncated[0] if truncated else False)
