"""Exact models of finite environments: p(s', r | s, a) of every state and action."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from numba.core.errors import NumbaError

from vecenv.arguments import parse_params
from vecenv.debug import explain_typing_error
from vecenv.kernels import explore
from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.explore import ModelKernels
from vecenv.memory import Memory
from vecenv.registry import definition_of
from vecenv.vec_env import VecEnv

DENSE_LIMIT = 2**28  # entries of P: 2 GiB
ARROWS = {"up": "↑", "right": "→", "down": "↓", "left": "←", "stay": "·"}

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
RawState = int | tuple[int, ...]


class Model:
    """All transitions of a finite environment, made by `vecenv.model`. Its arrays are read-only.

    States are the raw states that can be reached from the starts, numbered from 0 in the order of their raw keys.
    States that only ending transitions lead to are not followed any further: every action keeps them where they are,
    with reward 0, as another end.

    The transitions of state s and action number a (0 is the first of the action space) are rows
    `offsets[s * num_actions + a]` up to `offsets[s * num_actions + a + 1]`, with equal ones merged and impossible ones
    left out:

    Attributes:
        definition: the `EnvDef`.
        num_states, num_actions: S and A.
        keys: raw key of each state, int64 `[S]`, ascending.
        starts: probability of each state to be the first, float64 `[S]`.
        offsets: int64 `[S * A + 1]`.
        next_states: number of the state that the row leads to, int64 `[rows]`.
        probabilities, rewards: float64 `[rows]`.
        terminals: whether the episode ends there, bool `[rows]`.
        absorbing: states that only ending transitions lead to, bool `[S]`.
    """

    def __init__(self, definition: EnvDef, params: Mapping[str, Any] | None = None, math: str = "portable") -> None:
        if definition.model is None:
            raise ValueError(f"{definition.id} has no model: its definition gives no EnvDef(..., model=ModelDef(...))")
        if math not in ("portable", "libm"):
            raise ValueError(f"math: expected 'portable' or 'libm', got {math!r}")
        values = parse_params(params, definition, 1)
        if values.per_row:
            raise ValueError(f"model: expected one value for each param, got several for {', '.join(values.per_row)}")
        self.definition, self.num_actions = definition, int(definition.action_space.n)  # type: ignore[attr-defined]
        self._first_action = int(definition.action_space.start)  # type: ignore[attr-defined]
        self._math, self._values = math, values
        self._explore(self._memory(1))
        self.num_states = len(self.keys)
        for array in (self.keys, self.starts, self.offsets, self.next_states, self.probabilities, self.rewards,
                      self.terminals, self.absorbing):  # fmt: skip
            array.flags.writeable = False

    def _memory(self, num_rows: int) -> Memory:
        return Memory(self.definition, num_rows, np.full(num_rows, -1, np.int32), self._values, True)

    def _run(self, name: str, memory: Memory, *args: Any) -> int:
        """Call a kernel on the rows of a batch."""
        try:
            result: int = getattr(ModelKernels.of(memory.wiring, self._math), name)(memory.head, memory.arena, *args)
        except NumbaError as error:
            raise explain_typing_error(error, self.definition) from error
        return result

    def _explore(self, memory: Memory) -> None:
        model = self.definition.model
        assert model is not None
        marks, queue = np.zeros(model.num_states, np.uint8), np.empty(model.num_states, np.int64)
        start_keys = np.empty(model.num_starts or 1, np.int64)
        chances, fault = np.empty(len(start_keys)), np.empty(4)
        sizes = model.num_outcomes or 1, self.num_actions, self._first_action
        num_rows = self._run("reach", memory, *sizes, marks, queue, start_keys, chances, fault)
        if num_rows < 0:
            _refuse(-num_rows, fault, self.definition)
        self.keys: Ints = np.flatnonzero(marks)
        self.absorbing: Bools = marks[self.keys] == explore.ENDED
        number = np.empty(model.num_states, np.int64)
        number[self.keys] = np.arange(len(self.keys))
        num_rows += int(self.absorbing.sum()) * self.num_actions
        self.offsets: Ints = np.zeros(len(self.keys) * self.num_actions + 1, np.int64)
        next_states, terminals = np.empty(num_rows, np.int64), np.empty(num_rows, np.bool_)
        probabilities, rewards = np.empty(num_rows), np.empty(num_rows)
        last = np.full(len(self.keys), -1, np.int64)
        rows = next_states, probabilities, rewards, terminals
        used = self._run("fill", memory, *sizes, self.keys, marks, number, last, self.offsets, *rows)
        self.next_states: Ints = next_states[:used].copy()
        self.probabilities: Floats = probabilities[:used].copy()
        self.rewards: Floats = rewards[:used].copy()
        self.terminals: Bools = terminals[:used].copy()
        possible = chances > 0
        self.starts: Floats = np.zeros(len(self.keys))
        np.add.at(self.starts, number[start_keys[possible]], chances[possible])

    # --- transitions --------------------------------------------------------------------------------------------------

    def transitions(self, state: int, action: int | str) -> tuple[list[int], Floats, Bools, Floats]:
        """The four parallel rows of one state and action: next states, rewards, terminals, probabilities.

        The arrays are copies. `action` is a number from 0 or a label.
        """
        pair = self._state(state) * self.num_actions + self._action(action)
        rows = slice(self.offsets[pair], self.offsets[pair + 1])
        return (
            self.next_states[rows].tolist(),
            self.rewards[rows].copy(),
            self.terminals[rows].copy(),
            self.probabilities[rows].copy(),
        )

    def dense(self) -> tuple[Floats, Floats]:
        """`P[s, a, s']`, the probability of a next state, and `R[s, a, s']`, the expected reward of getting there (0 if
        that is impossible); float64 `[S, A, S]` each.

        Which transitions end an episode is not in them: multiply the next state's value by 0 where `terminals` says so.
        That matters only where an ending transition leads to a state that episodes also go on from.

        Raises:
            ValueError: they would have more than 2**28 entries.
        """
        size = self.num_states**2 * self.num_actions
        if size > DENSE_LIMIT:
            raise ValueError(
                f"dense: {self.num_states} states and {self.num_actions} actions make {size:,} entries, more than "
                f"{DENSE_LIMIT:,}; use the sparse arrays"
            )
        pairs = np.repeat(np.arange(self.num_states * self.num_actions), np.diff(self.offsets))
        flat = pairs * self.num_states + self.next_states
        probability: Floats = np.bincount(flat, self.probabilities, size).astype(np.float64)
        reward: Floats = np.bincount(flat, self.probabilities * self.rewards, size).astype(np.float64)
        np.divide(reward, probability, out=reward, where=probability > 0)
        shape = self.num_states, self.num_actions, self.num_states
        return probability.reshape(shape), reward.reshape(shape)

    # --- names --------------------------------------------------------------------------------------------------------

    def id2state(self, states: Any) -> Any:
        """The raw state of a state's number: the integers of its fields, a tuple, or one int if there is one field.

        A sequence of numbers gives a list.
        """
        if isinstance(states, Iterable):
            return [self.id2state(state) for state in states]
        return self.raw_states[self._state(states)]

    def state2id(self, raw: Any) -> Any:
        """The number of a raw state. A list of raw states gives a list.

        Raises:
            ValueError: no such state, or it cannot be reached.
        """
        if isinstance(raw, list):
            return [self.state2id(one) for one in raw]
        key = tuple(map(int, raw)) if isinstance(raw, tuple) else raw
        if key not in self._number:
            raise ValueError(f"state {raw!r}: expected a state that can be reached, such as {self.raw_states[0]}")
        return self._number[key]

    def is_reachable(self, raw: RawState) -> bool:
        return raw in self._number

    @property
    def raw_states(self) -> list[RawState]:
        """The raw state of each state."""
        if not hasattr(self, "_raw_states"):
            memory = self._memory(self.num_states)
            self._run("decode_rows", memory, self.keys)
            fields = [f for f in self.definition.state.fields if f.dtype.kind in "bui" and not f.type.shape]
            columns = [memory.columns[f"state.{field.name}"].tolist() for field in fields]
            self._raw_states: list[RawState] = list(zip(*columns, strict=True)) if len(fields) > 1 else columns[0]
            self._numbers = {raw: s for s, raw in enumerate(self._raw_states)}
        return self._raw_states

    @property
    def _number(self) -> dict[RawState, int]:
        _ = self.raw_states
        return self._numbers

    @property
    def action_labels(self) -> tuple[str, ...]:
        """A name for each action, from the definition, else its number."""
        assert self.definition.model is not None
        return self.definition.model.action_labels or tuple(map(str, range(self.num_actions)))

    def action2id(self, label: str) -> int:
        """The number of an action, -1 if the label is unknown."""
        return self.action_labels.index(label) if label in self.action_labels else -1

    def id2action(self, action: int, form: str = "text") -> str:
        """The label of an action ("text"), or its "arrow", where it is a direction."""
        if form not in ("text", "arrow"):
            raise ValueError(f"form: expected 'text' or 'arrow', got {form!r}")
        label = self.action_labels[self._action(action)]
        return ARROWS.get(label, label) if form == "arrow" else label

    def to_matrix(self, values: Any, fill: Any = np.nan) -> npt.NDArray[Any]:
        """One value per state as a picture of the world, `[rows, columns]`, top row first; `fill` where no state is.

        Raises:
            ValueError: the environment has no such picture, or `values` is not `[S]`.
        """
        assert self.definition.model is not None
        cells, values = self.definition.model.cells, np.asarray(values)
        if cells is None:
            raise ValueError(f"{self.definition.id} is no grid: its ModelDef has no `cells`")
        if isinstance(cells, tuple):
            cells = np.arange(cells[0] * cells[1]).reshape(cells)
        if values.shape != (self.num_states,):
            raise ValueError(f"expected one value for each of {self.num_states} states, got shape {values.shape}")
        matrix = np.full(cells.shape, fill, np.result_type(values, np.asarray(fill)))
        at = np.searchsorted(self.keys, cells).clip(0, self.num_states - 1)
        known = self.keys[at] == cells
        matrix[known] = values[at[known]]
        return matrix

    # --- batches ------------------------------------------------------------------------------------------------------

    def states_of(self, envs: VecEnv) -> Ints:
        """The number of the state that each row of a batch is in, int64 `[N]`.

        Raises:
            ValueError: a row is in a state that is not among those reached from the starts.
        """
        keys = self.keys_of(envs)
        states: Ints = np.searchsorted(self.keys, keys).clip(0, self.num_states - 1)
        if (unknown := self.keys[states] != keys).any():
            row = int(np.flatnonzero(unknown)[0])
            raise ValueError(f"row {row}: its state (raw key {keys[row]}) is none of the model's")
        return states

    def keys_of(self, envs: VecEnv) -> Ints:
        """The raw key of each row of a batch, int64 `[N]`."""
        keys = np.empty(envs.num_envs, np.int64)
        self._run("encode_rows", self._memory_of(envs), keys)
        return keys

    def put(self, envs: VecEnv, states: npt.ArrayLike) -> None:
        """Put each row of a batch into a state, int `[N]` or one for all; elapsed steps and streams stay."""
        numbers = np.broadcast_to(np.asarray(states), envs.num_envs)
        if numbers.dtype.kind not in "iu" or (numbers < 0).any() or (numbers >= self.num_states).any():
            raise ValueError(f"states: expected ints from 0 to {self.num_states - 1}, got {states!r}")
        self._run("decode_rows", self._memory_of(envs), self.keys[numbers])

    def _memory_of(self, envs: VecEnv) -> Memory:
        if envs.definition is not self.definition:
            raise ValueError(f"the model is of another definition ({self.definition.id}) than the batch ({envs})")
        envs._check_open()
        return envs._memory

    # --- arguments ----------------------------------------------------------------------------------------------------

    def _state(self, state: Any) -> int:
        if isinstance(state, bool) or not isinstance(state, (int, np.integer)):
            raise TypeError(f"state: expected an int from 0 to {self.num_states - 1}, got {state!r}")
        if not 0 <= state < self.num_states:
            raise ValueError(f"state: expected an int from 0 to {self.num_states - 1}, got {state!r}")
        return int(state)

    def _action(self, action: Any) -> int:
        number = self.action2id(action) if isinstance(action, str) else action
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise TypeError(f"action: expected an int from 0 to {self.num_actions - 1} or a label, got {action!r}")
        if not 0 <= number < self.num_actions:
            known = ", ".join(self.action_labels)
            raise ValueError(f"action: expected 0 to {self.num_actions - 1} or one of {known}, got {action!r}")
        return int(number)

    def __repr__(self) -> str:
        sizes = f"{self.num_states} states, {self.num_actions} actions, {len(self.next_states)} transitions"
        return f"Model({self.definition.id}, {sizes})"


def _refuse(code: int, fault: Sequence[float] | Floats, definition: EnvDef) -> NoReturn:
    key, action, k, value = fault
    model = definition.model
    assert model is not None
    where = f"state {key:.0f}, action {action:.0f}"
    one = f"{where}, outcome {k:.0f}"
    if key < 0:
        where, one = "starts", f"start {k:.0f}"
    last = model.num_states - 1
    what = {
        explore.BAD_KEY: f"{one}: expected `encode` to give a raw key from 0 to {last}, got {value:.0f}",
        explore.BAD_PROBABILITY: f"{one}: expected a probability from 0 to 1, got {value}",
        explore.BAD_SUM: f"{where}: expected probabilities that add up to 1, got {value}",
        explore.BAD_REWARD: f"{one}: expected a finite reward, got {value}",
    }
    raise ValueError(f"{definition.id}: {what[code]}")


def model(
    what: str | EnvDef,
    *,
    params: Mapping[str, Any] | None = None,
    math: str = "portable",
    **options: Any,
) -> Model:
    """The exact model of a finite environment: p(s', r | s, a) in sparse form.

    Args:
        what: an id ("FrozenLake-v1") or an `EnvDef` whose `model` is given.
        params: values of shared params by name.
        math: "portable" or "libm".
        **options: options of the environment.

    Raises:
        ValueError: the environment has no model; probabilities do not add up to 1; a key, probability or reward is
            outside its range, with the state and action.
    """
    return Model(definition_of(what, options), params, math)
