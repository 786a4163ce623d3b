"""Hooks of FrameStack: a row keeps its last observations, the oldest first, and shows them as one."""

from __future__ import annotations

from typing import Any

from vecenv.kernels.envdef import RowFunction
from vecenv.kernels.jit import jit

# What `BatchKernels` binds: `views.py`, compiled or in plain Python.
_bound: Any = None
frames_of = part_of = copy_view = drop_oldest = _bound


def hooks(observe: RowFunction, size: int, repeats_first: bool) -> dict[str, RowFunction]:
    """`size` frames of what `observe` writes; at a reset the older ones are the first frame again, or zeros."""
    last = size - 1

    @jit
    def after_step(own, below, state, params):  # type: ignore[no-untyped-def]
        frames = frames_of(own)
        drop_oldest(frames)
        observe(below, state, params, part_of(frames, last))

    @jit
    def begin_with_zeros(own, below, state, params):  # type: ignore[no-untyped-def]
        observe(below, state, params, part_of(frames_of(own), last))

    @jit
    def begin_with_first(own, below, state, params):  # type: ignore[no-untyped-def]
        frames = frames_of(own)
        newest = part_of(frames, last)
        observe(below, state, params, newest)
        for k in range(last):
            copy_view(part_of(frames, k), newest)

    @jit
    def on_observe(own, below, state, params, obs):  # type: ignore[no-untyped-def]
        copy_view(obs, frames_of(own))

    after_reset = begin_with_first if repeats_first else begin_with_zeros
    return {"after_step": after_step, "after_reset": after_reset, "on_observe": on_observe}
