"""Environments by id: `register`, `make_vec`, `make`, and their registration with Gymnasium."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import DeprecatedEnv, NameNotFound, VersionNotFound

from vecenv.arguments import parse_flag
from vecenv.kernels.envdef import EnvDef, close_matches
from vecenv.kernels.soa import shown
from vecenv.kernels.transform import Transform
from vecenv.vec_env import VecEnv
from vecenv.view import View

Build = Callable[..., EnvDef]

_ID = re.compile(r"^[A-Za-z0-9_.:-]+-v\d+$")
_registry: dict[str, str | Build] = {}
_places: dict[str, tuple[str, str]] = {}  # who registered what: module and function

BUILT_IN = {
    "19Walk-v0": "vecenv.kernels.grid.random_walk:build_19",
    "5Walk-v0": "vecenv.kernels.grid.random_walk:build_5",
    "Acrobot-v1": "vecenv.kernels.classic.acrobot:build",
    "Bandit-v0": "vecenv.kernels.bandit.bandit:build",
    "Blackjack-v1": "vecenv.kernels.toy.blackjack:build",
    "Breakout-v0": "vecenv.kernels.arcade.breakout:build",
    "CartPole-v1": "vecenv.kernels.classic.cartpole:build",
    "Catch-v0": "vecenv.kernels.toy.catch:build",
    "ClassicGridworld-v1": "vecenv.kernels.grid.worlds:build_classic",
    "CliffWalk-v1": "vecenv.kernels.grid.worlds:build_cliff_walk",
    "CliffWalking-v1": "vecenv.kernels.toy.cliff_walking:build",
    "CliffWalkingSlippery-v1": "vecenv.kernels.toy.cliff_walking:build_slippery",
    "ContinuousLqr-v0": "vecenv.kernels.classic.continuous_lqr:build",
    "DeepSea-v0": "vecenv.kernels.grid.deep_sea:build",
    "DynaMaze-v0": "vecenv.kernels.grid.worlds:build_dyna_maze",
    "FlickeringCartPole-v0": "vecenv.kernels.classic.flickering_cartpole:build",
    "FourRooms-v0": "vecenv.kernels.grid.worlds:build_four_rooms",
    "FrozenLake-v1": "vecenv.kernels.toy.frozen_lake:build",
    "FrozenLake8x8-v1": "vecenv.kernels.toy.frozen_lake:build_8x8",
    "GridWorld-v0": "vecenv.kernels.grid.hole_grid:build",
    "JacksCarRental-v0": "vecenv.kernels.grid.jacks_car_rental:build",
    "JacksCarRentalModified-v0": "vecenv.kernels.grid.jacks_car_rental:build_modified",
    "LMaze-v0": "vecenv.kernels.grid.worlds:build_l_maze",
    "LineWorld-v0": "vecenv.kernels.toy.line_world:build",
    "MaskedCartPole-v0": "vecenv.kernels.classic.masked_cartpole:build",
    "MemoryChain-v0": "vecenv.kernels.toy.memory_chain:build",
    "MountainCar-v0": "vecenv.kernels.classic.mountain_car:build",
    "MountainCarContinuous-v0": "vecenv.kernels.classic.mountain_car_continuous:build",
    "Pendulum-v1": "vecenv.kernels.classic.pendulum:build",
    "Pong-v0": "vecenv.kernels.arcade.pong:build",
    "Racetrack1-v0": "vecenv.kernels.grid.racetrack:build_1",
    "Racetrack2-v0": "vecenv.kernels.grid.racetrack:build_2",
    "SimpleBandit-v0": "vecenv.kernels.bandit.simple_bandit:build",
    "Snake-v0": "vecenv.kernels.arcade.snake:build",
    "SparseGridworld-v0": "vecenv.kernels.grid.worlds:build_sparse",
    "TMaze-v0": "vecenv.kernels.grid.tmaze:build",
    "Taxi-v4": "vecenv.kernels.toy.taxi:build",
    "TinyGrid-v0": "vecenv.kernels.grid.tiny_grid:build",
    "WindyGridworld-v0": "vecenv.kernels.grid.worlds:build_windy",
}


def register(what: str | EnvDef, build: Build | str | None = None, *, overwrite: bool = False) -> None:
    """Make an environment known by id, here and as "vecenv/..." in Gymnasium's registry.

    The same functions again, by module and name, replace what they registered before, and so does whatever
    `__main__` registers over its own: a notebook's cell may run twice. Batches made earlier keep their definition.

    Args:
        what: an id such as "MyGrid-v0", or a definition without options.
        build: with an id, a function `build(**options) -> EnvDef`, or where to import it from ("module:function").
            Every option has a default.
        overwrite: replace an environment that was registered from elsewhere.

    Raises:
        TypeError: `build` is no such function, or returns something else.
        ValueError: the id is malformed, or taken by an environment from elsewhere.
    """
    overwrite = parse_flag(overwrite, "register: overwrite")
    if isinstance(what, EnvDef):
        if build is not None:
            raise TypeError("register(definition) takes no build function")
        definition = what
        id, entry = definition.id, lambda: definition
    else:
        if build is None:
            raise TypeError("register(id, build) needs a build function, or pass an EnvDef")
        id, entry = what, build  # type: ignore[assignment]
    if isinstance(entry, str) and not re.fullmatch(r"[\w.]+:\w+", entry):
        raise ValueError(f"{id}: build: expected 'module:function', got {shown(entry)}")
    if isinstance(entry, type) or (not callable(entry) and not isinstance(entry, str)):
        raise TypeError(f"{id}: build is a function or 'module:function', got {shown(entry)}")
    if not isinstance(id, str) or not _ID.match(id):
        raise ValueError(f"id: expected a name with a version such as 'MyGrid-v0', got {shown(id)}")
    place = _place(definition.step if isinstance(what, EnvDef) else entry)
    if id in _registry and not overwrite and place != _places[id] and not place[0] == _places[id][0] == "__main__":
        raise ValueError(
            f"{id!r} is registered already, by {':'.join(_places[id])}; choose another name or version, or replace it "
            "with register(..., overwrite=True)"
        )
    limit = _limit(id, entry)  # raises if its build does not work
    gymnasium.registry.pop(f"vecenv/{id}", None)  # else Gymnasium warns
    gymnasium.register(
        id=f"vecenv/{id}",
        entry_point="vecenv.registry:gymnasium_env",
        vector_entry_point="vecenv.registry:gymnasium_vector_env",
        kwargs={"env_id": id},
        max_episode_steps=limit,
    )
    _registry[id], _places[id] = entry, place


def unregister(id: str) -> None:
    """Forget an id, here and in Gymnasium's registry; batches of it go on.

    Raises:
        gymnasium.error.NameNotFound, VersionNotFound: no such id.
    """
    if not isinstance(id, str):
        raise TypeError(f"unregister: expected an id, got {shown(id)}")
    known = id.removeprefix("vecenv/")
    if known not in _registry:
        raise _unknown_id(id)
    del _registry[known], _places[known]
    gymnasium.registry.pop(f"vecenv/{known}", None)


def _place(function: Any) -> tuple[str, str]:
    """Module and name of a function, or of where to import it from."""
    if isinstance(function, str):
        module, _, name = function.partition(":")
        return module, name
    return getattr(function, "__module__", None) or "?", getattr(function, "__qualname__", type(function).__name__)


def registered_ids() -> list[str]:
    """All known ids, sorted."""
    return sorted(_registry)


def definition_of(what: str | EnvDef, options: Mapping[str, Any] | None = None) -> EnvDef:
    """The definition of an id with some options, or the definition that was given.

    Raises:
        gymnasium.error.NameNotFound, VersionNotFound, DeprecatedEnv: no such id; DeprecatedEnv for an older version.
        TypeError: the environment has no such option.

    An id without a version ("Taxi") is its newest version, with a warning, as in Gymnasium.
    """
    options = dict(options or {})
    if isinstance(what, EnvDef):
        if options:
            raise TypeError(f"{what.id} is built already and takes no options, got {', '.join(map(repr, options))}")
        return what
    if not isinstance(what, str):
        raise TypeError(f"expected an id or an EnvDef, got {shown(what)}")
    what = with_version(what)
    build = _registry.get(what.removeprefix("vecenv/"))
    if build is None:
        raise _unknown_id(what)
    if isinstance(build, str):
        module, _, function = build.partition(":")
        build = getattr(importlib.import_module(module), function)
    known = inspect.signature(build).parameters
    for name in options:
        if name not in known:
            raise TypeError(f"{what}: unknown option {name!r}{close_matches(name, known)}")
    return _definition(what, build, options)


def with_version(id: str) -> str:
    """The id as it is, or for one without a version that of the newest, with a warning as Gymnasium's."""
    name = id.removeprefix("vecenv/")
    versions = {} if name in _registry else _versions(name)
    if not versions:
        return id
    newest = versions[max(versions)]
    warnings.warn(f"{id!r} has no version: using the newest, {newest!r}", UserWarning, stacklevel=3)
    return newest


