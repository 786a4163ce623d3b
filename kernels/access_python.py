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
from vecenv.kernels.soa import WORD, Bytes, Field, TableType, compute_dtype
from vecenv.kernels.wiring import Slot, Wiring


class PythonAccessors:
    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring

    def table(self) -> dict[str, Any]:
        wiring, definition = self.wiring, self.wiring.definition
        observations, actions = definition.observation_leaves, definition.step_leaves
        agents = definition.num_agents
        discrete = isinstance(definition.action_space, spaces.Discrete) and agents == 1
        return {
            "state_columns": self.columns(wiring.state_slots()),
            "engine_columns": self.columns(wiring.engine_slots()),
            "borrow": lambda arrays: arrays,
            "enter": self.enter,
            "leave": self.leave,
            "note_step": self.note_step,
            "row_at": lambda row, i: RowTwin(row._columns, row._readonly, int(i)),
            "rng_at": lambda row: streams.load(row._columns["rng"][row._i]),
            "rng_done": lambda rng, row: streams.store(row._columns["rng"][row._i], rng),
            "zero_state": _zero_state,
            "transform_columns": self.transform_columns,
            "transform_rows": _transform_rows,
            "zero_transforms": _zero_transforms,
            "record_steps": lambda state, engine, params, own, rows, low, high: None,  # unless a transform does
            "flag_bits": _flag_bits,
            "lowest_bit": lambda bits: (int(bits) & -int(bits)).bit_length() - 1,
            "head_word": lambda head, name: int(self.words(head)[wiring.word[name]]),
            "params_of": self.params,
            "params_at": lambda params, i: params._at(int(i)),
            "draw_params": self.draw_params,
            "options_of": lambda head: RecordTwin(self.record(head, "option", definition.options_type.fields)),
            "action_at": (lambda head, arrays, j: widen(arrays[j])) if discrete else _views(actions, False),
            "flat_action_at": _views(flat_leaves(actions), False),
            "action_bounds": lambda head: CellsTwin(np.asarray(wiring.action_bounds), False),
            "observation_at": _views(observations, True),
            "final_observation_at": _views(observations, True),
            "zero_final": _zero_final,
            "info_at": self.info_row,
            "final_info_at": self.info_row,
            "mask_at": lambda head, arrays, j: CellsTwin(arrays[-1][j]),
            "final_mask_at": lambda head, arrays, j: CellsTwin(arrays[-1][j]),
            "load_row": lambda rows, j: int(rows[j]),
            "store_reward": _set_element,
            "store_terminated": _set_element,
            "store_truncated": _set_element,
            **dict.fromkeys(("rewards_at", "terminated_at", "truncated_at"), _agent_values(agents)),
            "unpack": _unpack_python,
        }

    def words(self, head: Bytes) -> npt.NDArray[np.int64]:
        return head[: len(self.wiring.word) * WORD].view(np.int64)

    def carve(self, head: Bytes, arena: Bytes) -> dict[str, npt.NDArray[Any]]:
        num_rows = int(self.words(head)[self.wiring.word["num_rows"]])
        return self.wiring.arena_layout.carve(arena, num_rows) | self.wiring.carve_side(head, num_rows)

    def columns(self, slots: list[Slot]) -> Callable[[Bytes, Bytes], RowTwin]:
        readonly = frozenset(slot.name for slot in slots if not slot.writable)

        def columns(head: Bytes, arena: Bytes) -> RowTwin:
            views = self.carve(head, arena)
            return RowTwin({slot.name: views[slot.column.name] for slot in slots}, readonly)

        return columns

    def transform_columns(self, head: Bytes, arena: Bytes) -> Any:
        own: Any = ()
        for slots in self.wiring.transform_slots():
            own = self.columns(slots)(head, arena), own
        return own

    def enter(self, head: Bytes) -> bool:
        words, k = self.words(head), self.wiring.word["busy"]
        if words[k] != 0:
            return False
        words[k] = 1
        return True

    def leave(self, head: Bytes) -> None:
        self.words(head)[self.wiring.word["busy"]] = 0

    def note_step(self, head: Bytes, number: int) -> None:
        self.words(head)[self.wiring.word["last_step"]] = number

    def record(self, head: Bytes, prefix: str, fields: tuple[Field, ...]) -> dict[str, Any]:
        words, word = self.words(head), self.wiring.word
        values: dict[str, Any] = {}
        for field in fields:
            k = word[f"{prefix}.{field.name}"]
            if isinstance(field.type, TableType):
                shape = tuple(int(size) for size in words[k + 1 : k + 1 + field.type.ndim])
                values[field.name] = CellsTwin(_array_at(int(words[k]), field.dtype, shape), False)
            else:
                view = words[k : k + 1].view(np.float64) if field.dtype.kind == "f" else words[k : k + 1]
                values[field.name] = view.astype(compute_dtype(field.dtype))[0]
        return values

    def params(self, head: Bytes, arena: Bytes) -> RecordTwin:
        views = self.carve(head, arena)
        columns = {slot.name: views[slot.column.name] for slot in self.wiring.param_slots()}
        return RecordTwin(self.record(head, "param", self.wiring.shared_params), columns)

    def draw_params(self, head: Bytes, params: RecordTwin, rng: Any) -> None:
        words, word = self.words(head), self.wiring.word
        for k, field in enumerate(self.wiring.random_params):
            if not words[word["given_params"]] >> k & 1:
                low, high = (words[word[f"{end}.{field.name}"]].view(np.float64) for end in ("low", "high"))
                params._columns[field.name][params._i] = rng.uniform(low, high)

    def info_row(self, head: Bytes, arrays: Any, j: int) -> RowTwin:
        names = [field.name for field in self.wiring.definition.info_type.fields]
        return RowTwin(dict(zip(names, arrays, strict=False)), frozenset(), int(j))


