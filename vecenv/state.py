"""Live, writable columns of a batch, and one row of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from vecenv.arguments import check_elapsed, convert_column
from vecenv.kernels.row import RowTwin
from vecenv.kernels.soa import ColumnType, Field, convert_scalar


class StateColumns:
    """The state of all rows by field: `state.x` is the column `[N, ...]` itself, so `state.x[3] = 0.1` moves row 3.

    `state.x = values` writes a whole column and checks that the values fit; writes into the array wrap and truncate as
    NumPy's do. `elapsed` is the number of steps of each row's running episode. The arrays are live: what reads or
    writes them while another thread steps is not noticed.
    """

    __slots__ = ("_columns", "_limits")
    _columns: dict[str, npt.NDArray[Any]]
    _limits: npt.NDArray[np.int32]

    def __init__(self, columns: dict[str, npt.NDArray[Any]], limits: npt.NDArray[np.int32]) -> None:
        object.__setattr__(self, "_columns", columns)
        object.__setattr__(self, "_limits", limits)

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self._write(name, value, f"state {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"state {name!r}: fields cannot be deleted")

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if not isinstance(name, str) or name not in self._columns:
            raise AttributeError(f"no field {name!r}; there are: {', '.join(self._columns)}")
        return self._columns[name]

    def _write(self, name: str, value: Any, what: str) -> None:
        """Write a whole column, unless a value does not fit; `what` is its name in errors."""
        column = self[name]
        values = convert_column(column.dtype, value, column.shape, what)
        if name == "elapsed":
            check_elapsed(values, self._limits, what)
        column[...] = values

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __dir__(self) -> list[str]:
        return list(self._columns)

    def __repr__(self) -> str:
        parts = [f"{name}: {column.dtype}{list(column.shape)}" for name, column in self._columns.items()]
        return f"StateColumns({', '.join(parts)})"


class RowState(RowTwin):
    """The state of row `i` as users write it: a value that does not fit is refused, where a row function's wraps."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        column = self._columns.get(name)
        if column is not None and column.ndim == 1 and name not in self._readonly:
            value = convert_scalar(Field(name, ColumnType(column.dtype)), value, "state")
            if name == "elapsed":
                counts = column.copy()
                counts[self._i] = value
                check_elapsed(counts, self._columns["limit"], "state 'elapsed'", np.array([self._i]))
        super().__setattr__(name, value)
