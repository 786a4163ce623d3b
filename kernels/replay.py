"""What a replay buffer samples with: gathering rows, and a sum tree for proportional priorities.

A sum tree is float64 `[2 * L]`, L leaves, a power of two: leaf k is `tree[L + k]`, node i the sum of nodes 2i and
2i + 1, node 1 the total. Nodes are always summed anew, never corrected by a difference: equal leaves have equal sums,
whatever was in the tree before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vecenv.kernels.jit import kernel

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@kernel
def gather(source: Array, indices: Ints, out: Array) -> None:
    """Copy rows of `source`, `[M, D]`, to `out`, `[B, D]`."""
    for j in range(len(indices)):
        for k in range(source.shape[1]):
            out[j, k] = source[indices[j], k]


@kernel
def gather_next(obs: Array, final_obs: Array, apart: Bools, indices: Ints, rows: int, out: Array) -> None:
    """Copy what the steps `indices` led to: `final_obs` where it stands `apart`, else the next slot of the ring `obs`.

    Observations are `[S * rows, D]`, `apart` is `[S * rows]`, `out` is `[B, D]`.
    """
    for j in range(len(indices)):
        index = indices[j]
        if apart[index]:
            for k in range(obs.shape[1]):
                out[j, k] = final_obs[index, k]
        else:
            following = index + rows if index + rows < len(obs) else index + rows - len(obs)
            for k in range(obs.shape[1]):
                out[j, k] = obs[following, k]


@kernel
def write_range(tree: Floats, first: int, values: Floats) -> None:
    """Set the leaves from `first` on."""
    low = len(tree) // 2 + first
    high = low + len(values) - 1
    tree[low : high + 1] = values
    while low > 1:
        low, high = low // 2, high // 2
        for i in range(low, high + 1):
            tree[i] = tree[2 * i] + tree[2 * i + 1]


@kernel
def write(tree: Floats, leaves: Ints, values: Floats) -> None:
    """Set some leaves; of one that occurs twice the last value stays."""
    for j in range(len(leaves)):
        i = len(tree) // 2 + leaves[j]
        tree[i] = values[j]
        while i > 1:
            i //= 2
            tree[i] = tree[2 * i] + tree[2 * i + 1]


@kernel
def draw(tree: Floats, uniforms: Floats, leaves: Ints) -> None:
    """Write the leaves that numbers from [0, 1) choose in proportion to their values; never one of value 0."""
    half = len(tree) // 2
    for j in range(len(uniforms)):
        rest = uniforms[j] * tree[1]
        i = 1
        while i < half:
            left, right = tree[2 * i], tree[2 * i + 1]
            # By rounding `rest` can reach the sum of both: an empty side is not entered.
            if right == 0.0 or (rest < left and left > 0.0):
                i = 2 * i
            else:
                rest -= left
                i = 2 * i + 1
        leaves[j] = i - half
