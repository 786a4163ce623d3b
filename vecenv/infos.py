"""From the arrays that `info` and `action_mask` fill to Gymnasium's infos: typed arrays, each with its `_key` mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vecenv.buffers import by_row
from vecenv.kernels.envdef import EnvDef


class Infos:
    """The infos of one definition.

    Args:
        definition: the environment.
        reported: False leaves them out of what users get.
    """

    def __init__(self, definition: EnvDef, reported: bool) -> None:
        self._arrays, self._agents = definition.info_arrays, definition.num_agents
        #: Whether kernels have anything to write.
        self.written = bool(self._arrays)
        self._reported = reported

    def new(self, count: int) -> Any:
        """Arrays `[count * A, ...]` for a kernel to fill, or 0 where the definition has none."""
        if not self.written:
            return 0
        return tuple(np.zeros((count * self._agents, *shape), dtype) for _, dtype, shape in self._arrays)

    def of_batch(self, filled: Any, count: int) -> dict[str, Any]:
        """Every row has them."""
        infos: dict[str, Any] = {}
        if self.written and self._reported:
            for (name, _, _), values in zip(self._arrays, filled, strict=True):
                infos[name], infos[f"_{name}"] = values, np.ones(count * self._agents, np.bool_)
        return infos

    def of_some(self, filled: Any, rows: npt.NDArray[np.int64], num_rows: int) -> dict[str, Any]:
        """Only `rows` have them; zeros elsewhere."""
        infos: dict[str, Any] = {}
        if self.written and self._reported:
            for (name, dtype, shape), values in zip(self._arrays, filled, strict=True):
                count = num_rows * self._agents
                spread, mask = np.zeros((count, *shape), dtype), np.zeros(count, np.bool_)
                by_row(spread, self._agents)[rows] = by_row(values, self._agents)
                by_row(mask, self._agents)[rows] = True
                infos[name], infos[f"_{name}"] = spread, mask
        return infos

    def of_one(self, filled: Any) -> dict[str, Any]:
        """A view's info: numbers, and arrays of array fields; `[A, ...]` with several agents."""
        if not (self.written and self._reported):
            return {}
        named = zip(self._arrays, filled, strict=True)
        if self._agents > 1:
            return {name: values.copy() for (name, _, _), values in named}
        return {name: values[0].copy() if shape else values[0].item() for (name, _, shape), values in named}

    def add_final(self, infos: dict[str, Any], filled: Any, ended: npt.NDArray[np.bool_]) -> None:
        """`final_info` of the episodes that ended."""
        final: dict[str, Any] = {}
        if self._reported:
            for (name, _, _), values in zip(self._arrays, filled or (), strict=True):
                final[name], final[f"_{name}"] = values, ended.copy()
        infos["final_info"], infos["_final_info"] = final, ended.copy()
