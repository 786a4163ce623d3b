"""Values and policies of grids as text and as pictures (matplotlib: `pip install vecenv[plot]`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vecenv.models import Model
from vecenv.planning.dynamic import policy_probabilities, state_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

END = "*"  # a state that only ending transitions lead to has nothing to decide


def format_values(model: Model, values: npt.ArrayLike, digits: int = 2) -> str:
    """Values as a text, top row first, signed; blank where no state is."""
    matrix = model.to_matrix(state_values(model, values))
    return _table([["" if np.isnan(value) else f"{value:+.{digits}f}" for value in row] for row in matrix])


def format_policy(model: Model, policy: npt.ArrayLike, form: str = "arrow") -> str:
    """A policy as a text of arrows or labels ("text"), top row first: the likeliest action of each state.

    `*` marks ends; blank where no state is.
    """
    return _table(_labels(model, policy, form).tolist())


def plot_values(
    model: Model, values: npt.ArrayLike, policy: npt.ArrayLike | None = None, ax: Axes | None = None, **imshow: Any
) -> Axes:
    """Draw values as colours and numbers, with the arrows of a policy if there is one.

    Args:
        model: of a grid.
        values: V(s), `[S]`.
        policy: int `[S]` or probabilities `[S, A]`.
        ax: axes to draw on; those of a new figure if None.
        **imshow: for matplotlib's `imshow`, such as `cmap`.

    Raises:
        ImportError: matplotlib is not installed.
    """
    ax = _axes(ax)
    matrix = model.to_matrix(state_values(model, values))
    image = ax.imshow(matrix, **{"cmap": "viridis", **imshow})
    labels = None if policy is None else _labels(model, policy, "arrow")
    for (row, column), value in np.ndenumerate(matrix):
        if not np.isnan(value):
            red, green, blue, _ = image.cmap(image.norm(value))
            color = "black" if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "white"
            text = f"{value:.2f}" if labels is None else f"{labels[row, column]}\n{value:.2f}"
            ax.text(column, row, text, ha="center", va="center", color=color)
    return _without_ticks(ax)


def plot_policy(model: Model, policy: npt.ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw the likeliest action of each state as an arrow. Arguments as in `plot_values`."""
    ax = _axes(ax)
    labels = _labels(model, policy, "arrow")
    ax.imshow(np.where(labels == "", 0.6, 1.0), cmap="gray", vmin=0, vmax=1)
    for (row, column), label in np.ndenumerate(labels):
        ax.text(column, row, label, ha="center", va="center")
    return _without_ticks(ax)


def _labels(model: Model, policy: npt.ArrayLike, form: str) -> npt.NDArray[np.str_]:
    """`[rows, columns]` of labels."""
    chosen = policy_probabilities(model, policy).argmax(1)
    names = np.array([model.id2action(action, form) for action in range(model.num_actions)])
    return model.to_matrix(np.where(model.absorbing, END, names[chosen]), fill="")


def _table(rows: list[list[str]]) -> str:
    width = max(len(cell) for row in rows for cell in row)
    return "".join(" ".join(cell.rjust(width) for cell in row).rstrip() + "\n" for row in rows)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib, which is not installed: pip install vecenv[plot]") from error
    new: Axes = plt.subplots()[1]
    return new


def _without_ticks(ax: Axes) -> Axes:
    ax.set_xticks([])
    ax.set_yticks([])
    return ax
