"""One batch and several threads: a call is whole or refused before anything has moved.

Oracles: a run in one thread, whose states are the only ones that snapshots may hold; and bytes of before.
"""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import envs as e
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded

import vecenv
from vecenv import F8, I8, Array, EnvDef, Options, Params, State, jit
from vecenv.claim import Claim
from vecenv.kernels import claim
from vecenv.kernels.soa import digest_params
from vecenv.kernels.wiring import UNRESET
from vecenv.vec_env import VecEnv

HERE = Path(__file__).parent
SOURCES = Path(vecenv.__file__).parent
PATH = os.pathsep.join(map(str, (HERE.parent.parent, HERE.parent, HERE)))

#: What `text` does, for tests that have to be in the middle of a call.
hook: list[Callable[[], object]] = []


class TickState(State):
    count: I8
    x: F8
    trail: Array[F8, 3]


class TickParams(Params):
    size: F8 = 1.0
    pace: F8 = 1.0


class TickOptions(Options):
    start: I8 = 0


@jit
def tick_reset(state, params, rng, options):
    state.count = options.start
    state.x = rng.random()


@jit
def tick_step(state, action, params, rng):
    state.count += 1
    for k in range(3):
        state.trail[k] = rng.random() * params.size * params.pace
    return state.x + action, False


@jit
def tick_observe(state, params, obs):
    obs[0] = state.x
    obs[1] = state.count


def tick_text(state, params):
    for call in hook:
        call()
    return str(int(state.count))


TICK = EnvDef(
    "Tick-v0", TickState, TickParams, tick_reset, tick_step, tick_observe,
    observation_space=spaces.Box(-np.inf, np.inf, (2,), np.float64), action_space=spaces.Discrete(2),
    options_type=TickOptions, text=tick_text,
)  # fmt: skip


def tick(num_envs: int, mode: str = "disabled", **kwargs: Any) -> VecEnv:
    envs = VecEnv(TICK, num_envs, autoreset_mode=mode, render_mode="ansi", **kwargs)
    envs.reset(seed=0)
    return envs


def everything(envs: VecEnv) -> Any:
    """All that a call may move; `busy` is a word of the head."""
    memory = envs._memory
    words = memory.head.tobytes()[8 * len(memory.wiring.word) :], np.delete(memory.words, busy(envs)).tolist()
    rest = memory.seeded, list(memory.row_seeds), memory.fork_base, memory.fork_calls, dict(memory.params)
    return memory.arena.tobytes(), words, rest, envs._last


def busy(envs: VecEnv) -> int:
    return envs._memory.wiring.word["busy"]


def is_free(envs: VecEnv) -> bool:
    return int(envs._memory.words[busy(envs)]) == 0


CALLS: dict[str, Callable[[VecEnv, Any], object]] = {
    "step": lambda envs, snap: envs.step(np.zeros(4, np.int64)),
    "step of rows": lambda envs, snap: envs.step(np.zeros(2, np.int64), rows=[2, 0]),
    "reset": lambda envs, snap: envs.reset(seed=7, options={"params": {"size": 2.0, "pace": 9.0}, "start": 3}),
    "reset of rows": lambda envs, snap: envs.reset(seed=7, options={"reset_mask": np.arange(4) > 1}),
    "snapshot": lambda envs, snap: envs.snapshot(),
    "snapshot of rows": lambda envs, snap: envs.snapshot([1, 2]),
    "restore": lambda envs, snap: envs.restore(snap, params="ignore"),
    "fork": lambda envs, snap: envs.fork(0, [1, 2], rng="fresh"),
    "pickle": lambda envs, snap: pickle.dumps(envs),
    "deepcopy": lambda envs, snap: copy.deepcopy(envs),
    "pickle of a view": lambda envs, snap: pickle.dumps(envs.view(1)),
    "like": lambda envs, snap: envs.like(2),
    "observe": lambda envs, snap: envs.observe(),
    "render": lambda envs, snap: envs.render(),
    "view.step": lambda envs, snap: envs.view(1).step(0),
    "view.step without jit": lambda envs, snap: envs.view(1).step(0, jit=False),
    "view.reset": lambda envs, snap: envs.view(1).reset(seed=3),
    "view.render": lambda envs, snap: envs.view(1).render(),
    "view.np_random": lambda envs, snap: envs.view(1).np_random,
    "view.np_random =": lambda envs, snap: setattr(envs.view(1), "np_random", np.random.default_rng(1)),
    "set_attr": lambda envs, snap: envs.set_attr("count", 5),
    "get_attr": lambda envs, snap: envs.get_attr("count"),
    "get_attr of a param": lambda envs, snap: envs.get_attr("pace"),
    "call": lambda envs, snap: envs.call("step", 0),
    "np_random": lambda envs, snap: envs.np_random,
    "np_random_seed": lambda envs, snap: envs.np_random_seed,
    "episode_ended": lambda envs, snap: envs.episode_ended,
    "episode_returns": lambda envs, snap: envs.episode_returns,
    "episode_lengths": lambda envs, snap: envs.episode_lengths,
    "ended_rows": lambda envs, snap: envs.ended_rows,
    "final_obs_rows": lambda envs, snap: envs.final_obs_rows,
}


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize("mode", e.MODES)
def test_every_call_is_refused_in_the_middle_of_another_threads_call(mode: str) -> None:
    envs = tick(4, mode, params={"pace": np.ones(4)})
    snap = envs.snapshot()
    envs.step(np.ones(4, np.int64))
    inside, leave = threading.Event(), threading.Event()
    hook[:] = [inside.set, lambda: leave.wait(60)]
    thread = threading.Thread(target=envs.render)
    thread.start()
    try:
        assert inside.wait(60)
        before = everything(envs)
        for name, call in CALLS.items():
            with pytest.raises(RuntimeError, match="is being stepped by another thread; give each thread its own"):
                call(envs, snap)
            assert everything(envs) == before, name
        assert envs.state.count.tolist() == [1] * 4  # columns are live
    finally:
        leave.set()
        thread.join(60)
        hook.clear()
    for name, call in CALLS.items():
        call(envs, snap)
        assert is_free(envs), name


