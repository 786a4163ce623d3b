"""`vecenv list`."""

from __future__ import annotations

import inspect
from typing import Any

import click

from vecenv.cli.environments import find_definition, short_space, summary
from vecenv.cli.output import Help, echo_json, table


@click.command("list", cls=Help, epilog="vecenv list\nvecenv list --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print a Markdown table with the options.")
def list_command(as_json: bool, as_markdown: bool) -> None:
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
                "options": list(inspect.signature(build).parameters),
                "reset_options": [field.name for field in definition.options_type.fields],
            }
        )
    if as_json:
        echo_json(rows)
        return
    if as_markdown:
        click.echo(markdown(rows))
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


def markdown(rows: list[dict[str, Any]]) -> str:
    """The README's table of environments."""
    lines = ["| id | what | options |", "|---|---|---|"]
    for row in rows:
        names = [f"`{name}`" for name in row.get("options", [])]
        names += [f"`{name}` (reset)" for name in row.get("reset_options", [])]
        what = row.get("error") or row["summary"].rstrip(".").rpartition(": ")[2]  # without the name again
        lines.append(f"| `{row['id']}` | {what} | {', '.join(names)} |")
    return "\n".join(lines)
