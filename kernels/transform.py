"""Transforms: what stands between an environment and the batch, as columns of the arena and hooks of the kernels."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gymnasium import spaces

from vecenv.kernels.envdef import EnvDef, RowFunction, leaves_of
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import Column


@dataclass(frozen=True)
class BoundTransform:
    """One transform of one definition. Hooks are `@jit` functions, or None.

    `own` is the row of its columns, zero when an episode begins; `below` are those of the transforms before it, which
    `observe` of `Transform` takes. Everything that a hook keeps is in `own`, so that snapshots hold it.

    Attributes:
        key: says all that the hooks depend on.
        columns: its columns.
        observation_space, action_space: of one environment, as seen from outside.
        before_step: `before_step(own, state, action, params, rng)` returns the action that goes on.
        after_step: `after_step(own, below, state, params)`, once per transition, when `state.elapsed` counts it.
        after_reset: `after_reset(own, below, state, params)`; draws nothing: a state given to `reset` comes after it,
            and then it runs again, on zeroed columns.
        on_observe: `on_observe(own, below, state, params, obs)` writes every element of `obs` and nothing else.
    """

    key: str
    columns: tuple[Column, ...]
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    before_step: RowFunction | None = None
    after_step: RowFunction | None = None
    after_reset: RowFunction | None = None
    on_observe: RowFunction | None = None


class Transform(Protocol):
    """What users pass as a transform."""

    def bind(self, definition: EnvDef, name: str, observe: RowFunction) -> BoundTransform:
        """This transform of `definition`.

        Args:
            definition: with the spaces that the transforms before this one have left.
            name: begins the names of its columns.
            observe: `observe(below, state, params, obs)`: the observation without this transform.
        """


def transformed(definition: EnvDef, transforms: Sequence[Transform]) -> EnvDef:
    """`definition` as it is seen through transforms, the first next to it; one object for equal transforms.

    Raises:
        TypeError: it has several agents, or a transform cannot have its spaces.
    """
    if not transforms:
        return definition
    if definition.num_agents > 1:
        raise TypeError(
            f"{definition.id}: transforms: expected an environment with one agent, got {definition.num_agents}"
        )
    key = "transforms", *transforms
    if key not in definition.kernels:
        definition.kernels[key] = _transformed(definition, transforms)
    found: EnvDef = definition.kernels[key]
    return found


def _transformed(definition: EnvDef, transforms: Sequence[Transform]) -> EnvDef:
    result = copy.copy(definition)
    for k, each in enumerate(transforms):
        name = f"{type(each).__name__}.{k}"
        transform = each.bind(result, name, chain(definition.observe, result.transforms)["observation_of"])
        result = copy.copy(result)
        result.transforms = (*result.transforms, transform)
        result.observation_space, result.action_space = transform.observation_space, transform.action_space
        result.observation_leaves = leaves_of(result.observation_space, f"{definition.id}: {each!r}")
        result.action_leaves = leaves_of(result.action_space, f"{definition.id}: {each!r}")
        if result.sizes:  # then shapes are run-time values, those of the columns too
            result.sizes = {**result.sizes, **{size: n for c in transform.columns for size, n in sizes_of(c).items()}}
    return result


def sizes_of(column: Column) -> dict[str, int]:
    """Names for the sizes of a column, where they are run-time values."""
    return {f"{column.name}[{axis}]": size for axis, size in enumerate(column.shape)}


# --- hooks in a row ---------------------------------------------------------------------------------------------------


def chain(author_observe: RowFunction, transforms: Sequence[BoundTransform]) -> dict[str, RowFunction]:
    """What kernels call for all transforms together. `own` is a pair of the last one's row and the pair before."""

    @jit
    def observe(own, state, params, obs):  # type: ignore[no-untyped-def]
        author_observe(state, params, obs)

    found: dict[str, RowFunction] = {
        "before_step": _same_action,
        "after_step": _nothing,
        "after_reset": _nothing,
        "observation_of": observe,
    }
    for transform in transforms:
        found = {
            "before_step": _before(transform.before_step, found["before_step"]),
            "after_step": _after(transform.after_step, found["after_step"]),
            "after_reset": _after(transform.after_reset, found["after_reset"]),
            "observation_of": _observing(transform.on_observe, found["observation_of"]),
        }
    return found


@jit
def _same_action(own, state, action, params, rng):  # type: ignore[no-untyped-def]
    return action


@jit
def _nothing(own, state, params):  # type: ignore[no-untyped-def]
    return


def _before(hook: Any, rest: RowFunction) -> RowFunction:
    """The outermost transform gets the user's action first."""

    @jit
    def skip(own, state, action, params, rng):  # type: ignore[no-untyped-def]
        return rest(own[1], state, action, params, rng)

    @jit
    def before_step(own, state, action, params, rng):  # type: ignore[no-untyped-def]
        return rest(own[1], state, hook(own[0], state, action, params, rng), params, rng)

    return skip if hook is None else before_step


def _after(hook: Any, rest: RowFunction) -> RowFunction:
    """The innermost transform comes first: those around it observe through it."""

    @jit
    def skip(own, state, params):  # type: ignore[no-untyped-def]
        rest(own[1], state, params)

    @jit
    def after(own, state, params):  # type: ignore[no-untyped-def]
        rest(own[1], state, params)
        hook(own[0], own[1], state, params)

    return skip if hook is None else after


def _observing(hook: Any, rest: RowFunction) -> RowFunction:
    @jit
    def skip(own, state, params, obs):  # type: ignore[no-untyped-def]
        rest(own[1], state, params, obs)

    @jit
    def observe(own, state, params, obs):  # type: ignore[no-untyped-def]
        hook(own[0], own[1], state, params, obs)

    return skip if hook is None else observe