@pytest.mark.nojit
def test_every_call_is_refused_in_the_middle_of_a_call_of_this_thread() -> None:
    envs = tick(4)
    snap = envs.snapshot()
    before = everything(envs)
    for call in CALLS.values():
        refusals: list[str] = []

        def inside(call: Any = call, refusals: list[str] = refusals) -> None:
            with pytest.raises(RuntimeError) as caught:
                call(envs, snap)
            refusals.append(str(caught.value))

        hook[:] = [inside]
        try:
            assert envs.render() == ("0",) * 4
        finally:
            hook.clear()
        assert len(refusals) == 4 and all("in the middle of another call of this thread" in text for text in refusals)
        assert everything(envs) == before and is_free(envs)


@pytest.mark.nojit
def test_a_debugger_in_a_step_without_jit_reads_the_row_and_takes_no_snapshot() -> None:
    envs = tick(2)
    view = envs.view(1)
    seen: list[Any] = []

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_name == "tick_step" and event == "return":
            sys.settrace(None)
            with pytest.raises(RuntimeError, match="in the middle of another call of this thread"):
                envs.snapshot()
            seen.append((int(view.state.count), "count=1" in str(view)))
        return trace

    tracer = sys.gettrace()
    sys.settrace(trace)
    try:
        view.step(0, jit=False)
    finally:
        sys.settrace(tracer)
    assert seen == [(1, True)]
    assert envs.snapshot().num_rows == 2


@pytest.mark.nojit
def test_closing_needs_no_claim() -> None:
    envs = tick(2)
    hook[:] = [envs.close]
    try:
        envs.render()
    finally:
        hook.clear()
    assert is_free(envs)
    with pytest.raises(ClosedEnvironmentError):
        envs.step(np.zeros(2, np.int64))


# --- whatever ends a call frees the rows ------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_an_exception_inside_a_call_frees_the_rows(error: type[BaseException]) -> None:
    envs = tick(2)

    def fail() -> None:
        raise error

    hook[:] = [fail]
    try:
        with pytest.raises(error):
            envs.render()

        def render() -> None:
            with pytest.raises(error):
                envs.render()

        thread = threading.Thread(target=render)
        thread.start()
        thread.join(60)
    finally:
        hook.clear()
    assert is_free(envs)
    envs.step(np.zeros(2, np.int64))


