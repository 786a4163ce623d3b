"""Output that all commands share: JSON, tables, numbers, the progress bar, examples under --help."""

from __future__ import annotations

import inspect
import json
import math
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click


def echo_json(value: Any) -> None:
    click.echo(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """What JSON can hold: NumPy values as Python's, infinities and NaN as strings, unknown objects as their repr."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]], right: frozenset[int] = frozenset()) -> str:
    """Aligned columns, two spaces apart; those in `right` to the right."""
    lines = [header, *rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]
    return "\n".join(
        "  ".join(f"{cell:{'>' if k in right else '<'}{widths[k]}}" for k, cell in enumerate(line)).rstrip()
        for line in lines
    )


def si(value: float) -> str:
    """Three digits and a unit: 412 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def command_name() -> str:
    """How the user can call this program again from where they are."""
    called = Path(sys.argv[0])
    if called.name != "__main__.py":
        found = shutil.which(called.name)
        return called.name if found is not None and Path(found).absolute() == called.absolute() else _relative(called)
    return f"{_relative(Path(sys.executable))} -m vecenv"


def _relative(path: Path) -> str:
    # Not resolved: the python of a virtual environment is a link that must stay one.
    path = path.absolute()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


@contextmanager
def progress_bar(wanted: bool | None, quiet: bool, total: int, unit: str, label: str) -> Iterator[Any]:
    """A bar on stderr: where it is asked for, or on a terminal unless the output is for machines."""
    from tqdm import tqdm

    hidden = not is_shown(wanted, quiet)
    with tqdm(total=total, unit=unit, desc=label, file=sys.stderr, disable=hidden, dynamic_ncols=True) as bar:
        yield bar


def is_shown(wanted: bool | None, quiet: bool) -> bool:
    """Whether to show a bar that is `wanted`, or None, and the output is for machines."""
    return wanted if wanted is not None else sys.stderr.isatty() and not quiet


class Help(click.Command):
    """Keeps the line breaks of the epilog, which holds examples."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.epilog, formatter)


class GroupHelp(click.Group):
    command_class = Help

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.epilog, formatter)


def _write_examples(epilog: str | None, formatter: click.HelpFormatter) -> None:
    if epilog:
        with formatter.section("Examples"):
            for line in inspect.cleandoc(epilog).splitlines():
                formatter.write(f"  {line}\n")
