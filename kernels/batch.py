"""The batched kernels: the only loops over rows.

These are templates. `BatchKernels` binds them to one definition: the author's functions take the place of `author_*`,
the accessors of `access_compiled.py` or `access_python.py` that of `state_columns`, `action_at` and the like. The same
templates run compiled and as plain Python.

A step works in tiles of rows, each in phases: advance every row; reset the rows that ended; observe every row. This
lets each loop vectorize: an observation store inside the advance loop costs 8 ns per row instead of 1.2.
"""

from __future__ import annotations

import sys
import weakref
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces

from vecenv.kernels import frame_stack, transform, views
from vecenv.kernels.access_compiled import CompiledAccessors
from vecenv.kernels.access_python import PythonAccessors
from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.jit import DISABLED as JIT_DISABLED
from vecenv.kernels.jit import Binder, compile_cached, has_loops_or_lookups, jit, reads_argument
from vecenv.kernels.math import isfinite
from vecenv.kernels.transform import chain
from vecenv.kernels.wiring import (
    ENDED,
    EPISODE_ENDED,
    RESETTING,
    TERMINATED,
    TRUNCATED,
    UNRESET,
    Wiring,
    bound_functions,
    row_functions,
)

TILE = 512  # rows; 256 to 4096 are equal within 2 %, 128 loses 1-2 %
NEXT_STEP, SAME_STEP, DISABLED = 0, 1, 2
CLAIMED = 4  # added to the mode by a caller that has claimed the rows; else a step claims them itself
NUMBER = 8  # times the number of the step, added to the mode
# What a kernel returns: the number of rows that ended and were reset in this step, or, negative, a code in the low byte
# and a position in `rows` above it.
CLOSED, NOT_RESET, ROW_ENDED, BAD_ACTION, BUSY = 1, 2, 3, 4, 5
LONGEST = 2**31 - 1  # elapsed is an int32 and saturates

# What `BatchKernels` binds: the author's functions, the variants below, and the accessors.
_bound: Any = None
author_reset = author_step = author_observe = author_info = author_mask = call_reset = choose_action = _bound
first_bad_action = may_advance = write_info = write_final_info = row_index = ended_bits = state_columns = _bound
engine_columns = borrow = enter = leave = row_at = rng_at = rng_done = zero_state = flag_bits = lowest_bit = _bound
head_word = note_step = _bound
params_of = params_at = draw_params = options_of = action_at = flat_action_at = action_bounds = _bound
observation_at = final_observation_at = zero_final = info_at = final_info_at = mask_at = final_mask_at = _bound
load_row = store_reward = store_terminated = store_truncated = unpack = _bound
rewards_at = terminated_at = truncated_at = advance = observe_row = observe_final = keep_final = clear_counts = _bound
num_agents = write_own_info = write_own_mask = write_own_final_info = write_own_final_mask = _bound
transform_columns = transform_rows = zero_transforms = record_steps = before_step = after_step = after_reset = _bound
observation_of = _bound


# --- kernels ----------------------------------------------------------------------------------------------------------


@jit
def step(head, arena, rows, count, mode, actions, obs, rewards, terminated, truncated, final_obs, info, final_info):
    """Step `count` rows. Returns how many rows SAME_STEP reset, or a negative code before any row moved.

    `mode` is one of the three, + CLAIMED or not, + NUMBER times the number of this step.
    """
    head, arena, rows, actions, obs = borrow(head), borrow(arena), borrow(rows), borrow(actions), borrow(obs)
    rewards, terminated, truncated = borrow(rewards), borrow(terminated), borrow(truncated)
    final_obs, info, final_info = borrow(final_obs), borrow(info), borrow(final_info)
    number = mode // NUMBER
    claims = mode % NUMBER < CLAIMED
    if claims and not enter(head):
        return -BUSY
    mode = mode % CLAIMED
    code = _step(
        head, arena, rows, count, mode, actions, obs, rewards, terminated, truncated, final_obs, info, final_info
    )
    if code >= 0:
        note_step(head, number)
    if claims:
        leave(head)
    return code


@jit
def reset(head, arena, rows, count, obs, info):
    """Start a new episode in `count` rows that the caller has claimed."""
    head, arena, rows, obs, info = borrow(head), borrow(arena), borrow(rows), borrow(obs), borrow(info)
    state = state_columns(head, arena)
    engine = engine_columns(head, arena)
    params = params_of(head, arena)
    own = transform_columns(head, arena)
    options = options_of(head)
    for j in range(count):
        i = row_index(rows, j)
        _reset_row(head, row_at(state, i), row_at(engine, i), params_at(params, i), transform_rows(own, i), options)
    _observe_range(head, state, params, own, rows, 0, count, obs, info)
    return 0


