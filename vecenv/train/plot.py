"""The learning curve as a picture (matplotlib: `pip install vecenv[plot]`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any


def figure_type() -> Any:
    """matplotlib's Figure.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib, which is not installed: pip install vecenv[plot]") from error
    return Figure


def plot_curve(curve: Sequence[dict[str, float]], path: str | os.PathLike[str], title: str) -> None:
    """Draw returns of training episodes over environment steps into a PNG file.

    Args:
        curve: rows of a `Monitor`.
        path: the file.
        title: stands above.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure = figure_type()(figsize=(8, 4.5), layout="constrained")  # not pyplot's: needs no display and leaves no state
    axes: Any = figure.subplots()
    ended = [row for row in curve if row["episodes"] > 0]
    axes.plot(
        [row["step"] for row in ended], [row["return"] for row in ended], ".", alpha=0.3, label="mean of one update"
    )
    window = [row for row in curve if row["window_return"] == row["window_return"]]
    axes.plot(
        [row["step"] for row in window], [row["window_return"] for row in window], label="mean of the last episodes"
    )
    axes.set(title=title, xlabel="environment steps", ylabel="return of training episodes")
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    figure.savefig(path, dpi=120)
