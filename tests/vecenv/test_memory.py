"""Memory: nothing grows with steps, batches, snapshots or views, and a batch takes what its columns take."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import envs as e
import gymnasium
import numpy as np
import pytest

import vecenv
from vecenv import make_vec

PAGE = os.sysconf("SC_PAGE_SIZE")
MB = 1e6

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads /proc/self/statm")


def resident() -> int:
    """Bytes of memory of this process."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


def assert_no_cycle(value: Any, above: tuple[Any, ...] = ()) -> None:
    """No dict, list, tuple or array of objects is inside itself."""
    assert all(value is not outer for outer in above)
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype == object):
        parts = list(value)
    else:
        return
    for part in parts:
        assert_no_cycle(part, (*above, value))


def growth(call: Callable[[int], object], first: int, last: int) -> int:
    """Bytes by which this process grows between two of `last` calls."""
    before = 0
    for k in range(last):
        if k == first:
            before = resident()
        call(k)
    return resident() - before


# --- steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", e.ALL)
@pytest.mark.parametrize("kwargs", [{}, {"final_obs": "object"}, {"copy": False}], ids=["dense", "object", "reused"])
def test_c065_no_container_holds_itself(name: str, kwargs: dict[str, Any]) -> None:
    envs = e.make(name, 16, "same_step", max_episode_steps=2, **kwargs)
    assert_no_cycle(envs.reset(seed=0))
    for actions in e.actions(envs, 6):
        assert_no_cycle(envs.step(actions))


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("CartPole-v1", {}),
        pytest.param("rooms", {}, marks=pytest.mark.slow),
        pytest.param("pair", {}, marks=pytest.mark.slow),
        pytest.param("rooms", {"final_obs": "object"}, marks=pytest.mark.slow),
    ],
)
def test_c065_200_000_steps_take_no_memory(name: str, kwargs: dict[str, Any]) -> None:
    """16 rows that end in every second step: less than 5 MB between step 50,000 and 200,000."""
    envs = e.make(name, 16, "same_step", max_episode_steps=2, **kwargs)
    envs.reset(seed=0)
    steps = e.actions(envs, 64)
    assert growth(lambda k: envs.step(steps[k % 64]), 50_000, 200_000) < 5 * MB


def test_resets_snapshots_views_and_copies_take_no_memory() -> None:
    envs = e.make("rooms", 1000, "next_step")
    envs.reset(seed=0)
    steps = e.actions(envs, 8)
    mask = np.arange(1000) % 3 == 0

    def call(k: int) -> None:
        envs.step(steps[k % 8])
        envs.step(steps[k % 8][:10], rows=np.arange(10))
        snap = envs.snapshot()
        envs.reset(seed=k, options={"reset_mask": mask, "start": k % 12})
        envs.restore(snap[[1, 2]], rows=[5, 6])
        envs.fork(0, [1, 2], rng="fresh")
        view = envs.view(k % 1000)
        view.reset()
        view.step(0)

    assert growth(call, 100, 500) < 5 * MB


def test_unpickled_batches_share_their_kernels() -> None:
    """Bound anew, each takes 1.6 MB, also when it is gone."""
    envs = e.make("rooms", 4)
    envs.reset(seed=0)
    data = pickle.dumps(envs)
    other = pickle.loads(data)
    assert other.definition is not envs.definition and other._runner.kernels is envs._runner.kernels

    def call(k: int) -> None:
        envs = pickle.loads(data)
        envs.reset()
        envs.step(np.zeros(4, np.int64))

    assert growth(call, 5, 55) < 5 * MB


def play_and_end(envs: vecenv.VecEnv) -> None:
    envs.reset(seed=0)
    for _ in range(12):
        envs.step(np.zeros(4, np.int64))
    assert envs.episode_ended.any() and len(envs.final_obs_rows)


def refuse(envs: vecenv.VecEnv) -> None:
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.zeros(4, np.int64))
    envs.reset()
    with pytest.raises(ValueError, match="action 7 is outside"):
        envs.step(np.full(4, 7))
    envs.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        envs.step(np.zeros(4, np.int64))