@jit
def begin(head, arena, rows, count, obs, info):
    """`observe`, after transforms have begun an episode anew in `count` rows: its first state was written."""
    head, arena, rows, obs, info = borrow(head), borrow(arena), borrow(rows), borrow(obs), borrow(info)
    state = state_columns(head, arena)
    params = params_of(head, arena)
    own = transform_columns(head, arena)
    for j in range(count):
        i = row_index(rows, j)
        _begin_row(row_at(state, i), params_at(params, i), transform_rows(own, i))
    _observe_range(head, state, params, own, rows, 0, count, obs, info)
    return 0


@jit
def observe(head, arena, rows, count, obs, info):
    """Observations and infos of `count` rows as they are, which the caller has claimed."""
    head, arena, rows, obs, info = borrow(head), borrow(arena), borrow(rows), borrow(obs), borrow(info)
    own = transform_columns(head, arena)
    _observe_range(head, state_columns(head, arena), params_of(head, arena), own, rows, 0, count, obs, info)
    return 0


# --- parts ------------------------------------------------------------------------------------------------------------


@jit
def _step(head, arena, rows, count, mode, actions, obs, rewards, terminated, truncated, final_obs, info, final_info):
    state = state_columns(head, arena)
    engine = engine_columns(head, arena)
    code = _check(head, engine, rows, count, mode, actions)
    if code != 0:
        return -code
    params = params_of(head, arena)
    own = transform_columns(head, arena)
    options = options_of(head)
    start = head_word(head, "action_start")
    num_reset = 0
    for low in range(0, count, TILE):
        high = min(low + TILE, count)
        for j in range(low, high):
            i = row_index(rows, j)
            advance(
                head,
                row_at(state, i),
                row_at(engine, i),
                params_at(params, i),
                transform_rows(own, i),
                actions,
                start,
                j,
                rewards,
                terminated,
                truncated,
            )
        record_steps(state, engine, params, own, rows, low, high)
        if mode == NEXT_STEP:
            for block in range(low, high, 64):
                bits = ended_bits(engine, rows, block, min(64, high - block), RESETTING)
                while bits != 0:
                    i = row_index(rows, block + lowest_bit(bits))
                    bits = bits & (bits - 1)
                    row, engine_row, row_params = row_at(state, i), row_at(engine, i), params_at(params, i)
                    _reset_row(head, row, engine_row, row_params, transform_rows(own, i), options)
        elif mode == SAME_STEP:
            zero_final(head, final_obs, low * num_agents, high * num_agents)
            for block in range(low, high, 64):
                bits = ended_bits(engine, rows, block, min(64, high - block), ENDED)
                while bits != 0:
                    j = block + lowest_bit(bits)
                    bits = bits & (bits - 1)
                    i = row_index(rows, j)
                    row, engine_row, row_params = row_at(state, i), row_at(engine, i), params_at(params, i)
                    row_own = transform_rows(own, i)
                    observe_final(head, row, row_params, row_own, final_obs, j)
                    write_final_info(head, row, row_params, final_info, j)
                    keep_final(engine_row)
                    _reset_row(head, row, engine_row, row_params, row_own, options)
                    engine_row.flags = EPISODE_ENDED
                    num_reset += 1
        _observe_range(head, state, params, own, rows, low, high, obs, info)
    return num_reset


@jit
def _check(head, engine, rows, count, mode, actions):
    if head_word(head, "closed") != 0:
        return CLOSED
    refused = UNRESET if mode == NEXT_STEP else UNRESET | ENDED
    found = 0
    for j in range(count):
        found = found | (row_at(engine, row_index(rows, j)).flags & refused)
    if found != 0:
        for j in range(count):
            flags = row_at(engine, row_index(rows, j)).flags & refused
            if flags != 0:
                return (j << 8) | (NOT_RESET if flags & UNRESET != 0 else ROW_ENDED)
    if head_word(head, "validate") != 0:
        j = first_bad_action(head, engine, rows, count, actions)
        if j < count:
            return (j << 8) | BAD_ACTION
    return 0


