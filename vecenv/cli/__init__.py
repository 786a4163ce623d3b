"""Command line: `vecenv list | info ID | rollout ID | bench ID | render ID | train NAME ID`; also `python -m vecenv`.

One file per command. What is slow is imported inside the function that needs it; only commands that step compile.
"""

import click

from vecenv.cli.actions import ActionPool
from vecenv.cli.arguments import parse_options
from vecenv.cli.bench import bench_command
from vecenv.cli.environments import short_space, source_comments
from vecenv.cli.info import info_command
from vecenv.cli.list import list_command
from vecenv.cli.output import GroupHelp, echo_json
from vecenv.cli.render import render_command
from vecenv.cli.rollout import rollout_command
from vecenv.cli.statistics import Moments
from vecenv.cli.train import train_command

__all__ = ["ActionPool", "Moments", "echo_json", "main", "parse_options", "short_space", "source_comments"]


@click.group(
    cls=GroupHelp,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""
    vecenv list
    vecenv info CartPole-v1
    vecenv rollout CartPole-v1 --num-envs 4096 --num-steps 1000
    vecenv bench CartPole-v1 --num-envs 8192 --json
    vecenv render CartPole-v1 --rows 16 --out run.gif
    vecenv train ppo CartPole-v1 --num-envs 32
    vecenv rollout my_module:MyGrid-v0     # imports my_module, which registers MyGrid-v0
    """,
)
@click.version_option(package_name="vecenv", prog_name="vecenv")
def main() -> None:
    """Batched reinforcement-learning environments at C speed."""


for command in (list_command, info_command, rollout_command, bench_command, render_command, train_command):
    main.add_command(command)
