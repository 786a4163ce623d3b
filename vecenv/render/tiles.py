"""Many pictures as one, and files of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

Picture = npt.NDArray[np.uint8]  # [H, W, 3]

GAP = 2  # pixels between tiles
GAP_COLOR = (90, 90, 90)


def columns_for(count: int, height: int, width: int, aspect: float = 1.5) -> int:
    """How many columns bring `count` tiles of this size close to a picture `aspect` times as wide as high, with few
    places left empty."""

    def mismatch(columns: int) -> float:
        rows = math.ceil(count / columns)
        return abs(math.log(columns * width / (rows * height) / aspect)) + 2 * math.log(rows * columns / count)

    return min(range(1, count + 1), key=mismatch)


def tile(pictures: Sequence[Picture], columns: int) -> Picture:
    """Pictures of one size side by side, in rows of `columns`, with a gap between them."""
    height, width, _ = pictures[0].shape
    for k, picture in enumerate(pictures):
        if picture.shape != pictures[0].shape:
            raise ValueError(f"picture {k} is {picture.shape}, picture 0 is {pictures[0].shape}: expected one size")
    rows = math.ceil(len(pictures) / columns)
    total = np.empty((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, 3), np.uint8)
    total[...] = GAP_COLOR
    for k, picture in enumerate(pictures):
        y, x = k // columns * (height + GAP), k % columns * (width + GAP)
        total[y : y + height, x : x + width] = picture
    return total


def write_png(path: Path, picture: Picture) -> None:
    Image.fromarray(picture).save(path, format="PNG", optimize=True)


def write_gif(path: Path, pictures: Iterable[Picture], fps: float) -> None:
    """An animation without end. GIF counts in 10 ms, and viewers slow down what is faster than 50 pictures a second."""
    images: Iterator[Image.Image] = (Image.fromarray(picture) for picture in pictures)
    first = next(images)
    duration = max(20, round(100 / fps) * 10)
    first.save(path, format="GIF", save_all=True, append_images=images, duration=duration, loop=0)
