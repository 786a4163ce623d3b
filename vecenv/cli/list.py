"""`vecenv list`."""

from __future__ import annotations

from typing import Any

import click

from vecenv.cli.environments import find_definition, short_space, summary
from vecenv.cli.output import Help, echo_json, table


@click.command("list", cls=Help, epilog="vecenv list\nvecenv list --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(as_json: bool) -> None:
    """Show all environments in a table."""
    from vecenv.registry import registered_ids

    rows: list[dict[str, Any]] = []
    for known in registered_ids():
        try:
            _, definition, build = find_definition(known)
        except click.ClickException as error:  # one broken environment does not hide the others
            rows.append({"id": known, "error": str(error.__cause__ or error.message)})
            continue
        rows.append(
            {
                "id": known,
                "observation_space": short_space(definition.observation_space),
                "action_space": short_space(definition.action_space),
                "max_episode_steps": definition.max_episode_steps,
                "summary": summary(definition, build),
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
