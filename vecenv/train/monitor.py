"""`Monitor`: what a run has done so far, shown by a progress bar, TensorBoard and the curve."""

from __future__ import annotations

import math
import sys
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


class Monitor:
    """Counts steps and episodes, and keeps a row of figures per update.

    Attributes:
        step: environment steps so far, summed over environments.
        seconds: time they took, learning included.
        curve: a dict per update: "step", "seconds", "episodes" (that ended in it), "return" and "length" (their means,
            NaN if none ended), "window_return", and the losses.

    Args:
        label: stands before the bar.
        total: steps that there will be.
        window: how many of the last episodes `window_return` is the mean of.
        run_dir: where TensorBoard's files go; None for none.
        progress: whether to show a bar on stderr.
    """

    def __init__(self, label: str, total: int, window: int, run_dir: Path | None, progress: bool) -> None:
        self.step, self.seconds = 0, 0.0
        self.curve: list[dict[str, float]] = []
        self._window: deque[float] = deque(maxlen=window)
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self._label, self._total, self._progress, self._run_dir = label, total, progress, run_dir
        self._bar: Any = None
        self._text = ""  # behind the bar
        self._writer: Any = None

    @property
    def window_return(self) -> float:
        """Mean return of the last episodes; NaN before there are as many as the window is wide."""
        full = len(self._window) == self._window.maxlen
        return float(np.mean(self._window)) if full else math.nan

    def episodes(self, returns: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> None:
        """Note episodes that ended, in their order."""
        self._returns += returns.tolist()
        self._lengths += lengths.tolist()

    def record(self, steps: int, seconds: float, **figures: float) -> None:
        """End an update that took so many steps of all environments and so many seconds."""
        self.step, self.seconds = self.step + steps, self.seconds + seconds
        self._window.extend(self._returns)
        row = {
            "step": self.step,
            "seconds": self.seconds,
            "episodes": len(self._returns),
            "return": float(np.mean(self._returns)) if self._returns else math.nan,
            "length": float(np.mean(self._lengths)) if self._lengths else math.nan,
            "window_return": self.window_return,
            **figures,
        }
        self._returns, self._lengths = [], []
        self.curve.append(row)
        self._show(row, steps, steps / seconds)

    def state_dict(self) -> dict[str, Any]:
        """As of the last `record`."""
        return {"step": self.step, "seconds": self.seconds, "window": list(self._window), "curve": list(self.curve)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step, self.seconds, self.curve = state["step"], state["seconds"], list(state["curve"])
        self._window.extend(state["window"])

    # --- showing ------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Monitor:
        from tqdm import tqdm

        self._bar = tqdm(
            total=self._total,
            initial=self.step,
            unit="step",
            unit_scale=True,
            desc=self._label,
            file=sys.stderr,
            disable=not self._progress,
            dynamic_ncols=True,
        )
        if self._run_dir is not None:
            self._writer = summary_writer()(str(self._run_dir), purge_step=self.step + 1 if self.step else None)
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.set_postfix_str(self._text)
        self._bar.close()
        if self._writer is not None:
            self._writer.close()

    def _show(self, row: dict[str, float], steps: int, sps: float) -> None:
        if self._writer is not None:
            for name, value in row.items():
                if name != "step" and not math.isnan(value):
                    self._writer.add_scalar(f"train/{name}", value, self.step)
            self._writer.add_scalar("train/sps", sps, self.step)
        losses = [f"{name} {row[name]:.3g}" for name in row if name.endswith("loss")]
        mean = f"return {np.mean(self._window):.1f}" if self._window else "no episode yet"
        self._text = ", ".join([mean, f"{sps:,.0f} SPS", *losses])
        if self._bar.update(steps):
            self._bar.set_postfix_str(self._text)


def summary_writer() -> Any:
    """TensorBoard's writer.

    Raises:
        ImportError: TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError("logs need TensorBoard, which is not installed: pip install vecenv[train]") from error
    return SummaryWriter
