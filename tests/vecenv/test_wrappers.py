"""Gymnasium's vector wrappers on a `VecEnv`. Oracle: the same wrapper of Gymnasium 1.4.0 on its `SyncVectorEnv`, over
its own CartPole (`math="libm"`: equal bit for bit) or over single environments that are rows of ours.

What a wrapper refuses it refuses over `SyncVectorEnv` too: every wrapper of observations wants NEXT_STEP or DISABLED,
`NormalizeObservation` NEXT_STEP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import envs as e
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import TimeLimit
from gymnasium.wrappers import TransformObservation as SingleTransformObservation
from gymnasium.wrappers import TransformReward as SingleTransformReward
from gymnasium.wrappers.vector import (
    ClipAction,
    ClipReward,
    DictInfoToList,
    DtypeObservation,
    FilterObservation,
    FlattenObservation,
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
    RecordVideo,
    RescaleAction,
    ReshapeObservation,
    TransformAction,
    TransformObservation,
    TransformReward,
    VectorizeTransformAction,
    VectorizeTransformObservation,
    VectorizeTransformReward,
)
from oracle import sync_vector_env

from vecenv import make_vec
from vecenv.vec_env import VecEnv

Wrap = Callable[[VectorEnv[Any, Any, Any]], VectorEnv[Any, Any, Any]]
LIMIT = 25


def assert_equal(got: Any, expected: Any, where: str) -> None:
    """Equal values, dtypes and nesting. `t` of RecordEpisodeStatistics is a time of day."""
    assert type(got) is type(expected), f"{where}: {type(got)} instead of {type(expected)}"
    if isinstance(got, dict):
        assert got.keys() == expected.keys(), where
        for key in got.keys() - {"t"}:
            assert_equal(got[key], expected[key], f"{where}[{key!r}]")
    elif isinstance(got, (list, tuple)):
        assert len(got) == len(expected), where
        for k, (a, b) in enumerate(zip(got, expected, strict=True)):
            assert_equal(a, b, f"{where}[{k}]")
    elif isinstance(got, np.ndarray) and got.dtype == object:
        assert_equal(got.tolist(), expected.tolist(), where)
    elif isinstance(got, np.ndarray):
        np.testing.assert_array_equal(got, expected, strict=True, err_msg=where)
    else:
        assert got == expected, f"{where}: {got} instead of {expected}"


def cartpoles(mode: str, **kwargs: Any) -> tuple[VecEnv, SyncVectorEnv]:
    """Ours and Gymnasium's, of four rows and a limit that one step in four episodes reaches."""
    ours = make_vec("CartPole-v1", 4, autoreset_mode=mode, math="libm", max_episode_steps=LIMIT, **kwargs)
    return ours, sync_vector_env("CartPole-v1", 4, ours.autoreset_mode, LIMIT)


def singles(name: str, n: int, mode: str, limit: int, **kwargs: Any) -> tuple[VecEnv, SyncVectorEnv]:
    """Ours, and `SyncVectorEnv` over views, each on a batch of its own."""

    def one() -> gymnasium.Env[Any, Any]:
        return TimeLimit(e.make(name, 1, max_episode_steps=-1).view(0), limit)

    ours = e.make(name, n, mode, max_episode_steps=limit, **kwargs)
    return ours, SyncVectorEnv([one] * n, autoreset_mode=ours.autoreset_mode)


def play_both(pair: tuple[VecEnv, SyncVectorEnv], wrap: Wrap, num_steps: int = 150, masks: bool = True) -> tuple:
    """Wrap both, step both with the same seed and actions, compare all that is returned; returns both wrappers.

    Gymnasium sets both flags where an episode terminates at its limit; here termination wins.
    """
    mode = pair[0].autoreset_mode
    ours, theirs = map(wrap, pair)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    ours.action_space.seed(3)
    assert_equal(ours.reset(seed=3), theirs.reset(seed=3), "reset")
    ends = 0
    for t in range(num_steps):
        actions = ours.action_space.sample()
        got, expected = ours.step(actions), list(theirs.step(actions))
        expected[3] = expected[3] & ~expected[2]
        assert_equal(got, tuple(expected), f"step {t}")
        ended = got[2] | got[3]
        ends += int(ended.sum())
        if mode is AutoresetMode.DISABLED and ended.any():
            mask = ended if masks else np.ones_like(ended)
            got = ours.reset(options={"reset_mask": mask.copy()})
            assert_equal(got, theirs.reset(options={"reset_mask": mask.copy()}), f"reset after step {t}")
    assert ends > 10
    return ours, theirs


