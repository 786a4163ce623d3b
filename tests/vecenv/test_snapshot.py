"""Snapshot, restore, fork, files: rows replay bit for bit.

Oracle: the first run of the same steps; NumPy's SeedSequence (2.x) for the streams of fresh forks.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import envs as e
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vecenv import EnvDef, Snapshot
from vecenv.vec_env import VecEnv

every_env = pytest.mark.parametrize("name", e.ALL)
every_mode = pytest.mark.parametrize("mode", e.MODES)


def play(envs: VecEnv, actions: np.ndarray) -> list:
    """Everything that can be seen of some steps, resets of DISABLED included."""
    seen = []
    for step in actions:
        result = envs.step(step)
        seen.append((*result, envs.episode_returns, envs.episode_lengths, envs.episode_ended))
        if envs.autoreset_mode.name == "DISABLED":
            e.reset_ended(envs, *result[2:4])
    return seen


def assert_same_play(a: list, b: list, rows=slice(None), of=slice(None)) -> None:
    for x, y in zip(a, b, strict=True):
        e.assert_same(e.take(x[:4], rows), e.take(y[:4], of))
        e.assert_same(e.take(x[5:], rows), e.take(y[5:], of))


@every_env
@every_mode
def test_c076_restore_replays_bit_for_bit(name, mode):
    """37 steps, snapshot, 500 steps over many episode ends, restore, the same 500: outputs, statistics, bytes."""
    envs = e.make(name, 8, mode)
    envs.reset(seed=5)
    play(envs, e.actions(envs, 37))
    snap = envs.snapshot()
    kept = snap.arena.tobytes()
    steps = e.actions(envs, 500, seed=1)
    before = envs.episode_returns, envs.episode_lengths
    first = play(envs, steps)
    end = e.arena(envs)
    for _ in range(2):
        envs.restore(snap)
        running = ~e.ended_in_same_step(envs, snap)
        np.testing.assert_array_equal(envs.episode_returns[running], before[0][running])
        np.testing.assert_array_equal(envs.episode_lengths[running], before[1][running])
        again = play(envs, steps)
        for a, b in zip(first, again, strict=True):
            e.assert_same(a, b)
        assert e.arena(envs) == end
    assert snap.arena.tobytes() == kept
    assert sum(step[7].sum() for step in first) >= 8


@pytest.mark.nojit
def test_replay_in_plain_python_too():
    envs = e.make("dice", 3)
    envs.reset(seed=5)
    snap = envs.snapshot()
    steps = e.actions(envs, 60)
    first = play(envs, steps)
    envs.restore(snap)
    for a, b in zip(first, play(envs, steps), strict=True):
        e.assert_same(a, b)
    envs.fork(0, [1, 2])
    np.testing.assert_array_equal(envs.state.hand[0], envs.state.hand[2])
    assert sum(step[7].sum() for step in first) >= 3


@every_env
def test_a_row_plays_on_in_a_batch_of_another_size(name):
    """Rows 3 and 1 of 5 into rows 60 and 2 of 70, whole futures equal."""
    small, large = e.make(name, 5), e.make(name, 70)
    small.reset(seed=1)
    large.reset(seed=900)
    play(small, e.actions(small, 11))
    large.restore(small.snapshot(), rows=[60, 2], from_rows=[3, 1])
    steps = e.actions(large, 60, seed=2)
    expected = steps[:, :5].copy()
    expected[:, 3], expected[:, 1] = steps[:, 60], steps[:, 2]
    assert_same_play(play(small, expected), play(large, steps), [3, 1], [60, 2])


@pytest.mark.parametrize("mode", e.MODES)
@pytest.mark.parametrize("other", e.MODES)
@pytest.mark.parametrize("math", ["portable", "libm"])
def test_snapshots_cross_modes_limits_and_math(mode, other, math):
    """The limit stays with the batch that receives; the row's own future is what its new batch makes of it."""
    source = e.make("drift", 4, mode, max_episode_steps=1000)
    source.reset(seed=3)
    play(source, e.actions(source, 5))
    target = e.make("drift", 4, other, max_episode_steps=[8, 9, 10, 11], math=math)
    target.restore(source.snapshot())
    np.testing.assert_array_equal(target.state.x, source.state.x)
    assert target.state.elapsed.tolist() == [5] * 4
    ends = []
    for step in e.actions(target, 6, seed=4):
        _, _, _, truncated, _ = target.step(step)
        ends.append(truncated.tolist())
        e.reset_ended(target, truncated, truncated) if other == "disabled" else None
    assert [[row[i] for row in ends].index(True) for i in range(4)] == [2, 3, 4, 5]