def test_interrupts_at_any_place_free_the_rows(jit_only: None) -> None:
    """A timer interrupts calls at every depth of their Python: the claim of none stays."""
    code = """
import signal, time
import gymnasium
import vecenv

class Stop(BaseException): pass

armed = False
def handler(signum, frame):
    if armed:
        raise Stop

envs = vecenv.make_vec("CartPole-v1", 300)
envs.reset(seed=0)
snap = envs.snapshot()
word = envs._memory.wiring.word["busy"]
calls = [lambda: envs.reset(seed=1), envs.snapshot, lambda: envs.restore(snap), envs.observe, lambda: envs.fork(0, [1]),
         lambda: envs.view(2).reset(), lambda: envs.episode_returns]
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 1e-4, 7e-5)
interrupts, end = 0, time.monotonic() + 2
while time.monotonic() < end:
    for call in calls:
        try:
            armed = True
            call()
            armed = False
        except Stop:
            armed = False
            interrupts += 1
        except gymnasium.error.ResetNeeded:  # a reset that was broken off
            armed = False
            assert len(envs._memory.started) < 300
        assert envs._memory.words[word] == 0
signal.setitimer(signal.ITIMER_REAL, 0)
assert interrupts > 0
"""
    e.python(code, timeout=60)


def interrupted_at(place: int, call: Callable[[], object]) -> bool:
    """Interrupt `call` at its line number `place` of vecenv's Python; whether it had as many. Not in `Claim.run`, where
    no signal is handled between the lines."""
    seen = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal seen
        if not Path(frame.f_code.co_filename).parent.samefile(SOURCES) or frame.f_code is Claim.run.__code__:
            return None if "contextlib" not in frame.f_code.co_filename else trace
        if event == "line":
            seen += 1
            if seen == place + 1:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    tracer = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracer)
    return False


@pytest.mark.parametrize("name", ["reset", "reset of rows", "restore", "fork", "view.reset", "observe"])
def test_an_interrupt_anywhere_in_a_call_loses_its_rows_at_most(name: str, jit_only: None) -> None:
    """After it every row is as before the call, as after it, or as if never reset; what is not of a row is as before or
    after. Auto-resets see the default options."""
    moved = {"reset of rows": [2, 3], "fork": [1, 2], "view.reset": [1], "observe": []}.get(name, [0, 1, 2, 3])

    def make() -> tuple[VecEnv, Any]:
        envs = tick(4, "next_step", params={"pace": np.ones(4)}, max_episode_steps=3)
        snap = envs.snapshot()
        envs.step(np.ones(4, np.int64))
        return envs, snap

    def rows_of(envs: VecEnv) -> list[bytes]:
        return [envs.snapshot([row]).arena.tobytes() for row in range(4)]

    envs, snap = make()
    before = rows_of(envs)
    CALLS[name](envs, snap)
    after = rows_of(envs)
    assert [row for row in range(4) if before[row] != after[row]] == moved
    lost, place = 0, 0
    while True:
        envs, snap = make()
        was = interrupted_at(place, lambda envs=envs, snap=snap: CALLS[name](envs, snap))  # type: ignore[misc]
        assert is_free(envs)
        unset = (envs._memory.flags & UNRESET) != 0
        if not was:
            break
        for row, now in enumerate(rows_of(envs)):
            assert now == before[row] or (row in moved and (unset[row] or now == after[row])), (place, row)
        size = envs.params["size"]
        assert size in ((1.0, 2.0) if name == "reset" else (1.0,))
        assert envs._memory.params_digest == digest_params(envs._memory.params)
        if unset.any():
            lost += 1
            with pytest.raises(ResetNeeded, match=r"row \d was never reset; call reset\(\) first"):
                envs.step(np.ones(4, np.int64))
            assert size == 1.0
            envs.reset(options={"reset_mask": unset})
        for _ in range(10):  # two auto-resets at least, of which the last counts from 0
            envs.step(np.ones(4, np.int64))
        assert (envs.state.count <= 3).all() and envs._memory.words[envs._memory.wiring.word["given_params"]] == 0
        place += 1
    assert place > 10 and (lost > 0) == bool(moved)


def test_an_interrupt_says_what_is_lost(jit_only: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    for mask, words in ((None, "all rows are"), (np.arange(4) > 1, "the 2 rows that it was to move are")):
        envs = tick(4)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) as caught:
            patch.setattr(envs._runner, "reset", interrupt)
            envs.reset(options={} if mask is None else {"reset_mask": mask})
        assert caught.value.__notes__ == [f"vecenv: the call broke off; {words} as if never reset: reset them"]
        assert envs._memory.rows_with(UNRESET).tolist() == ([0, 1, 2, 3] if mask is None else [2, 3])


