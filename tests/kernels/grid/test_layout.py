"""Layouts: letters, coordinates, where moves end, and errors that show the place."""

import numpy as np
import pytest

from vecenv.kernels.grid.layout import DOWN, LEFT, RIGHT, STAY, UP, Layout, landings, reached

pytestmark = pytest.mark.nojit


@pytest.mark.parametrize(
    "form",
    [
        ["S.a", "X G"],
        ("|S a|", "|X.G|"),
        "S.a\nX G",
        "\nS.a\nX G\n",
        "|S a|\n|X G|\n    ",
        np.array(["S.a", "X G"]),
    ],
    ids=repr,
)
def test_forms(form):
    layout = Layout(form)
    assert layout.rows == ["S a", "X G"]
    assert (layout.width, layout.height) == (3, 2)
    assert layout.cells("S") == [(0, 1)] and layout.cells("G") == [(2, 0)] and layout.cells("a") == [(2, 1)]
    assert layout.letters[0].tolist() == ["X", "S"]


@pytest.mark.parametrize(
    "layout, error, message",
    [
        (["S G", "S"], ValueError, "layout: row 1: it has 1 cells, row 0 has 3; all rows need the same\n"
                                   "    0 |S G|\n    1 |S|  <--"),
        (["S.G", ".#."], ValueError, "layout: row 1, column 1: expected S, G, X, a space or a label letter, got '#'\n"
                                     "    0 |S G|\n    1 | # |\n        ^"),
        (["s.G"], ValueError, "row 0, column 0: .*got 's'; did you mean 'S'?"),
        (["S.g"], ValueError, "row 0, column 2: .*got 'g'; did you mean 'G'?"),
        (["é.G"], ValueError, "got 'é'"),
        (["..G"], ValueError, "expected at least one start (S)\n    0 |  G|"),
        (["S.."], ValueError, "expected at least one goal (G)\n    0 |S  |"),
        ([], ValueError, "at least one row and one column"),
        ([""], ValueError, "at least one row and one column"),
        ("", ValueError, "at least one row and one column"),
        (7, TypeError, "a string with a line per row, or a sequence of rows, got 7"),
        ([1, 2], TypeError, "a sequence of rows"),
    ],
)  # fmt: skip
def test_wrong_layouts(layout, error, message):
    with pytest.raises(error) as caught:
        Layout(layout)
    head, _, tail = message.partition(".*")
    assert head in str(caught.value) and tail in str(caught.value), str(caught.value)


def ends(layout, x, y, wind=None):
    grid = Layout(layout)
    to_x, to_y = landings(grid, np.zeros(grid.width, np.int64) if wind is None else np.array(wind))
    return [(int(to_x[x, y, d]), int(to_y[x, y, d])) for d in (UP, RIGHT, DOWN, LEFT, STAY)]


def test_moves_stop_at_blocks_and_edges():
    layout = ["..G", ".X.", "S.."]
    assert ends(layout, 0, 0) == [(0, 1), (1, 0), (0, 0), (0, 0), (0, 0)]
    assert ends(layout, 1, 0) == [(1, 0), (2, 0), (1, 0), (0, 0), (1, 0)]
    assert ends(layout, 2, 1) == [(2, 2), (2, 1), (2, 0), (2, 1), (2, 1)]
    assert ends(layout, 1, 2) == [(1, 2), (2, 2), (1, 2), (0, 2), (1, 2)]


def test_wind_pushes_after_the_move():
    """By the column that the move began in, and as far as nothing is in its way."""
    layout = ["...", "...", ".X.", "S.G"]
    assert ends(layout, 0, 0, [2, 0, -1]) == [(0, 3), (1, 0), (0, 2), (0, 2), (0, 2)]
    assert ends(layout, 1, 0, [2, 0, -1]) == [(1, 0), (2, 0), (1, 0), (0, 0), (1, 0)]
    assert ends(layout, 2, 2, [2, 0, -1]) == [(2, 2), (2, 1), (2, 0), (1, 2), (2, 1)]
    assert ends(layout, 0, 3, [9, 0, 0]) == [(0, 3), (1, 3), (0, 3), (0, 3), (0, 3)]


def test_reached():
    successors = np.array([[1, 1], [2, 0], [2, 2], [0, 4], [4, 4]])
    assert reached(successors, np.array([0])).tolist() == [True, True, True, False, False]
    assert reached(successors, np.array([4, 1])).tolist() == [True, True, True, False, True]
