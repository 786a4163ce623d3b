"""What the benchmarks share: timed blocks of steps, recorded actions, start-up in fresh processes, the machine.

Rules: compile before timing; random actions, because constant ones end CartPole's episodes twice as often; at most 16
arrays of them, which stay in the cache; state goes on from block to block, so that resets happen; what is compared runs
in turns.
"""

from __future__ import annotations

import itertools
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numba
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv

import vecenv
from vecenv.cli import ActionPool

Env = gymnasium.Env[Any, Any]


class BatchCase:
    """Steps of a vector environment with random actions; works for any `VectorEnv`.

    Attributes:
        rows: N.
        reset_share: share of the calls that NEXT_STEP spends on resets. Counted in a run of its own after 100 steps
            that spread the rows over the lengths of their episodes, because counting takes time.
    """

    def __init__(self, key: str, label: str, envs: VectorEnv[Any, Any, Any], **step: Any) -> None:
        self.key, self.label, self.rows = key, label, envs.num_envs
        self._envs, self._keywords = envs, step
        pool = ActionPool(envs.single_action_space, envs.num_envs)
        self._actions = itertools.cycle(pool.windows(4096))
        envs.reset(seed=0)
        next_step = envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        counted = max(100, 20_000 // self.rows)
        for actions in pool.windows(100):
            envs.step(actions)
        ended = 0
        for actions in pool.windows(counted):
            _, _, terminated, truncated, _ = envs.step(actions)
            ended += int(np.count_nonzero(terminated | truncated))
        self.reset_share = ended / (counted * self.rows) if next_step else 0.0
        self.steps = self.runs = 1

    def block(self) -> float:
        """Seconds per step: the median of `runs` runs of `steps` steps."""
        return statistics.median(self.run() for _ in range(self.runs))

    def run(self) -> float:
        """Seconds per step over `steps` steps."""
        actions = itertools.islice(self._actions, self.steps)
        step, keywords = self._envs.step, self._keywords
        start = time.perf_counter()
        if keywords:
            for action in actions:
                step(action, **keywords)
        else:
            for action in actions:
                step(action)
        return (time.perf_counter() - start) / self.steps


class EpisodeCase:
    """Steps of one environment through one recorded episode that does not end; resets are outside the timing."""

    rows, reset_share = 1, 0.0

    def __init__(self, key: str, label: str, env: Any, batched: bool = False) -> None:
        self.key, self.label = key, label
        self._env = env
        actions = balancing_actions()
        self._actions: list[Any] = [np.array([action]) for action in actions] if batched else actions
        self.steps, self.runs = len(actions), 1

    def block(self) -> float:
        """Seconds per step: the median of `runs` episodes."""
        return statistics.median(self.run() for _ in range(self.runs))

    def run(self) -> float:
        """Seconds per step over one episode."""
        step, actions = self._env.step, self._actions
        self._env.reset(seed=0)
        start = time.perf_counter()
        for action in actions:
            step(action)
        return (time.perf_counter() - start) / len(actions)


Case = BatchCase | EpisodeCase


RUN = 0.002  # seconds, shorter than a slice of the scheduler: most runs are not interrupted, even on a busy machine


def calibrate(case: Case, seconds: float) -> None:
    """Set how many steps make a run of about 2 ms, and how many runs a block of about `seconds`."""
    if isinstance(case, BatchCase):
        case.run()
        case.steps = max(1, round(RUN / min(case.run() for _ in range(5))))
    each = statistics.median(case.run() for _ in range(5)) * case.steps
    case.runs = max(5, round(seconds / each))


def balancing_actions(count: int = 400) -> list[int]:
    """Actions that keep CartPole, seeded 0, upright for `count` steps."""
    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=0)
    actions = []
    for _ in range(count):
        x, x_dot, theta, theta_dot = (float(value) for value in obs)
        actions.append(int(0.1 * x + 0.2 * x_dot + 3 * theta + theta_dot > 0))
        obs, _, terminated, truncated, _ = env.step(actions[-1])
        if terminated or truncated:
            raise RuntimeError(f"the recorded episode ended after {len(actions)} steps")
    env.close()
    return actions


# --- start-up ---------------------------------------------------------------------------------------------------------

_START = """
import time
start = time.perf_counter()
import vecenv
imported = time.perf_counter()
import numpy as np
envs = vecenv.make_vec({env_id!r}, {num_envs})
envs.reset(seed=0)
envs.step(envs.action_space.sample())
print(imported - start, time.perf_counter() - start)
"""


def start_up(cache: Path, env_id: str = "CartPole-v1", num_envs: int = 1024) -> dict[str, float]:
    """Seconds of the import alone, of import + make_vec + reset + first step, and of the whole process, in a fresh
    process that keeps compiled kernels in `cache`."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _START.format(env_id=env_id, num_envs=num_envs)],
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    process = time.perf_counter() - start
    if done.returncode != 0:
        raise RuntimeError(f"start-up failed:\n{done.stderr}")
    imported, first_step = map(float, done.stdout.split())
    return {"import": imported, "first_step": first_step, "process": process}


# --- machine ----------------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """CPU, cores, load, versions: what a figure depends on."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "load_average": [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "versions": {module.__name__: module.__version__ for module in (vecenv, numba, np, gymnasium)},
        "commit": _commit(),
    }


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _commit() -> str | None:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parent,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


# --- pytest-benchmark -------------------------------------------------------------------------------------------------


def record_rate(benchmark: Any, rows: int, **facts: Any) -> None:
    """Put calls x N per second and ns per row beside a result."""
    benchmark.extra_info.update(facts, num_envs=rows)
    if benchmark.stats is not None:  # None under --benchmark-disable
        median = benchmark.stats.stats.median
        benchmark.extra_info.update(rows_per_second=rows / median, ns_per_row=median / rows * 1e9)


def stepper(envs: VectorEnv[Any, Any, Any], **keywords: Any) -> Callable[[], Any]:
    """A function that makes one step with the next of 4,096 prepared actions."""
    pool = ActionPool(envs.single_action_space, envs.num_envs)
    actions = itertools.cycle(pool.windows(4096))
    envs.reset(seed=0)
    for action in itertools.islice(actions, 100):
        envs.step(action, **keywords)
    return lambda: envs.step(next(actions), **keywords)


def empty_outputs(envs: vecenv.VecEnv) -> vecenv.StepOut:
    """Arrays for `step(out=...)`."""
    space = envs.observation_space
    obs: npt.NDArray[Any] = np.empty(space.shape or (), space.dtype)
    flags = (np.empty(envs.num_envs, np.bool_) for _ in range(2))
    return vecenv.StepOut(obs, np.empty(envs.num_envs), *flags)
