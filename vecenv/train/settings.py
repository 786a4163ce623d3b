"""What PyTorch is told for the time of a training run, and the checks of a configuration's numbers."""

from __future__ import annotations

import contextlib
import math
import typing
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def torch_settings(threads: int, deterministic: bool) -> Iterator[None]:
    """PyTorch with so many threads and, if asked, only algorithms that give the same bits every time."""
    memory: Any = torch.utils.deterministic
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    # Nothing here reads what it has not written, and filling takes time.
    memory.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])
        memory.fill_uninitialized_memory = before[2]


def check_ints(config: Any, low: int, *names: str) -> None:
    """Raise unless these fields of `config` are ints of at least `low`."""
    for name in names:
        value = getattr(config, name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name}: expected an int, got {value!r}")
        if value < low:
            raise ValueError(f"{name}: expected at least {low}, got {value}")


def check_range(config: Any, low: float, high: float, *names: str) -> None:
    """Raise unless these fields of `config` are numbers from `low` to `high`; None passes where it is declared."""
    hints = typing.get_type_hints(type(config))
    for name in names:
        value = getattr(config, name)
        if value is None and type(None) in typing.get_args(hints[name]):
            continue
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise TypeError(f"{name}: expected a number, got {value!r}")
        if not low <= value <= high or math.isinf(value):
            expected = f"a number of at least {low}" if math.isinf(high) else f"a number from {low} to {high}"
            raise ValueError(f"{name}: expected {expected}, got {value}")


def check_choices(config: Any) -> None:
    """Raise unless the fields of `config` that are declared as a `Literal` have one of its values."""
    for name, hint in typing.get_type_hints(type(config)).items():
        choices, value = typing.get_args(hint), getattr(config, name)
        if typing.get_origin(hint) is typing.Literal and value not in choices:
            raise ValueError(f"{name}: expected {' or '.join(map(repr, choices))}, got {value!r}")


def check_widths(config: Any, name: str) -> None:
    """Raise unless this field of `config` is a tuple of ints of at least 1."""
    widths = getattr(config, name)
    if not isinstance(widths, tuple) or any(not isinstance(width, int) or width < 1 for width in widths):
        raise ValueError(f"{name}: expected a tuple of widths of at least 1, got {widths!r}")