@jit
def _advance(head, state, engine, params, own, actions, start, j, rewards, terminated, truncated):
    """One transition of one row, or nothing but flags where NEXT_STEP is about to reset it."""
    pending = (engine.flags & ENDED) != 0
    reward, done, cut = 0.0, False, False
    if may_advance(pending):
        rng = rng_at(engine)
        action = before_step(own, state, choose_action(head, start, actions, j, pending), params, rng)
        reward, done, cut = unpack(author_step(state, action, params, rng))
        rng_done(rng, engine)
    elapsed = min(engine.elapsed + 1, LONGEST)
    limit = engine.limit
    done = done & (not pending)
    cut = (cut | ((limit >= 0) & (elapsed >= limit))) & (not done) & (not pending)
    reward = 0.0 if pending else reward
    engine.elapsed = elapsed
    engine.total = engine.total + reward
    engine.flags = (done | cut) * (ENDED | EPISODE_ENDED) + done * TERMINATED + cut * TRUNCATED + pending * RESETTING
    store_reward(rewards, j, reward)
    store_terminated(terminated, j, done)
    store_truncated(truncated, j, cut)


@jit
def _reset_row(head, state, engine, params, own, options):
    zero_state(state)
    engine.elapsed = 0
    clear_counts(engine)
    engine.episode = engine.episode + 1
    engine.flags = 0
    rng = rng_at(engine)
    draw_params(head, params, rng)
    call_reset(state, params, rng, options)
    rng_done(rng, engine)
    _begin_row(state, params, own)


@jit
def _begin_row(state, params, own):
    zero_transforms(own)
    after_reset(own, state, params)


@jit
def _observe_range(head, state, params, own, rows, low, high, obs, info):
    for j in range(low, high):
        i = row_index(rows, j)
        observe_row(head, row_at(state, i), params_at(params, i), transform_rows(own, i), obs, j)
    for j in range(low, high):
        i = row_index(rows, j)
        write_info(head, row_at(state, i), params_at(params, i), info, j)


# --- several agents ---------------------------------------------------------------------------------------------------


@jit
def _advance_agents(head, state, engine, params, own, actions, start, j, rewards, terminated, truncated):
    """`_advance` of all agents of a row. Whoever has ended gets no more rewards or flags."""
    pending = (engine.flags & ENDED) != 0
    reward, done, cut = rewards_at(rewards, j), terminated_at(terminated, j), truncated_at(truncated, j)
    reward.fill(0.0)
    done.fill(False)
    cut.fill(False)
    if not pending:
        rng = rng_at(engine)
        author_step(state, action_at(head, actions, j), params, rng, reward, done, cut)
        rng_done(rng, engine)
    elapsed = min(engine.elapsed + 1, LONGEST)
    limit = engine.limit
    at_limit = (limit >= 0) & (elapsed >= limit)
    engine.elapsed = elapsed
    living = 0
    for agent in range(num_agents):
        alive = engine.alive[agent] & (not pending)
        ends = done[agent] & alive
        stops = (cut[agent] | at_limit) & alive & (not ends)
        gained = reward[agent] if alive else 0.0
        reward[agent] = gained
        done[agent] = ends
        cut[agent] = stops
        engine.total[agent] = engine.total[agent] + gained
        if alive:
            engine.length[agent] = elapsed
            engine.ending[agent] = ends * TERMINATED + stops * TRUNCATED
            engine.alive[agent] = not (ends | stops)
            living += not (ends | stops)
    engine.flags = RESETTING if pending else (ENDED | EPISODE_ENDED) * (living == 0)


@jit
def _observe_agents(head, state, params, own, obs, j):
    for agent in range(num_agents):
        author_observe(state, params, agent, observation_at(head, obs, j * num_agents + agent))


@jit
def _observe_final_agents(head, state, params, own, obs, j):
    for agent in range(num_agents):
        author_observe(state, params, agent, final_observation_at(head, obs, j * num_agents + agent))


@jit
def _keep_final_agents(engine):
    for agent in range(num_agents):
        engine.final_total[agent] = engine.total[agent]
        engine.final_length[agent] = engine.length[agent]


@jit
def _clear_agents(engine):
    for agent in range(num_agents):
        engine.total[agent] = 0.0
        engine.length[agent] = 0
        engine.ending[agent] = 0
        engine.alive[agent] = True


@jit
def _info_agents(head, state, params, info, j):
    for agent in range(num_agents):
        author_info(state, params, agent, info_at(head, info, j * num_agents + agent))


@jit
def _final_info_agents(head, state, params, info, j):
    for agent in range(num_agents):
        author_info(state, params, agent, final_info_at(head, info, j * num_agents + agent))


