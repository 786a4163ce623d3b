"""Finding an environment by id, and describing it."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from vecenv.cli.output import command_name

if TYPE_CHECKING:
    from gymnasium import spaces

    from vecenv.kernels.envdef import EnvDef
    from vecenv.kernels.soa import Field


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
        known = registry.with_version(known)
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


def docstring(definition: EnvDef, build: Callable[..., EnvDef]) -> str:
    """The docstring of the module that an environment is written in."""
    is_definition = build.__module__ == "vecenv.registry"  # registered without a build function
    module = sys.modules.get((definition.observe if is_definition else build).__module__)
    return inspect.cleandoc(module.__doc__) if module is not None and module.__doc__ else ""


def summary(definition: EnvDef, build: Callable[..., EnvDef]) -> str:
    """The first sentence of the build function's docstring, where one file has several, else of the file's."""
    return first_sentence(inspect.getdoc(build) or docstring(definition, build))


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
    from vecenv.render.pictures import render_modes

    layout = Wiring(definition).arena_layout
    nbytes = {"state": 0, "engine": 0}
    for column in layout.columns:
        nbytes["engine" if column.name.startswith("engine.") else "state"] += column.row_nbytes
    parameters = inspect.signature(build).parameters.values()
    defaults = {field.name: field.default for field in definition.options_type.fields}
    return {
        "id": known,
        "summary": summary(definition, build),
        "docstring": docstring(definition, build),
        "observation_space": str(definition.observation_space),
        "action_space": str(definition.action_space),
        "max_episode_steps": definition.max_episode_steps,
        "render_modes": render_modes(definition),
        "options": {p.name: None if p.default is p.empty else p.default for p in parameters},
        "params": [
            row | {"fixed_by_options": row["name"] in definition.fixed_params}
            for row in describe_fields(definition.params, definition.default_params)
        ],
        "reset_options": describe_fields(definition.options_type, defaults),
        "state": describe_fields(definition.state),
        "bytes_per_row": nbytes | {"total": sum(nbytes.values())},
    }