def _versions(name: str) -> dict[int, str]:
    """The known ids of a name by version."""
    parts = {known: known.rpartition("-v") for known in _registry}
    return {int(version): known for known, (its_name, _, version) in parts.items() if its_name == name}


def _definition(id: str, build: Build, options: Mapping[str, Any]) -> EnvDef:
    if not all(_is_plain(value) for value in options.values()):
        return _build(id, build, options)
    key = build, repr(sorted(options.items()))
    if key not in _built:
        _built[key] = _build(id, build, options)
    return _built[key]


#: Definitions by build function and options, so that equal ones share their kernels.
_built: dict[tuple[Build, str], EnvDef] = {}


def _build(id: str, build: Build, options: Mapping[str, Any]) -> EnvDef:
    for name, parameter in inspect.signature(build).parameters.items():
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD and name not in options:
            raise TypeError(f"{id}: option {name!r} has no default in its build function and was not given")
    definition = build(**options)
    if not isinstance(definition, EnvDef):
        raise TypeError(f"{id}: its build function returns an EnvDef, got {shown(definition)}")
    return definition


def _is_plain(value: Any) -> bool:
    """Whether `repr` says all of a value."""
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def _unknown_id(id: str) -> Exception:
    name, _, version = id.removeprefix("vecenv/").rpartition("-v")
    versions = _versions(name)
    if versions and version.isdecimal() and int(version) < min(versions):
        return DeprecatedEnv(f"environment {id!r} is out of date; use {versions[max(versions)]!r}")
    if versions:
        return VersionNotFound(f"environment {id!r} does not exist; there is: {', '.join(sorted(versions.values()))}")
    return NameNotFound(f"environment {id!r} does not exist{close_matches(id, _registry)}")


