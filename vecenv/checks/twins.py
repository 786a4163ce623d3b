"""More batches of the same environment: given by a factory, or derived from a batch of vecenv or of Gymnasium."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import TimeLimit

from vecenv.vec_env import VecEnv

Envs = VectorEnv[Any, Any, Any]
Make = Callable[..., Envs]


def mode_of(envs: Envs) -> AutoresetMode | None:
    """The auto-reset mode that a batch declares, in metadata or as an attribute."""
    for mode in (
        (getattr(envs, "metadata", None) or {}).get("autoreset_mode"),
        getattr(envs, "autoreset_mode", None),
        getattr(envs.unwrapped, "autoreset_mode", None),
    ):
        if isinstance(mode, AutoresetMode):
            return mode
    return None


def limits_of(envs: Envs) -> list[int] | None:
    """The step limit of each row where it can be known, -1 for none."""
    inner = envs.unwrapped
    if isinstance(inner, VecEnv):
        return [int(limit) for limit in inner._memory.side["side.limit"]]
    if isinstance(inner, SyncVectorEnv):
        return [_time_limit(env) for env in inner.envs]
    limit = getattr(getattr(inner, "spec", None), "max_episode_steps", None)
    return None if limit is None else [int(limit)] * envs.num_envs


def _time_limit(env: gymnasium.Env[Any, Any]) -> int:
    if not env.has_wrapper_attr("_max_episode_steps"):
        return -1
    limit = env.get_wrapper_attr("_max_episode_steps")
    return -1 if limit is None else int(limit)


def derive(envs: Envs) -> Make | None:
    """A factory `make(num_envs, autoreset_mode=None, max_episode_steps=None)` of batches like `envs`, or None."""
    if isinstance(envs, VecEnv) and type(envs).__init__ is VecEnv.__init__:
        return _like_vecenv(envs)
    if isinstance(envs, SyncVectorEnv) and type(envs).__init__ is SyncVectorEnv.__init__:
        return _like_sync(envs)
    return None


def _like_vecenv(envs: VecEnv) -> Make:
    limits = limits_of(envs) or [-1]

    def make(num_envs: int, autoreset_mode: AutoresetMode | None = None, max_episode_steps: int | None = None) -> Envs:
        arguments = {**envs._arguments, "copy": True, "max_episode_steps": max_episode_steps}
        if max_episode_steps is None:
            arguments["max_episode_steps"] = np.array([limits[min(i, len(limits) - 1)] for i in range(num_envs)])
        if autoreset_mode is not None and autoreset_mode is not envs.autoreset_mode:
            arguments |= {"autoreset_mode": autoreset_mode, "ended": "raise"}
        params = envs._params_for(num_envs)
        for field in envs._memory.wiring.row_params:
            if field.name not in envs._memory.uniforms:  # the same in all rows, so that rows can be compared
                params[field.name] = np.full(num_envs, envs.params[field.name][0])
        return type(envs)(envs.definition, num_envs, params=params, **arguments)

    return make


def _like_sync(envs: SyncVectorEnv) -> Make:
    functions = list(envs.env_fns)

    def limited(function: Callable[[], Any], limit: int | None) -> Callable[[], Any]:
        def build() -> Any:
            env = function()
            if limit is None:
                return env
            if env.has_wrapper_attr("_max_episode_steps"):
                env.set_wrapper_attr("_max_episode_steps", limit)
                return env
            return TimeLimit(env, limit)

        return build

    def make(num_envs: int, autoreset_mode: AutoresetMode | None = None, max_episode_steps: int | None = None) -> Envs:
        return type(envs)(
            [limited(functions[i % len(functions)], max_episode_steps) for i in range(num_envs)],
            observation_mode=envs.observation_mode,
            autoreset_mode=autoreset_mode or envs.autoreset_mode,
        )

    return make


class Twins:
    """Batches like `envs` of any size, mode and limit, each made once; or only `envs` itself where none can be made.

    Args:
        envs: the batch that is checked.
        make: `make(num_envs=n)`; it may also take `autoreset_mode` and `max_episode_steps`. None: derived from `envs`.
    """

    def __init__(self, envs: Envs, make: Make | None) -> None:
        self.envs = envs
        self.make = make or derive(envs)
        self._made: dict[Any, Envs | None] = {}
        parameters = inspect.signature(self.make).parameters if self.make is not None else {}
        names = {name for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_POSITIONAL}
        self._any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        self._names = names

    def get(self, n: int, mode: AutoresetMode | None = None, limit: int | None = None) -> Envs | None:
        """A batch of n rows, or None where the factory cannot make it. Asking again gives the same object."""
        if self.make is None:
            return self.envs if n == self.envs.num_envs and mode is None and limit is None else None
        key = (n, mode, limit)
        if key not in self._made:
            self._made[key] = self._new(n, mode, limit)
        return self._made[key]

    def _new(self, n: int, mode: AutoresetMode | None, limit: int | None) -> Envs | None:
        assert self.make is not None
        keywords: dict[str, Any] = {}
        if mode is not None:
            keywords["autoreset_mode"] = mode
        if limit is not None:
            keywords["max_episode_steps"] = limit
        if not self._any and not set(keywords) <= self._names:
            return None
        if not keywords:
            return self.make(num_envs=n)
        try:
            made = self.make(num_envs=n, **keywords)
        except TypeError:  # passed on to something that has no such argument
            return None
        return made if mode is None or mode_of(made) is mode else None

    def close(self) -> None:
        """Close every batch that was made here."""
        for made in self._made.values():
            if made is not None:
                made.close()
