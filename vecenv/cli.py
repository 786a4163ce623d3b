"""Command line: `vecenv list | info ID | rollout ID | bench ID`, also as `python -m vecenv`.

Everything slow is imported inside the command that needs it, and only `rollout` and `bench` compile.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import json
import math
import os
import re
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    import numpy.typing as npt
    from gymnasium import spaces

    from vecenv.kernels.envdef import EnvDef
    from vecenv.kernels.soa import Field
    from vecenv.vec_env import VecEnv

Command = TypeVar("Command", bound=Callable[..., Any])

BENCH_SIZES = (1, 64, 1024, 8192, 65536)


# --- actions ----------------------------------------------------------------------------------------------------------


class ActionPool:
    """Random actions sampled beforehand, so that sampling costs nothing while steps are timed.

    The pool is 16 arrays, each about 1,000 rows longer than N. The actions of one step are a window `[N, ...]` into one
    of them: no copy is made, the pool stays in the cache, and a row draws from 2,048 actions. (From 16 actions for each
    row, rows would be biased coins: CartPole's mean random return comes out 2 % too low even with 256.)
    """

    ARRAYS, OFFSETS = 16, 128
    STRIDE = 8  # rows between windows: int64 actions stay aligned to cache lines

    def __init__(self, space: spaces.Space[Any], num_envs: int, seed: int | None = 0) -> None:
        import numpy as np
        from gymnasium.vector.utils import batch_space

        rows = num_envs + (self.OFFSETS - 1) * self.STRIDE
        batch = batch_space(space, rows)
        batch.seed(seed)
        self.num_envs = num_envs
        self._arrays = [np.ascontiguousarray(batch.sample(), dtype=space.dtype) for _ in range(self.ARRAYS)]
        self._rng = np.random.default_rng(seed)

    def windows(self, count: int) -> list[npt.NDArray[Any]]:
        """Actions of `count` steps, each a random window `[N, ...]`."""
        picks = self._rng.integers(self.ARRAYS * self.OFFSETS, size=count).tolist()
        places = (divmod(pick, self.OFFSETS) for pick in picks)
        return [self._arrays[k][i * self.STRIDE : i * self.STRIDE + self.num_envs] for k, i in places]

    def stream(self) -> Iterator[npt.NDArray[Any]]:
        """Actions of ever more steps."""
        while True:
            yield from self.windows(4096)


# --- statistics -------------------------------------------------------------------------------------------------------


class Moments:
    """Count, mean, standard deviation, minimum and maximum of values that come in batches; none of them is kept."""

    def __init__(self) -> None:
        self.count, self.mean, self._squares = 0, 0.0, 0.0
        self.min, self.max = math.inf, -math.inf

    def add(self, values: npt.NDArray[Any]) -> None:
        """Merge a batch (Chan, Golub, LeVeque 1979: stable, unlike sums of squares)."""
        count = len(values)
        if count == 0:
            return
        mean = float(values.mean())
        total = self.count + count
        delta = mean - self.mean
        self._squares += float(((values - mean) ** 2).sum()) + delta * delta * self.count * count / total
        self.mean += delta * count / total
        self.count = total
        self.min, self.max = min(self.min, float(values.min())), max(self.max, float(values.max()))

    def summary(self) -> dict[str, float | None]:
        """`mean std min max`, None each if there were no values; the deviation is that of the values, no estimate."""
        if self.count == 0:
            return dict.fromkeys(("mean", "std", "min", "max"))
        std = math.sqrt(self._squares / self.count)
        return {"mean": self.mean, "std": std, "min": self.min, "max": self.max}


class Tally:
    """What a rollout did: transitions, reset calls, and the episodes that finished."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.transitions = self.reset_calls = 0
        self.episodes = self.terminated = self.truncated = 0
        self.returns, self.lengths = Moments(), Moments()


def collect(envs: VecEnv, actions: Iterable[npt.NDArray[Any]], on_step: Callable[[Tally], None] | None = None) -> Tally:
    """Step through `actions` and take the statistics of all episodes that end. Only `step()` is timed."""
    import numpy as np
    from gymnasium.vector import AutoresetMode

    tally = Tally()
    next_step = envs.autoreset_mode is AutoresetMode.NEXT_STEP
    pending = 0  # rows that ended in the last step: NEXT_STEP spends their next one on a reset
    clock = time.perf_counter
    for action in actions:
        start = clock()
        _, _, terminated, truncated, _ = envs.step(action)
        tally.seconds += clock() - start
        tally.transitions += envs.num_envs - pending
        tally.reset_calls += pending
        ended = np.flatnonzero(envs.episode_ended)
        if len(ended):
            tally.episodes += len(ended)
            tally.terminated += int(np.count_nonzero(terminated[ended]))
            tally.truncated += int(np.count_nonzero(truncated[ended]))
            tally.returns.add(envs.episode_returns[ended])
            tally.lengths.add(envs.episode_lengths[ended])
        pending = len(ended) if next_step else 0
        if on_step is not None:
            on_step(tally)
    return tally


# --- environments -----------------------------------------------------------------------------------------------------


def find_definition(env_id: str, options: dict[str, Any] | None = None) -> tuple[str, EnvDef, Callable[..., EnvDef]]:
    """(id, definition, build function) of an id, or of "module:id", which imports the module that registers it.

    Raises:
        click.UsageError: no such id or option, or an option's value does not fit.
        click.ClickException: the environment's module cannot be imported.
    """
    import gymnasium

    from vecenv import registry

    known = env_id.removeprefix("vecenv/")
    try:
        if known not in registry.registered_ids() and ":" in known:
            module, _, known = known.rpartition(":")
            sys.path.insert(0, os.getcwd())
            importlib.import_module(module)
        build = registry._registry.get(known)
        definition = registry.definition_of(known, options)
    except gymnasium.error.UnregisteredEnv as error:
        raise click.UsageError(f"{error}\n`{command_name()} list` shows all ids.") from error
    except (ImportError, SyntaxError, AttributeError) as error:
        raise click.ClickException(f"{env_id}: its module cannot be imported: {error}") from error
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    if isinstance(build, str):
        module, _, function = build.partition(":")
        build = getattr(importlib.import_module(module), function)
    assert build is not None
    return known, definition, build


def docstring(definition: EnvDef) -> str:
    """The docstring of the module that an environment is written in."""
    module = sys.modules.get(definition.step.__module__)
    return inspect.cleandoc(module.__doc__) if module is not None and module.__doc__ else ""


def first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0]


