"""Many pictures as one, and the files of `vecenv render`."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

import vecenv
from vecenv import cli
from vecenv.render.tiles import GAP, GAP_COLOR, columns_for, tile, write_gif, write_png


def run(*args: Any) -> Result:
    return CliRunner().invoke(cli.main, ["render", *map(str, args)])


def rendered(*args: Any) -> Any:
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def pixels(path: Path) -> Any:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


# --- tiles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "count, size, columns",
    [
        (1, (100, 100), 1),
        (2, (100, 100), 2),
        (4, (100, 100), 2),
        (6, (100, 100), 3),
        (16, (400, 600), 4),
        (16, (100, 100), 4),
        (9, (64, 320), 2),
        (5, (400, 100), 5),
    ],
)
def test_columns(count: int, size: tuple[int, int], columns: int) -> None:
    assert columns_for(count, *size) == columns


def test_tiles() -> None:
    pictures = [np.full((2, 3, 3), k, np.uint8) for k in range(5)]
    total = tile(pictures, 3)
    assert total.shape == (2 * 2 + GAP, 3 * 3 + 2 * GAP, 3)
    for k, picture in enumerate(pictures):
        y, x = (2 + GAP) * (k // 3), (3 + GAP) * (k % 3)
        np.testing.assert_array_equal(total[y : y + 2, x : x + 3], picture)
    assert (total[2] == GAP_COLOR).all() and (total[:, 3] == GAP_COLOR).all()
    assert (total[4:, 10:] == GAP_COLOR).all()  # no sixth picture
    np.testing.assert_array_equal(tile(pictures[:1], 1), pictures[0])


def test_tiles_have_one_size() -> None:
    with pytest.raises(ValueError, match=r"picture 1 is \(2, 2, 3\), picture 0 is \(2, 3, 3\): expected one size"):
        tile([np.zeros((2, 3, 3), np.uint8), np.zeros((2, 2, 3), np.uint8)], 2)


def test_files(tmp_path: Path) -> None:
    pictures = [np.full((4, 6, 3), color, np.uint8) for color in ((255, 0, 0), (0, 255, 0), (10, 20, 30))]
    write_png(tmp_path / "a.png", pictures[2])
    np.testing.assert_array_equal(pixels(tmp_path / "a.png"), pictures[2])
    for fps, duration in ((50, 20), (4, 250), (30, 30), (1000, 20)):
        write_gif(tmp_path / "a.gif", iter(pictures), fps)
        with Image.open(tmp_path / "a.gif") as image:
            assert image.n_frames == 3 and image.info["loop"] == 0
            for k, picture in enumerate(pictures):
                image.seek(k)
                assert image.info["duration"] == duration
                np.testing.assert_array_equal(np.asarray(image.convert("RGB")), picture)


# --- vecenv render ----------------------------------------------------------------------------------------------------


def test_an_animation(tmp_path: Path) -> None:
    out = tmp_path / "run.gif"
    facts = rendered("CartPole-v1", "--rows", 4, "--num-steps", 12, "--seed", 5, "--out", out)
    assert facts["id"] == "CartPole-v1" and facts["out"] == str(out)
    assert (facts["num_envs"], facts["num_steps"], facts["moments"]) == (4, 12, 13)
    assert (facts["width"], facts["height"]) == (960, 640)
    assert facts["bytes"] == out.stat().st_size
    with Image.open(out) as image:
        assert image.size == (960, 640)
        assert image.n_frames == 13
        assert image.info["duration"] == 20
    again = tmp_path / "again.gif"
    rendered("CartPole-v1", "--rows", 4, "--num-steps", 12, "--seed", 5, "--out", again)
    assert again.read_bytes() == out.read_bytes()
    other = tmp_path / "other.gif"
    rendered("CartPole-v1", "--rows", 4, "--num-steps", 12, "--seed", 6, "--out", other)
    assert other.read_bytes() != out.read_bytes()


def test_the_speed_of_an_animation(tmp_path: Path) -> None:
    """Equal pictures in a row may be stored as one that is shown longer: the total counts."""
    for more, duration in (((), 250), (("--fps", 10), 100)):
        rendered("FrozenLake-v1", "--rows", 2, "--num-steps", 20, "--out", tmp_path / "run.gif", *more)
        with Image.open(tmp_path / "run.gif") as image:
            total = 0
            for k in range(image.n_frames):
                image.seek(k)
                total += image.info["duration"]
        assert total == 21 * duration


def test_the_last_picture(tmp_path: Path) -> None:
    """Pixel for pixel what `render` of the same batch gives."""
    out = tmp_path / "last.PNG"
    facts = rendered(
        *("FrozenLake-v1", "--rows", 3, "--num-steps", 9, "--seed", 2, "--out", out),
        *("--option", 'desc=["SFF","FHG"]', "--autoreset-mode", "same_step", "--max-episode-steps", 4),
    )
    assert facts["options"] == {"desc": ["SFF", "FHG"]} and facts["moments"] == 1
    envs = vecenv.make_vec(
        "FrozenLake-v1",
        3,
        desc=["SFF", "FHG"],
        autoreset_mode="same_step",
        max_episode_steps=4,
        render_mode="rgb_array",
    )
    envs.reset(seed=2)
    for actions in itertools.islice(cli.ActionPool(envs.single_action_space, 3, 2).stream(), 9):
        envs.step(actions)
    frames = envs.render()
    assert frames is not None
    np.testing.assert_array_equal(pixels(out), tile(frames, columns_for(3, 128, 192)))


def test_a_film_strip(tmp_path: Path) -> None:
    """A line per row, time to the right; the first column is the reset, the last one the end."""
    out = tmp_path / "strip.png"
    facts = rendered("TinyGrid-v0", "--rows", 2, "--num-steps", 8, "--strip", 3, "--out", out)
    assert facts["moments"] == 3
    envs = vecenv.make_vec("TinyGrid-v0", 2, render_mode="rgb_array")
    envs.reset(seed=0)
    stream = cli.ActionPool(envs.single_action_space, 2, 0).stream()
    moments = []
    for k in range(9):
        if k in (0, 4, 8):
            moments.append(envs.render())
        envs.step(next(stream))
    expected = tile([moment[row] for row in range(2) for moment in moments if moment is not None], 3)
    assert expected.shape == (2 * 192 + GAP, 3 * 192 + 2 * GAP, 3)
    np.testing.assert_array_equal(pixels(out), expected)


@pytest.mark.parametrize("width", [100, 333, 5000])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_pictures_are_no_wider_than_asked_for(width: int, rows: int, tmp_path: Path) -> None:
    out = tmp_path / "a.png"
    rendered("FrozenLake8x8-v1", "--rows", rows, "--num-steps", 0, "--width", width, "--out", out)
    total = pixels(out).shape[1]
    full = {1: 512, 2: 1026, 5: 1540}[rows]
    assert total <= min(width, full) and total >= min(width - rows, full)


def test_text_output_and_the_bar(tmp_path: Path) -> None:
    out = tmp_path / "run.gif"
    result = run("LineWorld-v0", "--rows", 2, "--num-steps", 3, "--out", out, "--progress")
    assert result.exit_code == 0, result.output
    assert "LineWorld-v0: 2 environments, 3 steps, auto-reset next_step" in result.stdout
    assert f"{out}: 4 moments, " in result.stdout and " pixels, " in result.stdout
    assert "3/3" in result.stderr
    result = run("LineWorld-v0", "--rows", 2, "--num-steps", 3, "--out", tmp_path / "a.png")
    assert "a.png: after the last step, " in result.stdout and result.stderr == ""


@pytest.mark.parametrize(
    "args, message",
    [
        (["CartPole-v1"], "Missing option '--out'"),
        (["CartPole-v1", "--out", "run.mp4"], "expected a name that ends in .gif or .png, got 'run.mp4'"),
        (["CartPole-v1", "--out", "no/such/run.gif"], "there is no folder 'no/such'"),
        (["CartPole-v1", "--out", "run.gif", "--rows", "0"], "0 is not in the range 1<=x<=256"),
        (["CartPole-v1", "--out", "run.gif", "--num-steps", "-1"], "-1 is not in the range x>=0"),
        (["CartPole-v1", "--out", "run.gif", "--strip", "3"], "--strip belongs to .png"),
        (["CartPole-v1", "--out", "run.png", "--num-steps", "4", "--strip", "9"], "4 steps have only 5 moments"),
        (["CartPole-v1", "--out", "run.png", "--strip", "200"], "--width 960: too little for 200 pictures"),
        (["CartPole-v1", "--out", "run.gif", "--fps", "0"], "0.0 is not in the range x>0"),
        (["CartPol-v1", "--out", "run.gif"], "did you mean 'CartPole-v1'"),
        (["CartPole-v1", "--out", "run.gif", "--option", "integratr=1"], "did you mean 'integrator'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_calls(args: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*args)
    assert result.exit_code == 2
    assert message in result.output
    assert isinstance(result.exception, SystemExit)
    assert list(tmp_path.iterdir()) == []


def test_an_environment_without_pictures(tmp_path: Path) -> None:
    (tmp_path / "my_envs.py").write_text(
        "from gymnasium.spaces import Discrete\n"
        "from vecenv import EnvDef, I4, Params, State, jit, register\n"
        "class S(State):\n"
        "    n: I4\n"
        "@jit\n"
        "def reset(state, params, rng): state.n = 0\n"
        "@jit\n"
        "def step(state, action, params, rng): return 1.0, False\n"
        "@jit\n"
        "def observe(state, params, obs): obs[0] = state.n\n"
        "register(EnvDef('Plain-v0', S, Params, reset, step, observe,\n"
        "                observation_space=Discrete(100), action_space=Discrete(2)))\n"
    )
    command = [sys.executable, "-m", "vecenv", "render", "my_envs:Plain-v0", "--out", "a.gif"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "render_mode: Plain-v0 has no pictures: expected None, got 'rgb_array'" in done.stderr


def test_without_pillow(tmp_path: Path) -> None:
    program = "import sys; sys.modules['PIL'] = None; from vecenv.cli import main; main()"
    command = [sys.executable, "-c", program, "render", "TinyGrid-v0", "--out", "a.gif"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "Error: pictures need Pillow, which is not installed: pip install vecenv[render]\n"


def test_info_names_the_modes() -> None:
    result = CliRunner().invoke(cli.main, ["info", "TinyGrid-v0"])
    assert "\npictures     rgb_array, ansi\n" in result.stdout
    facts = json.loads(CliRunner().invoke(cli.main, ["info", "CartPole-v1", "--json"]).stdout)
    assert facts["render_modes"] == ["rgb_array"]