every_mode = pytest.mark.parametrize("mode", e.MODES)
auto_reset_modes = pytest.mark.parametrize("mode", ["next_step", "same_step"])


# --- statistics -------------------------------------------------------------------------------------------------------


@auto_reset_modes
def test_record_episode_statistics(mode: str) -> None:
    ours, theirs = play_both(cartpoles(mode, final_obs="object"), RecordEpisodeStatistics)
    assert list(ours.return_queue) == list(theirs.return_queue) and len(ours.return_queue) > 10
    assert list(ours.length_queue) == list(theirs.length_queue)
    assert ours.episode_count == theirs.episode_count


@every_mode
def test_record_episode_statistics_are_the_batch_s_own_and_those_counted_by_hand(mode: str) -> None:
    """Under DISABLED too, where over `SyncVectorEnv` the wrapper forgets the rows that a mask leaves alone."""
    n = 4
    batch = e.make("counter", n, mode)
    envs = RecordEpisodeStatistics(batch)
    envs.reset(seed=0)
    returns, lengths, pending, ends = np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.bool_), 0
    for t, actions in enumerate(e.actions(batch, 120)):
        _, rewards, terminated, truncated, infos = envs.step(actions)
        assert isinstance(infos, dict)
        returns, lengths = np.where(pending, 0.0, returns + rewards), np.where(pending, 0, lengths + 1)
        ended = terminated | truncated
        assert ("episode" in infos) == bool(ended.any())
        if ended.any():
            ends += 1
            for got in (infos["episode"]["r"], batch.episode_returns):
                np.testing.assert_array_equal(got[ended], returns[ended])
            for got in (infos["episode"]["l"], batch.episode_lengths):
                np.testing.assert_array_equal(got[ended], lengths[ended])
            np.testing.assert_array_equal(infos["_episode"], ended)
        if mode == "next_step":
            pending = ended
        elif mode == "same_step":
            returns[ended], lengths[ended] = 0.0, 0
        else:
            mask = ended | (np.arange(n) == t % 11)
            if mask.any():
                envs.reset(options={"reset_mask": mask})
                returns[mask], lengths[mask] = 0.0, 0
    assert ends > 20


# --- running means ----------------------------------------------------------------------------------------------------


def test_normalize_observation() -> None:
    ours, theirs = play_both(cartpoles("next_step"), NormalizeObservation)
    for name in ("mean", "var", "count"):
        np.testing.assert_array_equal(getattr(ours.obs_rms, name), getattr(theirs.obs_rms, name))


@pytest.mark.parametrize("mode", ["same_step", "disabled"])
def test_normalize_observation_refuses_the_other_modes_itself(mode: str) -> None:
    for envs in cartpoles(mode):
        with pytest.raises(ValueError, match="autoreset_mode"):
            NormalizeObservation(envs)


@every_mode
def test_normalize_reward(mode: str) -> None:
    """Under DISABLED the wrapper zeroes all rows on any reset, so all are reset together."""
    ours, theirs = play_both(cartpoles(mode, final_obs="object"), NormalizeReward, masks=mode != "disabled")
    assert ours.return_rms.count == theirs.return_rms.count and ours.return_rms.var == theirs.return_rms.var


