"""Fixtures shared by all tests."""

from __future__ import annotations

import numba
import pytest

JIT = not numba.config.DISABLE_JIT


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `jit_only` compare with compiled code and make no sense without."""
    if JIT:
        return
    skip = pytest.mark.skip(reason="compares compiled code")
    for item in items:
        if "jit_only" in item.fixturenames if hasattr(item, "fixturenames") else ():
            item.add_marker(skip)


@pytest.fixture
def jit_only() -> None:
    """Asks for compiled code."""


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An empty folder for machine code."""
    return str(tmp_path_factory.mktemp("cache"))
