"""Moving rows between arenas: the only thing that moves state."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vecenv.kernels.jit import kernel
from vecenv.kernels.soa import Bytes, Layout

Rows = npt.NDArray[np.int64]


@kernel
def _copy_rows(target, target_offsets, target_rows, source, source_offsets, source_rows, row_nbytes):  # type: ignore[no-untyped-def]
    """Copy every column of `source_rows` to `target_rows`, in words as wide as the column allows."""
    target8, source8 = target.view(np.int64), source.view(np.int64)
    target4, source4 = target.view(np.int32), source.view(np.int32)
    for c in range(len(row_nbytes)):
        nbytes = row_nbytes[c]
        if nbytes % 8 == 0:
            width = nbytes // 8
            t, s = target_offsets[c] // 8, source_offsets[c] // 8
            for k in range(len(target_rows)):
                for w in range(width):
                    target8[t + target_rows[k] * width + w] = source8[s + source_rows[k] * width + w]
        elif nbytes % 4 == 0:
            width = nbytes // 4
            t, s = target_offsets[c] // 4, source_offsets[c] // 4
            for k in range(len(target_rows)):
                for w in range(width):
                    target4[t + target_rows[k] * width + w] = source4[s + source_rows[k] * width + w]
        else:
            t, s = target_offsets[c], source_offsets[c]
            for k in range(len(target_rows)):
                for w in range(nbytes):
                    target[t + target_rows[k] * nbytes + w] = source[s + source_rows[k] * nbytes + w]


def _share(first: Rows, second: Rows, num_rows: int) -> bool:
    seen = np.zeros(num_rows, np.bool_)
    seen[second] = True
    return bool(seen[first].any())


def copy_rows(
    layout: Layout,
    target: Bytes,
    target_num_rows: int,
    target_rows: Rows,
    source: Bytes,
    source_num_rows: int,
    source_rows: Rows,
) -> None:
    """Copy rows between two arenas of one layout, of any number of rows each.

    `target_rows[k]` receives `source_rows[k]`; both are int64 `[K]` inside their arena and the targets are unique.
    Within one arena the copy is as if all rows were read before any is written.
    """
    if target is source and _share(target_rows, source_rows, target_num_rows):
        middle = np.zeros(int(layout.offsets(len(source_rows))[-1]), np.uint8)
        everything = np.arange(len(source_rows))
        copy_rows(layout, middle, len(source_rows), everything, source, source_num_rows, source_rows)
        source, source_num_rows, source_rows = middle, len(source_rows), everything
    _copy_rows(
        target,
        layout.offsets(target_num_rows),
        target_rows,
        source,
        layout.offsets(source_num_rows),
        source_rows,
        layout.row_nbytes,
    )