def test_an_ended_row_crosses_into_every_mode_but_same_step():
    source = e.make("bits", 2, "next_step", max_episode_steps=1)
    source.reset(seed=0)
    source.step(e.actions(source, 1)[0])
    snap = source.snapshot()
    for mode in ("next_step", "disabled"):
        target = e.make("bits", 2, mode)
        target.restore(snap)
        assert target.episode_ended.all() and target.episode_lengths.tolist() == [1, 1]
        if mode == "disabled":
            with pytest.raises(e.ResetNeeded, match=r"row 0: its episode has ended; reset it with reset_mask"):
                target.step(e.actions(target, 1)[0])
        else:
            _, rewards, terminated, truncated, _ = target.step(e.actions(target, 1)[0])
            assert not (rewards.any() or terminated.any() or truncated.any())
            assert target.state.elapsed.tolist() == [0, 0]
    target = e.make("bits", 3, "same_step")
    target.reset(seed=0)
    before = e.checksum(target)
    with pytest.raises(ValueError, match=r"row 1 of the snapshot has ended and awaits a reset; SAME_STEP has no such"):
        target.restore(snap, rows=[2], from_rows=[1])
    assert e.checksum(target) == before


@pytest.mark.nojit
def test_c008_a_row_that_was_reset_in_its_last_step_is_a_fresh_one():
    envs = e.make("CartPole-v1", 2, "same_step", max_episode_steps=3)
    envs.reset(seed=0)
    for _ in range(3):
        _, _, _, truncated, _ = envs.step([0, 1])
    assert truncated.all() and envs.episode_lengths.tolist() == [3, 3]
    other = e.make("CartPole-v1", 2, "same_step")
    other.restore(envs.snapshot())
    assert not other.episode_ended.any()
    assert other.episode_returns.tolist() == [0, 0] and other.episode_lengths.tolist() == [0, 0]
    _, rewards, terminated, truncated, _ = other.step([0, 1])
    assert rewards.tolist() == [1, 1] and not (terminated.any() or truncated.any())
    assert other.state.elapsed.tolist() == [1, 1]


# --- selections -------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
def test_rows_of_snapshots():
    envs = e.make("counter", 6)
    envs.reset(seed=0)
    envs.state.n = np.arange(6)
    whole, some, mask = envs.snapshot(), envs.snapshot([4, 4, 1]), envs.snapshot(np.arange(6) > 3)
    assert (whole.num_rows, some.num_rows, mask.num_rows, len(some)) == (6, 3, 2, 3)
    assert repr(some) == "Snapshot(Counter-v0, num_rows=3)"

    def numbers(snap: Snapshot) -> list[int]:
        target = e.make("counter", snap.num_rows)
        target.restore(snap)
        return target.state.n.tolist()

    assert numbers(whole) == [0, 1, 2, 3, 4, 5]
    assert numbers(some) == [4, 4, 1] and numbers(mask) == [4, 5]
    assert numbers(whole[2]) == [2] and numbers(whole[-1]) == [5] and numbers(whole[1:3]) == [1, 2]
    assert numbers(whole[[5, 0, 0]]) == [5, 0, 0] and numbers(whole[np.arange(6) < 2]) == [0, 1]
    for wrong in (6, [], slice(0, 0), [7], 1.5):
        with pytest.raises(IndexError):
            whole[wrong]
    assert whole != some and whole == whole and len({whole, some}) == 2


@pytest.mark.nojit
def test_restoring_some_rows_leaves_the_others():
    envs = e.make("counter", 6)
    envs.reset(seed=0)
    snap = envs.snapshot()
    play(envs, e.actions(envs, 3))
    before = {name: column.copy() for name, column in e.columns(envs).items()}
    envs.restore(snap[1], rows=[4, 2])
    envs.restore(snap, rows=np.arange(6) == 0, from_rows=[5])
    taken = {4: 1, 2: 1, 0: 5}
    for name, column in e.columns(envs).items():
        stored = snap.layout.carve(snap.arena, 6)[name]
        for i in range(6):
            expected = stored[taken[i]] if i in taken else before[name][i]
            np.testing.assert_array_equal(column[i], expected, err_msg=name)


