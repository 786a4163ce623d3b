"""`EnvDef`: the static description of one environment, checked when it is made; checks of options for `build`."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from vecenv.kernels import chance
from vecenv.kernels.jit import BindError, global_names, is_jit, reads_argument
from vecenv.kernels.soa import ColumnType, Field, Info, Options, Params, State, resolve_params, shown

RowFunction = Callable[..., Any]


@dataclass(frozen=True)
class Leaf:
    """One array of an observation or action: `[N, *shape]` of `dtype` in a batch.

    `cells` is the shape of the view that a row function gets: that of the leaf, or (1,) for a Discrete leaf.
    """

    key: str | int | None
    space: spaces.Space[Any]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def cells(self) -> tuple[int, ...]:
        return self.shape or (1,)


def _leaf(key: str | int | None, space: spaces.Space[Any], what: str) -> Leaf:
    if isinstance(space, spaces.Box) and space.shape == ():
        raise ValueError(f"{what}: a Box needs at least one dimension, got shape (); use shape (1,)")
    if not isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        raise TypeError(
            f"{what}: expected Box, Discrete, MultiDiscrete or MultiBinary"
            f"{', or one level of Dict or Tuple of these' if key is None else ''}, got {space}"
        )
    assert space.shape is not None
    if np.dtype(space.dtype).kind == "f" and np.dtype(space.dtype).itemsize not in (4, 8):
        raise TypeError(f"{what}: floats are float32 or float64, got {np.dtype(space.dtype)}")
    return Leaf(key, space, np.dtype(space.dtype), tuple(int(size) for size in space.shape))


def leaves_of(space: spaces.Space[Any], what: str) -> tuple[Leaf, ...]:
    """The arrays that make up one observation or action space, one level deep."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)) and not space.spaces:
        raise ValueError(f"{what}: expected at least one part, got {space}")
    if isinstance(space, spaces.Dict):
        return tuple(_leaf(key, part, f"{what}[{key!r}]") for key, part in space.spaces.items())
    if isinstance(space, spaces.Tuple):
        return tuple(_leaf(k, part, f"{what}[{k}]") for k, part in enumerate(space.spaces))
    return (_leaf(None, space, what),)


def flat_leaves(leaves: tuple[Leaf, ...]) -> tuple[Leaf, ...]:
    """The same leaves, each as one dimension."""
    return tuple(Leaf(leaf.key, leaf.space, leaf.dtype, (int(np.prod(leaf.cells)),)) for leaf in leaves)


def close_matches(name: object, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or all that exists."""
    known = sorted(known)
    matches = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    if matches:
        return f"; did you mean {' or '.join(map(repr, matches))}?"
    return f"; there are: {', '.join(known)}" if known else "; there are none"


def number(name: str, value: Any) -> float:
    """An option that is a finite number.

    Raises:
        TypeError: it is no number.
        ValueError: it is not finite.
    """
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a number, got {value!r}") from None
    if not math.isfinite(result):
        raise ValueError(f"{name}: expected a finite number, got {value!r}")
    return result


def probability(name: str, value: Any) -> float:
    """An option that is a number from 0 to 1; raises as `number`."""
    result = number(name, value)
    if not 0.0 <= result <= 1.0:
        raise ValueError(f"{name}: expected a probability from 0 to 1, got {value!r}")
    return result


def integer(name: str, value: Any, low: int, high: int) -> int:
    """An option that is an int from `low` to `high`.

    Raises:
        TypeError: it is no int.
        ValueError: it is out of range.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name}: expected an int, got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name}: expected {low} to {high}, got {value}")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """An option that is True or False; TypeError if it is not."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: expected True or False, got {value!r}")
    return bool(value)


