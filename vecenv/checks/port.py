"""`check_port`: is a definition the same task as a Gymnasium class?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np

from vecenv.arguments import parse_count
from vecenv.checks.play import copy_space
from vecenv.checks.report import show
from vecenv.checks.trees import equal_arrays, leaves
from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.soa import shown
from vecenv.registry import definition_of, make
from vecenv.view import View

GymFactory = Callable[[], gymnasium.Env[Any, Any]]
ActionsOf = Callable[[int, int, Any], Any]


def check_port(
    definition: EnvDef | str,
    gym_factory: GymFactory,
    *,
    seeds: Iterable[int] = range(5),
    num_steps: int = 1000,
    actions: Sequence[Any] | ActionsOf | None = None,
    math: str = "libm",
    compare_infos: bool = True,
    tolerance: int = 0,
) -> None:
    """Check that a definition is the same task as a Gymnasium environment; return quietly if it is.

    Both are reset with the same seed and get the same actions. After an end both are reset without a seed, so that the
    random streams have to stay together over episodes. Observations, rewards, both flags and the infos that both give
    have to be equal: exactly, or within `tolerance`. Where Gymnasium reports termination and truncation together,
    termination is expected alone, as vecenv has it. The spaces have to be equal too.

    Args:
        definition: the port, or the id under which it is registered.
        gym_factory: makes the Gymnasium environment, with its step limit (`gymnasium.make` or `TimeLimit`).
        seeds: of the runs; each is a Python int >= 0.
        num_steps: steps of each run.
        actions: None for random ones from the action space; a sequence that is repeated; or a function
            `actions(seed, t, obs)` of the seed, the step since the reset by seed, from 0, and the last observation.
        math: of the port; "libm" has the bits of Python's `math` module.
        compare_infos: whether infos are compared, field by field, where both have the field.
        tolerance: how far float observations and rewards may differ, in units of the last place of float32.

    Raises:
        AssertionError: names the first seed, step and field that differ, with both values, the port's state before that
            step, and whether the random streams had parted.
    """
    num_steps = parse_count(num_steps, "check_port: num_steps")
    definition = definition_of(definition)
    if not callable(gym_factory):
        raise TypeError(f"check_port: gym_factory: expected a function, got {shown(gym_factory)}")
    env = gym_factory()
    if not isinstance(env, gymnasium.Env):
        raise TypeError(f"check_port: expected gym_factory() to be a gymnasium.Env, got {type(env).__name__}")
    view = make(definition, math=math)
    try:
        _compare_spaces(definition, view, env)
        for seed in seeds:
            _Lockstep(definition, view, env, int(seed), actions, compare_infos, tolerance).run(num_steps)
    finally:
        view.close()
        env.close()


def _compare_spaces(definition: EnvDef, view: View, env: gymnasium.Env[Any, Any]) -> None:
    for name in ("observation_space", "action_space"):
        expected, got = getattr(env, name), getattr(view, name)
        if expected != got:
            raise AssertionError(f"check_port({definition.id}): {name}: Gymnasium {expected}, port {got}")


class _Lockstep:
    """One run of both environments."""

    def __init__(
        self,
        definition: EnvDef,
        view: View,
        env: gymnasium.Env[Any, Any],
        seed: int,
        actions: Sequence[Any] | ActionsOf | None,
        compare_infos: bool,
        tolerance: int,
    ) -> None:
        self.definition, self.view, self.env, self.seed = definition, view, env, seed
        self.actions, self.compare_infos, self.tolerance = actions, compare_infos, tolerance
        self.space = copy_space(env.action_space, seed)
        self.t, self.episode, self.elapsed = 0, 0, 0
        self.action: Any = None
        self.before = ""
        self.parted = ""

    def run(self, num_steps: int) -> None:
        obs = self._reset(self.seed)
        for self.t in range(1, num_steps + 1):
            self.action = self._action(obs)
            self.before, self.elapsed = repr(self.view), self.elapsed + 1
            theirs, ours = self.env.step(self.action), self.view.step(self.action)
            obs, reward, terminated, truncated, info = theirs
            self._streams("step")
            self._compare("obs", obs, ours[0])
            self._compare("terminated", bool(terminated), ours[2])
            self._compare("truncated", bool(truncated) and not terminated, ours[3])
            self._compare("reward", np.float64(reward), ours[1])
            self._infos(info, ours[4])
            if terminated or truncated:
                obs = self._reset(None)

    def _reset(self, seed: int | None) -> Any:
        self.action, self.before, self.elapsed = None, "", 0
        self.episode += 1
        (obs, info), (our_obs, our_info) = self.env.reset(seed=seed), self.view.reset(seed=seed)
        self._streams("reset")
        self._compare("obs", obs, our_obs)
        self._infos(info, our_info)
        return obs

    def _action(self, obs: Any) -> Any:
        if self.actions is None:
            return self.space.sample()
        if callable(self.actions):
            return self.actions(self.seed, self.t - 1, obs)
        return self.actions[(self.t - 1) % len(self.actions)]

    def _infos(self, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
        if self.compare_infos:
            for key in theirs:
                if key in ours:
                    self._compare(f"info[{key!r}]", theirs[key], ours[key])

    def _streams(self, what: str) -> None:
        """Note where the random streams part, which shows before anything else does."""
        generator = getattr(self.env.unwrapped, "_np_random", None)
        if self.parted or generator is None or not isinstance(generator.bit_generator, np.random.PCG64):
            return
        if generator.bit_generator.state != self.view.np_random.bit_generator.state:
            self.parted = f"the {what} of step {self.t}"

    def _compare(self, field: str, theirs: Any, ours: Any) -> None:
        of_theirs, of_ours = dict(leaves(theirs)), dict(leaves(ours))
        if set(of_theirs) != set(of_ours):
            self._differ(field, theirs, ours)
        for path, expected in of_theirs.items():
            got = of_ours[path]
            if field == "obs" and expected.dtype != got.dtype and {expected.dtype.kind, got.dtype.kind} & {"f", "b"}:
                self._differ(f"{field}{path} (dtype)", expected.dtype, got.dtype)
            if equal_arrays(expected, got):
                continue
            wrong = np.ones((), np.bool_)
            if expected.shape == got.shape:
                wrong = (expected != got) & ~(_isnan(expected) & _isnan(got))
                if expected.dtype.kind == "f" and got.dtype.kind == "f" and self.tolerance:
                    wrong &= _ulps(expected, got) > self.tolerance
                if not wrong.any():
                    continue
            if wrong.ndim == 0:
                self._differ(field + path, expected, got)
            index = tuple(int(k) for k in np.argwhere(wrong)[0])
            place = f"{field}{path}[{', '.join(map(str, index))}]"
            self._differ(place, expected[index], got[index], f"; whole: Gymnasium {show(expected)}, port {show(got)}")

    def _differ(self, field: str, theirs: Any, ours: Any, more: str = "") -> None:
        place = f"seed {self.seed}, step {self.t}"
        if self.action is None:
            place += f", reset of episode {self.episode}"
        else:
            place += f" (step {self.elapsed} of episode {self.episode})"
        lines = [
            f"check_port({self.definition.id}): {place}: {field}: Gymnasium {show(theirs)}, port {show(ours)}{more}"
        ]
        if self.before:
            lines.append(f"before, with action {show(self.action)}: {self.before}")
        if self.parted:
            lines.append(f"the random streams parted in {self.parted}: other draws, or in another order")
        elif field == "truncated" and self.elapsed == self.definition.max_episode_steps:
            lines.append("the port has reached its max_episode_steps; gym_factory() needs the same limit (TimeLimit)")
        raise AssertionError("\n  ".join(lines))


def _isnan(array: Any) -> Any:
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, np.bool_)


def _ulps(a: Any, b: Any) -> Any:
    """Distance of two arrays in float32's units of the last place; infinite where one is NaN."""

    def ordered(array: Any) -> Any:
        with np.errstate(over="ignore"):
            bits = np.asarray(array, np.float32).view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)

    distance = np.abs(ordered(a) - ordered(b)).astype(np.float64)
    return np.where(np.isnan(a) | np.isnan(b), np.inf, distance)