@jit
def _mask_agents(head, state, params, info, j):
    for agent in range(num_agents):
        author_mask(state, params, agent, mask_at(head, info, j * num_agents + agent))


@jit
def _final_mask_agents(head, state, params, info, j):
    for agent in range(num_agents):
        author_mask(state, params, agent, final_mask_at(head, info, j * num_agents + agent))


# --- variants, chosen when bound --------------------------------------------------------------------------------------


@jit
def _observe_one(head, state, params, own, obs, j):
    observation_of(own, state, params, observation_at(head, obs, j))


@jit
def _observe_final_one(head, state, params, own, obs, j):
    observation_of(own, state, params, final_observation_at(head, obs, j))


@jit
def _keep_final_one(engine):
    engine.final_total = engine.total
    engine.final_length = engine.elapsed


@jit
def _clear_one(engine):
    engine.total = 0.0


@jit
def _range_index(rows, j):
    """`rows` is the first of a contiguous range."""
    return rows + j


@jit
def _list_index(rows, j):
    return load_row(rows, j)


@jit
def _range_bits(engine, rows, low, count, bit):
    return flag_bits(engine, rows + low, count, bit)


@jit
def _list_bits(engine, rows, low, count, bit):
    bits = 0
    for k in range(count):
        flags = row_at(engine, load_row(rows, low + k)).flags
        if flags & bit != 0:
            bits = bits | (1 << k)
    return bits


@jit
def _reset_without_options(state, params, rng, options):
    author_reset(state, params, rng)


@jit
def _reset_with_options(state, params, rng, options):
    author_reset(state, params, rng, options)


@jit
def _always(pending):
    """`step` draws nothing, loops over nothing, looks nothing up: computing a row to be discarded is harmless."""
    return True


@jit
def _unless_pending(pending):
    return not pending


@jit
def _any_action(head, start, actions, j, pending):
    return action_at(head, actions, j)


@jit
def _discrete_action(head, start, actions, j, pending):
    action = action_at(head, actions, j)
    return start if pending else action


@jit
def _record_steps(state, engine, params, own, rows, low, high):
    """What transforms write after a transition, in a loop of its own: the advance loop vectorizes."""
    for j in range(low, high):
        i = row_index(rows, j)
        if row_at(engine, i).flags & RESETTING == 0:
            after_step(transform_rows(own, i), row_at(state, i), params_at(params, i))


@jit
def _no_info(head, state, params, info, j):
    return


@jit
def _info(head, state, params, info, j):
    author_info(state, params, info_at(head, info, j))


@jit
def _final_info(head, state, params, info, j):
    author_info(state, params, final_info_at(head, info, j))


@jit
def _mask(head, state, params, info, j):
    author_mask(state, params, mask_at(head, info, j))


@jit
def _final_mask(head, state, params, info, j):
    author_mask(state, params, final_mask_at(head, info, j))


@jit
def _info_and_mask(head, state, params, info, j):
    write_own_info(head, state, params, info, j)
    write_own_mask(head, state, params, info, j)


@jit
def _final_info_and_mask(head, state, params, info, j):
    write_own_final_info(head, state, params, info, j)
    write_own_final_mask(head, state, params, info, j)


@jit
def _accept_all(head, engine, rows, count, actions):
    return count


@jit
def _first_bad_discrete(head, engine, rows, count, actions):
    start = head_word(head, "action_start")
    size = head_word(head, "action_count")
    # Negative if any action is below 0 or above the last. Without the flags: eight actions to a register, but 64 flags.
    signs = 0
    for j in range(count):
        action = action_at(head, actions, j) - start
        signs = signs | action | (size - 1 - action)
    if signs < 0:
        for j in range(count):
            action = action_at(head, actions, j) - start
            running = (row_at(engine, row_index(rows, j)).flags & ENDED) == 0
            if running and (action < 0 or action >= size):
                return j
    return count


@jit
def _first_bad_box(head, engine, rows, count, actions):
    for j in range(count):
        action = flat_action_at(head, actions, j)
        bad = False
        for k in range(len(action)):
            bad = bad | (not isfinite(action[k]))
        if bad and (row_at(engine, row_index(rows, j)).flags & ENDED) == 0:
            return j
    return count