def short_space(space: spaces.Space[Any]) -> str:
    """A space in a few characters: `Box(4,) float32`, `Discrete(2)`."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        return f"Box{space.shape} {space.dtype}".replace(",)", ")")
    if isinstance(space, spaces.Dict):
        return "Dict(" + ", ".join(f"{key}: {short_space(part)}" for key, part in space.spaces.items()) + ")"
    if isinstance(space, spaces.Tuple):
        return "Tuple(" + ", ".join(map(short_space, space.spaces)) + ")"
    return str(space)


def source_comments(struct: type) -> dict[str, str]:
    """The comment behind each field of an annotated class, where its source has one."""
    comments: dict[str, str] = {}
    for cls in reversed(struct.__mro__):
        try:
            source = inspect.getsource(cls)
        except (OSError, TypeError):  # typed at a prompt, or built in
            continue
        comments.update(re.findall(r"^\s+(\w+)\s*:[^#\n]*#\s*(.+?)\s*$", source, re.MULTILINE))
    return {field.name: comments[field.name] for field in struct.fields if field.name in comments}  # type: ignore[attr-defined]


def describe_fields(struct: type, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Name, storage type, shape, default and comment of the fields of a State, Params or Options class."""
    from vecenv.kernels.soa import TableType

    comments = source_comments(struct)
    fields: tuple[Field, ...] = struct.fields  # type: ignore[attr-defined]
    rows = []
    for field in fields:
        row: dict[str, Any] = {"name": field.name, "dtype": field.dtype.name}
        if values is None:
            row["shape"] = [] if isinstance(field.type, TableType) else list(field.type.shape)
        else:
            row["default"] = values[field.name]
        rows.append(row | {"comment": comments.get(field.name, "")})
    return rows