class ModelDef:
    """What an environment says about its transitions, so that its exact model can be computed (`vecenv.model`).

    A state is known by its raw key, an int from 0 to num_states - 1; not every key need be a state. Where the random
    elements come from, one of three:

    - `events` and `apply`, in place of `step`: the engine draws one `rng.random()` per step and applies the first event
      whose cumulative probability exceeds it. One code is both sampler and model;
    - a `step` that draws nothing is its own model;
    - `outcomes`, beside a `step` that draws as it likes; `check_def` compares the two.

    Args:
        num_states: number of raw keys.
        encode: `encode(state, params)`: the raw key of a row. It tells apart all that the future depends on.
        decode: `decode(state, key, params)`: puts a row into that state. Every field is zero when it is called.
        events: `events(state, action, params)`: the probabilities of all events, a tuple of floats of fixed length.
        apply: `apply(state, action, event, params)`: what `step` does if this event (an int from 0) takes place.
        outcomes: `outcomes(state, action, k, params)`: moves the row to outcome k of a step and returns
            `(probability, reward, terminated)`.
        num_outcomes: number of outcomes; some may have probability 0.
        start: `start(state, k, params)`: puts the row into start k and returns its probability. Needed where `reset`
            draws.
        num_starts: number of starts.
        action_labels: a name for each action.
        cells: the world as a picture: raw keys `[rows, columns]`, top row first, -1 where there is none; or only
            (rows, columns), if raw keys count cells row by row.
    """

    def __init__(
        self,
        num_states: int,
        encode: RowFunction,
        decode: RowFunction,
        *,
        events: RowFunction | None = None,
        apply: RowFunction | None = None,
        outcomes: RowFunction | None = None,
        num_outcomes: int | None = None,
        start: RowFunction | None = None,
        num_starts: int | None = None,
        action_labels: Sequence[str] = (),
        cells: npt.NDArray[np.integer[Any]] | tuple[int, int] | None = None,
    ) -> None:
        self.num_states, self.encode, self.decode = num_states, encode, decode
        self.events, self.apply = events, apply
        self.outcomes, self.num_outcomes = outcomes, num_outcomes
        self.start, self.num_starts = start, num_starts
        self.action_labels = tuple(action_labels)
        self.cells = cells

    def check(self, id: str, reset: Any, step: Any, action_space: spaces.Space[Any]) -> None:
        """Raise BindError, TypeError or ValueError where the parts do not fit together."""
        _row_function(self.encode, "encode", ("state", "params"), id)
        _row_function(self.decode, "decode", ("state", "key", "params"), id)
        if not isinstance(action_space, spaces.Discrete):
            raise TypeError(f"{id}: a model needs a Discrete action space, got {action_space}")
        for first, second in (("events", "apply"), ("outcomes", "num_outcomes"), ("start", "num_starts")):
            if (getattr(self, first) is None) != (getattr(self, second) is None):
                raise TypeError(f"{id}: `{first}` and `{second}` come together")
        for name in ("num_states", "num_outcomes", "num_starts"):
            number = getattr(self, name)
            if number is not None and (
                isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1
            ):
                raise ValueError(f"{id}: {name}: expected an int >= 1, got {number!r}")
        if self.events is not None:
            _row_function(self.events, "events", ("state", "action", "params"), id)
            _row_function(self.apply, "apply", ("state", "action", "event", "params"), id)
            if step is not None or self.outcomes is not None:
                raise TypeError(f"{id}: `events` and `apply` make `step` and all outcomes; pass None for `step`")
        elif self.outcomes is not None:
            _row_function(self.outcomes, "outcomes", ("state", "action", "k", "params"), id)
        elif step is not None and reads_argument(step, 3):
            raise TypeError(f"{id}: `step` draws, so its model needs `events` and `apply`, or `outcomes`")
        if self.start is not None:
            _row_function(self.start, "start", ("state", "k", "params"), id)
        elif reads_argument(reset, 2):
            raise TypeError(f"{id}: `reset` draws, so its model needs `start` and `num_starts`")
        if self.action_labels and len(self.action_labels) != action_space.n:
            raise ValueError(f"{id}: action_labels: expected {action_space.n} names, got {self.action_labels}")
        if isinstance(self.cells, tuple):
            fits = len(self.cells) == 2 and self.cells[0] * self.cells[1] <= self.num_states
        else:
            fits = self.cells is None or (self.cells.ndim == 2 and self.cells.max(initial=-1) < self.num_states)
        if not fits:
            raise ValueError(f"{id}: cells: expected [rows, columns] of raw keys below {self.num_states}")


