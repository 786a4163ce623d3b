"""Compiled kernels in a folder that cannot be written: what is there is used, and nothing is added."""

from __future__ import annotations

import os
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator


class _Locator(UserProvidedCacheLocator):
    def ensure_cache_path(self) -> None:
        """Numba writes a file here, to see whether it can."""
        os.stat(self.get_cache_path())


class _Implementation(CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class StoredCache(FunctionCache):
    """Numba's cache of one function in `numba.config.CACHE_DIR`, only for reading."""

    _impl_class = _Implementation

    def save_overload(self, sig: Any, data: Any) -> None:
        pass
