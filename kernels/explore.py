"""Compiled search for all states of a finite environment and all its transitions.

Templates like those of `batch.py`, bound to one definition: the author's functions take the place of `author_*`. They
work on one row, which they put into one state after the other.
"""

from __future__ import annotations

from typing import Any

from vecenv.kernels.access_compiled import CompiledAccessors
from vecenv.kernels.access_python import PythonAccessors
from vecenv.kernels.batch import _ieee
from vecenv.kernels.jit import DISABLED as JIT_DISABLED
from vecenv.kernels.jit import Binder, compile_cached, jit
from vecenv.kernels.math import isfinite
from vecenv.kernels.wiring import Wiring

UNSEEN, ENDED, LIVE = 0, 1, 2  # marks of a raw key; ENDED: only transitions that terminate lead there
BAD_KEY, BAD_PROBABILITY, BAD_SUM, BAD_REWARD = 1, 2, 3, 4  # what `reach` returns, negative
TOLERANCE = 1e-9  # of the sum of probabilities: 100,000 roundings

_bound: Any = None
author_encode = author_decode = author_events = author_apply = author_outcomes = author_step = author_start = _bound
author_reset = count_outcomes = outcome = put_start = _bound
borrow = state_columns = row_at = params_of = params_at = options_of = zero_state = head_word = unpack = _bound


# --- kernels ----------------------------------------------------------------------------------------------------------


@jit
def reach(head, arena, num_outcomes, num_actions, first_action, marks, queue, start_keys, start_chances, fault):
    """Mark every raw key that is reached from the starts. Returns the number of outcomes that are possible.

    Args:
        marks: uint8 `[num_states]`, zeros.
        queue: int64 `[num_states]`.
        start_keys, start_chances: int64 and float64 `[num_starts]`, to be filled.
        fault: float64 `[4]`: key, action, outcome and value of what is wrong, where the result is negative.
    """
    head, arena = borrow(head), borrow(arena)
    options = options_of(head)
    state = row_at(state_columns(head, arena), 0)
    params = params_at(params_of(head, arena), 0)
    num_found, num_done, num_rows = 0, 0, 0
    fault[0] = -1.0
    total = 0.0
    for k in range(len(start_keys)):
        zero_state(state)
        chance = put_start(state, k, params, options)
        key = author_encode(state, params)
        total += chance
        fault[2] = k
        if not 0.0 <= chance <= 1.0:
            fault[3] = chance
            return -BAD_PROBABILITY
        if key < 0 or key >= len(marks):
            fault[3] = key
            return -BAD_KEY
        start_keys[k], start_chances[k] = key, chance
        if chance > 0.0 and marks[key] != LIVE:
            marks[key] = LIVE
            queue[num_found] = key
            num_found += 1
    if abs(total - 1.0) > TOLERANCE:
        fault[3] = total
        return -BAD_SUM
    while num_done < num_found:
        key = queue[num_done]
        num_done += 1
        fault[0] = key
        for action in range(first_action, first_action + num_actions):
            fault[1] = action
            zero_state(state)
            author_decode(state, key, params)
            total = 0.0
            for k in range(count_outcomes(state, action, params, num_outcomes)):
                fault[2] = k
                zero_state(state)
                author_decode(state, key, params)
                chance, reward, terminated = outcome(state, action, k, params)
                total += chance
                if not 0.0 <= chance <= 1.0 + TOLERANCE:
                    fault[3] = chance
                    return -BAD_PROBABILITY
                if chance > 0.0:
                    if not isfinite(reward):
                        fault[3] = reward
                        return -BAD_REWARD
                    to = author_encode(state, params)
                    if to < 0 or to >= len(marks):
                        fault[3] = to
                        return -BAD_KEY
                    num_rows += 1
                    if terminated:
                        marks[to] = max(marks[to], ENDED)
                    elif marks[to] != LIVE:
                        marks[to] = LIVE
                        queue[num_found] = to
                        num_found += 1
            if abs(total - 1.0) > TOLERANCE:
                fault[3] = total
                return -BAD_SUM
    return num_rows


