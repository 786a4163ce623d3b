"""`vecenv train ALGORITHM ID`: one command per trainer, made from the fields of its configuration."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from vecenv.cli.arguments import parse_options
from vecenv.cli.environments import find_definition, source_comments
from vecenv.cli.output import GroupHelp, Help, command_name, echo_json, is_shown

#: Name and module; a trainer is imported when it is asked for, because PyTorch takes a second.
TRAINERS = {"ppo": "vecenv.train.ppo"}


class Trainers(GroupHelp):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(TRAINERS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in TRAINERS:
            return None
        try:
            trainer = importlib.import_module(TRAINERS[name])
        except ImportError as error:
            raise click.ClickException(str(error)) from error
        return make_command(name, trainer)


@click.command(
    "train",
    cls=Trainers,
    epilog="""
    vecenv train ppo CartPole-v1 --num-envs 32 --seed 1
    vecenv train ppo --help
    """,
)
def train_command() -> None:
    """Train a policy with PyTorch."""


def make_command(name: str, trainer: types.ModuleType) -> click.Command:
    """`vecenv train NAME`: an option for every field of the trainer's configuration, its comment as the help."""
    config_type = trainer.Config
    command: Any = _trainer(name, trainer)
    comments, hints = source_comments(config_type), typing.get_type_hints(config_type)
    for field in reversed(dataclasses.fields(config_type)):
        if field.name in ("env_id", "env_options"):
            continue
        option = _option(field, hints[field.name], comments[field.name])
        command = option(command)
    for decorator in reversed(
        (
            click.argument("env_id", metavar="[ID]", required=False),
            click.option(
                "--option",
                "env_options",
                callback=parse_options,
                multiple=True,
                metavar="KEY=VALUE",
                help="An option of the environment, repeatable; the value is JSON, or else a string.",
            ),
            click.option(
                "--run-dir",
                type=click.Path(path_type=Path, file_okay=False),
                metavar="DIR",
                help=f"Checkpoint, logs and curve.  [default: runs/ID-{name}-SEED]",
            ),
            click.option("--resume", is_flag=True, help="Go on from the checkpoint in --run-dir, with its settings."),
            click.option(
                "--checkpoint-seconds",
                type=click.FloatRange(min=0),
                default=60.0,
                show_default=True,
                help="How often to save.",
            ),
            click.option("--progress/--no-progress", default=None, help="A bar on stderr.  [default: on a terminal]"),
            click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        )
    ):
        command = decorator(command)
    examples = f"""
    vecenv train {name} CartPole-v1 --seed 1
    vecenv train {name} --resume --run-dir runs/CartPole-v1-{name}-1    # after Ctrl-C
    """
    made: click.Command = click.command(name, cls=Help, epilog=examples)(command)
    made.help = (trainer.__doc__ or "").split("\n\n")[0]
    return made