class EnvDef:
    """One environment: fields, three row functions and two spaces.

    Args:
        id: name with version, such as "CartPole-v1".
        state: the `State` class; every field becomes a column over all rows.
        params: the `Params` class.
        reset: `reset(state, params, rng)` or `reset(state, params, rng, options)`; draws the initial state. Every field
            is zero when it is called.
        step: `step(state, action, params, rng)`; advances one row and returns `(reward, terminated)` or
            `(reward, terminated, truncated)`. None if `model` has `events` and `apply`.
        observe: `observe(state, params, obs)`; writes every element of `obs` and changes nothing else.
        observation_space: of one environment: Box, Discrete, MultiDiscrete, MultiBinary, or one level of Dict or Tuple.
        action_space: of one environment: Discrete, MultiDiscrete, MultiBinary or Box.
        max_episode_steps: the step limit after which a running row is truncated; None for no limit.
        param_values: values of params that `build` computes from its options (tables, sizes). They are fixed:
            `make_vec(params=...)` refuses them.
        options_type: an `Options` class, the fourth argument of `reset`.
        check_options: `check_options(options)`, plain Python: raises ValueError if reset options do not fit together.
            It gets them by name, defaults included.
        info_type, info: an `Info` class and `info(state, params, out)`, which fills its fields.
        action_mask: `action_mask(state, params, mask)`: writes which actions are legal into an int8 array, one element
            per action of a Discrete space, or per value of each element of a MultiDiscrete space, one after the other.
        sizes: sizes that fields name, such as {"size": 5} for `Array[U1, "size"]`. They are run-time values, and
            so are all shapes of observations and actions: one kernel serves every size.
        functions: `@jit` functions that take the place of global names in every function above.
        num_agents: A. With more than one, spaces are those of one agent, and the functions are
            `step(state, actions, params, rng, rewards, terminated, truncated)`, which gets an array `[A, ...]` of
            actions (those of agents that have ended mean nothing) and writes the zeroed arrays `[A]`;
            `observe(state, params, agent, obs)`; `info` and `action_mask` with `agent` in the same place. An agent
            that has ended gets no more rewards or flags; a row ends when every agent has, or at the limit.
        invalid_action: "raise", or "step" if `step` itself handles integers outside a Discrete, MultiDiscrete or
            MultiBinary space, alone or as a part of the action.
        render: `render(state, params, canvas)`, plain Python: draws one row on a `vecenv.render.canvas.Canvas`.
        text: `text(state, params)`, plain Python: one row as a str.
        render_fps: frames per second of the environment, for `metadata`.
        model: what makes the environment's exact model computable.

    Raises:
        BindError: a row function is not marked `@jit` or has other arguments.
        TypeError, ValueError: a class, space or value is not what is described above.
    """

    def __init__(
        self,
        id: str,
        state: type[State],
        params: type[Params],
        reset: RowFunction,
        step: RowFunction | None,
        observe: RowFunction,
        *,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        max_episode_steps: int | None = None,
        param_values: Mapping[str, Any] | None = None,
        options_type: type[Options] | None = None,
        check_options: Callable[[dict[str, Any]], None] | None = None,
        info_type: type[Info] | None = None,
        info: RowFunction | None = None,
        action_mask: RowFunction | None = None,
        sizes: Mapping[str, int] | None = None,
        functions: Mapping[str, RowFunction] | None = None,
        num_agents: int = 1,
        invalid_action: str = "raise",
        render: Callable[[Any, Any, Any], None] | None = None,
        text: Callable[[Any, Any], str] | None = None,
        render_fps: int = 50,
        model: ModelDef | None = None,
    ) -> None:
        if not isinstance(id, str) or not id:
            raise TypeError(f"id: expected a name with a version such as 'MyGrid-v0', got {shown(id)}")
        self.id = id
        #: Bound kernels (`BatchKernels.of`); they live as long as the definition.
        self.kernels: dict[Any, Any] = {}
        #: What global names meant when the functions were first bound (`Binder`).
        self.frozen: dict[Any, Any] = {}
        self.state = _subclass(state, State, id)
        self.params = _subclass(params, Params, id)
        self.options_type = _subclass(options_type or Options, Options, id)
        for field in self.options_type.fields:
            if field.default is None:
                raise TypeError(f"{id}: {self.options_type.__name__}.{field.name} needs a default: auto-resets use it")
        self.check_options = check_options
        self.info_type = _subclass(info_type or Info, Info, id)
        if (info is None) != (info_type is None):
            raise TypeError(f"{id}: `info` and `info_type` come together")
        if not isinstance(invalid_action, str) or invalid_action not in ("raise", "step"):
            raise ValueError(f"{id}: invalid_action is 'raise' or 'step', got {shown(invalid_action)}")
        if not (_is_int(num_agents) and num_agents >= 1):
            raise ValueError(f"{id}: num_agents: expected an int >= 1, got {shown(num_agents)}")
        if max_episode_steps is not None and not (_is_int(max_episode_steps) and 1 <= max_episode_steps < 2**31):
            raise ValueError(
                f"{id}: max_episode_steps is an int >= 1 or None, got {shown(max_episode_steps)} (and below 2**31)"
            )
        if not (_is_int(render_fps) and render_fps >= 1):
            raise ValueError(f"{id}: render_fps is an int >= 1, got {shown(render_fps)}")
        if check_options is not None and not callable(check_options):
            raise TypeError(f"{id}: `check_options` is a function, got {shown(check_options)}")
        for name, given in (("param_values", param_values), ("sizes", sizes), ("functions", functions)):
            if given is not None and not (isinstance(given, Mapping) and all(isinstance(key, str) for key in given)):
                raise TypeError(f"{id}: {name} is a dict by name, got {shown(given)}")
        taken = {"final_obs", "final_info"} | ({"action_mask"} if action_mask is not None else set())
        for name in taken & {field.name for field in self.info_type.fields}:
            raise TypeError(f"{id}: info field {name!r}: infos have that key already; choose another name")
        if not self.state.fields:
            raise TypeError(f"{id}: {state.__name__} has no fields")
        reset_arguments = 3 if options_type is None else 4
        self.reset = _row_function(reset, "reset", ("state", "params", "rng", "options")[:reset_arguments], id)
        if model is not None and not isinstance(model, ModelDef):
            raise TypeError(f"{id}: model: expected a ModelDef, got {shown(model)}")
        if model is not None and num_agents > 1:
            raise TypeError(f"{id}: a model needs a single agent, got num_agents={num_agents}")
        step_arguments: tuple[str, ...] = ("state", "action", "params", "rng")
        agent: tuple[str, ...] = ()
        if num_agents > 1:
            step_arguments = ("state", "actions", "params", "rng", "rewards", "terminated", "truncated")
            agent = ("agent",)
        if step is not None or model is None or model.events is None:
            _row_function(step, "step", step_arguments, id)
        self.model = model
        if model is not None:
            model.check(id, self.reset, step, action_space)
        self.step: Any = chance.step if step is None else step
        self.observe = _row_function(observe, "observe", ("state", "params", *agent, "obs"), id)
        self.info = None if info is None else _row_function(info, "info", ("state", "params", *agent, "out"), id)
        self.functions = dict(functions or {})
        if model is not None and model.events is not None:
            self.functions |= {"chance_events": model.events, "chance_apply": model.apply}  # type: ignore[dict-item]
        self.observation_space = observation_space
        self.action_space = action_space
        self.observation_leaves = leaves_of(observation_space, f"{id}: observation_space")
        self.action_leaves = leaves_of(action_space, f"{id}: action_space")
        if invalid_action == "step" and all(isinstance(leaf.space, spaces.Box) for leaf in self.action_leaves):
            raise ValueError(
                f"{id}: invalid_action='step' is for integers outside their space; Box actions outside their bounds go "
                "to `step` anyway"
            )
        self.action_mask = None
        if action_mask is not None:
            self.action_mask = _row_function(action_mask, "action_mask", ("state", "params", *agent, "mask"), id)
        self._check_functions()
        self.sizes = dict(sizes or {})
        for name, size in self.sizes.items():
            if not (_is_int(size) and 1 <= size < 2**31):
                raise ValueError(f"{id}: sizes[{name!r}]: expected an int >= 1 (and below 2**31), got {shown(size)}")
        #: Name, dtype and row shape of every array that `info` and `action_mask` fill.
        self.info_arrays = [_info_array(field, self.sizes, id) for field in self.info_type.fields]
        if action_mask is not None:
            self.info_arrays.append(("action_mask", np.dtype(np.int8), (_mask_size(action_space, id),)))
        self.num_agents = int(num_agents)
        #: What stands between this and the batch (`vecenv.kernels.transform.transformed`), the innermost first.
        self.transforms: tuple[Any, ...] = ()
        self.max_episode_steps = max_episode_steps
        self.invalid_action = invalid_action
        self.render = None if render is None else _takes(render, "render", ("state", "params", "canvas"), id)
        self.text = None if text is None else _takes(text, "text", ("state", "params"), id)
        self.render_fps = render_fps
        self.fixed_params = frozenset(param_values or {})
        known = {field.name for field in self.params.fields}
        for name in self.fixed_params - known:
            raise ValueError(f"{id}: {self.params.__name__} has no field {name!r}{close_matches(name, known)}")
        self.default_params = resolve_params(self.params, param_values or {}, id)

    @property
    def step_leaves(self) -> tuple[Leaf, ...]:
        """The leaves of what `step` takes: of the action, or of all agents' actions `[A, ...]`."""
        if self.num_agents == 1:
            return self.action_leaves
        return tuple(
            Leaf(leaf.key, leaf.space, leaf.dtype, (self.num_agents, *leaf.shape)) for leaf in self.action_leaves
        )

    def _check_functions(self) -> None:
        """Raise where `functions` names what is not marked, or what no function of the call tree reads."""
        for name, function in self.functions.items():
            if not is_jit(function):
                raise BindError(f"{self.id}: functions[{name!r}] is not marked; put @jit above it")
        if self.functions:
            roots = [self.reset, self.step, self.observe, self.info, self.action_mask]
            if self.model is not None:
                roots += [self.model.encode, self.model.decode, self.model.outcomes, self.model.start]
            read = global_names([root for root in roots if root is not None], self.functions)
            for name in self.functions:
                if name not in read:
                    raise ValueError(
                        f"{self.id}: functions[{name!r}]: no row function reads a global {name!r}"
                        f"{close_matches(name, read)}"
                    )

    def resolve_params(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Shared values of all params: `given`, else this definition's."""
        known = {field.name for field in self.params.fields}
        for name in given or {}:
            if name not in known:
                raise ValueError(f"{self.id}: no param {name!r}{close_matches(name, known)}")
            if name in self.fixed_params:
                raise ValueError(f"{self.id}: param {name!r} follows from the options and cannot be given")
        return resolve_params(self.params, {**self.default_params, **(given or {})}, self.id)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "kernels": {}, "frozen": {}}  # machine code does not travel

    def __deepcopy__(self, memo: dict[int, Any]) -> EnvDef:
        return self  # nothing here changes

    def __repr__(self) -> str:
        return f"EnvDef({self.id})"