def _array_at(address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A read-only view of a table that the VecEnv keeps alive."""
    nbytes = dtype.itemsize * int(np.prod(shape))
    buffer = memoryview((ctypes.c_uint8 * nbytes).from_address(address))
    array: npt.NDArray[Any] = np.frombuffer(buffer, dtype=dtype).reshape(shape)
    array.flags.writeable = False
    return array


def _views(leaves: tuple[Leaf, ...], writable: bool) -> Callable[[Bytes, Any, int], Any]:
    def view(leaf: Leaf, array: npt.NDArray[Any], j: int) -> CellsTwin:
        return CellsTwin(array.reshape(-1, *leaf.cells)[j], writable)

    def views(head: Bytes, arrays: Any, j: int) -> Any:
        if leaves[0].key is None:
            return view(leaves[0], arrays, j)
        parts = [view(leaf, array, j) for leaf, array in zip(leaves, arrays, strict=True)]
        if isinstance(leaves[0].key, str):
            return RecordTwin({str(leaf.key): part for leaf, part in zip(leaves, parts, strict=True)})
        return tuple(parts)

    return views


def _agent_values(agents: int) -> Callable[[npt.NDArray[Any], int], CellsTwin]:
    return lambda array, j: CellsTwin(array.reshape(-1, agents)[j])


def _zero_state(row: RowTwin) -> None:
    for name, column in row._columns.items():
        if name not in row._readonly:
            column[row._i] = 0


def _transform_rows(own: Any, i: int) -> Any:
    return (RowTwin(own[0]._columns, frozenset(), int(i)), _transform_rows(own[1], i)) if own else ()


def _zero_transforms(own: Any) -> None:
    if own:
        _zero_state(own[0])
        _zero_transforms(own[1])


def _flag_bits(columns: RowTwin, i: int, count: int, bit: int) -> int:
    hits = columns._columns["flags"][i : i + count] & bit
    return sum(1 << k for k, hit in enumerate(hits) if hit)


def _zero_final(head: Bytes, arrays: Any, low: int, high: int) -> None:
    for array in arrays if isinstance(arrays, tuple) else (arrays,):
        array[low:high] = 0


def _set_element(array: npt.NDArray[Any], j: int, value: Any) -> None:
    array[j] = value


def _unpack_python(result: Any) -> tuple[Any, Any, Any]:
    if not isinstance(result, tuple) or len(result) not in (2, 3):
        raise TypeError(f"`step` returns (reward, terminated) or (reward, terminated, truncated), got {result!r}")
    reward, terminated, *truncated = result
    return np.float64(reward), np.bool_(terminated), np.bool_(truncated[0] if truncated else False)
