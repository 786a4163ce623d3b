"""Arguments that several commands share."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vecenv.cli.environments import find_definition

if TYPE_CHECKING:
    from vecenv.vec_env import VecEnv

Command = TypeVar("Command", bound=Callable[..., Any])


def environment_options(command: Command) -> Command:
    """The arguments that all commands that step share."""
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


class Request:
    """What a command that steps was asked for, checked before anything is compiled."""

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
