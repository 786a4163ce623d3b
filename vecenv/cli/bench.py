"""`vecenv bench ID`."""

from __future__ import annotations

import functools
import itertools
import statistics
import time
from typing import TYPE_CHECKING, Any

import click

from vecenv.cli.actions import ActionPool
from vecenv.cli.arguments import Request, environment_options
from vecenv.cli.output import Help, echo_json, progress_bar, si, table
from vecenv.cli.statistics import collect, warm_up

if TYPE_CHECKING:
    from vecenv.vec_env import VecEnv


BENCH_SIZES = (1, 64, 1024, 8192, 65536)


class _Cell:
    """One line of the `bench` table."""

    def __init__(self, envs: VecEnv, pool: ActionPool, copy: bool, seconds: float) -> None:
        self.envs, self.pool, self.copy = envs, pool, copy
        self.times: list[float] = []
        # Reset calls are counted in a run of their own, because counting takes time: a few thousand rows say enough.
        # Its first part only spreads the rows, which all started together, over the lengths of their episodes.
        collect(envs, pool.windows(100))
        count = max(300, 20_000 // envs.num_envs)
        counted = collect(envs, pool.windows(count))
        self.reset_share = counted.reset_calls / (counted.transitions + counted.reset_calls)
        self.steps = max(1, round(seconds * count / counted.seconds))

    def run(self) -> None:
        """Time one block of steps; states go on from block to block."""
        step = self.envs.step
        windows = itertools.islice(itertools.cycle(self.pool.windows(min(self.steps, 4096))), self.steps)
        start = time.perf_counter()
        for actions in windows:
            step(actions)
        self.times.append((time.perf_counter() - start) / self.steps)

    def result(self) -> dict[str, Any]:
        rows = self.envs.num_envs
        rates = [(1 - self.reset_share) * rows / seconds for seconds in self.times]
        median = statistics.median(self.times)
        return {
            "num_envs": rows,
            "copy": self.copy,
            "sps": statistics.median(rates),
            "sps_min": min(rates),
            "sps_max": max(rates),
            "ns_per_row": median / rows * 1e9,
            "us_per_step": median * 1e6,
            "reset_call_share": self.reset_share,
            "steps_per_repeat": self.steps,
        }


@click.command(
    "bench",
    cls=Help,
    epilog="""
    vecenv bench CartPole-v1
    vecenv bench CartPole-v1 --num-envs 1024 --num-envs 8192 --seconds 0.5 --repeats 9 --json
    """,
)
@environment_options
@click.option(
    "--num-envs",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="N",
    help=f"Batch size, repeatable.  [default: {', '.join(map(str, BENCH_SIZES))}]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=0.2,
    show_default=True,
    help="Length of one measurement.",
)
@click.option("--repeats", type=click.IntRange(min=1), default=5, show_default=True, help="Measurements per line.")
def bench_command(
    env_id: str,
    num_envs: tuple[int, ...],
    seconds: float,
    repeats: int,
    seed: int,
    autoreset_mode: str,
    math: str,
    max_episode_steps: int | None,
    options: dict[str, Any],
    progress: bool | None,
    as_json: bool,
) -> None:
    """Measure speed by batch size.

    Each line is a batch size, with fresh and with reused output arrays (`copy=False`); lines are measured in turns, and
    medians are shown. Compiling is reported apart.
    """
    request = Request(env_id, seed, autoreset_mode, math, max_episode_steps, options)
    space = request.definition.action_space
    sizes = tuple(dict.fromkeys(num_envs)) or BENCH_SIZES
    cells: list[_Cell] = []
    warm_up_seconds = 0.0
    with progress_bar(progress, as_json, len(sizes) * 2 * (repeats + 1), "run", request.id) as bar:
        for size in sizes:
            pool = ActionPool(space, size, seed)
            for copy in (True, False):
                envs, spent = warm_up(functools.partial(request.make, size, copy=copy), space, seed)
                warm_up_seconds += sum(spent.values())
                cells.append(_Cell(envs, pool, copy, seconds))
                bar.update()
        # Interleaved: whatever else the machine does meanwhile meets all cells alike.
        for _ in range(repeats):
            for cell in cells:
                cell.run()
                bar.update()
    rows = [cell.result() for cell in cells]
    for cell in cells:
        cell.envs.close()
    actions = f"random, windows into a pool of {ActionPool.ARRAYS} arrays sampled before the timing"
    result = request.describe() | {
        "repeats": repeats,
        "seconds_per_repeat": seconds,
        "warm_up_seconds": warm_up_seconds,
        "actions": actions,
        "cells": rows,
    }
    if as_json:
        echo_json(result)
        return
    click.echo(f"{request.id}: {request.sentence()}; medians of {repeats} interleaved runs of {seconds:g} s\n")
    lines = [
        (
            f"{row['num_envs']:,}",
            "fresh" if row["copy"] else "reused",
            si(row["sps"]),
            f"{si(row['sps_min'])} to {si(row['sps_max'])}",
            f"{row['ns_per_row']:,.2f}",
            f"{row['us_per_step']:,.2f}",
            f"{row['reset_call_share']:.1%}",
        )
        for row in rows
    ]
    header = ("N", "outputs", "SPS", "range", "ns per row", "us per step", "reset calls")
    click.echo(table(header, lines, right=frozenset({0, 2, 3, 4, 5, 6})))
    click.echo(
        f"\nSPS counts real transitions, without NEXT_STEP's reset calls; outputs reused: copy=False.\n"
        f"Actions: {actions}.\n"
        f"Warm-up {warm_up_seconds:.2f} s (compiling or loading kernels, first calls), not in the table."
    )
