"""From rows of a batch to pictures and texts, by the functions of its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vecenv.kernels.access_python import PythonAccessors
from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.row import RecordTwin, RowTwin
from vecenv.kernels.soa import Bytes, shown
from vecenv.kernels.wiring import Wiring


def render_modes(definition: EnvDef) -> list[str]:
    """What a definition offers: "rgb_array" if it has `render`, "ansi" if it has `text`."""
    offers = {"rgb_array": definition.render, "ansi": definition.text}
    return [mode for mode, function in offers.items() if function is not None]


def parse_render_mode(render_mode: Any, definition: EnvDef) -> str | None:
    """The mode that was asked for.

    Raises:
        ValueError: the definition does not offer it.
        PillowMissing: pictures need Pillow.
    """
    if render_mode is None:
        return None
    modes = render_modes(definition)
    if not isinstance(render_mode, str) or render_mode not in modes:
        offer = f": expected None or {' or '.join(map(repr, modes))}" if modes else " has no pictures: expected None"
        hint = ""
        if isinstance(render_mode, str) and render_mode == "human" and "rgb_array" in modes:
            hint = "; for a window, wrap one with 'rgb_array' in gymnasium.wrappers.HumanRendering"
        raise ValueError(f"render_mode: {definition.id}{offer}, got {shown(render_mode)}{hint}")
    if render_mode == "rgb_array":
        import vecenv.render.canvas  # noqa: F401  # raises here rather than at the first picture
    mode: str = render_mode
    return mode


class Pictures:
    """Draws rows of an arena as they are now. `state` and `params` are read-only there."""

    def __init__(self, wiring: Wiring, head: Bytes, arena: Bytes) -> None:
        self.definition = wiring.definition
        accessors = PythonAccessors(wiring)
        state = accessors.columns(wiring.state_slots())(head, arena)
        self._columns = {name: _read_only(column) for name, column in state._columns.items()}
        self._params = accessors.params(head, arena)

    def frame(self, row: int, mode: str) -> npt.NDArray[np.uint8] | str:
        return self.image(row) if mode == "rgb_array" else self.text(row)

    def image(self, row: int, scale: float = 1.0) -> npt.NDArray[np.uint8]:
        """The picture of one row, uint8 `[H, W, 3]`."""
        from vecenv.render.canvas import Canvas

        canvas = Canvas(scale)
        assert self.definition.render is not None
        with np.errstate(all="ignore"):
            self.definition.render(*self._row(row), canvas)
        return canvas.array()

    def text(self, row: int) -> str:
        """One row as text."""
        assert self.definition.text is not None
        with np.errstate(all="ignore"):
            text = self.definition.text(*self._row(row))
        if not isinstance(text, str):
            raise TypeError(f"{self.definition.id}: `text` returns a str, got {text!r}")
        return text

    def _row(self, row: int) -> tuple[RowTwin, RecordTwin]:
        return RowTwin(self._columns, frozenset(self._columns), row), self._params._at(row)


def _read_only(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = column.view()
    view.flags.writeable = False
    return view