@pytest.mark.nojit
def test_a_snapshot_never_changes_and_can_be_recycled():
    envs = e.make("counter", 4)
    envs.reset(seed=0)
    snap = envs.snapshot()
    kept = snap.arena.tobytes()
    play(envs, e.actions(envs, 9))
    assert snap.arena.tobytes() == kept
    with pytest.raises(ValueError, match="read-only"):
        snap.arena[0] = 1
    part = snap[1]
    again = envs.snapshot(out=snap)
    assert again.arena is snap.arena and again.arena.tobytes() == envs._arena.tobytes() != kept
    assert not again.arena.flags.writeable
    envs.restore(part, rows=[3])
    assert envs.state.end[3] == part.layout.carve(part.arena, 1)["state.end"][0]


@pytest.mark.nojit
def test_rng_false_keeps_the_streams():
    envs = e.make("dice", 4)
    envs.reset(seed=0)
    snap = envs.snapshot()
    envs.step(e.actions(envs, 1)[0])
    streams = {name: envs._memory.columns[name].copy() for name in ("engine.rng", "engine.policy")}
    envs.restore(snap, rows=[1, 3], from_rows=[0, 2], rng=False)
    for name, words in streams.items():
        np.testing.assert_array_equal(envs._memory.columns[name], words)
    np.testing.assert_array_equal(envs.state.hand[3], snap.layout.carve(snap.arena, 4)["state.hand"][2])


# --- never reset ------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
def test_no_row_is_left_without_a_stream():
    """Restoring one row, or a snapshot of rows never reset, must not stop the others from being seeded."""
    source = e.make("CartPole-v1", 1)
    source.reset(seed=1)
    never = e.make("CartPole-v1", 1).snapshot()
    snap = source.snapshot()
    for which, rng in ((snap, True), (snap, False), (never, True)):
        target = e.make("CartPole-v1", 4)
        target.restore(which, rows=[0], rng=rng)
        obs, _ = target.reset()
        assert len({row.tobytes() for row in obs}) == 4
        if which is snap and rng:  # the restored stream goes on
            np.testing.assert_array_equal(obs[0], source.reset()[0][0])
    first, second = (e.make("CartPole-v1", 3) for _ in range(2))
    first.restore(second.snapshot())
    with pytest.raises(e.ResetNeeded, match="row 0 was never reset"):
        first.step([0, 0, 0])
    assert len({row.tobytes() for row in first.reset()[0]}) == 3


# --- fork -------------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
def test_c078_copies_have_equal_futures_and_fresh_ones_do_not():
    for rng, different in (("copy", False), ("fresh", True), ("keep", True)):
        envs = e.make("lake", 64, max_episode_steps=-1)
        envs.reset(seed=9)
        stream = envs._memory.columns["engine.rng"][0].copy()
        envs.fork(0, np.arange(1, 64), rng=rng)
        np.testing.assert_array_equal(envs._memory.columns["engine.rng"][0], stream)
        ends = set()
        for _ in range(6):
            obs, *_ = envs.step(np.full(64, 2))
            ends.add(len(set(obs.tolist())) > 1)
        assert (True in ends) is different
        assert (len({row.tobytes() for row in envs._memory.columns["engine.rng"]}) == 64) is different


@pytest.mark.parametrize("name", ["lake", "FrozenLake-v1"])
def test_c080_fresh_forks_show_the_true_probabilities(name):
    """Slippery lake at 6, left: 2, 5 and 10 with 1/3 each; copies all see the same noise."""
    envs = e.make(name, 3000, "disabled")
    envs.reset(seed=4)
    envs.state.cell = 6
    envs.fork(0, np.arange(1, 3000))
    obs, *_ = envs.step(np.zeros(3000, np.int64))
    assert len(set(obs.tolist())) == 1
    envs.reset()
    envs.state.cell = 6
    envs.fork(0, np.arange(1, 3000), rng="fresh")
    obs, *_ = envs.step(np.zeros(3000, np.int64))
    cells, counts = np.unique(obs, return_counts=True)
    assert cells.tolist() == [2, 5, 10] and counts.min() >= 900 and counts.max() <= 1100


