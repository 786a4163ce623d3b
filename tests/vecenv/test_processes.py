"""Processes, threads, caches and cores: forked and spawned processes, batches in threads, places that cannot be
written, processes with one core, and ends of processes without noise."""

from __future__ import annotations

import ctypes
import hashlib
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import envs as e
import numpy as np
import pytest

import vecenv
import vecenv.kernels
from vecenv import make_vec
from vecenv.vec_env import VecEnv

#: Plays 20 steps of two environments and prints a digest of all that came back.
PLAY = """
import hashlib
import numpy as np
import vecenv

def play(names=("CartPole-v1", "FrozenLake-v1"), num_threads="auto"):
    digest = hashlib.sha256()
    for name, mode in zip(names, ("same_step", "next_step")):
        envs = vecenv.make_vec(name, 70, autoreset_mode=mode, max_episode_steps=7, num_threads=num_threads)
        digest.update(envs.reset(seed=5)[0].tobytes())
        policy = np.random.default_rng(0)
        for _ in range(20):
            for array in envs.step(policy.integers(2, size=70))[:4]:
                digest.update(array.tobytes())
        envs.close()
    return digest.hexdigest()
"""


#: The same of the environment that compiles fastest, where caches are empty.
PLAY_ONE = "play(['LineWorld-v0'])"


def played(call: str = "play()") -> str:
    """What a process that prints `call` prints, computed here."""
    namespace: dict[str, Any] = {}
    exec(PLAY, namespace)
    digest: str = eval(call, namespace)
    return digest


def digest_of(envs: VecEnv, num_steps: int = 20) -> str:
    digest = hashlib.sha256()
    for actions in e.actions(envs, num_steps):
        for array in envs.step(actions)[:4]:
            digest.update(array.tobytes())
    return digest.hexdigest()


# --- fork -------------------------------------------------------------------------------------------------------------


def test_c098_what_a_forked_child_does_stays_there() -> None:
    """Batch, view, snapshot and restore of before the fork, and batches made in the child, in several children at once;
    the parent plays on as if there had been none."""
    code = (
        PLAY
        + """
import multiprocessing, os, warnings

def child(envs, snap, queue):
    first = envs.step(np.zeros(8, np.int64))[0].tobytes().hex()
    envs.view(3).step(1)
    envs.restore(snap)
    again = envs.step(np.zeros(8, np.int64))[0].tobytes().hex()
    envs.reset(seed=os.getpid())
    envs.close()
    queue.put((first, again, play()))

envs = vecenv.make_vec("CartPole-v1", 8)
envs.reset(seed=0)
envs.step(np.zeros(8, np.int64))
snap = envs.snapshot()
context = multiprocessing.get_context("fork")
queue = context.Queue()
warnings.simplefilter("ignore")
children = [context.Process(target=child, args=(envs, snap, queue)) for _ in range(3)]
for process in children:
    process.start()
results = [queue.get(timeout=100) for _ in children]
for process in children:
    process.join(60)
    assert process.exitcode == 0
own = envs.step(np.zeros(8, np.int64))[0].tobytes().hex()
assert results == [(own, own, play())] * 3
"""
    )
    e.python(code, timeout=200)


def test_c098_a_child_that_is_the_first_to_compile(tmp_path: Path) -> None:
    """Nothing was compiled or loaded before the fork, and the cache is empty."""
    code = (
        PLAY
        + """
import os, sys
pid = os.fork()
if pid == 0:
    print(play(["LineWorld-v0"]), flush=True)
    os._exit(0)
_, status = os.waitpid(pid, 0)
assert status == 0
print(play(["LineWorld-v0"]))
"""
    )
    done = e.python(code, timeout=300, NUMBA_CACHE_DIR=str(tmp_path))
    assert done.stdout.split() == [played(PLAY_ONE)] * 2


# --- spawn ------------------------------------------------------------------------------------------------------------


def _play_on(envs: VecEnv) -> str:
    """Runs in a spawned process."""
    return digest_of(envs)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_batch_sent_to_a_new_process_plays_on_identically(method: str) -> None:
    """Streams, counters, pending resets, limits and params travel with the pickle."""
    batches = []
    for mode in e.MODES:
        ended = "absorb" if mode == "disabled" else "raise"
        envs = e.make("dice", 5, mode, max_episode_steps=[3, 9, -1, 9, 30], ended=ended)
        envs.reset(seed=2)
        digest_of(envs, 4)
        batches.append(envs)
    drifting = e.make("drift", 5, params={"gain": [1.0, 2.0, 3.0, 4.0, 5.0]})
    drifting.reset(seed=1)
    batches.append(drifting)
    with multiprocessing.get_context(method).Pool(1) as pool:
        there = pool.map(_play_on, batches)
    assert there == [digest_of(envs) for envs in batches]


# --- threads ----------------------------------------------------------------------------------------------------------