def test_a_child_forked_in_the_middle_of_another_threads_call() -> None:
    """There the rows are free, and as if never reset; in the parent nothing has changed."""
    code = """
import os, threading, warnings
import numpy as np
import test_claim as t
from gymnasium.error import ResetNeeded

warnings.simplefilter("ignore")
envs, calm = t.tick(4), t.tick(4)
inside, leave = threading.Event(), threading.Event()
t.hook[:] = [inside.set, lambda: leave.wait(60)]
thread = threading.Thread(target=envs.render)
thread.start()
assert inside.wait(60)
pid = os.fork()
if pid == 0:
    t.hook.clear()
    calm.step(np.zeros(4, np.int64))
    assert calm.state.count.tolist() == [1] * 4
    for call in (lambda: envs.step(np.zeros(4, np.int64)), envs.observe, envs.view(1).render):
        try:
            call()
        except ResetNeeded:
            pass
        else:
            os._exit(1)
    envs.reset(seed=0)
    envs.step(np.zeros(4, np.int64))
    os._exit(0 if envs.state.count.tolist() == [1] * 4 else 2)
_, status = os.waitpid(pid, 0)
assert status == 0, status
assert not t.is_free(envs)
leave.set()
thread.join(60)
assert t.is_free(envs) and envs.snapshot().num_rows == 4
"""
    e.python(code, timeout=60, PYTHONPATH=PATH)


def test_a_child_forked_inside_a_call_of_its_own_thread_goes_on() -> None:
    code = """
import os
import test_claim as t

envs = t.tick(1)
children = []
t.hook[:] = [lambda: children.append(os.fork())]
text = envs.render()
assert text == ("0",) and t.is_free(envs)
envs.snapshot()
if children[0] == 0:
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7
"""
    e.python(code, timeout=60, PYTHONPATH=PATH)


# --- all calls at once ------------------------------------------------------------------------------------------------


def test_threads_that_make_every_call_on_one_batch(jit_only: None) -> None:
    """Every pair of calls meets, by chance: what is snapshotted or pickled in between is a state that a run in one
    thread passes through, whatever was refused."""
    n = 30_000
    envs = tick(n, "next_step")
    others, actions, rows = slice(0, n - 1), np.zeros(n, np.int64), np.arange(n)
    last = envs.view(n - 1)
    kept = [envs.snapshot()]
    found: dict[int, set[str]] = {}
    problems: list[str] = []

    def state_of(columns: dict[str, Any]) -> str:
        """All of the rows that no view moves, but for the number of resets."""
        digest = hashlib.sha256()
        for name, column in columns.items():
            if name not in ("engine.episode", "engine.policy"):
                digest.update(column[others].tobytes())
        return digest.hexdigest()

    def look(columns: dict[str, Any]) -> None:
        counts = columns["engine.elapsed"][others]
        if (counts != counts[0]).any() or len(set(columns["engine.episode"][others].tolist())) != 1:
            problems.append(f"torn: {np.unique(counts)}")
        found.setdefault(int(counts[0]), set()).add(state_of(columns))

    def snapshot() -> None:
        snap = envs.snapshot()
        look(snap.layout.carve(snap.arena, n))
        kept.append(snap)

    def pickled() -> None:
        state = envs.__reduce__()[1][-1]
        look(envs._memory.layout.carve(state["arena"], n))

    def observe() -> None:
        obs = envs.observe()[others]
        if (obs[:, 1] != obs[0, 1]).any():
            problems.append("torn observation")

    def step() -> None:
        obs = envs.step(actions)[0][others]
        if (obs[:, 1] != obs[0, 1]).any():
            problems.append("torn step")

    def lengths() -> None:
        values = envs.episode_lengths[others]
        if (values != values[0]).any():
            problems.append("torn lengths")

    calls = [
        step,
        lambda: envs.reset(seed=0),
        snapshot,
        lambda: envs.restore(kept[-1]),
        lambda: envs.fork(rows, rows),
        pickled,
        observe,
        lambda: last.step(0),
        lambda: last.reset(seed=n - 1),
        lengths,
    ]
    barrier = threading.Barrier(len(calls))

    def repeat(call: Any) -> None:
        barrier.wait()
        whole = 0
        for _ in range(3000):
            try:
                call()
                whole += 1
                if whole == 40:
                    break
            except RuntimeError as error:
                if "is being stepped by another thread" not in str(error):
                    problems.append(repr(error))
                time.sleep(1e-4)
            except BaseException as error:
                problems.append(repr(error))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=repeat, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
    finally:
        sys.setswitchinterval(interval)
    assert problems == []
    assert is_free(envs)
    snapshot()
    one = tick(n, "next_step")
    for elapsed in range(max(found) + 1):
        assert found.get(elapsed, set()) <= {state_of(one._memory.columns)}
        one.step(actions)