def _info_array(field: Field, sizes: Mapping[str, int], id: str) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    assert isinstance(field.type, ColumnType)
    shape = []
    for size in field.type.shape:
        if isinstance(size, str) and size not in sizes:
            raise TypeError(f"{id}: info field {field.name!r} has the size {size!r}, which is not in sizes")
        shape.append(sizes[size] if isinstance(size, str) else size)
    return field.name, field.dtype, tuple(shape)


def _mask_size(space: spaces.Space[Any], id: str) -> int:
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    raise TypeError(f"{id}: action_mask needs a Discrete or MultiDiscrete action space, got {space}")


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _subclass(given: Any, base: type, id: str) -> Any:
    if not (isinstance(given, type) and issubclass(given, base)):
        raise TypeError(f"{id}: expected a subclass of {base.__name__}, got {shown(given)}")
    return given


def _row_function(function: Any, role: str, arguments: tuple[str, ...], id: str) -> Any:
    if not is_jit(function):
        raise BindError(f"{id}: `{role}` is not marked; put @jit above `def {getattr(function, '__name__', role)}`")
    return _takes(function, role, arguments, id)


def _takes(function: Any, role: str, arguments: tuple[str, ...], id: str) -> Any:
    if not callable(function):
        raise TypeError(f"{id}: `{role}` is a function, got {shown(function)}")
    parameters = inspect.signature(function).parameters
    plain = all(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters.values())
    if len(parameters) != len(arguments) or not plain:
        raise BindError(
            f"{id}: `{role}` takes ({', '.join(arguments)}), got {function.__name__}({', '.join(parameters)})"
        )
    return function