def describe(known: str, definition: EnvDef, build: Callable[..., EnvDef]) -> dict[str, Any]:
    """All that `info` shows."""
    from vecenv.kernels.wiring import Wiring

    layout = Wiring(definition).arena_layout
    nbytes = {"state": 0, "engine": 0}
    for column in layout.columns:
        nbytes["engine" if column.name.startswith("engine.") else "state"] += column.row_nbytes
    parameters = inspect.signature(build).parameters.values()
    defaults = {field.name: field.default for field in definition.options_type.fields}
    return {
        "id": known,
        "summary": first_sentence(docstring(definition)),
        "docstring": docstring(definition),
        "observation_space": str(definition.observation_space),
        "action_space": str(definition.action_space),
        "max_episode_steps": definition.max_episode_steps,
        "options": {p.name: None if p.default is p.empty else p.default for p in parameters},
        "params": [
            row | {"fixed_by_options": row["name"] in definition.fixed_params}
            for row in describe_fields(definition.params, definition.default_params)
        ],
        "reset_options": describe_fields(definition.options_type, defaults),
        "state": describe_fields(definition.state),
        "bytes_per_row": nbytes | {"total": sum(nbytes.values())},
    }


# --- output -----------------------------------------------------------------------------------------------------------


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

    shown = wanted if wanted is not None else sys.stderr.isatty() and not quiet
    with tqdm(total=total, unit=unit, desc=label, file=sys.stderr, disable=not shown, dynamic_ncols=True) as bar:
        yield bar


def warm_up(make: Callable[[], VecEnv], space: spaces.Space[Any], seed: int) -> tuple[VecEnv, dict[str, float]]:
    """A batch on which reset, step and statistics have run once, and how long that took: compiling or loading machine
    code happens here and is reported apart from every measurement."""
    start = time.perf_counter()
    envs = make()
    made = time.perf_counter()
    envs.reset(seed=seed)
    collect(envs, ActionPool(space, envs.num_envs, seed).windows(2))
    envs.reset(seed=seed)
    return envs, {"make_vec": made - start, "first_calls": time.perf_counter() - made}


# --- commands ---------------------------------------------------------------------------------------------------------


