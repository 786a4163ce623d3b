"""`vecenv render ID`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vecenv.cli.actions import ActionPool
from vecenv.cli.arguments import Request, environment_options
from vecenv.cli.output import Help, echo_json, progress_bar

if TYPE_CHECKING:
    import numpy.typing as npt

    from vecenv.render.tiles import Picture
    from vecenv.vec_env import VecEnv


def parse_out(ctx: click.Context, param: click.Parameter, given: Path) -> Path:
    """A picture's file name in a folder that exists."""
    if given.suffix.lower() not in (".gif", ".png"):
        raise click.BadParameter(f"expected a name that ends in .gif or .png, got {str(given)!r}", ctx, param)
    if not given.parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(given.parent)!r}", ctx, param)
    if not os.access(given if given.exists() else given.parent, os.W_OK):
        raise click.BadParameter(f"cannot write {str(given)!r}", ctx, param)
    return given


@click.command(
    "render",
    cls=Help,
    epilog="""
    vecenv render CartPole-v1 --rows 16 --out run.gif
    vecenv render FrozenLake-v1 --option map_name=8x8 --rows 4 --num-steps 30 --out last.png
    vecenv render CartPole-v1 --rows 3 --num-steps 40 --strip 8 --out strip.png
    """,
)
@environment_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=parse_out,
    required=True,
    metavar="FILE",
    help="An animation (.gif) or one picture (.png).",
)
@click.option("--rows", type=click.IntRange(min=1, max=256), default=16, show_default=True, help="Environments.")
@click.option("--num-steps", type=click.IntRange(min=0), default=200, show_default=True, help="Steps of the batch.")
@click.option(
    "--strip",
    type=click.IntRange(min=2),
    metavar="K",
    help="For .png: K moments from first to last, a line per environment.  [default: the last moment]",
)
@click.option("--width", type=click.IntRange(min=16), default=960, show_default=True, help="Pixels at most.")
@click.option(
    "--fps", type=click.FloatRange(min=0, min_open=True), help="Steps per second.  [default: the environment's]"
)
def render_command(
    env_id: str,
    out: Path,
    rows: int,
    num_steps: int,
    strip: int | None,
    width: int,
    fps: float | None,
    seed: int,
    autoreset_mode: str,
    math: str,
    max_episode_steps: int | None,
    options: dict[str, Any],
    progress: bool | None,
    as_json: bool,
) -> None:
    """Draw a batch with random actions into a file.

    The first picture shows the batch after its reset, each other one a step. Row i is seeded SEED + i.
    """
    animated = out.suffix.lower() == ".gif"
    if strip is not None and animated:
        raise click.UsageError("--strip belongs to .png, which shows one picture; a .gif shows all of them")
    if strip is not None and strip > num_steps + 1:
        raise click.UsageError(f"--strip {strip}: {num_steps} steps have only {num_steps + 1} moments")
    request = Request(env_id, seed, autoreset_mode, math, max_episode_steps, options)
    try:
        envs = request.make(rows, render_mode="rgb_array")
    except ImportError as error:
        raise click.ClickException(str(error)) from error
    from PIL import Image

    from vecenv.render.tiles import GAP, columns_for, tile, write_gif, write_png

    envs.reset(seed=seed)
    full_height, full_width, _ = envs._pictures().image(0).shape
    columns = strip or columns_for(rows, full_height, full_width)
    tile_width = (width - GAP * (columns - 1)) // columns
    if tile_width < 8:
        raise click.UsageError(f"--width {width}: too little for {columns} pictures side by side")
    if animated:
        moments = list(range(num_steps + 1))
    else:
        moments = [round(k * num_steps / (strip - 1)) for k in range(strip)] if strip else [num_steps]
    actions = ActionPool(envs.single_action_space, rows, seed).stream()
    with progress_bar(progress, as_json, num_steps, "step", request.id) as bar:
        taken = film(envs, actions, moments, min(1.0, tile_width / full_width), bar.update)
        if animated:
            write_gif(out, (tile(pictures, columns) for pictures in taken), fps or envs.metadata["render_fps"])
        else:
            by_row = zip(*taken, strict=True)
            write_png(out, tile(list(itertools.chain.from_iterable(by_row)), columns))
    envs.close()
    with Image.open(out) as image:
        size = image.size
    result = request.describe() | {
        "num_envs": rows,
        "num_steps": num_steps,
        "out": str(out),
        "width": size[0],
        "height": size[1],
        "moments": len(moments),
        "bytes": out.stat().st_size,
    }
    if as_json:
        echo_json(result)
        return
    what = "after the last step" if len(moments) == 1 else f"{len(moments)} moments"
    click.echo(f"{request.id}: {rows} environments, {num_steps} steps, {request.sentence()}")
    click.echo(f"{out}: {what}, {size[0]} x {size[1]} pixels, {result['bytes'] / 1024:,.0f} KB")


def film(
    envs: VecEnv,
    actions: Iterator[npt.NDArray[Any]],
    moments: Sequence[int],
    scale: float,
    on_step: Callable[[], Any],
) -> Iterator[list[Picture]]:
    """The pictures of all rows after so many steps each."""
    pictures, wanted = envs._pictures(), frozenset(moments)
    for moment in range(moments[-1] + 1):
        if moment > 0:
            envs.step(next(actions))
            on_step()
        if moment in wanted:
            yield [pictures.image(row, scale) for row in range(envs.num_envs)]