def make_vec(
    what: str | EnvDef,
    num_envs: int = 1,
    *,
    autoreset_mode: Any = "next_step",
    ended: str = "raise",
    num_threads: int | str = "auto",
    max_episode_steps: Any = None,
    params: Mapping[str, Any] | None = None,
    transforms: Sequence[Transform] = (),
    math: str = "portable",
    copy: bool = True,
    validate: bool = True,
    strict_actions: bool = False,
    boundscheck: bool | None = None,
    final_obs: str = "dense",
    infos: bool = True,
    render_mode: str | None = None,
    **options: Any,
) -> VecEnv:
    """A batch of `num_envs` environments.

    Args:
        what: an id ("CartPole-v1"; without a version the newest, with a warning) or an `EnvDef`.
        num_envs: N.
        autoreset_mode: "next_step", "same_step" or "disabled", or an `AutoresetMode`.
        ended: what "disabled" does when an ended row is stepped: "raise", or "absorb" (reward 0, last observation,
            flags kept, nothing drawn).
        num_threads: "auto" or 1.
        max_episode_steps: None for the environment's own limit, -1 for none, an int, or an int array `[N]`.
        params: values by name: one number for all rows, an array `[N]` for a value per row, or `uniform(low, high)` for
            one that every reset draws.
        transforms: what stands between the environments and the batch, the innermost first, such as `(FrameStack(4),)`.
        math: "portable" (same bits on every machine, fast) or "libm" (the platform's, bit-equal to Gymnasium).
        copy: False returns the same arrays in every step, overwritten by the next.
        validate: False skips the check of actions; a wrong one is then undefined behaviour.
        strict_actions: refuse Box actions outside their bounds, instead of leaving them to the environment.
        boundscheck: check every index of the environment's functions; slow, for debugging. None: as NUMBA_BOUNDSCHECK
            says.
        final_obs: under SAME_STEP, "dense" (`[N, ...]`, zeros where nothing ended) or "object" (as Gymnasium).
        infos: False leaves `info` and `action_mask` out of the infos.
        render_mode: "rgb_array" (pictures; needs `pip install vecenv[render]`) or "ansi" (text), where the environment
            offers it (`metadata["render_modes"]`).
        **options: options of the environment.
    """
    arguments: dict[str, Any] = {
        "autoreset_mode": autoreset_mode,
        "ended": ended,
        "num_threads": num_threads,
        "max_episode_steps": max_episode_steps,
        "params": params,
        "transforms": transforms,
        "math": math,
        "copy": copy,
        "validate": validate,
        "strict_actions": strict_actions,
        "boundscheck": boundscheck,
        "final_obs": final_obs,
        "infos": infos,
        "render_mode": render_mode,
    }
    if isinstance(what, str):
        what = with_version(what)
    envs = VecEnv(definition_of(what, options), num_envs, **arguments)
    if isinstance(what, str):
        arguments["autoreset_mode"] = envs.autoreset_mode.name.lower()  # so that a spec can become JSON
        envs.spec = _spec(
            what, {"num_envs": num_envs, "vectorization_mode": "vector_entry_point", **arguments, **options}
        )
    return envs


