"""Observations and infos as trees of arrays: copying, taking rows, comparing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector.utils import iterate

from vecenv.checks.report import show

Tree = Any  # an array, a number, or a dict, tuple or list of trees


def leaves(tree: Tree, path: str = "") -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """(path, array) of every leaf; the path of a lone array is empty. Entries of object arrays that are None are left
    out, the others are trees of their own."""
    if isinstance(tree, Mapping):
        for key in tree:
            yield from leaves(tree[key], f"{path}[{key!r}]")
    elif isinstance(tree, (tuple, list)):
        for k, part in enumerate(tree):
            yield from leaves(part, f"{path}[{k}]")
    elif isinstance(tree, np.ndarray) and tree.dtype == object:
        for k, part in enumerate(tree.ravel()):
            if part is not None:
                yield from leaves(part, f"{path}[{k}]")
    else:
        yield path, np.asarray(tree)


def copy_tree(tree: Tree) -> Tree:
    """The same tree with arrays of its own."""
    if isinstance(tree, Mapping):
        return {key: copy_tree(part) for key, part in tree.items()}
    if isinstance(tree, (tuple, list)):
        return tuple(copy_tree(part) for part in tree)
    if isinstance(tree, np.ndarray) and tree.dtype == object:
        copied = np.empty_like(tree)
        for k in np.ndindex(tree.shape):
            copied[k] = copy_tree(tree[k])
        return copied
    return tree.copy() if isinstance(tree, np.ndarray) else tree


def rows_of(space: spaces.Space[Any], batched: Tree) -> list[Tree]:
    """The rows of a batched observation as private copies. `space` is the batched space."""
    return [copy_tree(row) for row in iterate(space, batched)]


def row_of(batched: Tree, i: int | slice) -> Tree:
    """Row i, or some rows, of a dense batch or of an object array, as a private copy."""
    if isinstance(batched, Mapping):
        return {key: row_of(part, i) for key, part in batched.items()}
    if isinstance(batched, (tuple, list)):
        return tuple(row_of(part, i) for part in batched)
    return copy_tree(batched[i])


def equal_arrays(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    """Same shape and values; NaN equals NaN."""
    if a.shape != b.shape:
        return False
    if a.dtype.kind in "fc" and b.dtype.kind in "fc":
        return bool(np.array_equal(a, b, equal_nan=True))
    return bool(np.array_equal(a, b))


def difference(a: Tree, b: Tree) -> tuple[str, Any, Any] | None:
    """The first leaf in which two trees differ, as (path, a's, b's), or None."""
    of_a, of_b = dict(leaves(a)), dict(leaves(b))
    if list(of_a) != list(of_b) and set(of_a) != set(of_b):
        return "", a, b
    for path, array in of_a.items():
        if not equal_arrays(array, of_b[path]):
            return path, array, of_b[path]
    return None


def same(a: Tree, b: Tree) -> bool:
    """Whether two trees have the same leaves with the same values."""
    return difference(a, b) is None


def info_row(infos: Mapping[str, Any], i: int) -> dict[str, Any]:
    """What an infos dict says about row i, without the keys that belong to auto-reset and to wrappers."""
    row: dict[str, Any] = {}
    for key, value in infos.items():
        if key.startswith("_") or key in ("final_obs", "final_info", "episode"):
            continue
        mask = infos.get(f"_{key}")
        if mask is not None and not mask[i]:
            continue
        row[key] = info_row(value, i) if isinstance(value, Mapping) else copy_tree(value[i])
    return row


def misfit(space: spaces.Space[Any], value: Tree, path: str = "") -> tuple[str, str, str, str] | None:
    """Why `value` is not exactly of `space`'s type, shape and dtype: (kind, path, expected, got), or None.

    `kind` is "type", "shape" or "dtype". Spaces without one array (Text, Graph, ...) are left to `contains`.
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping) or set(value) != set(space.spaces):
            got = f"keys {sorted(value)}" if isinstance(value, Mapping) else type(value).__name__
            return "type", path, f"a dict with the keys {sorted(space.spaces)}", got
        for key, part in space.spaces.items():
            if (found := misfit(part, value[key], f"{path}[{key!r}]")) is not None:
                return found
    elif isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple) or len(value) != len(space.spaces):
            return "type", path, f"a tuple of {len(space.spaces)}", type(value).__name__
        for k, part in enumerate(space.spaces):
            if (found := misfit(part, value[k], f"{path}[{k}]")) is not None:
                return found
    elif isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)):
        if not isinstance(value, np.ndarray):
            return "type", path, "a NumPy array", type(value).__name__
        if value.shape != space.shape:
            return "shape", path, f"shape {space.shape}", str(value.shape)
        if value.dtype != space.dtype:
            return "dtype", path, str(space.dtype), str(value.dtype)
    elif isinstance(space, spaces.Discrete) and np.shape(value) != ():
        return "shape", path, "one number", f"shape {np.shape(value)}"
    return None


def outside(space: spaces.Space[Any], value: Tree, path: str = "") -> tuple[str, str, str] | None:
    """The first element of one observation that lies outside `space`: (element, allowed range, value), or None."""
    if isinstance(space, spaces.Dict):
        parts = [(part, value[key], f"{path}[{key!r}]") for key, part in space.spaces.items()]
    elif isinstance(space, spaces.Tuple):
        parts = [(part, value[k], f"{path}[{k}]") for k, part in enumerate(space.spaces)]
    else:
        bounds = _bounds(space)
        if bounds is None:
            return None if space.contains(value) else (path or "the observation", str(space), show(value))
        array = np.asarray(value)
        bad = _beyond(array, bounds)
        if not bad.any():
            return None
        index = tuple(int(k) for k in np.argwhere(bad)[0]) if array.ndim else ()
        element = f"{path}[{', '.join(map(str, index))}]" if index else path
        lowest, highest = (np.broadcast_to(bound, array.shape)[index] for bound in bounds)
        return element, f"{lowest} to {highest}", str(array[index])
    for part, inner, name in parts:
        if (found := outside(part, inner, name)) is not None:
            return found
    return None


def rows_outside(space: spaces.Space[Any], batched: Tree) -> npt.NDArray[np.bool_]:
    """Which rows of a dense batch have an element outside `space`, the single space, `[N]`."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        keys: Any = space.spaces if isinstance(space, spaces.Dict) else range(len(space.spaces))
        wrong = np.stack([rows_outside(space[key], batched[key]) for key in keys])
        return np.asarray(wrong.any(axis=0))
    bounds = _bounds(space)
    assert bounds is not None
    return np.asarray(_beyond(batched, bounds).reshape(len(batched), -1).any(axis=1))


def _beyond(array: npt.NDArray[Any], bounds: tuple[Any, Any]) -> npt.NDArray[np.bool_]:
    """Where an array is not between the bounds; true for NaN."""
    return np.asarray(~((array >= bounds[0]) & (array <= bounds[1])))


def _bounds(space: spaces.Space[Any]) -> tuple[Any, Any] | None:
    """Lowest and highest values of a space that is one array or number."""
    if isinstance(space, spaces.Box):
        return space.low, space.high
    if isinstance(space, spaces.Discrete):
        return space.start, space.start + space.n - 1
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    if isinstance(space, spaces.MultiBinary):
        return 0, 1
    return None