@jit
def _first_bad_multi(head, engine, rows, count, actions):
    """MultiDiscrete and MultiBinary: every element between its bounds."""
    bounds = action_bounds(head)
    for j in range(count):
        action = flat_action_at(head, actions, j)
        bad = False
        for k in range(len(action)):
            bad = bad | (action[k] < bounds[0, k]) | (action[k] > bounds[1, k])
        if bad and (row_at(engine, row_index(rows, j)).flags & ENDED) == 0:
            return j
    return count


# --- binding ----------------------------------------------------------------------------------------------------------


#: What differs with several agents.
_ONE_AGENT = {
    "advance": _advance,
    "observe_row": _observe_one,
    "observe_final": _observe_final_one,
    "keep_final": _keep_final_one,
    "clear_counts": _clear_one,
    "write_own_info": _info,
    "write_own_final_info": _final_info,
    "write_own_mask": _mask,
    "write_own_final_mask": _final_mask,
}
_AGENTS = {
    "advance": _advance_agents,
    "observe_row": _observe_agents,
    "observe_final": _observe_final_agents,
    "keep_final": _keep_final_agents,
    "clear_counts": _clear_agents,
    "write_own_info": _info_agents,
    "write_own_final_info": _final_info_agents,
    "write_own_mask": _mask_agents,
    "write_own_final_mask": _final_mask_agents,
}


def _variants(definition: EnvDef) -> dict[str, Any]:
    """What differs with several agents or transforms, and how infos are written: in a step, and of an episode's end."""
    several: dict[str, Any] = _ONE_AGENT if definition.num_agents == 1 else _AGENTS
    write: Any
    write_final: Any
    if definition.info is not None and definition.action_mask is not None:
        write, write_final = _info_and_mask, _final_info_and_mask
    elif definition.info is not None:
        write, write_final = several["write_own_info"], several["write_own_final_info"]
    elif definition.action_mask is not None:
        write, write_final = several["write_own_mask"], several["write_own_final_mask"]
    else:
        write = write_final = _no_info
    records = any(transform.after_step is not None for transform in definition.transforms)
    return {
        **several,
        "write_info": write,
        "write_final_info": write_final,
        **({"record_steps": _record_steps} if records else {}),
        "num_agents": definition.num_agents,
    }


def _first_bad_action(definition: EnvDef) -> Any:
    if definition.num_agents > 1:
        return _accept_all  # checked before the kernel runs, which knows rows and not agents
    if isinstance(definition.action_space, (spaces.Dict, spaces.Tuple)):
        return _accept_all  # checked leaf by leaf before the kernel runs
    if definition.invalid_action == "step":
        return _accept_all
    space = definition.action_space
    if isinstance(space, spaces.Discrete):
        return _first_bad_discrete
    if isinstance(space, spaces.Box):
        return _first_bad_box if space.dtype.kind == "f" else _accept_all
    return _first_bad_multi


