"""`vecenv rollout ID`."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import click

from vecenv.cli.actions import ActionPool
from vecenv.cli.arguments import Request, environment_options
from vecenv.cli.output import Help, command_name, echo_json, progress_bar, si, table
from vecenv.cli.statistics import Tally, collect, warm_up


@click.command(
    "rollout",
    cls=Help,
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
    click.echo(f"speed        {si(result['sps'])} SPS, {result['ns_per_row']:.2f} ns per row, in step() alone")
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
