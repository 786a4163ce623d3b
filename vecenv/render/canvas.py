"""`Canvas`: what an environment's `render(state, params, canvas)` draws on, over Pillow.

An environment first opens the picture, with `world` (a piece of the plane, y up) or `grid` (cells, y down), and then
draws. All lengths, line widths and text sizes included, are in units of that world. Later shapes cover earlier ones.
"""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt


class PillowMissing(gymnasium.error.DependencyNotInstalled, ImportError):
    """Pictures were asked for, and Pillow is not installed."""


try:
    from PIL import Image, ImageColor, ImageDraw, ImageFont
except ImportError as error:
    raise PillowMissing("pictures need Pillow, which is not installed: pip install vecenv[render]") from error

Color = str | Sequence[int] | npt.NDArray[Any]
Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels

SUPERSAMPLING = 4  # each shape is drawn this many times larger and averaged: 17 levels of coverage per pixel
FAR = 1e6  # [pixels] coordinates are cut off here: Pillow's are C ints


class Canvas:
    """A picture to draw on.

    Attributes:
        width, height: the picture's size in pixels.
        pixel: the length of one pixel in world units (at scale 1), for sizes that the world does not say.
    """

    width: int
    height: int
    pixel: float
    _image: Image.Image | None = None

    def __init__(self, scale: float = 1.0) -> None:
        """`scale` makes the whole picture larger or smaller; environments need not care."""
        self._scale = scale

    # --- opening ------------------------------------------------------------------------------------------------------

    def world(
        self, left: float, right: float, bottom: float, top: float, *, width: int = 600, background: Color = "white"
    ) -> None:
        """Show the rectangle from (left, bottom) to (right, top), `width` pixels wide; the height follows."""
        numbers = _finite("world", left, right, bottom, top)
        left, right, bottom, top = numbers
        if not (left < right and bottom < top):
            raise ValueError(f"canvas.world: expected left < right and bottom < top, got {numbers}")
        self.pixel = (right - left) / width
        pixels = max(1, round(width * self._scale))
        self._factor = pixels / (right - left)
        self._origin, self._up = (-left * self._factor, top * self._factor), -1.0
        self._open(pixels, max(1, round((top - bottom) * self._factor)), background)

    def grid(self, rows: int, columns: int, *, cell: int = 64, longest: int = 512, background: Color = "white") -> None:
        """Show a grid: (0, 0) is its top left corner, x counts columns, y rows downwards.

        Cells are `cell` pixels, or fewer, so that no side of the picture is longer than `longest`.
        """
        if rows < 1 or columns < 1:
            raise ValueError(f"canvas.grid: expected at least one row and one column, got {rows} and {columns}")
        size = min(float(cell), longest / max(rows, columns))
        size = math.floor(size) if size >= 1 else size
        self.pixel = 1 / size
        self._factor = size * self._scale
        self._origin, self._up = (0.0, 0.0), 1.0
        self._open(max(1, round(columns * self._factor)), max(1, round(rows * self._factor)), background)

    def _open(self, width: int, height: int, background: Color) -> None:
        self.width, self.height = width, height
        self._image = Image.new("RGB", (width, height), rgb(background))

    # --- shapes -------------------------------------------------------------------------------------------------------

    def rectangle(self, left: float, bottom: float, right: float, top: float, color: Color) -> None:
        """A filled rectangle with its sides along the axes."""
        (x0, y0), (x1, y1) = self._pixels("rectangle", [(left, bottom), (right, top)])
        x0, x1, y0, y1 = min(x0, x1), max(x0, x1), min(y0, y1), max(y0, y1)

        def draw(pen: ImageDraw.ImageDraw, fine: Callable[[float, float], Point]) -> None:
            (a, b), (c, d) = fine(x0, y0), fine(x1, y1)
            a, b = round(a), round(b)
            pen.rectangle((a, b, max(a, round(c) - 1), max(b, round(d) - 1)), fill=255)  # Pillow's ends are inside

        self._paint((x0, y0, x1, y1), color, draw)

    def polygon(self, points: Iterable[Point], color: Color) -> None:
        """A filled polygon."""
        pixels = self._pixels("polygon", points)

        def draw(pen: ImageDraw.ImageDraw, fine: Callable[[float, float], Point]) -> None:
            # The centre of a small pixel is half a pixel from its edge.
            pen.polygon([(round(x - 0.5), round(y - 0.5)) for x, y in (fine(*p) for p in pixels)], fill=255)

        self._paint(_bounds(pixels), color, draw)

    def line(self, points: Iterable[Point], color: Color, width: float) -> None:
        """A line through the points."""
        pixels, thickness = self._pixels("line", points), self._length("line", width)

        def draw(pen: ImageDraw.ImageDraw, fine: Callable[[float, float], Point]) -> None:
            path = [(round(x - 0.5), round(y - 0.5)) for x, y in (fine(*p) for p in pixels)]
            pen.line(path, fill=255, width=max(1, round(thickness * SUPERSAMPLING)), joint="curve")

        self._paint(_bounds(pixels, thickness), color, draw)

    def circle(self, x: float, y: float, radius: float, color: Color) -> None:
        """A filled circle."""
        [(px, py)], r = self._pixels("circle", [(x, y)]), self._length("circle", radius)

        def draw(pen: ImageDraw.ImageDraw, fine: Callable[[float, float], Point]) -> None:
            (a, b), (c, d) = fine(px - r, py - r), fine(px + r, py + r)
            a, b = round(a), round(b)
            pen.ellipse((a, b, max(a, round(c) - 1), max(b, round(d) - 1)), fill=255)

        self._paint((px - r, py - r, px + r, py + r), color, draw)

    def text(self, x: float, y: float, text: str, color: Color = "black", *, size: float) -> None:
        """Text with its middle at (x, y), in a font of height `size`."""
        [(px, py)], height = self._pixels("text", [(x, y)]), self._length("text", size)
        font = _font(max(1, round(height * SUPERSAMPLING)))
        box = font.getbbox(text, anchor="mm")
        left, top, right, bottom = (side / SUPERSAMPLING for side in box)

        def draw(pen: ImageDraw.ImageDraw, fine: Callable[[float, float], Point]) -> None:
            pen.text(fine(px, py), text, fill=255, font=font, anchor="mm")

        self._paint((px + left, py + top, px + right, py + bottom), color, draw)

    # --- cells --------------------------------------------------------------------------------------------------------

    def cell(self, row: int, column: int, color: Color) -> None:
        """Fill the cell of a grid."""
        image = self._opened()
        x0, x1 = self._edge(column), self._edge(column + 1)
        y0, y1 = self._edge(row), self._edge(row + 1)
        image.paste(rgb(color), (x0, y0, x1, y1))

    def cells(self, values: Any, palette: Mapping[int, Color | None] | Sequence[Color | None]) -> None:
        """Fill the cells of a grid from integers `[rows, columns]`: an array, an array field of the state, or a table.

        `palette` gives the colour of each value; None leaves such cells as they are.
        """
        rows, columns = values.shape
        for row in range(rows):
            for column in range(columns):
                value = int(values[row, column])
                try:
                    color = palette[value]
                except (KeyError, IndexError):
                    raise ValueError(f"canvas.cells: no colour for the value {value} at [{row}, {column}]") from None
                if color is not None:
                    self.cell(row, column, color)

    def lines(self, color: Color) -> None:
        """Lines of one pixel between the cells of a grid and around them."""
        image, fill = self._opened(), rgb(color)
        for column in range(round(self.width / self._factor) + 1):
            x = min(self._edge(column), self.width - 1)
            image.paste(fill, (x, 0, x + 1, self.height))
        for row in range(round(self.height / self._factor) + 1):
            y = min(self._edge(row), self.height - 1)
            image.paste(fill, (0, y, self.width, y + 1))

    # --- result -------------------------------------------------------------------------------------------------------

    def array(self) -> npt.NDArray[np.uint8]:
        """The picture, uint8 `[height, width, 3]`; the caller's own."""
        return np.array(self._opened())

    # --- parts --------------------------------------------------------------------------------------------------------

    def _opened(self) -> Image.Image:
        if self._image is None:
            raise RuntimeError("canvas: open the picture first, with canvas.world(...) or canvas.grid(...)")
        return self._image

    def _pixels(self, what: str, points: Iterable[Point]) -> list[Point]:
        self._opened()
        (x0, y0), scale = self._origin, self._factor
        result = []
        for x, y in points:
            x, y = _finite(what, x, y)
            px, py = x0 + scale * x, y0 + self._up * scale * y
            result.append((min(max(px, -FAR), FAR), min(max(py, -FAR), FAR)))
        if not result:
            raise ValueError(f"canvas.{what}: expected at least one point")
        return result

    def _length(self, what: str, length: float) -> float:
        [length] = _finite(what, length)
        if length < 0:
            raise ValueError(f"canvas.{what}: expected a length >= 0, got {length}")
        return min(length * self._factor, FAR)

    def _edge(self, k: int) -> int:
        """Where the cell k begins: on a whole pixel, so that neighbours leave no seam."""
        return round(k * self._factor)

    def _paint(
        self,
        box: Box,
        color: Color,
        draw: Callable[[ImageDraw.ImageDraw, Callable[[float, float], Point]], None],
    ) -> None:
        """Colour what `draw` covers within `box`: it is drawn larger, as a mask, and averaged."""
        fill = rgb(color)
        left, top = max(0, math.floor(box[0])), max(0, math.floor(box[1]))
        right, bottom = min(self.width, math.ceil(box[2])), min(self.height, math.ceil(box[3]))
        if left >= right or top >= bottom:
            return
        mask = Image.new("L", ((right - left) * SUPERSAMPLING, (bottom - top) * SUPERSAMPLING))
        draw(ImageDraw.Draw(mask), lambda x, y: ((x - left) * SUPERSAMPLING, (y - top) * SUPERSAMPLING))
        self._opened().paste(fill, (left, top, right, bottom), mask.reduce(SUPERSAMPLING))