@pytest.mark.parametrize(
    ("mode", "count", "ends"), [("same_step", 24, (5, 10, 15, 20)), ("next_step", 20, (5, 11, 17, 23))]
)
@pytest.mark.parametrize("id", ["Pendulum-v1", "drift"])
def test_c023_normalize_reward_counts_every_step_and_nothing_else(
    id: str, mode: str, count: int, ends: tuple[int, ...]
) -> None:
    """Episodes of 5 steps, 24 calls: NEXT_STEP spends 4 of them on resets. Pendulum against Gymnasium's own."""
    if id == "Pendulum-v1":
        ours = make_vec(id, 1, autoreset_mode=mode, math="libm", max_episode_steps=5)
        pair = ours, sync_vector_env(id, 1, ours.autoreset_mode, 5)
    else:
        pair = singles(id, 1, mode, 5)
    seen = []
    for batch in pair:
        envs = NormalizeReward(batch)
        initial = envs.return_rms.count
        envs.reset(seed=0)
        rewards, found = [], []
        for call in range(1, 25):
            _, reward, terminated, truncated, _ = envs.step(np.full((1, 1), 0.5, np.float32))
            rewards.append(float(reward[0]))
            if truncated[0]:
                assert not terminated[0]
                found.append(call)
                if mode == "same_step":
                    assert envs.accumulated_reward[0] == 0
        assert tuple(found) == ends
        assert envs.return_rms.count - initial == pytest.approx(count, abs=1e-9)
        seen.append((rewards, float(envs.return_rms.mean), float(envs.return_rms.var)))
    assert seen[0] == seen[1]


# --- rewards ----------------------------------------------------------------------------------------------------------


@every_mode
@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: ClipReward(x, 0.25, 0.75),
        lambda x: TransformReward(x, lambda r: 2 * r),
        lambda x: VectorizeTransformReward(x, SingleTransformReward, func=lambda r: -r),
    ],
    ids=["ClipReward", "TransformReward", "VectorizeTransformReward"],
)
def test_rewards(mode: str, wrap: Wrap) -> None:
    play_both(cartpoles(mode, final_obs="object"), wrap)


# --- observations -----------------------------------------------------------------------------------------------------


def twice(env: VectorEnv[Any, Any, Any]) -> spaces.Box:
    space = env.single_observation_space
    assert isinstance(space, spaces.Box)
    return spaces.Box(np.stack([space.low] * 2), np.stack([space.high] * 2))


OBSERVATIONS = {
    "TransformObservation": lambda x: TransformObservation(x, lambda obs: 0.5 * obs),
    "VectorizeTransformObservation, same space": lambda x: VectorizeTransformObservation(
        x, SingleTransformObservation, func=lambda obs: 0.5 * obs, observation_space=x.single_observation_space
    ),
    "VectorizeTransformObservation, other space": lambda x: VectorizeTransformObservation(
        x, SingleTransformObservation, func=lambda obs: np.stack([obs, obs]), observation_space=twice(x)
    ),
    "DtypeObservation": lambda x: DtypeObservation(x, np.float64),
    "ReshapeObservation": lambda x: ReshapeObservation(x, (2, 2)),
    "FlattenObservation": FlattenObservation,
}


@pytest.mark.parametrize("mode", ["next_step", "disabled"])
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations(mode: str, name: str) -> None:
    play_both(cartpoles(mode), OBSERVATIONS[name])


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observation_wrappers_refuse_same_step_themselves(name: str) -> None:
    for envs in cartpoles("same_step"):
        with pytest.raises(ValueError, match="autoreset_mode"):
            OBSERVATIONS[name](envs)


@pytest.mark.parametrize("mode", ["next_step", "disabled"])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: FilterObservation(x, ["board", "at"]),
        FlattenObservation,
        lambda x: DictInfoToList(RecordEpisodeStatistics(x)),
    ],
    ids=["FilterObservation", "FlattenObservation", "nothing"],
)
def test_dict_observations(mode: str, wrap: Wrap) -> None:
    """`infos=False`: single environments say each number in Python's own type, which Sync takes over."""
    ours, theirs = singles("rooms", 3, mode, 6, infos=False)
    ours, theirs = wrap(ours), wrap(theirs)
    assert ours.observation_space == theirs.observation_space
    assert_equal(ours.reset(seed=1)[0], theirs.reset(seed=1)[0], "reset")
    for t, actions in enumerate(e.actions(ours.unwrapped, 60)):
        got, expected = ours.step(actions), theirs.step(actions)
        assert_equal(got[0], expected[0], f"obs at step {t}")
        if mode == "disabled" and (ended := got[2] | got[3]).any():
            options = [{"reset_mask": ended.copy()} for _ in range(2)]
            assert_equal(ours.reset(options=options[0])[0], theirs.reset(options=options[1])[0], f"reset at step {t}")


