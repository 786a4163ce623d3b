"""Import path and fixtures of all tests: tests in subfolders can `import oracle` and `import envs`."""

from __future__ import annotations

import sys
from pathlib import Path

import numba
import pytest

# Before this folder, whose subfolder `vecenv` would else be taken for the package.
sys.path.insert(0, str(Path(__file__).parent.parent))


@pytest.fixture
def jit_only() -> None:
    """Asks for compiled code."""
    if numba.config.DISABLE_JIT:
        pytest.skip("compares compiled code")


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An empty folder for machine code."""
    return str(tmp_path_factory.mktemp("cache"))