@pytest.mark.nojit
def test_fresh_streams_are_never_met_twice():
    """Over calls, over restores, and apart from every stream that reset gives; NumPy's SeedSequence([seed, k])."""
    envs = e.make("counter", 4)
    envs.reset(seed=5)
    seen = {row.tobytes() for row in envs._memory.columns["engine.rng"]}
    start = {(np.random.PCG64(np.random.SeedSequence(5 + i)).state["state"]["state"]) for i in range(4)}
    snap = envs.snapshot()
    number = 0
    for call in range(4):
        envs.fork(0, [1, 3], rng="fresh")
        for k, row in enumerate((1, 3)):
            words = envs._memory.columns["engine.rng"][row]
            state = np.random.PCG64(np.random.SeedSequence([5, 1 + 4 * call + k])).state["state"]
            assert [int(w) for w in words[:2]] == [state["state"] & (2**64 - 1), state["state"] >> 64]
            assert state["state"] not in start
            seen.add(words.tobytes())
            number += 1
        envs.restore(snap)
    assert len(seen) == 4 + number


@pytest.mark.nojit
def test_the_first_fresh_fork_is_not_the_stream_that_reset_gave():
    """SeedSequence([s, 0]) is SeedSequence(s): an environment that draws nothing in reset would replay row 0."""
    for kwargs in ({}, {"seed": 5}):
        envs = VecEnv(NOISE, 2)
        envs.reset(seed=5)
        envs.fork(0, [1], rng="fresh", **kwargs)
        _, rewards, *_ = envs.step([0, 0])
        assert rewards[0] != rewards[1]


@e.jit
def noise_reset(state, params, rng):
    state.x = 0.0


@e.jit
def noise_step(state, action, params, rng):
    state.x = rng.random()
    return state.x, False


NOISE = EnvDef(
    "Noise-v0", e.DriftState, e.NoParams, noise_reset, noise_step, e.drift_observe,
    observation_space=e.spaces.Box(0, 1, (1,)), action_space=e.spaces.Discrete(2),
)  # fmt: skip


@pytest.mark.nojit
def test_fresh_forks_with_a_seed_are_reproducible():
    rows = []
    for start in (1, 2):
        envs = e.make("counter", 5)
        envs.reset(seed=start)
        envs.fork(0, [1, 2], rng="fresh")
        envs.fork([0, 0], [3, 1], rng="fresh", seed=77)
        rows.append(envs._memory.columns["engine.rng"][[3, 1]].tobytes())
        envs.fork(0, [3, 1], rng="fresh", seed=78)
        assert envs._memory.columns["engine.rng"][[3, 1]].tobytes() != rows[-1]
    assert rows[0] == rows[1]


@pytest.mark.nojit
def test_forks_read_all_rows_before_they_write():
    envs = e.make("counter", 4)
    envs.reset(seed=0)
    envs.state.n = [10, 11, 12, 13]
    envs.fork([1, 0], [0, 1])
    assert envs.state.n.tolist() == [11, 10, 12, 13]
    envs.fork([0, 1, 2, 3], [1, 2, 3, 0])
    assert envs.state.n.tolist() == [13, 11, 10, 12]
    envs.fork(2, np.array([True, False, False, True]))
    assert envs.state.n.tolist() == [10, 11, 10, 10]
    envs.fork([], [])
    assert envs.state.n.tolist() == [10, 11, 10, 10]


# --- refusals ---------------------------------------------------------------------------------------------------------


def _other_params(**params):
    other = e.make("drift", 3, params=params)
    other.reset(seed=0)
    return other.snapshot()


def _reset(name, n=3):
    other = e.make(name, n)
    other.reset(seed=0)
    return other.snapshot()