def _option(field: dataclasses.Field[Any], hint: Any, comment: str) -> Callable[[Any], Any]:
    flag = f"--{field.name.replace('_', '-')}"
    if hint is bool:
        return click.option(f"{flag}/--no-{flag[2:]}", default=field.default, show_default=True, help=comment)
    if typing.get_origin(hint) is typing.Literal:
        choice = click.Choice(typing.get_args(hint))
        return click.option(flag, type=choice, default=field.default, show_default=True, help=comment)
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    optional = len(parts) < len(typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        widths: Any = field.default
        default = ",".join(map(str, widths))
        return click.option(flag, type=Widths(), default=default, show_default=True, help=comment)
    kind = parts[0] if optional else hint
    shown: Any = "none" if field.default is None else True
    return click.option(
        flag, type=OrNone(kind) if optional else kind, default=field.default, show_default=shown, help=comment
    )


class OrNone(click.ParamType):  # type: ignore[type-arg]
    """A number, or `none`."""

    def __init__(self, kind: type) -> None:
        self.name, self._kind = f"{kind.__name__}|none", kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return None if value.lower() == "none" else self._kind(value)
        except ValueError:
            self.fail(f"expected {self.name}, got {value!r}", param, ctx)


class Widths(click.ParamType):  # type: ignore[type-arg]
    """Ints with commas between them."""

    name = "int,int,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return tuple(int(part) for part in value.split(",") if part.strip())
        except ValueError:
            self.fail(f"expected ints with commas between them, got {value!r}", param, ctx)


def _trainer(name: str, trainer: types.ModuleType) -> Callable[..., None]:
    @click.pass_context
    def run(
        ctx: click.Context,
        /,
        env_id: str | None,
        env_options: dict[str, Any],
        run_dir: Path | None,
        resume: bool,
        checkpoint_seconds: float,
        progress: bool | None,
        as_json: bool,
        **settings: Any,
    ) -> None:
        source = click.core.ParameterSource.COMMANDLINE
        given = {key: value for key, value in settings.items() if ctx.get_parameter_source(key) is source}
        if env_id is not None:
            given["env_id"] = find_definition(env_id, env_options)[0]
        if env_options:
            given["env_options"] = env_options
        if resume and run_dir is None:
            raise click.UsageError("--resume: say which run with --run-dir DIR")
        if not resume and env_id is None:
            raise click.UsageError("Missing argument 'ID': the environment to train on.")
        with usage_errors():
            before = trainer.load_config(run_dir) if resume else trainer.Config()
            config = dataclasses.replace(before, **given)
        folder = run_dir or Path("runs") / f"{config.env_id}-{name}-{config.seed}"
        shown = is_shown(progress, as_json)
        try:
            with usage_errors():
                result = trainer.train(
                    config, run_dir=folder, resume=resume, checkpoint_seconds=checkpoint_seconds, progress=shown
                )
        except (FloatingPointError, ImportError) as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            click.echo(interrupted(f"{command_name()} train {name}", env_id, folder), err=True)
            ctx.exit(130)
        report(result, folder, as_json)

    return run


def interrupted(command: str, env_id: str | None, folder: Path) -> str:
    """What to type after Ctrl-C."""
    from vecenv.train.checkpoint import NAME

    if not (folder / NAME).exists():
        return "Interrupted before there was anything to save."
    module = f"{env_id} " if env_id is not None and ":" in env_id else ""  # the checkpoint knows the id alone
    return f"Interrupted. Go on with: {command} {module}--resume --run-dir {folder}"


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Wrong arguments as the command line says it."""
    from gymnasium.error import UnregisteredEnv

    try:
        yield
    except (TypeError, ValueError, FileExistsError, FileNotFoundError, UnregisteredEnv) as error:
        raise click.UsageError(str(error)) from error


def report(result: Any, folder: Path, as_json: bool) -> None:
    """Print what came out."""
    config, returns = result.config, result.eval_returns
    facts = {
        "config": dataclasses.asdict(config),
        "run_dir": str(folder),
        "step": result.step,
        "seconds": result.seconds,
        "sps": result.step / result.seconds,
        "stopped": result.stopped,
        "window_return": result.curve[-1]["window_return"],
        "eval_returns": returns,
    }
    if as_json:
        echo_json(facts)
        return
    why = f"return {config.stop_return:g} reached" if result.stopped else "all steps done"
    click.echo(f"{config.env_id}: {result.step:,} steps in {result.seconds:.1f} s ({facts['sps']:,.0f} SPS), {why}")
    click.echo(f"training    mean return of the last {config.window} episodes: {facts['window_return']:.2f}")
    if len(returns):
        click.echo(
            f"evaluation  {len(returns)} greedy episodes: mean {returns.mean():.2f}, std {returns.std():.2f}, "
            f"min {returns.min():.2f}, max {returns.max():.2f}"
        )
    defaults = dataclasses.asdict(type(config)(env_id=config.env_id))
    differ = {name: value for name, value in dataclasses.asdict(config).items() if value != defaults[name]}
    click.echo(f"settings    {json.dumps(differ) if differ else 'the defaults'}")
    click.echo(f"{folder}: checkpoint.pt, curve.png, TensorBoard logs (tensorboard --logdir {folder})")