def look(envs: vecenv.VecEnv) -> None:
    envs.reset()
    view = envs.view(0)
    view.step(1)
    view.step(1, jit=False)
    assert envs.observation_space is not None and envs.action_space is not None
    assert len(envs.np_random) == len(envs.call("np_random")) == 4
    assert repr(view) and envs.snapshot().num_rows == 4


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("make", "use"),
    [
        (lambda: make_vec("CartPole-v1", 4, autoreset_mode="same_step", max_episode_steps=4), play_and_end),
        (lambda: make_vec("CartPole-v1", 4, boundscheck=True), look),
        (lambda: make_vec("CartPole-v1", 4), refuse),
        (lambda: make_vec("CartPole-v1", 4, transforms=(vecenv.FrameStack(2),)), look),
        (lambda: pickle.loads(pickle.dumps(make_vec("CartPole-v1", 4))), look),
        (lambda: copy.deepcopy(make_vec("CartPole-v1", 4)).like(4), look),
    ],
    ids=["stepped", "checked", "refused", "transformed", "unpickled", "copied"],
)
def test_a_batch_that_nobody_has_is_freed_at_once(
    make: Callable[[], vecenv.VecEnv], use: Callable[[vecenv.VecEnv], None]
) -> None:
    """Without waiting for Python to look for cycles: of large batches there would be several meanwhile."""
    use(make())  # binding and compiling leave cycles of their own
    gc.collect()
    gc.disable()
    try:
        envs = make()
        gone = [weakref.ref(envs), weakref.ref(envs._memory), weakref.ref(envs._arena)]
        use(envs)
        del envs
        assert [ref() for ref in gone] == [None] * len(gone)
    finally:
        gc.enable()


def test_batches_that_are_gone_take_no_memory() -> None:
    """Each of them takes about 2 MB."""

    def call(k: int) -> None:
        envs = make_vec("CartPole-v1", 10_000, autoreset_mode="same_step")
        envs.reset(seed=k)
        envs.step(np.zeros(10_000, np.int64))
        if k % 2:
            envs.close()

    assert growth(call, 20, 100) < 10 * MB


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_engine_columns_take_at_most_80_bytes_a_row() -> None:
    """Both random streams (40 and 16 bytes), counters, return and flags."""
    for id in vecenv.registered_ids():
        columns = make_vec(id, 3)._memory.columns
        engine = {name: column.nbytes // 3 for name, column in columns.items() if name.startswith("engine.")}
        assert engine["engine.rng"] == 40 and engine["engine.policy"] == 16
        assert sum(engine.values()) <= 80


def test_a_snapshot_takes_what_its_columns_take() -> None:
    """And 256 bytes per column, which keep columns apart."""
    envs = e.make("rooms", 1000)
    envs.reset(seed=0)
    columns = e.columns(envs).values()
    nbytes = sum(column.nbytes for column in columns)
    assert nbytes <= envs.snapshot().arena.nbytes <= nbytes + 256 * len(columns)


@pytest.mark.slow
@pytest.mark.parametrize("id", ["CartPole-v1", "FrozenLake-v1"])
def test_a_million_rows_take_their_columns_and_buffers(id: str) -> None:
    """In a process of its own: growth by N x (columns + what goes in and out), within 10 %. Gymnasium's batched spaces
    are arrays over all rows too: they take as much as they have when they are first asked for, and nothing before."""
    code = f"""
import gc, os
import numpy as np
import vecenv

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def play(n):
    envs = vecenv.make_vec("{id}", n, copy=False)
    actions = np.ones(n, np.int64)
    envs.reset(seed=0)
    results = [envs.step(actions) for _ in range(3)][-1]
    return envs, actions, results

warm = play(10)
before = resident()
envs, actions, results = play(1_000_000)
grown = resident() - before
assert "observation_space" not in vars(envs) and "action_space" not in vars(envs)
buffers = actions.nbytes + sum(array.nbytes for array in results[:4])
columns = envs._arena.nbytes + envs._head.nbytes
expected = columns + buffers
print("MB grown", grown / 1e6, "columns", columns / 1e6, "buffers", buffers / 1e6)
assert abs(grown - expected) <= 0.1 * expected
before = resident()
spaces = sum(
    value.nbytes for space in (envs.observation_space, envs.action_space)
    for value in vars(space).values() if isinstance(value, np.ndarray)
)
grown = resident() - before
print("MB grown", grown / 1e6, "spaces", spaces / 1e6)
"""
    print(e.python(code, timeout=300, MALLOC_MMAP_THRESHOLD_="65536").stdout)  # what is freed is given back