def _renamed():
    other = VecEnv(
        EnvDef(
            "Drift-v1", e.DriftState, e.DriftParams, e.drift_reset, e.drift_step, e.drift_observe,
            observation_space=e.spaces.Box(-np.inf, np.inf, (1,)), action_space=e.spaces.Box(-2, 2, (1,)),
        ),
        3,
    )  # fmt: skip
    other.reset(seed=0)
    return other.snapshot()


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: x.restore(3), TypeError, "restore: expected a Snapshot, got int"),
        (lambda x: x.restore(_reset("counter")), ValueError, "expected a snapshot of Drift-v0, got Snapshot.Counter"),
        (lambda x: x.restore(_renamed()), ValueError, "expected a snapshot of Drift-v0, got Snapshot.Drift-v1"),
        (lambda x: x.restore(_other_params(gain=0.2)), ValueError, "taken under other params; pass params='ignore'"),
        (lambda x: x.restore(_reset("drift"), params="merge"), ValueError, "expected 'match' or 'ignore', got 'merge'"),
        (lambda x: x.restore(_reset("drift", 2)), ValueError, "3 rows receive, but 2 rows of the snapshot were given"),
        (lambda x: x.restore(_reset("drift"), rows=[0]), ValueError, "1 rows receive, but 3 rows"),
        (lambda x: x.restore(_reset("drift"), rows=[0, 0, 1]), ValueError, "rows: row 0 occurs more than once"),
        (lambda x: x.restore(_reset("drift"), rows=[0, 3, 1]), ValueError, "rows: row 3 is outside 0 to 2"),
        (lambda x: x.restore(_reset("drift"), from_rows=[0, 3, 1]), ValueError, "from_rows: row 3 is outside 0 to 2"),
        (lambda x: x.restore(_reset("drift"), rows=[0.0, 1.0, 2.0]), TypeError, "rows: expected a one-dimensional int"),
        (lambda x: x.snapshot([]), ValueError, "rows is empty; a snapshot needs at least one row"),
        (lambda x: x.snapshot([3]), ValueError, "rows: row 3 is outside 0 to 2"),
        (lambda x: x.snapshot(out=3), TypeError, "out: expected a Snapshot, got int"),
        (lambda x: x.snapshot(out=_reset("drift", 2)), ValueError, "out: expected Drift-v0 with 3 rows, got Snapshot"),
        (lambda x: x.snapshot(out=_reset("counter")), ValueError, "out: expected Drift-v0 with 3 rows"),
        (lambda x: x.snapshot(out=_renamed()), ValueError, "out: expected Drift-v0 with 3 rows, got Snapshot.Drift-v1"),
        (lambda x: x.fork(0, [1], rng="new"), ValueError, "rng: expected 'copy', 'keep' or 'fresh', got 'new'"),
        (lambda x: x.fork(0, [1], seed=3), ValueError, "seed belongs to rng='fresh', got rng='copy'"),
        (lambda x: x.fork(0, [1], rng="fresh", seed=-3), ValueError, "seed must be an int >= 0, got -3"),
        (lambda x: x.fork(0, [1], rng="fresh", seed="a"), TypeError, "seed must be an int >= 0, got 'a'"),
        (lambda x: x.fork(0, [1, 1]), ValueError, "targets: row 1 occurs more than once"),
        (lambda x: x.fork(3, [1]), ValueError, "sources: row 3 is outside 0 to 2"),
        (lambda x: x.fork(-1, [1]), ValueError, "sources: row -1 is outside 0 to 2"),
        (lambda x: x.fork([0, 1], [1]), ValueError, "expected as many sources as targets, got 2 and 1"),
        (lambda x: x.fork([[0]], [1]), TypeError, "sources: expected a one-dimensional int array"),
    ],
)
def test_wrong_calls_change_nothing(call, kind, message):
    envs = e.make("drift", 3)
    envs.reset(seed=0)
    before = e.checksum(envs)
    with pytest.raises(kind, match=message):
        call(envs)
    assert e.checksum(envs) == before


@pytest.mark.nojit
def test_params_can_be_ignored():
    envs = e.make("drift", 3)
    snap = _other_params(gain=0.2)
    envs.restore(snap, params="ignore")
    np.testing.assert_array_equal(envs.state.x, snap.layout.carve(snap.arena, 3)["state.x"])
    envs = e.make("drift", 3, params={"gain": 0.2})
    envs.restore(snap)


# --- files ------------------------------------------------------------------------------------------------------------


LOAD = """
import sys, hashlib
sys.path.insert(0, {tests!r})
import envs as e
import numpy as np
from vecenv import Snapshot
envs = e.make("dice", 6, "same_step")
envs.restore(Snapshot.load({path!r}))
digest = hashlib.sha256()
for step in e.actions(envs, 200, seed=3):
    obs, rewards, terminated, truncated, _ = envs.step(step)
    for array in (obs, rewards, terminated, truncated, envs.episode_returns):
        digest.update(array.tobytes())
print(digest.hexdigest())
"""


