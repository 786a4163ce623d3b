"""Grid worlds drawn with letters: layouts, and the tables of moves that they mean.

Cells are (x, y) with (0, 0) at the lower left; rows of a layout count from the top, as they are written.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

START, GOAL, BLOCK, FREE = "SGX "
UP, RIGHT, DOWN, LEFT, STAY = range(5)
DX, DY = np.array([0, 1, 0, -1, 0]), np.array([1, 0, -1, 0, 0])

Cell = tuple[int, int]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class Layout:
    """A rectangle of letters: S start, G goal, X block, space or dot free, any other letter a free cell with a label.

    Args:
        layout: one string with a line per row, or a sequence of rows. `|` is left out, so it may mark where rows end;
            so are empty lines before and after the first string form.

    Attributes:
        rows: one string of letters per row, top row first.
        letters: the same by coordinates, `[width, height]`.

    Raises:
        TypeError: `layout` is neither.
        ValueError: it is empty or ragged, has other characters, no start or no goal; shows the layout and the place.
    """

    def __init__(self, layout: Any) -> None:
        if isinstance(layout, str):
            lines: Any = layout.strip("\n").split("\n")
            while lines and not lines[-1].strip():
                lines.pop()  # what stands before closing quotes
        else:
            lines = layout
        if not isinstance(lines, (Sequence, np.ndarray)) or not all(isinstance(row, str) for row in lines):
            raise TypeError(f"layout: expected a string with a line per row, or a sequence of rows, got {layout!r}")
        self.rows = [row.replace("|", "").replace(".", FREE) for row in lines]
        if not self.rows or not self.rows[0]:
            raise ValueError(f"layout: expected at least one row and one column, got {layout!r}")
        for k, row in enumerate(self.rows):
            if len(row) != len(self.rows[0]):
                self.refuse(f"it has {len(row)} cells, row 0 has {len(self.rows[0])}; all rows need the same", k)
            for column, letter in enumerate(row):
                if letter != FREE and (letter not in string.ascii_letters or letter in "sgx"):
                    hint = f"; did you mean {letter.upper()!r}?" if letter in "sgx" else ""
                    self.refuse(f"expected S, G, X, a space or a label letter, got {letter!r}{hint}", k, column)
        self.letters = np.array([list(row) for row in self.rows])[::-1].T
        self.width, self.height = self.letters.shape
        for letter, meaning in ((START, "start"), (GOAL, "goal")):
            if not (self.letters == letter).any():
                self.refuse(f"expected at least one {meaning} ({letter})")

    def cells(self, letter: str) -> list[Cell]:
        """All cells with this letter, by x and then y."""
        return [(int(x), int(y)) for x, y in np.argwhere(self.letters == letter)]

    def refuse(self, problem: str, row: int | None = None, column: int | None = None) -> NoReturn:
        """Raise a ValueError that shows the layout and points at a row, or at one cell."""
        place = "" if row is None else f"row {row}: " if column is None else f"row {row}, column {column}: "
        lines = []
        for k, text in enumerate(self.rows):
            lines.append(f"  {k:>3} |{text}|" + ("  <--" if k == row and column is None else ""))
            if k == row and column is not None:
                lines.append(" " * (7 + column) + "^")
        raise ValueError(f"layout: {place}{problem}\n" + "\n".join(lines))

    def refuse_cell(self, problem: str, x: int, y: int) -> NoReturn:
        """The same for a cell by its coordinates."""
        self.refuse(f"cell ({x}, {y}): {problem}", self.height - 1 - y, x)


def landings(layout: Layout, wind: Ints) -> tuple[Ints, Ints]:
    """Coordinates in which a move ends, `[width, height, 5]` for the four directions and for staying.

    A move into a block or off the grid stays. Then the wind of the column that the move began in pushes cell by cell,
    as far as nothing is in its way.
    """
    free = layout.letters != BLOCK
    x, y = (part[..., np.newaxis] for part in np.indices(free.shape))
    to_x, to_y = _unless_blocked(free, x + 0 * DX, y + 0 * DY, DX, DY)
    for k in range(int(np.abs(wind).max(initial=0))):
        push = np.where(np.abs(wind) > k, np.sign(wind), 0)[x]
        to_x, to_y = _unless_blocked(free, to_x, to_y, np.zeros_like(push), push)
    return to_x, to_y


def _unless_blocked(free: Bools, x: Ints, y: Ints, dx: Ints, dy: Ints) -> tuple[Ints, Ints]:
    width, height = free.shape
    to_x, to_y = np.clip(x + dx, 0, width - 1), np.clip(y + dy, 0, height - 1)
    open_cell = free[to_x, to_y]
    return np.where(open_cell, to_x, x), np.where(open_cell, to_y, y)


def reached(successors: Ints, starts: Ints) -> Bools:
    """Which cells can be reached from the starts, bool `[cells]`, if `successors[cell]` are the cells one move away."""
    seen = np.zeros(len(successors), np.bool_)
    frontier = np.unique(starts)
    while len(frontier):
        seen[frontier] = True
        ahead = np.unique(successors[frontier])
        frontier = ahead[~seen[ahead]]
    return seen
