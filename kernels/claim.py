"""One atomic compare-and-exchange on a word: how a call claims the rows of a batch (`vecenv/claim.py`)."""

from __future__ import annotations

import functools
import threading
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from vecenv.kernels.jit import DISABLED, compile_cached, engine_digest


@intrinsic
def _compare_exchange(typingctx: Any, words: Any, k: Any, expected: Any, new: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, args[0])
        word = cgutils.gep_inbounds(builder, array.data, args[1])
        pair = builder.cmpxchg(word, args[2], args[3], "acq_rel", "acquire")
        return builder.extract_value(pair, 0)

    return types.int64(words, types.int64, types.int64, types.int64), codegen


def _exchange(words, k, expected, new):
    return _compare_exchange(words, k, expected, new)


_lock = threading.Lock()


def _exchange_in_python(words, k, expected, new):
    with _lock:
        found = int(words[k])
        if found == expected:
            words[k] = new
        return found


@functools.cache
def exchange() -> Any:
    """`f(words, k, expected, new)`: put `new` into `words[k]` (int64) if it is `expected`; returns what was there.

    One indivisible act, also where Python handles signals: the compiled form runs no Python.
    """
    if DISABLED:
        return _exchange_in_python
    return compile_cached(_exchange, engine_digest()[:24], "claim")[0]  # type: ignore[arg-type]


def forget_lock() -> None:
    """In a forked child: whoever held the lock of the plain form is not there."""
    global _lock
    _lock = threading.Lock()