def test_a_file_replays_the_same_in_another_process(tmp_path):
    envs = e.make("dice", 6, "same_step")
    envs.reset(seed=8)
    play(envs, e.actions(envs, 20))
    snap = envs.snapshot()
    snap.save(tmp_path / "rows.vecenv")
    digest = hashlib.sha256()
    for step in e.actions(envs, 200, seed=3):
        obs, rewards, terminated, truncated, _ = envs.step(step)
        for array in (obs, rewards, terminated, truncated, envs.episode_returns):
            digest.update(array.tobytes())
    tests = str(Path(__file__).parent.parent)
    code = LOAD.format(tests=tests, path=str(tmp_path / "rows.vecenv"))
    assert e.python(code, PYTHONPATH=str(Path(tests).parent)).stdout.strip() == digest.hexdigest()


@pytest.mark.nojit
def test_files_keep_every_byte(tmp_path):
    envs = e.make("counter", 3)
    envs.reset(seed=8)
    snap = envs.snapshot([2, 0])
    path = tmp_path / "deep.name.bin"
    snap.save(str(path))
    snap.save(path)
    loaded = Snapshot.load(path)
    assert [file.name for file in tmp_path.iterdir()] == ["deep.name.bin"]
    assert loaded.arena.tobytes() == snap.arena.tobytes() and not loaded.arena.flags.writeable
    for name in ("env_id", "env_digest", "params_digest", "num_rows"):
        assert getattr(loaded, name) == getattr(snap, name)
    assert loaded.layout.digest == snap.layout.digest
    envs.restore(loaded, rows=[1, 2])
    content = snap.to_bytes()
    assert path.read_bytes() == content == Snapshot.from_bytes(content).to_bytes()
    with pytest.raises(ValueError, match=r"^here: not a vecenv snapshot"):
        Snapshot.from_bytes(b"x", "here")
    with pytest.raises(FileNotFoundError):
        Snapshot.load(tmp_path / "none")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    envs = e.make("counter", 3)
    envs.reset(seed=8)
    path = tmp_path_factory.mktemp("snapshots") / "rows.vecenv"
    envs.snapshot().save(path)
    return path, path.read_bytes()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_file_is_refused(saved, data):
    """Any flipped byte, cut, addition or other beginning: a ValueError, nothing else."""
    path, content = saved
    how = data.draw(st.sampled_from(["flip", "cut", "add", "other"]))
    if how == "flip":
        k = data.draw(st.integers(0, len(content) - 1))
        damaged = bytearray(content)
        damaged[k] ^= data.draw(st.integers(1, 255))
    elif how == "cut":
        damaged = content[: data.draw(st.integers(0, len(content) - 1))]
    elif how == "add":
        damaged = content + data.draw(st.binary(min_size=1, max_size=100))
    else:
        damaged = data.draw(st.binary(max_size=200))
    target = path.with_name("damaged")
    target.write_bytes(bytes(damaged))
    with pytest.raises(ValueError, match=r"not a vecenv snapshot|damaged snapshot"):
        Snapshot.load(target)


def _header(content: bytes) -> tuple[int, int]:
    start = content.index(b"{")
    return start, start + int.from_bytes(content[start - 8 : start], "little")


@pytest.mark.nojit
@pytest.mark.parametrize(
    "change",
    [
        {"num_rows": 4},
        {"num_rows": -1},
        {"num_rows": 10**30},
        {"columns": [["x", "O", []]]},
        {"columns": [["x", "<f8", [-3]]]},
        {"columns": 3},
        {"env_id": None},
    ],
)
def test_a_forged_header_is_refused_too(saved, tmp_path, change):
    """Even with a checksum that fits: what it says must agree with the bytes behind it."""
    _, content = saved
    low, high = _header(content)
    text = json.dumps({**json.loads(content[low:high]), **change}).encode()
    body = len(text).to_bytes(8, "little") + text + content[high:]
    path = tmp_path / "forged"
    path.write_bytes(content[:8] + hashlib.sha256(body).digest() + body)
    if "env_id" in change:  # nothing that loading could know
        with pytest.raises(ValueError, match="expected a snapshot of Counter-v0"):
            e.make("counter", 3).restore(Snapshot.load(path))
    else:
        with pytest.raises(ValueError, match="damaged snapshot"):
            Snapshot.load(path)
