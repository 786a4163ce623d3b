"""The claim on the rows of one batch: one call at a time reads or moves them, whichever thread it comes from.

The claim is the head's word `busy`: 0, 1 while a kernel of a plain step runs (it claims and frees the rows itself), or
the number of the call that holds it. A second call finds it taken and raises before anything has moved. It does not
wait, because a call that waits for rows that somebody else is stepping would return what nobody expects.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, NoReturn, ParamSpec, Protocol, TypeVar

from vecenv.kernels import claim
from vecenv.kernels.wiring import UNRESET

if TYPE_CHECKING:
    from vecenv.memory import Memory
    from vecenv.vec_env import VecEnv

P = ParamSpec("P")
R = TypeVar("R")

_numbers = itertools.count(2)
_all: weakref.WeakSet[Claim] = weakref.WeakSet()


class Claim:
    """Claims of one batch, whose name errors carry."""

    def __init__(self, envs: VecEnv, memory: Memory) -> None:
        self._envs, self._memory = weakref.ref(envs), memory  # weak: a batch is freed as soon as nobody has it
        self._words, self._busy = memory.words, memory.wiring.word["busy"]
        self._exchange = claim.exchange()
        self._exchange(self._words, self._busy, 0, 0)  # compiled or loaded here: it must not run Python later
        #: The number of the last call that got the rows, and its thread.
        self._holder = 0, 0
        _all.add(self)

    def run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """`call(*args, **kwargs)` while no other call has the rows.

        Raises:
            RuntimeError: another call has them, of another thread or of this one. Nothing has moved.
        """
        words, busy, exchange, number = self._words, self._busy, self._exchange, next(_numbers)
        try:  # the claim is made and freed in one frame and by C, so that an interrupt at any place frees it
            if exchange(words, busy, 0, number) != 0:
                self.refuse()
            self._holder = number, threading.get_ident()
            return call(*args, **kwargs)
        finally:
            exchange(words, busy, number, 0)

    def refuse(self) -> NoReturn:
        """Say who has the rows."""
        if self._is_of_this_thread():
            raise RuntimeError(
                f"{self._envs()!r} is in the middle of another call of this thread: the environment's own functions "
                "and signal handlers cannot call their batch; `state` and print(view) can be read"
            )
        raise RuntimeError(f"{self._envs()!r} is being stepped by another thread; give each thread its own batch")

    def _is_of_this_thread(self) -> bool:
        return self._holder == (int(self._words[self._busy]), threading.get_ident())

    def after_fork(self) -> None:
        """In the child of a fork: a call of another thread does not go on here, and has left its rows half moved."""
        if self._words[self._busy] != 0 and not self._is_of_this_thread():
            self._words[self._busy] = 0
            self._memory.flags[:] = UNRESET


def _after_fork() -> None:
    claim.forget_lock()
    for each in list(_all):
        each.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _HasClaim(Protocol):
    _claim: Claim


S = TypeVar("S", bound=_HasClaim)


def claimed(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """A method that runs while no other call has the rows."""

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._claim.run(method, self, *args, **kwargs)

    return call