def rgb(color: Color) -> tuple[int, int, int]:
    """A colour by its CSS name, as "#rrggbb", or as three ints from 0 to 255.

    Raises:
        TypeError, ValueError: it is none of these.
    """
    if isinstance(color, str):
        return _named(color)
    parts = list(color) if isinstance(color, (Sequence, np.ndarray)) else []
    if len(parts) != 3 or not all(isinstance(part, (int, np.integer)) for part in parts):
        raise TypeError(f"colour: expected a name or three ints from 0 to 255, got {color!r}")
    if not all(0 <= part <= 255 for part in parts):
        raise ValueError(f"colour: expected three ints from 0 to 255, got {color!r}")
    red, green, blue = (int(part) for part in parts)
    return red, green, blue


@functools.cache
def _named(name: str) -> tuple[int, int, int]:
    try:
        return ImageColor.getrgb(name)[:3]
    except ValueError:
        close = difflib.get_close_matches(name.lower(), ImageColor.colormap)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise ValueError(f"colour: expected a CSS name or '#rrggbb', got {name!r}{hint}") from None


@functools.cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    """Pillow's own font: the same on every machine."""
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont)
    return font


def _finite(what: str, *numbers: float) -> tuple[float, ...]:
    values = tuple(float(number) for number in numbers)
    if not all(map(math.isfinite, values)):
        raise ValueError(f"canvas.{what}: expected finite numbers, got {', '.join(map(str, values))}")
    return values


def _bounds(pixels: list[Point], margin: float = 0.0) -> Box:
    xs, ys = [x for x, _ in pixels], [y for _, y in pixels]
    return min(xs) - margin, min(ys) - margin, max(xs) + margin, max(ys) + margin