def run_threads(targets: list[Any]) -> None:
    """Start together, join; what one raises is raised here."""
    barrier = threading.Barrier(len(targets))
    errors: list[BaseException] = []

    def run(target: Any) -> None:
        try:
            barrier.wait()
            target()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_c088_batches_in_threads_give_what_they_give_one_after_the_other() -> None:
    """Four threads, batches of several environments and sizes, 1000 calls each, views and snapshots in between."""
    found: dict[int, str] = {}

    def play(k: int) -> str:
        name, mode = ("dice", "counter", "rooms", "lake")[k], e.MODES[k % 2]
        envs = e.make(name, (1, 7, 64, 700)[k], mode, max_episode_steps=20)
        envs.reset(seed=k)
        digest = hashlib.sha256()
        steps = e.actions(envs, 50)
        for t in range(1000):
            obs, rewards, *_ = envs.step(steps[t % 50])
            if t % 100 == 50:
                snap = envs.snapshot()
                envs.step(steps[0])
                envs.restore(snap)
            digest.update(rewards.tobytes())
            for array in e.flat(obs):
                digest.update(array.tobytes())
        return digest.hexdigest()

    def keep(k: int) -> None:
        found[k] = play(k)

    run_threads([lambda k=k: keep(k) for k in range(4)])
    assert found == {k: play(k) for k in range(4)}


def test_threads_that_make_the_same_environment_at_once() -> None:
    """The first batch of a definition binds its kernels: several threads may be the first."""
    code = (
        PLAY
        + """
import threading
found = []
threads = [threading.Thread(target=lambda: found.append(play())) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 3 and len(set(found)) == 1, found
print(found[0])
"""
    )
    assert e.python(code, timeout=300).stdout.split() == [played()]


def test_one_batch_in_two_threads_is_a_refusal_or_a_whole_step(jit_only: None) -> None:
    """Whole steps, partial steps and views on the same rows: each runs alone or raises a RuntimeError before anything
    has moved, so that at the end every row has as many steps as calls that returned said."""
    n = 50_000
    envs = e.make("drift", n, "disabled", max_episode_steps=-1)
    envs.reset(seed=0)
    calls = np.zeros((3, n), np.int64)
    refusals: list[str] = []
    half = np.arange(0, n, 2)
    actions = np.zeros((n, 1), np.float32)

    def whole() -> None:
        envs.step(actions)
        calls[0] += 1

    def part() -> None:
        envs.step(actions[half], rows=half)
        calls[1][half] += 1

    view = envs.view(n - 1)

    def single() -> None:
        view.step(np.zeros(1, np.float32))
        calls[2][n - 1] += 1

    def repeat(call: Any) -> None:
        for _ in range(150):
            try:
                call()
            except RuntimeError as error:
                refusals.append(str(error))

    run_threads([lambda: repeat(whole), lambda: repeat(part), lambda: repeat(single)])
    np.testing.assert_array_equal(envs.state.elapsed, calls.sum(axis=0))
    assert all("is being stepped by another thread; give each thread its own batch" in text for text in refusals)
    assert len(refusals) + calls.max(axis=1).sum() == 450
    envs.step(actions)  # nothing is left locked


