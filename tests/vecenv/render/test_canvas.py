"""The canvas: sizes, places and colours of pixels, and what it refuses."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from vecenv.render.canvas import Canvas, rgb

WHITE = [255, 255, 255]


def plane(width: int = 40, height: int = 20, scale: float = 1.0) -> Canvas:
    """One world unit is one pixel."""
    canvas = Canvas(scale)
    canvas.world(0, width, 0, height, width=width)
    return canvas


def ink(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """How much of each pixel is covered by black on white, 0 to 1."""
    result: npt.NDArray[np.float64] = 1 - picture[..., 0] / 255
    return result


# --- worlds and grids -------------------------------------------------------------------------------------------------


def test_a_world_has_y_up_and_one_scale() -> None:
    canvas = Canvas()
    canvas.world(-1, 3, 10, 12, width=200, background=(1, 2, 3))
    assert (canvas.width, canvas.height, canvas.pixel) == (200, 100, 0.02)
    canvas.rectangle(-1, 10, 0, 10.5, "black")  # the lower left corner
    picture = canvas.array()
    assert picture.shape == (100, 200, 3) and picture.dtype == np.uint8
    expected = np.full((100, 200, 3), (1, 2, 3), np.uint8)
    expected[75:, :50] = 0
    np.testing.assert_array_equal(picture, expected)


def test_a_grid_has_y_down_and_whole_pixels() -> None:
    canvas = Canvas()
    canvas.grid(2, 3, cell=10)
    canvas.cell(1, 2, "black")
    expected = np.full((20, 30, 3), 255, np.uint8)
    expected[10:, 20:] = 0
    np.testing.assert_array_equal(canvas.array(), expected)
    assert canvas.pixel == 0.1


@pytest.mark.parametrize(
    "rows, columns, size",
    [(4, 4, (256, 256)), (8, 8, (512, 512)), (1, 9, (56, 504)), (10, 2, (510, 102)), (4096, 1, (512, 1))],
)
def test_the_longest_side_of_a_grid(rows: int, columns: int, size: tuple[int, int]) -> None:
    canvas = Canvas()
    canvas.grid(rows, columns)
    assert canvas.array().shape == (*size, 3)


@pytest.mark.parametrize("scale", [0.3, 0.37, 1.0, 1.9])
def test_cells_leave_no_seam_and_do_not_overlap(scale: float) -> None:
    """Every pixel belongs to one cell, at any scale."""
    canvas = Canvas(scale)
    canvas.grid(5, 7, cell=10, background="red")
    colors = [(0, k, 255) for k in range(35)]
    canvas.cells(np.arange(35).reshape(5, 7), colors)
    picture = canvas.array()
    assert picture.shape == (round(50 * scale), round(70 * scale), 3)
    assert (picture[..., 0] == 0).all()
    assert set(picture[..., 1].ravel()) == set(range(35))
    assert (np.diff(picture[0, :, 1].astype(int)) >= 0).all()


def test_cells_from_a_palette() -> None:
    canvas = Canvas()
    canvas.grid(1, 3, cell=1, background="blue")
    canvas.cells(np.array([[5, -1, 0]]), {5: "red", -1: None, 0: (1, 2, 3)})
    assert canvas.array().tolist() == [[[255, 0, 0], [0, 0, 255], [1, 2, 3]]]
    with pytest.raises(ValueError, match=r"canvas.cells: no colour for the value 7 at \[0, 1\]"):
        canvas.cells(np.array([[5, 7, 0]]), {5: "red"})


def test_lines_between_and_around_cells() -> None:
    canvas = Canvas()
    canvas.grid(2, 2, cell=5)
    canvas.lines("black")
    dark = ink(canvas.array()) == 1
    on = np.zeros(10, np.bool_)
    on[[0, 5, 9]] = True
    np.testing.assert_array_equal(dark, on[:, np.newaxis] | on)


def test_the_scale_changes_the_size_only() -> None:
    """Twice as large and averaged, a picture is the same up to rounding at edges."""

    def draw(scale: float) -> npt.NDArray[np.uint8]:
        canvas = plane(scale=scale)
        canvas.circle(20, 10, 7, "black")
        canvas.polygon([(1, 1), (12, 4), (3, 18)], "red")
        canvas.line([(25, 2), (38, 18)], "green", 2)
        return canvas.array()

    small, large = draw(1), draw(2)
    assert large.shape == (40, 80, 3)
    averaged = large.reshape(20, 2, 40, 2, 3).mean(axis=(1, 3))
    assert abs(averaged - small).mean() < 2


# --- shapes -----------------------------------------------------------------------------------------------------------


def test_edges_are_smooth() -> None:
    canvas = plane()
    canvas.rectangle(10.5, 5.25, 12, 8, "black")
    covered = ink(canvas.array())
    assert covered[13, 11] == 1  # y from 6 to 7
    assert covered[13, 10] == pytest.approx(1 / 2, abs=0.01)
    assert covered[14, 11] == pytest.approx(3 / 4, abs=0.01)
    assert covered[14, 10] == pytest.approx(3 / 8, abs=0.01)
    assert covered.sum() == pytest.approx(1.5 * 2.75, abs=0.05)


@pytest.mark.parametrize(
    "draw, area",
    [
        (lambda canvas: canvas.circle(20, 10, 8, "black"), math.pi * 64),
        (lambda canvas: canvas.circle(20.3, 9.8, 0.5, "black"), math.pi / 4),
        (lambda canvas: canvas.polygon([(2, 2), (22, 2), (12, 18)], "black"), 160),
        (lambda canvas: canvas.line([(5, 5), (35, 5)], "black", 3), 90),
        (lambda canvas: canvas.line([(5, 3), (35, 17)], "black", 2), 2 * math.hypot(30, 14)),
        (lambda canvas: canvas.rectangle(30, 15, 10, 5, "black"), 200),
        (lambda canvas: canvas.circle(0, 10, 8, "black"), math.pi * 32),  # half of it is outside
    ],
)
def test_shapes_cover_their_areas(draw: Callable[[Canvas], None], area: float) -> None:
    canvas = plane()
    draw(canvas)
    assert ink(canvas.array()).sum() == pytest.approx(area, rel=0.06, abs=0.2)


def test_text_is_centred() -> None:
    canvas = plane(100, 60)
    canvas.text(50, 30, "H", size=30)
    rows, columns = np.nonzero(ink(canvas.array()) > 0.5)
    assert len(rows) > 50
    assert (columns.min() + columns.max() + 1) / 2 == pytest.approx(50, abs=1.5)
    assert (rows.min() + rows.max() + 1) / 2 == pytest.approx(30, abs=4)
    assert 15 < rows.max() - rows.min() < 30


def test_later_shapes_cover_earlier_ones() -> None:
    canvas = plane()
    canvas.circle(20, 10, 8, "red")
    canvas.rectangle(18, 8, 22, 12, "blue")
    picture = canvas.array()
    assert picture[10, 20].tolist() == [0, 0, 255] and picture[10, 14].tolist() == [255, 0, 0]


@pytest.mark.parametrize("far", [-50.0, 1e5, 1e300])
def test_what_lies_outside_is_cut_off(far: float) -> None:
    canvas = plane()
    canvas.circle(far, far, 3, "black")
    canvas.text(far, far, "far", size=3)
    canvas.line([(far, far), (far, far)], "black", 1)
    canvas.polygon([(far, far), (far + 1, far), (far, far + 1)], "black")
    assert (canvas.array() == 255).all()
    canvas.rectangle(-abs(far), -abs(far), abs(far), abs(far), "black")
    assert (canvas.array() == 0).all()


def test_the_array_is_the_callers_own() -> None:
    canvas = plane()
    first = canvas.array()
    first[...] = 7
    assert canvas.array()[0, 0].tolist() == WHITE


# --- colours ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "color, value",
    [
        ("black", (0, 0, 0)),
        ("SteelBlue", (70, 130, 180)),
        ("#0a0B0c", (10, 11, 12)),
        ((1, 2, 3), (1, 2, 3)),
        ([255, 0, 9], (255, 0, 9)),
        (np.array([4, 5, 6], np.uint8), (4, 5, 6)),
    ],
)
def test_colours(color: Any, value: tuple[int, int, int]) -> None:
    assert rgb(color) == value


@pytest.mark.parametrize(
    "color, error, message",
    [
        ("gren", ValueError, "expected a CSS name or '#rrggbb', got 'gren'; did you mean 'green'"),
        ("#12", ValueError, "expected a CSS name or '#rrggbb', got '#12'"),
        ((1, 2), TypeError, r"expected a name or three ints from 0 to 255, got \(1, 2\)"),
        ((0.5, 0.5, 0.5), TypeError, "three ints"),
        ((0, 0, 256), ValueError, "three ints from 0 to 255"),
        (None, TypeError, "got None"),
    ],
)
def test_no_colours(color: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        rgb(color)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw, message",
    [
        (lambda canvas: canvas.circle(math.nan, 0, 1, "red"), "canvas.circle: expected finite numbers, got nan, 0.0"),
        (lambda canvas: canvas.rectangle(0, 0, math.inf, 1, "red"), "canvas.rectangle: expected finite numbers"),
        (lambda canvas: canvas.circle(0, 0, -1, "red"), "canvas.circle: expected a length >= 0, got -1.0"),
        (lambda canvas: canvas.polygon([], "red"), "canvas.polygon: expected at least one point"),
        (lambda canvas: canvas.world(0, 0, 0, 1), "canvas.world: expected left < right"),
        (lambda canvas: canvas.world(0, 1, 2, 1), "bottom < top"),
        (lambda canvas: canvas.grid(0, 3), "canvas.grid: expected at least one row and one column, got 0 and 3"),
    ],
)
def test_refusals(draw: Callable[[Canvas], None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(plane())


@pytest.mark.parametrize(
    "draw",
    [
        lambda canvas: canvas.circle(0, 0, 1, "red"),
        lambda canvas: canvas.cell(0, 0, "red"),
        lambda canvas: canvas.lines("red"),
        lambda canvas: canvas.array(),
    ],
)
def test_a_picture_is_opened_first(draw: Callable[[Canvas], None]) -> None:
    with pytest.raises(RuntimeError, match=r"open the picture first, with canvas.world\(...\) or canvas.grid\(...\)"):
        draw(Canvas())


def test_without_pillow() -> None:
    """Only pictures need it, and they say so when the batch is made."""
    program = """
import sys
sys.modules["PIL"] = None
import gymnasium, vecenv
assert vecenv.make("LineWorld-v0", render_mode="ansi").reset(seed=0)
for error in (ImportError, gymnasium.error.DependencyNotInstalled):
    try:
        vecenv.make_vec("LineWorld-v0", 2, render_mode="rgb_array")
    except error as caught:
        assert str(caught) == "pictures need Pillow, which is not installed: pip install vecenv[render]", caught
    else:
        raise AssertionError
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_importing_vecenv_does_not_import_pillow() -> None:
    program = "import sys, vecenv; vecenv.make_vec('LineWorld-v0', 2); assert 'PIL' not in sys.modules"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
