"""Start-up in fresh processes, with an empty and with a warm cache, and that it never leaks into throughput."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure import start_up


def test_warm_cache(benchmark: Any, tmp_path: Path) -> None:
    start_up(tmp_path)
    benchmark.group = "import + make_vec + first step, whole process"
    benchmark.pedantic(start_up, args=(tmp_path,), rounds=5)


def test_empty_cache(benchmark: Any, tmp_path_factory: Any) -> None:
    benchmark.group = "import + make_vec + first step, whole process"
    benchmark.pedantic(start_up, setup=lambda: ((tmp_path_factory.mktemp("cache"),), {}), rounds=3)


def bench(cache: Path) -> dict[str, Any]:
    command = ["bench", "CartPole-v1", "--num-envs", "8192", "--seconds", "0.3", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "vecenv", *command],
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_compiling_is_not_measured(tmp_path: Path) -> None:
    """An empty and a warm cache give the same throughput; compiling shows in the warm-up only.

    20 % is the noise of runs in different processes; medians of three pairs keep a busy machine from deciding.
    """
    ratios = []
    for k in range(3):
        cache = tmp_path / str(k)
        empty, warm = bench(cache), bench(cache)
        assert empty["warm_up_seconds"] > 2 * warm["warm_up_seconds"]
        ratios.append(empty["cells"][0]["sps"] / warm["cells"][0]["sps"])
    assert 0.8 < statistics.median(ratios) < 1.25, ratios