@jit
def fill(
    head, arena, num_outcomes, num_actions, first_action, keys, marks, number, last,
    offsets, next_states, probabilities, rewards, terminals,
):  # fmt: skip
    """Write the transitions of every (state, action), equal ones merged. Returns their number.

    Args:
        keys: int64 `[S]`: the raw key of each state.
        marks, number: `[num_states]`: mark and state of each raw key.
        last: int64 `[S]`, filled with -1: the row that last led to each state.
        offsets: int64 `[S * num_actions + 1]`: the rows of pair k are offsets[k] to offsets[k + 1].
        next_states, probabilities, rewards, terminals: as many as `reach` and the absorbing states need.
    """
    head, arena = borrow(head), borrow(arena)
    state = row_at(state_columns(head, arena), 0)
    params = params_at(params_of(head, arena), 0)
    num_rows, pair = 0, 0
    for s in range(len(keys)):
        for action in range(first_action, first_action + num_actions):
            begin = num_rows
            count = 0
            if marks[keys[s]] == LIVE:
                zero_state(state)
                author_decode(state, keys[s], params)
                count = count_outcomes(state, action, params, num_outcomes)
            else:
                next_states[num_rows], probabilities[num_rows] = s, 1.0
                rewards[num_rows], terminals[num_rows] = 0.0, True
                num_rows += 1
            for k in range(count):
                zero_state(state)
                author_decode(state, keys[s], params)
                chance, reward, terminated = outcome(state, action, k, params)
                if chance > 0.0:
                    to = number[author_encode(state, params)]
                    at = num_rows
                    if last[to] >= begin:
                        at = begin
                        while at < num_rows and not (
                            next_states[at] == to and rewards[at] == reward and terminals[at] == terminated
                        ):
                            at += 1
                    if at == num_rows:
                        next_states[at], probabilities[at] = to, 0.0
                        rewards[at], terminals[at] = reward, terminated
                        last[to] = at
                        num_rows += 1
                    probabilities[at] += chance
            pair += 1
            offsets[pair] = num_rows
    return num_rows


@jit
def encode_rows(head, arena, keys):
    """The raw key of every row, int64 `[N]`."""
    head, arena = borrow(head), borrow(arena)
    state, params = state_columns(head, arena), params_of(head, arena)
    for i in range(len(keys)):
        keys[i] = author_encode(row_at(state, i), params_at(params, i))


@jit
def decode_rows(head, arena, keys):
    """Put every row into the state of its raw key, int64 `[N]`."""
    head, arena = borrow(head), borrow(arena)
    state, params = state_columns(head, arena), params_of(head, arena)
    for i in range(len(keys)):
        zero_state(row_at(state, i))
        author_decode(row_at(state, i), keys[i], params_at(params, i))


# --- variants, chosen when bound --------------------------------------------------------------------------------------


@jit
def _count_events(state, action, params, given):
    return len(author_events(state, action, params))


@jit
def _count_given(state, action, params, given):
    return given


@jit
def _event(state, action, k, params):
    chance = author_events(state, action, params)[k]  # before `apply` changes the state
    reward, terminated, _ = unpack(author_apply(state, action, k, params))
    return float(chance), reward, terminated


@jit
def _outcome(state, action, k, params):
    chance, reward, terminated = author_outcomes(state, action, k, params)
    return float(chance), float(reward), bool(terminated)


@jit
def _certain(state, action, k, params):
    reward, terminated, _ = unpack(author_step(state, action, params, 0))  # draws nothing, so any rng will do
    return 1.0, reward, terminated


@jit
def _start(state, k, params, options):
    return float(author_start(state, k, params))


@jit
def _certain_start(state, k, params, options):
    author_reset(state, params, 0)
    return 1.0


@jit
def _certain_start_with_options(state, k, params, options):
    author_reset(state, params, 0, options)
    return 1.0


# --- binding ----------------------------------------------------------------------------------------------------------


class ModelKernels:
    """The kernels above for one definition that has a model, one kind of math and one set of params per row."""

    def __init__(self, wiring: Wiring, math: str) -> None:
        self._wiring, self._math = wiring, math
        self.reach, self.fill = self._bind(reach), self._bind(fill)
        self.encode_rows, self.decode_rows = self._bind(encode_rows), self._bind(decode_rows)

    @classmethod
    def of(cls, wiring: Wiring, math: str) -> ModelKernels:
        """Bound once per process."""
        key = "model", math, repr(wiring.description())
        kernels: dict[Any, Any] = wiring.definition.kernels
        if key not in kernels:
            kernels[key] = cls(wiring, math)
        bound: ModelKernels = kernels[key]
        return bound

    def _bind(self, template: Any) -> Any:
        wiring, definition = self._wiring, self._wiring.definition
        model = definition.model
        assert model is not None
        if model.events is not None:
            counter, enumerator = _count_events, _event
        else:
            counter, enumerator = _count_given, _certain if model.outcomes is None else _outcome
        starter = _certain_start_with_options if definition.options_type.fields else _certain_start
        accessors = (PythonAccessors(wiring) if JIT_DISABLED else CompiledAccessors(wiring)).table()
        binder = Binder(
            self._math,
            compiled=not JIT_DISABLED,
            replace=definition.functions,
            frozen=definition.frozen,
            bound={
                **accessors,
                "author_encode": model.encode,
                "author_decode": model.decode,
                "author_events": model.events,
                "author_apply": model.apply,
                "author_outcomes": model.outcomes,
                "author_step": definition.step,
                "author_reset": definition.reset,
                "author_start": model.start,
                "count_outcomes": counter,
                "outcome": enumerator,
                "put_start": starter if model.start is None else _start,
            },
            modules=(globals(),),
            salt=[wiring.description()],
        )
        python = binder.clone_python(template)
        if JIT_DISABLED:
            return _ieee(python)
        label = (definition.observe.__module__ or "env").rpartition(".")[2]
        return compile_cached(python, binder.digest(), label)[0]
