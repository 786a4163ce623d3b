"""Render modes of batches and views, and the pictures of the built-in environments. Oracle where named: Gymnasium."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env

import vecenv
from vecenv import I4, EnvDef, Params, State, VecEnv, jit
from vecenv.kernels.classic import cartpole

SIZES = {
    "Acrobot-v1": (500, 500, 3),
    "Blackjack-v1": (376, 384, 3),
    "Breakout-v0": (400, 400, 3),
    "CartPole-v1": (400, 600, 3),
    "Catch-v0": (510, 255, 3),
    "CliffWalking-v1": (256, 768, 3),
    "CliffWalkingSlippery-v1": (256, 768, 3),
    "ContinuousLqr-v0": (100, 600, 3),
    "DeepSea-v0": (510, 510, 3),
    "FlickeringCartPole-v0": (400, 600, 3),
    "FrozenLake-v1": (256, 256, 3),
    "FrozenLake8x8-v1": (512, 512, 3),
    "GridWorld-v0": (256, 256, 3),
    "LineWorld-v0": (64, 320, 3),
    "MaskedCartPole-v0": (400, 600, 3),
    "MountainCar-v0": (400, 600, 3),
    "MountainCarContinuous-v0": (400, 600, 3),
    "Pendulum-v1": (500, 500, 3),
    "Pong-v0": (400, 400, 3),
    "Snake-v0": (510, 510, 3),
    "TMaze-v0": (192, 704, 3),
    "Taxi-v4": (320, 320, 3),
    "TinyGrid-v0": (192, 192, 3),
}
CLASSIC = (
    "Acrobot-v1",
    "CartPole-v1",
    "ContinuousLqr-v0",
    "FlickeringCartPole-v0",
    "MaskedCartPole-v0",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "Pong-v0",
)
GRIDS = [id for id in SIZES if id not in CLASSIC]
FPS = {
    "Breakout-v0": 10,
    "ContinuousLqr-v0": 50,
    "FlickeringCartPole-v0": 50,
    "MaskedCartPole-v0": 50,
    "Pong-v0": 60,
    "Snake-v0": 10,
}
RED, BLUE, GREEN = (225, 65, 55), (45, 105, 190), (150, 215, 150)

every_picture = pytest.mark.parametrize("id", SIZES)
every_grid = pytest.mark.parametrize("id", GRIDS)


def played(id: str, num_envs: int, num_steps: int, render_mode: str = "rgb_array", **options: Any) -> VecEnv:
    envs = vecenv.make_vec(id, num_envs, render_mode=render_mode, **options)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(num_steps):
        envs.step(envs.action_space.sample())
    return envs


class CounterState(State):
    n: I4


@jit
def reset(state, params, rng):
    state.n = 0


@jit
def step(state, action, params, rng):
    state.n += 1
    return 1.0, False


@jit
def observe(state, params, obs):
    obs[0] = state.n


def counter(**more: Any) -> EnvDef:
    spaces = {"observation_space": Box(0, 9, (1,), np.float32), "action_space": Discrete(2)}
    return EnvDef("Counter-v0", CounterState, Params, reset, step, observe, **spaces, **more)


# --- what render returns ----------------------------------------------------------------------------------------------


@every_picture
def test_a_batch_renders_a_tuple_of_frames(id: str) -> None:
    envs = played(id, 3, 4)
    frames = envs.render()
    assert isinstance(frames, tuple) and isinstance(frames, Sequence) and len(frames) == 3
    for frame in frames:
        assert type(frame) is np.ndarray and frame.dtype == np.uint8 and frame.shape == SIZES[id]
        assert frame.flags.writeable and frame.flags.owndata
    assert envs.metadata["render_modes"] == (["rgb_array"] if id in CLASSIC else ["rgb_array", "ansi"])
    oracle = gymnasium.make(id).metadata["render_fps"] if id in gymnasium.registry else FPS.get(id, 4)
    assert envs.metadata["render_fps"] == oracle
    frames[0][...] = 0
    assert envs.render()[0].any()  # the caller's own


@every_picture
def test_pictures_are_deterministic_and_change_nothing(id: str) -> None:
    """Also: a view of row i shows picture i, and a row alone looks as in a batch."""
    envs = played(id, 3, 5)
    before = envs.snapshot()
    frames = envs.render()
    assert envs.snapshot().arena.tobytes() == before.arena.tobytes()
    for i, (first, again) in enumerate(zip(frames, played(id, 3, 5).render(), strict=True)):
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(first, envs.view(i).render())


@every_grid
def test_a_batch_renders_a_tuple_of_texts(id: str) -> None:
    envs = played(id, 3, 4, "ansi")
    texts = envs.render()
    assert isinstance(texts, tuple) and all(type(text) is str and text.endswith("\n") for text in texts)
    assert [envs.view(i).render() for i in range(3)] == list(texts)


def test_a_view_is_live() -> None:
    envs = played("TinyGrid-v0", 2, 0, "ansi")
    view = envs.view(1)
    assert view.render() == "A..\n...\n..G\n"
    envs.step(np.array([1, 2]))
    assert view.render() == "...\nA..\n..G\n"
    view.step(1, jit=False)
    assert envs.render() == (".A.\n...\n..G\n", "...\n.A.\n..G\n")
    envs.state.row[1] = 0
    assert view.render() == ".A.\n...\n..G\n"


# --- making -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id, render_mode", [*((id, "rgb_array") for id in SIZES), *((id, "ansi") for id in GRIDS)])
def test_every_way_of_making_one(id: str, render_mode: str) -> None:
    batches = [vecenv.make_vec(id, 2, render_mode=render_mode)]
    batches.append(gymnasium.make_vec(f"vecenv/{id}", num_envs=2, render_mode=render_mode))
    singles = [vecenv.make(id, render_mode=render_mode), gymnasium.make(f"vecenv/{id}", render_mode=render_mode)]
    pictures: list[Any] = []
    for env in [*batches, *singles]:
        assert env.render_mode == render_mode
        assert env.metadata["render_fps"] == batches[0].metadata["render_fps"]
        assert env.metadata["render_modes"] == batches[0].metadata["render_modes"]
        env.reset(seed=0)
        pictures.append(env.render() if env in singles else env.render()[0])
        env.close()
    for picture in pictures:
        np.testing.assert_array_equal(picture, pictures[0])


def test_metadata_is_not_shared() -> None:
    envs, other = (vecenv.make_vec("TinyGrid-v0", 1) for _ in range(2))
    envs.view(0).metadata["render_modes"].append("human")
    assert other.metadata["render_modes"] == ["rgb_array", "ansi"]
    assert envs.metadata["render_modes"] == ["rgb_array", "ansi"]


def test_gymnasium_collects_frames() -> None:
    env = gymnasium.make("vecenv/CartPole-v1", render_mode="rgb_array_list")
    env.reset(seed=0)
    for _ in range(3):
        env.step(0)
    frames = env.render()
    assert isinstance(frames, list) and [frame.shape for frame in frames] == [(400, 600, 3)] * 4


def test_gymnasium_observes_pictures() -> None:
    env = gymnasium.wrappers.AddRenderObservation(gymnasium.make("vecenv/TinyGrid-v0", render_mode="rgb_array"))
    obs, _ = env.reset(seed=0)
    assert obs in env.observation_space and obs.shape == (192, 192, 3)


@every_picture
def test_the_checker_has_nothing_to_say_about_rendering(id: str) -> None:
    env = gymnasium.make(f"vecenv/{id}", disable_env_checker=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env.unwrapped)
    assert [str(warning.message) for warning in caught if "render" in str(warning.message)] == []


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "id, render_mode, message",
    [
        ("CartPole-v1", "ansi", "render_mode: CartPole-v1: expected None or 'rgb_array', got 'ansi'"),
        ("TinyGrid-v0", "rgb", "render_mode: TinyGrid-v0: expected None or 'rgb_array' or 'ansi', got 'rgb'"),
        ("TinyGrid-v0", 3, "got 3"),
        ("TinyGrid-v0", "human", "got 'human'; for a window, wrap one with 'rgb_array' in .*HumanRendering"),
        (counter(), "rgb_array", "render_mode: Counter-v0 has no pictures: expected None, got 'rgb_array'"),
        (counter(), "human", "render_mode: Counter-v0 has no pictures: expected None, got 'human'$"),
    ],
)
@pytest.mark.parametrize("make", [vecenv.make, vecenv.make_vec])
def test_unknown_modes(make: Any, id: Any, render_mode: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise AssertionError("something was built")

    monkeypatch.setattr("vecenv.vec_env.Memory", fail)
    monkeypatch.setattr("vecenv.runner.BatchKernels", fail)
    with pytest.raises(ValueError, match=message):
        make(id, render_mode=render_mode)


def test_unknown_modes_through_gymnasium() -> None:
    with pytest.raises(ValueError, match="expected None or 'rgb_array', got 'ansi'"):
        gymnasium.make("vecenv/CartPole-v1", render_mode="ansi")
    with pytest.raises(ValueError, match="expected None or 'rgb_array', got 'ansi'"):
        gymnasium.make_vec("vecenv/CartPole-v1", render_mode="ansi")


def test_without_a_mode_there_is_a_warning_and_none() -> None:
    envs = vecenv.make_vec("TinyGrid-v0", 2)
    envs.reset(seed=0)
    for env in (envs, envs.view(0)):
        with pytest.warns(UserWarning, match="make it with render_mode='rgb_array' or render_mode='ansi'"):
            assert env.render() is None
    envs = vecenv.make_vec(counter(), 2)
    with pytest.warns(UserWarning, match="Counter-v0 has no pictures"):
        assert envs.render() is None


@pytest.mark.parametrize("render_mode", ["rgb_array", "ansi", None])
def test_closed_batches_refuse(render_mode: str | None) -> None:
    """Case C112."""
    envs = vecenv.make_vec("TinyGrid-v0", 2, render_mode=render_mode)
    envs.reset(seed=0)
    view = envs.view(0)
    envs.close()
    for env in (envs, view):
        with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="is closed"):
            env.render()


@pytest.mark.parametrize("render_mode", ["rgb_array", "ansi"])
def test_rows_never_reset_are_refused(render_mode: str) -> None:
    envs = vecenv.make_vec("TinyGrid-v0", 3, render_mode=render_mode)
    with pytest.raises(gymnasium.error.ResetNeeded, match="row 0 was never reset"):
        envs.render()
    envs.reset(seed=0, options={"reset_mask": np.array([True, False, True])})
    with pytest.raises(gymnasium.error.ResetNeeded, match="row 1 was never reset"):
        envs.render()
    with pytest.raises(gymnasium.error.ResetNeeded, match="row 1 was never reset"):
        envs.view(1).render()
    assert envs.view(2).render() is not None
    single = vecenv.make("TinyGrid-v0", render_mode=render_mode)
    with pytest.raises(gymnasium.error.ResetNeeded, match="row 0 was never reset"):
        single.render()


def test_definitions_say_what_is_wrong_with_their_functions() -> None:
    with pytest.raises(vecenv.BindError, match=r"`render` takes \(state, params, canvas\), got .*\(state, canvas\)"):
        counter(render=lambda state, canvas: None)
    with pytest.raises(vecenv.BindError, match=r"`text` takes \(state, params\), got .*\(state\)"):
        counter(text=lambda state: "")
    with pytest.raises(TypeError, match="`text` is a function, got 'a'"):
        counter(text="a")


def test_author_functions_cannot_write() -> None:
    def writes(state: Any, params: Any) -> str:
        state.n = 3
        return ""

    def forgets(state: Any, params: Any, canvas: Any) -> None: ...

    envs = vecenv.make_vec(counter(text=writes, render=forgets), 1, render_mode="ansi")
    envs.reset(seed=0)
    with pytest.raises(AttributeError, match="`n` is read-only"):
        envs.render()
    envs = vecenv.make_vec(counter(render=forgets), 1, render_mode="rgb_array")
    assert envs.metadata["render_modes"] == ["rgb_array"]
    envs.reset(seed=0)
    with pytest.raises(RuntimeError, match="open the picture first"):
        envs.render()
    envs = vecenv.make_vec(counter(text=lambda state, params: int(state.n)), 1, render_mode="ansi")
    envs.reset(seed=0)
    with pytest.raises(TypeError, match="Counter-v0: `text` returns a str, got 0"):
        envs.render()


def test_author_functions_see_the_step_count_and_the_limit() -> None:
    definition = counter(text=lambda state, params: f"{state.n} {state.elapsed} of {state.limit}")
    envs = vecenv.make_vec(definition, 2, render_mode="ansi", max_episode_steps=[9, -1])
    envs.reset(seed=0)
    envs.step(np.zeros(2, np.int64))
    assert envs.render() == ("1 1 of 9", "1 1 of -1")


# --- the end of an episode --------------------------------------------------------------------------------------------

ON_GOAL, AT_START = "...\n...\n..A\n", "A..\n...\n..G\n"
PATH = [1, 1, 2, 2]  # right, right, down, down


@pytest.mark.parametrize("mode, shown", [("next_step", ON_GOAL), ("disabled", ON_GOAL), ("same_step", AT_START)])
def test_what_is_shown_when_an_episode_ended(mode: str, shown: str) -> None:
    """Case C155: SAME_STEP shows the new episode; NEXT_STEP and DISABLED show the agent on the goal."""
    envs = vecenv.make_vec("TinyGrid-v0", 1, autoreset_mode=mode, render_mode="ansi")
    envs.reset(seed=0)
    for action in PATH:
        _, _, terminated, _, infos = envs.step(np.array([action]))
    assert terminated[0]
    assert envs.render() == (shown,)
    assert "SAME_STEP" in (VecEnv.render.__doc__ or "")
    if mode == "same_step":
        assert infos["final_obs"][0].argmax() == 8
    elif mode == "next_step":
        envs.step(np.array([0]))
        assert envs.render() == (AT_START,)


def test_a_view_shows_the_last_frame_of_a_same_step_batch() -> None:
    """Case C155: the documented way. The picture has the agent on the goal."""
    envs = vecenv.make_vec("TinyGrid-v0", 2, autoreset_mode="same_step", render_mode="rgb_array")
    envs.reset(seed=0)
    for action in PATH[:-1]:
        envs.step(np.array([action, 0]))
    view = envs.view(0)
    assert view.step(PATH[-1])[2]
    assert agent_cells(view.render(), BLUE) == [(2, 2)]
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert agent_cells(view.render(), BLUE) == [(0, 0)]


# --- recording --------------------------------------------------------------------------------------------------------

MOVIEPY = "Gymnasium's RecordVideo needs moviepy"


@pytest.mark.parametrize("mode", ["next_step", "disabled"])
def test_gymnasium_records_a_batch(mode: str, tmp_path: Path) -> None:
    pytest.importorskip("moviepy", reason=MOVIEPY)
    from gymnasium.wrappers.vector import RecordVideo

    envs = vecenv.make_vec("CartPole-v1", 3, autoreset_mode=mode, render_mode="rgb_array")
    recorder = RecordVideo(envs, str(tmp_path / "videos"), episode_trigger=lambda k: k == 0, video_length=6)
    recorder.reset(seed=0)
    for _ in range(8):
        recorder.step(np.zeros(3, np.int64))
    recorder.close()
    assert [path.name for path in (tmp_path / "videos").iterdir()] == ["rl-video-episode-0.mp4"]


def test_gymnasium_records_a_view(tmp_path: Path) -> None:
    pytest.importorskip("moviepy", reason=MOVIEPY)
    env = vecenv.make("CartPole-v1", render_mode="rgb_array")
    recorder = gymnasium.wrappers.RecordVideo(env, str(tmp_path / "videos"), episode_trigger=lambda k: k == 0)
    recorder.reset(seed=0)
    while not recorder.step(1)[2]:
        pass
    assert len(recorder.recorded_frames) == 1 + env.envs.episode_lengths[0]
    recorder.close()
    assert [path.name for path in (tmp_path / "videos").iterdir()] == ["rl-video-episode-0.mp4"]


# --- CartPole ---------------------------------------------------------------------------------------------------------

TAN, PURPLE = (202, 152, 101), (129, 132, 203)


def where(picture: npt.NDArray[np.uint8], color: tuple[int, int, int]) -> tuple[float, float]:
    """Middle of the pixels of one colour, from the top left: row, column."""
    rows, columns = np.nonzero((picture == color).all(axis=-1))
    assert len(rows)
    return float(rows.mean()) + 0.5, float(columns.mean()) + 0.5


@pytest.mark.parametrize("x", [-2.4, -1.0, 0.0, 0.128, 2.0])
@pytest.mark.parametrize("theta", [0.0, 0.2, -0.2])
def test_the_cart_and_the_pole_are_where_the_state_says(x: float, theta: float) -> None:
    view = vecenv.make("CartPole-v1", render_mode="rgb_array")
    view.reset(seed=0)
    view.state.x, view.state.theta = x, theta
    picture = view.render()
    column = 300 + 125 * x  # 600 pixels for positions from -2.4 to 2.4
    axle_row = 400 - 100 - 7.5
    if abs(x) < 2.4:
        row, middle = where(picture, PURPLE)
        assert middle == pytest.approx(column, abs=1) and row == pytest.approx(axle_row, abs=1)
        pole = where(picture, TAN)  # without what the axle covers: its middle is 59 to 63 pixels from the axle
        assert np.hypot(pole[0] - axle_row, pole[1] - column) == pytest.approx(61, abs=2)
        assert np.arctan2(pole[1] - column, axle_row - pole[0]) == pytest.approx(theta, abs=0.02)
    cart = np.nonzero((picture[314] == 0).all(axis=-1))[0]  # the lowest line of the cart
    left, right = max(0, round(column - 25)), min(600, round(column + 25))
    assert (cart[0], cart[-1] + 1) == (left, right)
    assert (picture[299] == 0).all(axis=-1)[[0, 599]].any()  # the track
    assert (picture[:100] == 255).all() and (picture[320:] == 255).all()


def test_the_picture_is_as_wide_as_the_threshold() -> None:
    """Pictures are drawn from the params of the batch: twice the threshold, half the scale."""
    picture = {}
    for threshold in (2.4, 4.8):
        params = {"x_threshold": threshold}
        view = vecenv.make("CartPole-v1", render_mode="rgb_array", params=params)
        view.reset(seed=0)
        view.state.x, view.state.theta = 1.2, 0.0
        picture[threshold] = view.render()
        assert where(picture[threshold], PURPLE)[1] == pytest.approx(300 + 300 * 1.2 / threshold, abs=0.5)
    tops = {key: np.nonzero((value == TAN).all(axis=-1))[0].min() for key, value in picture.items()}
    assert tops == {2.4: pytest.approx(292.5 - 120, abs=1), 4.8: pytest.approx(292.5 - 57.5, abs=1)}


def test_params_per_row() -> None:
    """Each row is drawn from its own params."""
    params = {"x_threshold": np.array([2.4, 4.8]), "length": vecenv.uniform(0.2, 0.8)}
    envs = vecenv.make_vec("CartPole-v1", 2, params=params, render_mode="rgb_array")
    envs.reset(seed=0)
    envs.state.x, envs.state.theta = 1.2, 0.0
    frames = envs.render()
    assert where(frames[0], PURPLE)[1] == pytest.approx(450, abs=0.5)
    assert where(frames[1], PURPLE)[1] == pytest.approx(375, abs=0.5)
    tops = [np.nonzero((frame == TAN).all(axis=-1))[0].min() for frame in frames]
    scale = np.array([125, 62.5])
    np.testing.assert_allclose(tops, 292.5 - (2 * envs.params["length"] * scale - 5), atol=1)


@pytest.mark.parametrize("x, theta", [(0.0, 0.0), (1.2, 0.2), (-0.7131, -0.15), (2.3, -0.2)])
def test_cartpole_looks_like_gymnasiums(x: float, theta: float) -> None:
    pytest.importorskip("pygame", reason="Gymnasium draws CartPole with pygame, which is no dependency of the tests")
    oracle = gymnasium.make("CartPole-v1", render_mode="rgb_array").unwrapped
    oracle.reset(seed=0)
    oracle.state = (x, 0.0, theta, 0.0)
    view = vecenv.make("CartPole-v1", render_mode="rgb_array")
    view.reset(seed=0)
    view.state.x, view.state.theta = x, theta
    expected, picture = oracle.render(), view.render()
    oracle.close()
    assert picture.shape == expected.shape
    # Gymnasium's cart and pole are one pixel wider and its pole's edges are not smooth: 500 of 240,000 pixels.
    assert (abs(picture.astype(int) - expected) > 100).any(axis=-1).sum() < 500


def test_a_state_that_cannot_be_drawn() -> None:
    view = vecenv.make("CartPole-v1", render_mode="rgb_array")
    view.reset(seed=0)
    view.state.x = np.nan
    with pytest.raises(ValueError, match=r"canvas\.rectangle: expected finite numbers, got nan"):
        view.render()
    view.state.x = 1e9
    assert not (view.render() == TAN).all(axis=-1).any()


def test_environment_files_need_no_picture_library() -> None:
    assert not hasattr(cartpole, "Canvas") and not hasattr(cartpole, "PIL")


# --- grids ------------------------------------------------------------------------------------------------------------


def agent_cells(picture: npt.NDArray[np.uint8], color: tuple[int, int, int], size: int = 64) -> list[tuple[int, int]]:
    """Cells with pixels of the agent's colour."""
    rows, columns = np.nonzero((picture == color).all(axis=-1))
    return sorted(set(zip((rows // size).tolist(), (columns // size).tolist(), strict=True)))


@pytest.mark.parametrize("id, size", [("TinyGrid-v0", 3), ("FrozenLake-v1", 4), ("FrozenLake8x8-v1", 8)])
def test_the_agent_is_in_its_cell(id: str, size: int) -> None:
    """In every cell, holes and goals included."""
    envs = vecenv.make_vec(id, size * size, render_mode="rgb_array")
    envs.reset(seed=0)
    cells = np.arange(size * size)
    if id == "TinyGrid-v0":
        envs.state.row, envs.state.col = np.divmod(cells, size)
    else:
        envs.state.cell = cells
    color = BLUE if id == "TinyGrid-v0" else RED
    for cell, picture in enumerate(envs.render()):
        assert agent_cells(picture, color) == [divmod(cell, size)]
        row, col = divmod(cell, size)
        assert tuple(picture[row * 64 + 32, col * 64 + 32]) == color


def test_frozen_lake_shows_its_tiles() -> None:
    view = vecenv.make("FrozenLake-v1", render_mode="rgb_array", desc=["SFH", "FGF"])
    view.reset(seed=0)
    picture = view.render()
    assert picture.shape == (128, 192, 3)
    hole, goal_flag = (24, 54, 92), (40, 160, 80)
    assert agent_cells(picture, hole) == [(0, 2)]
    assert agent_cells(picture, goal_flag) == [(1, 1)]
    ice = agent_cells(picture, (225, 238, 250))
    assert ice == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    plain = picture[2:62, 66:126]  # frozen, without a letter
    assert len(np.unique(plain.reshape(-1, 3), axis=0)) == 1
    assert len(np.unique(picture[2:20, 2:20].reshape(-1, 3), axis=0)) > 5  # the letter S


@pytest.mark.parametrize(
    "cell, text, line", [(0, "A...G\n", "1   "), (2, "S.A.G\n", ""), (4, "S...A\n", "")], ids=lambda v: str(v).strip()
)
def test_line_world(cell: int, text: str, line: str) -> None:
    views = [vecenv.make("LineWorld-v0", render_mode=mode) for mode in ("rgb_array", "ansi")]
    for view in views:
        view.reset(seed=0)
        view.state.cell = cell
    picture = views[0].render()
    assert agent_cells(picture, BLUE) == [(0, cell)]
    assert agent_cells(picture, GREEN) == [(0, 4)]
    assert views[1].render() == text


@pytest.mark.parametrize(
    "cell, text",
    [
        (0, "A......S" + "." * 24 + ">\n"),
        (20, "<...S" + "." * 12 + "A" + "." * 15 + ">\n"),
        (999_999, "<" + "." * 31 + "A\n"),
        (999_990, "<" + "." * 22 + "A" + "." * 8 + "G\n"),
    ],
)
def test_a_long_line_is_shown_around_the_walker(cell: int, text: str) -> None:
    views = [vecenv.make("LineWorld-v0", render_mode=mode, n=10**6, start=7) for mode in ("rgb_array", "ansi")]
    for view in views:
        view.reset(seed=0)
        view.state.cell = cell
    assert views[1].render() == text
    picture = views[0].render()
    assert picture.shape == (30, 960, 3)
    [(_, column)] = agent_cells(picture, BLUE, 30)
    assert text.strip("<>\n")[column] == "A"


def test_frozen_lake_text() -> None:
    view = vecenv.make("FrozenLake-v1", render_mode="ansi", is_slippery=False)
    view.reset(seed=0)
    assert view.render() == "\x1b[41mS\x1b[0mFFF\nFHFH\nFFFH\nHFFG\n"
    view.step(1)
    view.step(2)
    assert view.render() == "SFFF\nF\x1b[41mH\x1b[0mFH\nFFFH\nHFFG\n"


@pytest.mark.parametrize("id", ["FrozenLake-v1", "FrozenLake8x8-v1"])
def test_frozen_lake_text_is_gymnasiums_without_the_last_action(id: str) -> None:
    oracle = gymnasium.make(id, render_mode="ansi")
    view = vecenv.make(id, render_mode="ansi")
    oracle.reset(seed=3)
    view.reset(seed=3)
    for action in [1, 2, 1, 0, 3, 2, 1, 1]:
        text = oracle.render()
        assert isinstance(text, str) and view.render() == text.split("\n", 1)[1]
        if oracle.step(action)[2] | view.step(action)[2]:
            break
    assert view.render() == oracle.render().split("\n", 1)[1]