class _Help(click.Command):
    """Keeps the line breaks of the epilog, which holds examples."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.epilog, formatter)


class _GroupHelp(click.Group):
    command_class = _Help

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.epilog, formatter)


def _write_examples(epilog: str | None, formatter: click.HelpFormatter) -> None:
    if epilog:
        with formatter.section("Examples"):
            for line in inspect.cleandoc(epilog).splitlines():
                formatter.write(f"  {line}\n")


def parse_options(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """`key=value`, repeated: each value is JSON, or else a string."""
    options: dict[str, Any] = {}
    for item in given:
        key, equals, text = item.partition("=")
        if not equals or not key.isidentifier():
            raise click.BadParameter(f"expected key=value, got {item!r}", ctx, param)
        if key in options:
            raise click.BadParameter(f"{key!r} was given twice", ctx, param)
        try:
            options[key] = json.loads(text)
        except json.JSONDecodeError:
            options[key] = text
    return options


def parse_mode(ctx: click.Context, param: click.Parameter, given: str) -> str:
    """An auto-reset mode by its name or value in any case: `next_step`, `NextStep`."""
    mode = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", given).replace("-", "_").lower()
    if mode == "disabled":
        raise click.BadParameter("disabled: rows would stop where they end; use next_step or same_step", ctx, param)
    if mode not in ("next_step", "same_step"):
        raise click.BadParameter(f"expected next_step or same_step, got {given!r}", ctx, param)
    return mode


def environment_options(command: Command) -> Command:
    """The arguments that `rollout` and `bench` share."""
    for decorator in reversed(
        (
            click.argument("env_id", metavar="ID"),
            click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Row i: seed + i."),
            click.option(
                "--autoreset-mode",
                metavar="next_step|same_step",
                callback=parse_mode,
                default="next_step",
                show_default=True,
                help="When an environment that ended starts anew.",
            ),
            click.option(
                "--math",
                type=click.Choice(["portable", "libm"]),
                default="portable",
                show_default=True,
                help="Same bits on every machine, or the platform's own functions, as Gymnasium.",
            ),
            click.option(
                "--max-episode-steps",
                type=click.IntRange(min=-1),
                metavar="K",
                help="Step limit; -1 for none.  [default: the environment's]",
            ),
            click.option(
                "--option",
                "options",
                callback=parse_options,
                multiple=True,
                metavar="KEY=VALUE",
                help="An option of the environment, repeatable; the value is JSON, or else a string.",
            ),
            click.option("--progress/--no-progress", default=None, help="A bar on stderr.  [default: on a terminal]"),
            click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        )
    ):
        command = decorator(command)
    return command


class Request:
    """What `rollout` and `bench` were asked for, checked before anything is compiled."""

    def __init__(
        self,
        env_id: str,
        seed: int,
        autoreset_mode: str,
        math: str,
        max_episode_steps: int | None,
        options: dict[str, Any],
    ) -> None:
        self.id, self.definition, _ = find_definition(env_id, options)
        self.options, self.seed, self.math = options, seed, math
        self.autoreset_mode, self.max_episode_steps = autoreset_mode, max_episode_steps

    def make(self, num_envs: int, **more: Any) -> VecEnv:
        from vecenv.registry import make_vec

        try:
            return make_vec(
                self.definition,
                num_envs,
                autoreset_mode=self.autoreset_mode,
                max_episode_steps=self.max_episode_steps,
                math=self.math,
                **more,
            )
        except (TypeError, ValueError) as error:
            raise click.UsageError(str(error)) from error

    def describe(self) -> dict[str, Any]:
        limit = self.definition.max_episode_steps if self.max_episode_steps is None else self.max_episode_steps
        return {
            "id": self.id,
            "options": self.options,
            "seed": self.seed,
            "autoreset_mode": self.autoreset_mode,
            "math": self.math,
            "max_episode_steps": None if limit == -1 else limit,
            "versions": _versions(),
        }

    def sentence(self) -> str:
        options = "".join(f", {key}={value}" for key, value in self.options.items())
        return f"auto-reset {self.autoreset_mode}, {self.math} math, seed {self.seed}{options}"


def _versions() -> dict[str, str]:
    import gymnasium
    import numba
    import numpy as np

    import vecenv

    modules = {"vecenv": vecenv, "numba": numba, "numpy": np, "gymnasium": gymnasium}
    return {"python": ".".join(map(str, sys.version_info[:3]))} | {k: m.__version__ for k, m in modules.items()}


@click.group(
    cls=_GroupHelp,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""
    vecenv list
    vecenv info CartPole-v1
    vecenv rollout CartPole-v1 --num-envs 4096 --num-steps 1000
    vecenv bench CartPole-v1 --num-envs 8192 --json
    vecenv rollout my_module:MyGrid-v0     # imports my_module, which registers MyGrid-v0
    """,
)
@click.version_option(package_name="vecenv", prog_name="vecenv")
def main() -> None:
    """Batched reinforcement-learning environments at C speed."""