# --- actions ----------------------------------------------------------------------------------------------------------


@every_mode
@pytest.mark.parametrize(
    "wrap",
    [
        ClipAction,
        lambda x: RescaleAction(x, np.float32(-1), np.float32(1)),
        lambda x: TransformAction(x, lambda a: 0.5 * a),
        lambda x: VectorizeTransformAction(
            x,
            gymnasium.wrappers.TransformAction,
            func=lambda a: 0.5 * a,
            action_space=x.single_action_space,
        ),
    ],
    ids=["ClipAction", "RescaleAction", "TransformAction", "VectorizeTransformAction"],
)
def test_actions(mode: str, wrap: Wrap) -> None:
    """The last one writes into the actions it was given, which are the caller's."""
    ours, theirs = (wrap(x) for x in singles("drift", 3, mode, 5, final_obs="object"))
    assert_equal(ours.reset(seed=1), theirs.reset(seed=1), "reset")
    actions = np.random.default_rng(0).uniform(-3, 3, (40, 3, 1)).astype(np.float32)
    for t in range(40):
        got, expected = ours.step(actions[t].copy()), theirs.step(actions[t].copy())
        assert_equal(got, expected, f"step {t}")
        if mode == "disabled" and got[3].any():
            ours.reset(), theirs.reset()


# --- infos ------------------------------------------------------------------------------------------------------------


@every_mode
def test_dict_info_to_list(mode: str) -> None:
    """A list of dicts, one per row, with what single environments report; `final_info` and `final_obs` where a row
    ended."""
    ours, theirs = map(DictInfoToList, singles("rooms", 3, mode, 6))
    for a, b in zip(ours.reset(seed=1)[1], theirs.reset(seed=1)[1], strict=True):
        assert a == b and a.keys() == {"visits", "hottest", "alarm"}
    ends = 0
    for actions in e.actions(ours.unwrapped, 60):
        _, _, terminated, truncated, infos = ours.step(actions)
        expected = theirs.step(actions)[4]
        ended = terminated | truncated
        assert isinstance(infos, list) and len(infos) == 3
        for i in range(3):
            got, single = dict(infos[i]), dict(expected[i])
            if mode == "same_step" and ended[i]:
                ends += 1
                assert_equal(got.pop("final_obs"), single.pop("final_obs"), "final_obs")
            assert got == single
        if mode == "disabled" and ended.any():
            masks = [{"reset_mask": ended.copy()} for _ in range(2)]
            assert ours.reset(options=masks[0])[1] == theirs.reset(options=masks[1])[1]
    assert ends > 5 or mode != "same_step"


# --- other arrays -----------------------------------------------------------------------------------------------------