class _Spec(EnvSpec):
    """A spec whose keywords may be what JSON does not know, such as transforms and arrays."""

    def to_json(self) -> str:
        """The spec as a JSON string.

        Raises:
            TypeError: a keyword has no form in JSON. Pickle keeps it.
        """
        for name, value in self.kwargs.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                raise TypeError(
                    f"{self.id}: the spec cannot become JSON: {name}={shown(value)} has no such form; pickle the spec, "
                    f"or keep {name!r} yourself and give it to make or make_vec again"
                ) from None
        return super().to_json()


def _spec(id: str, arguments: Mapping[str, Any]) -> EnvSpec:
    """What `gymnasium.make` or `make_vec` makes the same environment from; arguments at their default are left out."""
    registered = gymnasium.spec(f"vecenv/{id.removeprefix('vecenv/')}")
    spec = _Spec(**{f.name: deepcopy(getattr(registered, f.name)) for f in dataclasses.fields(registered) if f.init})
    defaults = {name: p.default for name, p in inspect.signature(make_vec).parameters.items() if name != "num_envs"}
    for name, value in arguments.items():
        if name not in defaults or repr(value) != repr(defaults[name]):
            spec.kwargs[name] = value
    return spec


def make(
    what: str | EnvDef,
    *,
    max_episode_steps: int | None = None,
    params: Mapping[str, Any] | None = None,
    transforms: Sequence[Transform] = (),
    math: str = "portable",
    render_mode: str | None = None,
    **options: Any,
) -> View:
    """One environment as a `gymnasium.Env`: a view on a batch of one. Arguments as in `make_vec`."""
    for name in ("num_envs", "autoreset_mode"):
        if name in options:
            raise TypeError(f"make: {name!r} belongs to make_vec; this makes one environment, without auto-reset")
    if isinstance(what, str):
        what = with_version(what)
    envs = make_vec(
        what,
        1,
        autoreset_mode="disabled",
        max_episode_steps=max_episode_steps,
        params=params,
        transforms=transforms,
        math=math,
        render_mode=render_mode,
        **options,
    )
    view = View(envs, 0, owner=True)
    if isinstance(what, str):
        arguments = {"params": params, "transforms": transforms, "math": math, "render_mode": render_mode}
        view.spec = _spec(what, {**arguments, **options})
        if max_episode_steps is not None:
            view.spec.max_episode_steps = None if max_episode_steps == -1 else max_episode_steps
    return view


# --- Gymnasium --------------------------------------------------------------------------------------------------------


def gymnasium_env(env_id: str, **options: Any) -> View:
    """Entry point of `gymnasium.make("vecenv/...")`, whose own TimeLimit is the only limiter."""
    return make(env_id, max_episode_steps=-1, **options)


# Lets gymnasium.make wrap what offers "rgb_array" for "human" and "rgb_array_list".
gymnasium_env.metadata = {"render_modes": ["rgb_array", "ansi"]}  # type: ignore[attr-defined]


def gymnasium_vector_env(env_id: str, num_envs: int = 1, **options: Any) -> VecEnv:
    """Entry point of `gymnasium.make_vec("vecenv/...")`."""
    return make_vec(env_id, num_envs, **options)


def _limit(id: str, entry: str | Build) -> int | None:
    """The step limit for Gymnasium; unknown for what is imported later, unless it is built in."""
    if isinstance(entry, str):
        return _GYMNASIUM_LIMITS.get(id) if BUILT_IN.get(id) == entry else None
    return _definition(id, entry, {}).max_episode_steps


#: Limits of the built-in environments, stated here so that importing vecenv builds none of them.
_GYMNASIUM_LIMITS = {
    "Acrobot-v1": 500,
    "Bandit-v0": 1000,
    "Blackjack-v1": None,
    "CartPole-v1": 500,
    "CliffWalking-v1": None,
    "CliffWalkingSlippery-v1": None,
    "ContinuousLqr-v0": 50,
    "FlickeringCartPole-v0": 500,
    "FrozenLake-v1": 100,
    "FrozenLake8x8-v1": 200,
    "GridWorld-v0": 100,
    "JacksCarRental-v0": 100,
    "JacksCarRentalModified-v0": 100,
    "LineWorld-v0": 20,
    "MaskedCartPole-v0": 500,
    "MountainCar-v0": 200,
    "MountainCarContinuous-v0": 999,
    "Pendulum-v1": 200,
    "Pong-v0": 2000,
    "Snake-v0": 400,
    "Taxi-v4": 200,
    "TinyGrid-v0": 50,
}


def register_built_ins() -> None:
    for id, entry in BUILT_IN.items():
        register(id, entry)
