"""`Report`: collects violations and raises them together."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

LONGEST = 160  # characters of a shown value


def show(value: Any) -> str:
    """A value on one line, cut to a readable length."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        text = np.array2string(value, threshold=20, separator=", ", floatmode="unique")
    else:
        text = repr(value)
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


@dataclass
class Violation:
    """The first occurrence of one kind of violation, and how many there were."""

    text: str
    count: int = 1


class Report:
    """Violations by name, in the order in which they were found."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.violations: dict[str, Violation] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.violations

    def add(
        self, name: str, expected: str, got: str, *, step: int | None = None, row: int | None = None, where: str = ""
    ) -> None:
        """Record a violation; of each name the first is kept and the others are counted.

        Args:
            name: short name in kebab-case; tests of the checker look for it.
            expected, got: what the contract says and what came.
            step: number of the call since the reset, from 1; 0 is the reset itself.
            row: number of the environment.
            where: in which run.
        """
        if name in self.violations:
            self.violations[name].count += 1
            return
        place = [f"step {step}" if step is not None else "", f"row {row}" if row is not None else "", where]
        shown = ", ".join(part for part in place if part)
        self.violations[name] = Violation(f"{name}: expected {expected}, got {got}" + (f" ({shown})" if shown else ""))

    @contextlib.contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Anything that the checked object raises is a violation, and the other sections still run."""
        try:
            yield
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{frame.filename}, line {frame.lineno}"
            text = " ".join(str(error).split())
            self.add(f"raised-{name}", "no exception", f"{type(error).__name__}: {text:.300} [{where}]")

    def raise_if_any(self) -> None:
        """Raise one AssertionError with a line per violation, or nothing."""
        if not self.violations:
            return
        lines = [
            violation.text + (f" and {violation.count - 1} more" if violation.count > 1 else "")
            for violation in self.violations.values()
        ]
        count = len(lines)
        raise AssertionError(f"{self.title}: {count} violation{'s' * (count > 1)}\n  " + "\n  ".join(lines))