def _ieee(function: Any) -> Any:
    """Python scalars of NumPy give inf and nan as compiled code does, and are silent about it."""

    def quiet(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    return quiet


class BatchKernels:
    """The kernels of one definition and one kind of math; each is bound when it is first asked for.

    Attributes `step`, `reset`, `begin`, `observe` take a contiguous range of rows (`rows` is its first), `step_rows`,
    `reset_rows`, `begin_rows`, `observe_rows` an int64 array `[K]` of rows; `python_*` are the latter as plain Python.
    """

    def __init__(self, wiring: Wiring, math: str, checked: bool = False) -> None:
        self.wiring, self.math, self.checked = wiring, math, checked
        self._announced = False
        #: Compiled parts that the kernels share.
        self._inlined: dict[Any, Any] = {}

    @classmethod
    def of(cls, wiring: Wiring, math: str, checked: bool) -> BatchKernels:
        """The kernels of a definition, bound once per process for each set of params per row, math and checking.

        Equal definitions share them: one that was unpickled is bound already where it came from.
        """
        key = math, checked, repr(wiring.description())
        kernels: dict[Any, Any] = wiring.definition.kernels
        if key not in kernels:
            kernels[key] = _shared.setdefault((*key, _content(wiring)), cls(wiring, math, checked))
        found: BatchKernels = kernels[key]
        return found

    def _bind(self, template: Any, listed: bool, compiled: bool) -> Any:
        compiled = compiled and not JIT_DISABLED
        binder = Binder(
            self.math,
            compiled,
            replace=self.wiring.definition.functions,
            frozen=self.wiring.definition.frozen,
            checked=self.checked,
            bound={
                **(self._compiled_accessors if compiled else self._python_accessors),
                **self._parts,
                "row_index": _list_index if listed else _range_index,
                "ended_bits": _list_bits if listed else _range_bits,
            },
            modules=(globals(), vars(transform), vars(frame_stack)),
            salt=[self.wiring.description(), self.checked],
            inlined=self._inlined,
        )
        python = binder.clone_python(template)
        if not compiled:
            return _ieee(python)
        # Named by the module, not by the id: two ids of one module often are one kernel.
        definition = self.wiring.definition
        label = (definition.observe.__module__ or "env").rpartition(".")[2]  # exec'd code may have no module
        dispatcher, cached = compile_cached(python, binder.digest(), label, may_raise=self.checked)
        if not cached and not self._announced:
            self._announced = True
            print(f"vecenv: compiling {definition.id} (once; kept on disk afterwards)", file=sys.stderr, flush=True)
        return dispatcher

    @cached_property
    def _compiled_accessors(self) -> dict[str, Any]:
        return CompiledAccessors(self.wiring, self.checked).table() | views.COMPILED

    @cached_property
    def _python_accessors(self) -> dict[str, Any]:
        return PythonAccessors(self.wiring).table() | views.PYTHON

    @cached_property
    def _parts(self) -> dict[str, Any]:
        """The author's functions and the variants."""
        definition = self.wiring.definition
        draws = reads_argument(definition.step, 3)
        discrete = isinstance(definition.action_space, spaces.Discrete)
        return {
            **_variants(definition),
            **chain(definition.observe, definition.transforms),
            "author_reset": definition.reset,
            "author_step": definition.step,
            "author_observe": definition.observe,
            "author_info": definition.info,
            "author_mask": definition.action_mask,
            "call_reset": _reset_with_options if definition.options_type.fields else _reset_without_options,
            "choose_action": _discrete_action if discrete else _any_action,
            "first_bad_action": _first_bad_action(definition),
            "may_advance": _unless_pending if draws or self._must_not_run_ahead(definition) else _always,
        }

    @staticmethod
    def _must_not_run_ahead(definition: EnvDef) -> bool:
        """Whether any function that `step` reaches loops or looks something up, or a transform writes before it."""
        if any(transform.before_step is not None for transform in definition.transforms):
            return True
        binder = Binder("portable", compiled=False, replace=definition.functions, frozen=definition.frozen)
        binder.clone(definition.step)
        return any(has_loops_or_lookups(function) for function in binder.functions)

    @cached_property
    def step(self) -> Any:
        return self._bind(step, listed=False, compiled=True)

    @cached_property
    def step_rows(self) -> Any:
        return self._bind(step, listed=True, compiled=True)

    @cached_property
    def reset(self) -> Any:
        return self._bind(reset, listed=False, compiled=True)

    @cached_property
    def reset_rows(self) -> Any:
        return self._bind(reset, listed=True, compiled=True)

    @cached_property
    def begin(self) -> Any:
        return self._bind(begin, listed=False, compiled=True)

    @cached_property
    def begin_rows(self) -> Any:
        return self._bind(begin, listed=True, compiled=True)

    @cached_property
    def observe(self) -> Any:
        return self._bind(observe, listed=False, compiled=True)

    @cached_property
    def observe_rows(self) -> Any:
        return self._bind(observe, listed=True, compiled=True)

    @cached_property
    def python_step_rows(self) -> Any:
        return self._bind(step, listed=True, compiled=False)

    @cached_property
    def python_reset_rows(self) -> Any:
        return self._bind(reset, listed=True, compiled=False)

    @cached_property
    def python_begin_rows(self) -> Any:
        return self._bind(begin, listed=True, compiled=False)

    @cached_property
    def python_observe_rows(self) -> Any:
        return self._bind(observe, listed=True, compiled=False)


#: Kernels by math, checking, description and content, for as long as a definition has them.
_shared: weakref.WeakValueDictionary[Any, BatchKernels] = weakref.WeakValueDictionary()


def _content(wiring: Wiring) -> str:
    """What kernels are made of besides the description: code and constants of the functions, and all sizes."""
    definition, binder = wiring.definition, bound_functions(wiring.definition)
    roles = [None if function is None else binder.functions.index(function) for function in row_functions(definition)]
    shapes = [leaf.shape for leaf in (*definition.observation_leaves, *definition.action_leaves)]
    bounds = None if wiring.action_bounds is None else wiring.action_bounds.tolist()
    sizes = sorted(definition.sizes.items())
    return repr((definition.id, binder.digest(), roles, wiring.arena_layout.digest, shapes, bounds, sizes))
