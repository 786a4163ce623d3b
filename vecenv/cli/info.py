"""`vecenv info ID`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from vecenv.cli.environments import describe, find_definition
from vecenv.cli.output import Help, echo_json, table


@click.command("info", cls=Help, epilog="vecenv info CartPole-v1\nvecenv info FrozenLake-v1 --json")
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
    click.echo(f"pictures     {', '.join(facts['render_modes']) or 'none'}")
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
