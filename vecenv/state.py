"""Live, writable columns of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy.typing as npt


class StateColumns:
    """The state of all rows by field: `state.x` is the column `[N, ...]` itself, so `state.x[3] = 0.1` moves row 3.

    `state.x = values` writes a whole column. `elapsed` is the number of steps of each row's running episode. The arrays
    are live: what reads or writes them while another thread steps is not noticed.
    """

    __slots__ = ("_columns",)
    _columns: dict[str, npt.NDArray[Any]]

    def __init__(self, columns: dict[str, npt.NDArray[Any]]) -> None:
        object.__setattr__(self, "_columns", columns)

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        try:
            column: npt.NDArray[Any] = self._columns[name]
        except KeyError:
            raise AttributeError(f"no field {name!r}; there are: {', '.join(self._columns)}") from None
        return column

    def __setattr__(self, name: str, value: Any) -> None:
        self[name][...] = value

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        column: npt.NDArray[Any] = getattr(self, name)
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __dir__(self) -> list[str]:
        return list(self._columns)

    def __repr__(self) -> str:
        parts = [f"{name}: {column.dtype}{list(column.shape)}" for name, column in self._columns.items()]
        return f"StateColumns({', '.join(parts)})"