def test_one_view_in_two_threads_returns_what_its_own_action_gives(jit_only: None) -> None:
    """The reward is the action plus x, which no step changes."""
    view = tick(1).view(0)
    x = float(view.state.x)
    wrong: list[float] = []

    def play(action: int) -> None:
        for _ in range(20_000):
            try:
                reward = view.step(action)[1]
            except RuntimeError:
                continue
            if reward != x + action:
                wrong.append(reward)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=play, args=(action,)) for action in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []


@pytest.mark.nojit
@pytest.mark.parametrize("mode", e.MODES)
def test_what_ended_is_of_one_step_or_refused(mode: str) -> None:
    """Two threads' steps of which the first is noted last: as if it had paused between its kernel and its note."""
    envs = tick(4, mode, max_episode_steps=[1, 9, 9, 2])
    envs.step(np.zeros(4, np.int64))
    assert envs.ended_rows.tolist() == [0]
    late = envs._last
    if mode == "disabled":
        envs.reset(options={"reset_mask": np.array([True, False, False, False])})
    envs.step(np.zeros(3, np.int64), rows=[3, 2, 1])
    assert envs.ended_rows.tolist() == [3] and envs.final_obs_rows[:, 1].tolist() == [2.0]
    kept = pickle.loads(pickle.dumps(envs))
    assert kept.ended_rows.tolist() == [3] and kept.final_obs_rows[:, 1].tolist() == [2.0]
    envs._last = late
    for batch in (envs, copy.deepcopy(envs)):
        for read in (lambda batch=batch: batch.ended_rows, lambda batch=batch: batch.final_obs_rows):  # type: ignore[misc]
            with pytest.raises(RuntimeError, match="which rows its last step moved is not known: it was interrupted"):
                read()
    snap = envs.snapshot()
    with pytest.raises(ValueError, match="outside"):
        envs.step(np.full(2, 7), rows=[1, 2])  # moves nothing
    envs.step(np.zeros(2, np.int64), rows=[2, 1])
    assert envs.ended_rows.tolist() == [] and envs.final_obs_rows.shape == (0, 2)
    if mode != "same_step":
        envs._last = late
        envs.restore(snap)
        assert 3 in envs.ended_rows.tolist()


@pytest.mark.parametrize("view", [False, True], ids=["step", "view"])
def test_a_step_between_another_step_and_its_note(view: bool, jit_only: None) -> None:
    """As if another thread had stepped while the first was between its kernel and what it notes of it."""
    envs = tick(4, "same_step", max_episode_steps=[1, 9, 9, 1])
    kernel = envs._step_kernel

    def then_another(*args: Any) -> int:
        code: int = kernel(*args)
        envs._step_kernel = kernel
        if view:
            envs.view(1).step(0)
        else:
            envs.step(np.zeros(2, np.int64), rows=[3, 1])
        return code

    envs._step_kernel = then_another
    envs.step(np.zeros(4, np.int64))
    for read in (lambda: envs.ended_rows, lambda: envs.final_obs_rows):
        with pytest.raises(RuntimeError, match="which rows its last step moved is not known"):
            read()


# --- the exchange -----------------------------------------------------------------------------------------------------


@pytest.mark.nojit
def test_exchange_writes_only_over_what_is_expected() -> None:
    words = np.zeros(3, np.int64)
    exchange = claim.exchange()
    assert exchange(words, 1, 0, 7) == 0 and words.tolist() == [0, 7, 0]
    assert exchange(words, 1, 0, 8) == 7 and words.tolist() == [0, 7, 0]
    assert exchange(words, 1, 7, 0) == 7 and words.tolist() == [0, 0, 0]


@pytest.mark.nojit
def test_of_many_threads_one_gets_the_rows() -> None:
    """A count that is read, and written one switch of threads later, loses nothing under claims."""
    envs = tick(1)
    claims: Claim = envs._claim
    total = 0

    def add() -> None:
        nonlocal total
        before = total
        threading.Event().wait(0)
        total = before + 1

    done = []

    def play() -> None:
        for _ in range(300):
            try:
                claims.run(add)
            except RuntimeError:
                continue
            done.append(1)

    threads = [threading.Thread(target=play) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert total == len(done) > 0