# --- cores ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("taskset") is None, reason="taskset is not installed")
def test_c094_taskset_to_one_core() -> None:
    core = min(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(core), sys.executable, "-c", PLAY + "print(play())"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [played()]


@pytest.mark.parametrize("threads", ["'auto'", "1"])
def test_c094_numba_num_threads(threads: str) -> None:
    done = e.python(PLAY + f"print(play(num_threads={threads}))", NUMBA_NUM_THREADS="1", timeout=200)
    assert done.stdout.split() == [played()]


def test_c094_absurd_numbers_of_threads() -> None:
    for wrong in (10**6, 0, -1):
        with pytest.raises(ValueError, match="num_threads: expected 'auto' or 1"):
            make_vec("CartPole-v1", 2, num_threads=wrong)


# --- caches -----------------------------------------------------------------------------------------------------------


def warnings_in(text: str) -> int:
    return sum("arning" in line for line in text.splitlines())


@pytest.mark.parametrize("home", ["/dev/null/home", None])
def test_c084_no_home_and_no_cache_setting(tmp_path: Path, home: str | None) -> None:
    """HOME names nothing, or is not set: another folder serves, and results are those of a cached run."""
    nowhere = {"NUMBA_CACHE_DIR": None, "XDG_CACHE_HOME": None, "HOME": home}
    done = e.python(PLAY + f"print({PLAY_ONE})", timeout=300, TMPDIR=str(tmp_path), **nowhere)
    assert done.stdout.split() == [played(PLAY_ONE)]
    assert warnings_in(done.stderr) <= 1


def _heed_permissions() -> None:
    """Root may write everywhere, unless it gives that up (CAP_DAC_OVERRIDE) before a program starts."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux to keep root from writing")
def test_c084_a_read_only_installation(tmp_path: Path) -> None:
    """The package's own folders cannot be written, there is no home and no setting: results are those of a cached run,
    and nothing was put beside the package's files."""
    installed, temporary = tmp_path / "installed", tmp_path / "temporary"
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(vecenv.__path__[0], installed / "vecenv", ignore=skip)
    shutil.copytree(vecenv.kernels.__path__[0], installed / "vecenv" / "kernels", ignore=skip, dirs_exist_ok=True)
    temporary.mkdir()
    everything = [installed, *installed.rglob("*")]
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    environment = {**os.environ, "PYTHONPATH": str(installed), "HOME": "/dev/null/home", "TMPDIR": str(temporary)}
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    code = f"import vecenv\nassert vecenv.__path__ == [{str(installed / 'vecenv')!r}]\n{PLAY}print({PLAY_ONE})"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False, env=environment,
            cwd=temporary, preexec_fn=_heed_permissions,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [played(PLAY_ONE)]
        assert warnings_in(done.stderr) <= 1
        assert [installed, *installed.rglob("*")] == everything
    finally:
        for path in everything:
            path.chmod(0o755)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux to keep root from writing")
def test_c084_a_read_only_cache_that_holds_the_kernels_or_does_not(tmp_path: Path) -> None:
    """What is there is used, what is not is compiled, and not a file is touched."""
    cache = tmp_path / "cache"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.update({"HOME": "/dev/null/home", "XDG_CACHE_HOME": "/dev/null/cache"})
    e.python(PLAY + f"print({PLAY_ONE})", timeout=300, **environment)
    everything = [cache, *cache.rglob("*")]
    before = {path: path.stat().st_mtime_ns for path in everything}
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)

    def run(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False, env=environment,
            preexec_fn=_heed_permissions,
        )  # fmt: skip

    try:
        if run(f"open({str(cache / 'file')!r}, 'w')").returncode == 0:
            pytest.skip("nothing is read-only for this user")
        done = run(PLAY + f"print({PLAY_ONE})")
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [played(PLAY_ONE)]
        assert done.stderr == ""
        done = run("import vecenv; print(vecenv.make_vec('TinyGrid-v0', 2).reset(seed=0)[0].tolist())")
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == str([[1] + [0] * 8] * 2).replace("0", "0.0").replace("1", "1.0")
        assert "vecenv: compiling TinyGrid-v0" in done.stderr and warnings_in(done.stderr) == 1
        assert {path: path.stat().st_mtime_ns for path in before} == before
    finally:
        for path in everything:
            path.chmod(0o755)


def test_two_processes_that_fill_one_empty_cache(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PLAY + f"print({PLAY_ONE})"]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    for process in processes:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert out.split() == [played(PLAY_ONE)]


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [
        "del envs",
        "envs.close(); del envs",
        "view = envs.view(0); del envs; view.step(0); del view",
        "envs.close(); envs.close()",
        "columns = envs.state.x; del envs; import gc; gc.collect(); columns[:] = 1.0; columns.sum()",
        "envs.loop = envs; del envs",
        "import threading; threading.Thread(target=lambda: [envs.step(a) for _ in range(10**9)], daemon=True).start()",
        "import sys; sys.modules['kept'] = envs",
        "import copy; copies = [copy.deepcopy(envs) for _ in range(3)]; del envs",
    ],
)
def test_c113_batches_end_without_noise(end: str) -> None:
    """Deleted, closed, or alive when the process ends: nothing on stderr, exit status 0."""
    code = """
import numpy as np, warnings
import vecenv
warnings.simplefilter("error")
envs = vecenv.make_vec("CartPole-v1", 4)
envs.reset(seed=0)
a = np.zeros(4, np.int64)
envs.step(a)
"""
    done = e.python(code + end)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("vecenv: compiling")]
    assert lines == []


def test_c113_a_failed_construction_says_its_error_and_nothing_else() -> None:
    code = """
import gc
import vecenv
for arguments, kind in (
    ({"num_envs": 0}, ValueError), ({"num_envs": -1}, ValueError), ({"num_envs": 2.5}, TypeError),
    ({"what": "NoSuch-v0"}, Exception), ({"colour": 3}, TypeError), ({"max_episode_steps": 0}, ValueError),
    ({"params": {"gravity": "x"}}, TypeError), ({"num_threads": 0}, ValueError), ({"math": "fast"}, ValueError),
    ({"render_mode": "human"}, ValueError),
):
    try:
        vecenv.make_vec(**{"what": "CartPole-v1", "num_envs": 2, **arguments})
    except kind as error:
        assert "__del__" not in str(error)
        del error
    else:
        raise SystemExit(f"{arguments} was taken")
    gc.collect()
"""
    assert e.python(code).stderr == ""
