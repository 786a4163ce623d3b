"""Compare vecenv with Gymnasium in one interleaved run.

    python -m benchmarks.compare                    # print tables
    python -m benchmarks.compare --check            # exit 1 if a target is missed
    python -m benchmarks.compare --readme           # write the table into README.md

All cases run in turns, one block each per round, so that another load on the machine meets all of them alike. A block
is the median of many short runs, a time the median of the rounds, and a ratio the median of the ratios of each round.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import gymnasium
from tqdm import tqdm

import vecenv
from benchmarks.measure import BatchCase, Case, EpisodeCase, calibrate, empty_outputs, machine, start_up

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- benchmark:begin -->", "<!-- benchmark:end -->"

N = 8192
SYNC_N = 256  # a step of SyncVectorEnv at N=8192 takes 50 ms and more; its time per row does not depend on N

#: (name, key of the figure, limit, whether the figure must be at least the limit)
TARGETS = (
    ("CartPole N=8192, times CartPoleVectorEnv", "ratio.vector", 8.0, True),
    ("N=1 step() [us]", "us.one", 2.0, False),
    ("view step [us]", "us.view", 3.0, False),
    ("start-up, warm cache [s]", "start.warm", 1.0, False),
    ("start-up, empty cache [s]", "start.cold", 10.0, False),
)


def cartpole(**arguments: Any) -> vecenv.VecEnv:
    return vecenv.make_vec("CartPole-v1", N, num_threads=1, **arguments)


def make_cases() -> list[Case]:
    """All cases; kernels are compiled here."""
    out = cartpole()
    cases: list[Case] = [
        BatchCase("vecenv", "vecenv", cartpole()),
        BatchCase(
            "vector",
            "gymnasium `CartPoleVectorEnv`",
            gymnasium.make_vec("CartPole-v1", num_envs=N, vectorization_mode="vector_entry_point"),
        ),
        BatchCase(
            "sync",
            "gymnasium `SyncVectorEnv`",
            gymnasium.make_vec("CartPole-v1", num_envs=SYNC_N, vectorization_mode="sync"),
        ),
        BatchCase("same_step", "vecenv, SAME_STEP", cartpole(autoreset_mode="same_step")),
        BatchCase("libm", 'vecenv, `math="libm"`', cartpole(math="libm")),
        BatchCase("reused", "vecenv, `copy=False`", cartpole(copy=False)),
        BatchCase("out", "vecenv, `out=`", out, out=empty_outputs(out)),
        EpisodeCase("one", "`make_vec(id, 1).step`", vecenv.make_vec("CartPole-v1", 1), batched=True),
        EpisodeCase("view", "`make(id).step`, a view", vecenv.make("CartPole-v1")),
        EpisodeCase("registered", '`gymnasium.make("vecenv/CartPole-v1").step`', gymnasium.make("vecenv/CartPole-v1")),
        EpisodeCase("gymnasium", '`gymnasium.make("CartPole-v1").step`', gymnasium.make("CartPole-v1")),
    ]
    for env_id in vecenv.registered_ids():
        try:
            envs = vecenv.make_vec(env_id, N, num_threads=1)
        except ImportError as error:
            click.echo(f"{env_id} is left out: {error}", err=True)
            continue
        cases.append(BatchCase(f"id.{env_id}", env_id, envs))
    return cases


def measure(rounds: int, seconds: float) -> dict[str, Any]:
    """Run everything; a dict that `--json` writes."""
    before = machine()
    cases = make_cases()
    for case in cases:
        calibrate(case, seconds)
    times: dict[str, list[float]] = {case.key: [] for case in cases}
    starts: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
    with (
        tempfile.TemporaryDirectory() as folder,
        tqdm(total=rounds * (len(cases) + 2), unit="run", disable=None) as bar,
    ):
        for k in range(rounds):
            # A cold start fills a folder of its own; the warm start after it finds the kernels there.
            for kind in ("cold", "warm"):
                starts[kind].append(start_up(Path(folder) / str(k)))
                bar.update()
            for case in cases:
                times[case.key].append(case.block())
                bar.update()
    return {
        "machine": before,
        "load_average_after": machine()["load_average"],
        "rounds": rounds,
        "seconds_per_block": seconds,
        "cases": {case.key: _summary(case, times[case.key]) for case in cases},
        "ratios": {
            "vector": _ratio(cases, times, "vector", "vecenv"),
            "sync": _ratio(cases, times, "sync", "vecenv"),
            "one": _ratio(cases, times, "gymnasium", "one"),
            "view": _ratio(cases, times, "gymnasium", "view"),
            "registered": _ratio(cases, times, "gymnasium", "registered"),
        },
        "start_up": {
            kind: {name: statistics.median(run[name] for run in runs) for name in runs[0]} | {"runs": runs}
            for kind, runs in starts.items()
        },
    }


def _summary(case: Case, times: list[float]) -> dict[str, Any]:
    median = statistics.median(times)
    return {
        "label": case.label,
        "num_envs": case.rows,
        "us_per_step": median * 1e6,
        "ns_per_row": median / case.rows * 1e9,
        "sps": (1 - case.reset_share) * case.rows / median,
        "reset_call_share": case.reset_share,
        "steps_per_run": case.steps,
        "runs_per_block": case.runs,
        "seconds_per_step": times,
    }


def _ratio(cases: list[Case], times: dict[str, list[float]], slow: str, fast: str) -> float:
    """How many times faster per row `fast` is; round by round, then the median."""
    rows = {case.key: case.rows for case in cases}
    pairs = zip(times[slow], times[fast], strict=True)
    return statistics.median((a / rows[slow]) / (b / rows[fast]) for a, b in pairs)


def check(result: dict[str, Any]) -> list[tuple[str, float, float, bool, bool]]:
    """(name, figure, limit, at least, met) of every target."""
    figures = {f"ratio.{key}": value for key, value in result["ratios"].items()}
    figures |= {f"us.{key}": case["us_per_step"] for key, case in result["cases"].items()}
    figures |= {f"start.{kind}": runs["first_step"] for kind, runs in result["start_up"].items()}
    return [
        (name, figures[key], limit, least, figures[key] >= limit if least else figures[key] <= limit)
        for name, key, limit, least in TARGETS
    ]


def markdown(result: dict[str, Any]) -> str:
    """The tables of the README."""
    cases, ratios, starts = result["cases"], result["ratios"], result["start_up"]
    where = result["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    load = where["load_average"]
    lines = [
        f"Measured by `python -m benchmarks.compare` on {where['cpu']}, {where['cores']} cores, {where['system']}, "
        f"Python {where['python']}, {versions}" + (f"; load average {load[0]} at the start" if load else "") + ". "
        f"Medians of {result['rounds']} interleaved rounds; one thread, random actions, arrays copied and actions "
        "validated unless it says otherwise. SPS counts real transitions, without the reset calls of NEXT_STEP.",
        "",
        "| CartPole-v1 | N | SPS | ns per row | vecenv is faster by |",
        "|---|---:|---:|---:|---:|",
    ]
    for key in ("vecenv", "same_step", "libm", "reused", "out", "vector", "sync"):
        case = cases[key]
        ratio = f"{ratios[key]:.1f} x" if key in ratios else ""
        lines.append(
            _row(case["label"], f"{case['num_envs']:,}", _rate(case["sps"]), f"{case['ns_per_row']:.2f}", ratio)
        )
    lines += ["", "| one CartPole, one step | us | faster than `gymnasium.make` by |", "|---|---:|---:|"]
    for key in ("one", "view", "registered", "gymnasium"):
        ratio = f"{ratios[key]:.1f} x" if key in ratios else ""
        lines.append(_row(cases[key]["label"], f"{cases[key]['us_per_step']:.2f}", ratio))
    lines += ["", f"| environment, N={N:,} | SPS | ns per row |", "|---|---:|---:|"]
    for key, case in cases.items():
        if key.startswith("id."):
            lines.append(_row(case["label"], _rate(case["sps"]), f"{case['ns_per_row']:.2f}"))
    lines += ["", "| start-up: import, make_vec, reset, first step | s |", "|---|---:|"]
    lines.append(_row("kernels compiled by an earlier process", f"{starts['warm']['first_step']:.2f}"))
    lines.append(_row("nothing compiled yet", f"{starts['cold']['first_step']:.2f}"))
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _rate(value: float) -> str:
    return f"{value / 1e6:.3g} M" if value >= 1e6 else f"{value / 1e3:.3g} k"


def write_readme(text: str, path: Path = README) -> None:
    """Put the tables between the markers."""
    old = path.read_text()
    if old.count(BEGIN) != 1 or old.count(END) != 1:
        raise click.ClickException(f"{path.name} needs one line {BEGIN} and one line {END}")
    head, _, rest = old.partition(BEGIN)
    path.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


@click.command()
@click.option("--rounds", type=click.IntRange(min=5), default=7, show_default=True, help="Interleaved rounds.")
@click.option("--seconds", type=float, default=0.2, show_default=True, help="Length of one block.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures.")
@click.option("--markdown", "markdown_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the tables.")
@click.option("--readme", is_flag=True, help="Write the tables between the markers of README.md.")
@click.option("--check", "checked", is_flag=True, help="Exit 1 if a target is missed.")
def main(
    rounds: int, seconds: float, json_file: Path | None, markdown_file: Path | None, readme: bool, checked: bool
) -> None:
    """Compare vecenv with Gymnasium in one interleaved run."""
    result = measure(rounds, seconds)
    targets = check(result)
    text = markdown(result)
    click.echo(text + "\n")
    for name, figure, limit, least, met in targets:
        click.echo(
            f"{'met   ' if met else 'MISSED'}  {name}: {figure:.3g}, {'at least' if least else 'at most'} {limit:g}"
        )
    if json_file is not None:
        json_file.write_text(json.dumps(result, indent=2))
    if markdown_file is not None:
        markdown_file.write_text(text + "\n")
    if readme:
        write_readme(text)
    load = result["machine"]["load_average"]
    if load and load[0] > 0.5 * result["machine"]["cores"]:
        click.echo(f"the machine was busy (load average {load[0]}): us and s are too high, ratios less so", err=True)
    missed = [name for name, _, _, _, met in targets if not met]
    if checked and missed:
        click.echo(f"missed: {'; '.join(missed)}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