@main.command("list", epilog="vecenv list\nvecenv list --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(as_json: bool) -> None:
    """Show all environments in a table."""
    from vecenv.registry import registered_ids

    rows: list[dict[str, Any]] = []
    for known in registered_ids():
        try:
            _, definition, _ = find_definition(known)
        except click.ClickException as error:  # one broken environment does not hide the others
            rows.append({"id": known, "error": str(error.__cause__ or error.message)})
            continue
        rows.append(
            {
                "id": known,
                "observation_space": short_space(definition.observation_space),
                "action_space": short_space(definition.action_space),
                "max_episode_steps": definition.max_episode_steps,
                "summary": first_sentence(docstring(definition)),
            }
        )
    if as_json:
        echo_json(rows)
        return
    lines = [
        (row["id"], "-", "-", "-", f"unavailable: {row['error']}")
        if "error" in row
        else (
            row["id"],
            row["observation_space"],
            row["action_space"],
            str(row["max_episode_steps"] or "none"),
            row["summary"],
        )
        for row in rows
    ]
    click.echo(table(("id", "observation", "action", "limit", "what it is"), lines, right=frozenset({3})))


@main.command("info", epilog="vecenv info CartPole-v1\nvecenv info FrozenLake-v1 --json")
@click.argument("env_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info_command(env_id: str, as_json: bool) -> None:
    """Show spaces, options, params and state of one."""
    facts = describe(*find_definition(env_id))
    if as_json:
        echo_json(facts)
        return
    click.echo(f"{facts['id']}\n\n{facts['docstring']}\n")
    click.echo(f"observation  {facts['observation_space']}")
    click.echo(f"action       {facts['action_space']}")
    click.echo(f"limit        {facts['max_episode_steps'] or 'none'}")
    options = [(name, repr(default)) for name, default in facts["options"].items()]
    _echo_section("Options, keywords of make_vec", ("name", "default"), options)
    params = [(row["name"], row["dtype"], _short(row["default"]), _remark(row)) for row in facts["params"]]
    _echo_section("Params, make_vec(params={...})", ("name", "dtype", "default", "meaning"), params)
    resets = [(row["name"], row["dtype"], _short(row["default"]), row["comment"]) for row in facts["reset_options"]]
    _echo_section("Reset options, reset(options={...})", ("name", "dtype", "default", "meaning"), resets)
    state = [
        (row["name"], row["dtype"] + (str(row["shape"]) if row["shape"] else ""), row["comment"])
        for row in facts["state"]
    ]
    _echo_section("State, envs.state.NAME", ("name", "dtype", "meaning"), state)
    nbytes = facts["bytes_per_row"]
    click.echo(f"\n{nbytes['total']} bytes per row: state {nbytes['state']}, engine {nbytes['engine']}")


def _remark(row: dict[str, Any]) -> str:
    fixed = "set by options" if row["fixed_by_options"] else ""
    return "; ".join(part for part in (row["comment"], fixed) if part)


def _short(value: Any) -> str:
    """A scalar, or the shape of a table."""
    if getattr(value, "ndim", 0):
        return f"table {list(value.shape)}"
    value = value.item() if hasattr(value, "item") else value
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _echo_section(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    if rows:
        click.echo(f"\n{title}\n" + "\n".join(f"  {line}" for line in table(header, rows).splitlines()))
    else:
        click.echo(f"\n{title}: none")


@main.command(
    "rollout",
    epilog="""
    vecenv rollout CartPole-v1 --num-envs 4096 --num-steps 1000
    vecenv rollout CartPole-v1 --option integrator=semi_implicit --autoreset-mode same_step --json
    """,
)
@environment_options
@click.option("--num-envs", type=click.IntRange(min=1), default=4096, show_default=True, help="Size of the batch.")
@click.option("--num-steps", type=click.IntRange(min=1), default=1000, show_default=True, help="Steps of the batch.")
def rollout_command(
    env_id: str,
    num_envs: int,
    num_steps: int,
    seed: int,
    autoreset_mode: str,
    math: str,
    max_episode_steps: int | None,
    options: dict[str, Any],
    progress: bool | None,
    as_json: bool,
) -> None:
    """Step a batch with random actions.

    Prints the speed of `step()` in real transitions per second (SPS), with compiling reported apart, and the statistics
    of the episodes that finished.
    """
    request = Request(env_id, seed, autoreset_mode, math, max_episode_steps, options)
    space = request.definition.action_space
    envs, warm_up_seconds = warm_up(functools.partial(request.make, num_envs), space, seed)
    pool = ActionPool(space, num_envs, seed)
    with progress_bar(progress, as_json, num_steps, "step", request.id) as bar:

        def on_step(tally: Tally) -> None:
            # Not the bar's own rate: that one contains the statistics, which are not what is measured.
            if bar.update():
                bar.set_postfix_str(f"{tally.transitions / tally.seconds:,.0f} SPS, {tally.episodes:,} episodes")

        tally = collect(envs, itertools.islice(pool.stream(), num_steps), on_step)
    envs.close()
    calls = tally.transitions + tally.reset_calls
    result = request.describe() | {
        "num_envs": num_envs,
        "num_steps": num_steps,
        "sps": tally.transitions / tally.seconds,
        "ns_per_row": tally.seconds / calls * 1e9,
        "seconds": tally.seconds,
        "transitions": tally.transitions,
        "reset_calls": tally.reset_calls,
        "reset_call_share": tally.reset_calls / calls,
        "warm_up_seconds": warm_up_seconds,
        "actions": f"random, windows into a pool of {ActionPool.ARRAYS} arrays sampled before the timing",
        "episodes": {
            "finished": tally.episodes,
            "terminated_share": tally.terminated / tally.episodes if tally.episodes else None,
            "truncated_share": tally.truncated / tally.episodes if tally.episodes else None,
            "return": tally.returns.summary(),
            "length": tally.lengths.summary(),
        },
    }
    if as_json:
        echo_json(result)
        return
    click.echo(f"{request.id}: {num_envs:,} environments x {num_steps:,} steps, {request.sentence()}\n")
    click.echo(f"speed        {_si(result['sps'])} SPS, {result['ns_per_row']:.2f} ns per row, in step() alone")
    click.echo(f"transitions  {tally.transitions:,}", nl=not tally.reset_calls)
    if tally.reset_calls:
        share = result["reset_call_share"]
        click.echo(f", without {tally.reset_calls:,} reset calls of NEXT_STEP ({share:.1%} of all calls)")
    click.echo(f"actions      {result['actions']}")
    made, called = warm_up_seconds["make_vec"], warm_up_seconds["first_calls"]
    click.echo(
        f"warm-up      {made + called:.2f} s, not in the speed: "
        f"make_vec {made:.2f} s (compiles, or loads what is compiled), first calls {called:.2f} s"
    )
    click.echo(f"episodes     {tally.episodes:,} finished", nl=not tally.episodes)
    if tally.episodes:
        ends = result["episodes"]
        click.echo(f": {ends['terminated_share']:.1%} terminated, {ends['truncated_share']:.1%} truncated\n")
        names = ("mean", "std", "min", "max")
        rows = [(what, *(f"{ends[what][name]:,.2f}" for name in names)) for what in ("return", "length")]
        click.echo(table(("", *names), rows, right=frozenset({1, 2, 3, 4})))
    click.echo("\n" + _next_commands(request.id))


def _si(value: float) -> str:
    """Three digits and a unit: 412 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def _next_commands(env_id: str) -> str:
    name = command_name()
    lines = (
        (f"{name} list", "all environments"),
        (f"{name} info {env_id}", "its spaces, options, params and state"),
        (f"{name} bench {env_id}", "speed by batch size"),
        (f"{name} rollout {env_id} --autoreset-mode same_step --math libm", "other rules of the same episodes"),
        (f"{name} rollout --help", "everything a rollout can be told"),
    )
    width = max(len(command) for command, _ in lines)
    return "What to try next:\n" + "\n".join(f"  {command:<{width}}  # {what}" for command, what in lines)


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


@main.command(
    "bench",
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
            _si(row["sps"]),
            f"{_si(row['sps_min'])} to {_si(row['sps_max'])}",
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