@every_mode
def test_numpy_to_torch(mode: str) -> None:
    """Tensors of what NumPy arrays hold; `final_obs` too, which Gymnasium's own array of objects cannot become."""
    torch = pytest.importorskip("torch", reason="NumpyToTorch needs torch")
    pytest.importorskip("array_api_compat", reason="NumpyToTorch needs array-api-compat")
    from gymnasium.wrappers.vector import ArrayConversion, NumpyToTorch

    for wrap in (NumpyToTorch, lambda x: ArrayConversion(x, env_xp=np, target_xp=torch)):
        envs, plain = (make_vec("CartPole-v1", 3, autoreset_mode=mode, max_episode_steps=10) for _ in range(2))
        envs = wrap(envs)
        obs, _ = envs.reset(seed=0)
        np.testing.assert_array_equal(obs.numpy(), plain.reset(seed=0)[0], strict=True)
        for actions in e.actions(plain, 40):
            got, expected = envs.step(torch.from_numpy(actions)), plain.step(actions)
            for a, b in zip(got[:4], expected[:4], strict=True):
                assert isinstance(a, torch.Tensor)
                np.testing.assert_array_equal(a.numpy(), b, strict=True)
            assert got[4].keys() == expected[4].keys()
            if "final_obs" in expected[4]:
                np.testing.assert_array_equal(got[4]["final_obs"].numpy(), expected[4]["final_obs"], strict=True)
                assert got[4]["_final_obs"].tolist() == expected[4]["_final_obs"].tolist()
            if mode == "disabled":
                ended = expected[2] | expected[3]
                if ended.any():
                    plain.reset(options={"reset_mask": ended})
                    envs.reset(options={"reset_mask": torch.from_numpy(ended)})


def test_infos_become_tensors() -> None:
    torch = pytest.importorskip("torch", reason="NumpyToTorch needs torch")
    pytest.importorskip("array_api_compat", reason="NumpyToTorch needs array-api-compat")
    from gymnasium.wrappers.vector import NumpyToTorch

    envs = NumpyToTorch(e.make("rooms", 3, "same_step", max_episode_steps=2))
    obs, infos = envs.reset(seed=0)
    assert isinstance(obs["board"], torch.Tensor) and infos["_visits"].all()
    actions = torch.zeros(3, dtype=torch.int64)
    envs.step(actions)
    _, _, _, truncated, infos = envs.step(actions)
    assert truncated.all() and infos["final_info"]["visits"].dtype == torch.int32
    assert infos["final_obs"]["heat"].shape == (3, 3)


# --- pictures ---------------------------------------------------------------------------------------------------------


@every_mode
def test_record_video(mode: str, tmp_path: Any) -> None:
    """Row 0 ends after 3 steps: a video of 4 frames, or of 3 under SAME_STEP, as Gymnasium warns."""
    pytest.importorskip("moviepy", reason="RecordVideo needs moviepy")
    pytest.importorskip("PIL", reason="pictures need Pillow")
    batch = make_vec("CartPole-v1", 4, autoreset_mode=mode, render_mode="rgb_array", max_episode_steps=3)

    def record() -> RecordVideo:
        return RecordVideo(batch, str(tmp_path / "videos"), episode_trigger=lambda k: k == 0)

    if mode == "same_step":
        with pytest.warns(UserWarning, match="will not contain the last frame"):
            envs = record()
    else:
        envs = record()
    frames: list[np.ndarray] = []
    kept = envs._capture_frame

    def capture() -> None:
        kept()
        frames.append(envs.recorded_frames[-1])

    envs._capture_frame = capture  # type: ignore[method-assign]
    envs.reset(seed=0)
    for _ in range(3):
        _, _, _, truncated, _ = envs.step(np.array([0, 1, 0, 1]))
    assert truncated.all()
    if mode == "disabled":
        envs.reset(options={"reset_mask": truncated.copy()})
    else:
        envs.step(np.array([0, 1, 0, 1]))
    envs.close()
    (video,) = (tmp_path / "videos").iterdir()
    assert video.name == "rl-video-episode-0.mp4" and video.stat().st_size > 1000
    assert len(frames) == (3 if mode == "same_step" else 4)
    height, width, _ = frames[0].shape
    assert frames[0].dtype == np.uint8 and len({frame.tobytes() for frame in frames}) == len(frames)
    again = make_vec("CartPole-v1", 4, render_mode="rgb_array")
    again.reset(seed=0)
    first = again.render()
    assert first is not None
    h, w, _ = first[0].shape
    assert (height, width) == (2 * h, 2 * w)
    np.testing.assert_array_equal(frames[0], np.vstack([np.hstack(first[:2]), np.hstack(first[2:])]))


def test_record_video_refuses_what_has_no_pictures(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="Render mode is None"):
        RecordVideo(make_vec("CartPole-v1", 2), str(tmp_path))
