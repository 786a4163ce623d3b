"""`View`: one row of a batch as a live `gymnasium.Env`, for debugging and for code that steps one environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space

from vecenv.arguments import parse_flag, parse_mapping, parse_row
from vecenv.kernels import batch
from vecenv.kernels import rng as streams
from vecenv.kernels.seeding import normalize_seed
from vecenv.kernels.soa import shown
from vecenv.state import RowState

if TYPE_CHECKING:
    from vecenv.vec_env import VecEnv


class View(gymnasium.Env[Any, Any]):
    """Row `row` of `envs`. Stepping it moves only that row and never auto-resets; what the batch does to the row shows
    here, and the other way round. Made by `envs.view(i)`, or by `vecenv.make(id)` on a batch of its own.

    With A agents, spaces are batched over them, and rewards and flags are arrays `[A]`.

    `print(view)` shows the row's fields by name; `view.state.x` reads and writes them.
    """

    def __init__(self, envs: VecEnv, row: int, owner: bool = False) -> None:
        from vecenv.vec_env import VecEnv

        if not isinstance(envs, VecEnv):
            raise TypeError(f"View: expected a VecEnv, got {shown(envs)}")
        row = parse_row(row, envs.num_rows, "view")
        self.envs, self.row, self._owner = envs, row, owner
        self.observation_space: Any = envs.single_observation_space
        self.action_space: Any = envs.single_action_space
        if envs.num_agents > 1:
            self.observation_space = batch_space(self.observation_space, envs.num_agents)
            self.action_space = batch_space(self.action_space, envs.num_agents)
        self.metadata = {
            "render_modes": list(envs.metadata["render_modes"]),
            "render_fps": envs.metadata["render_fps"],
        }
        self.render_mode = envs.render_mode
        self.spec = None
        columns = {name: envs.state[name] for name in envs.state} | {"limit": envs._memory.side["side.limit"]}
        self.state = RowState(columns, frozenset({"limit"}), row)
        self._rows = np.array([row], np.int64)
        # One number per action: the short way through `step`.
        self._takes_ints = isinstance(self.action_space, gymnasium.spaces.Discrete)
        self._is_plain = envs._runner.is_plain and envs.num_agents == 1
        self._has_info = envs._infos.written
        #: Arrays for one step: an action, and what comes out. Each of two threads takes its own.
        self._free: list[tuple[Any, Any, Any, Any]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start a new episode in this row. `seed` as in `gymnasium.Env.reset`: an int re-creates the row's stream."""
        envs = self.envs
        envs._check_open()
        given = {} if options is None else dict(parse_mapping(options, "reset: options", "a dict or None"))
        if "reset_mask" in given:
            raise ValueError("reset options: unknown key 'reset_mask'; a view resets its own row")
        number = None if seed is None else normalize_seed(seed)
        return envs._claim.run(envs._reset_one, self._rows, given, number)

    def step(self, action: Any, *, jit: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step this row.

        Args:
            action: of `action_space`; integers may be Python ints, NumPy scalars or 0-d arrays.
            jit: False runs the environment's functions as plain Python, so that `breakpoint()` in them works. There
                `state` and `print(view)` show the row as it is; calls of the batch raise a RuntimeError.

        Raises:
            gymnasium.error.ResetNeeded: the row was never reset, or its episode has ended.
        """
        envs = self.envs
        try:
            arrays = self._free.pop()
        except IndexError:
            arrays = envs._parse_actions.empty(1), np.empty(1), np.empty(1, np.bool_), np.empty(1, np.bool_)
        actions, rewards, terminated, truncated = arrays
        if self._takes_ints and type(action) is int and -(2**63) <= action < 2**63:
            actions[0] = action
        else:
            actions = envs._parse_actions.one(action)
        if not (jit is True and self._is_plain):
            return self._step_slowly(actions, parse_flag(jit, "jit"))
        buffers = envs._buffers
        is_array = buffers.kind == "array"
        obs, info = buffers.empty(1), envs._infos.new(1) if self._has_info else 0
        number = next(envs._numbers)
        code = envs._step_kernel(
            envs._head,
            envs._arena,
            self.row,
            1,
            batch.DISABLED + batch.NUMBER * number,
            actions,
            obs if is_array else buffers.arrays(obs),
            rewards,
            terminated,
            truncated,
            envs._no_final,
            info,
            info,
        )
        if code < 0:
            envs._runner.refuse(code, self._rows, actions)
        envs._last = number, self._rows, None
        result = (
            obs[0] if is_array else buffers.row(obs, 0),
            float(rewards[0]),
            bool(terminated[0]),
            bool(truncated[0]),
            envs._infos.of_one(info) if info else {},
        )
        self._free.append(arrays)
        return result

    def _step_slowly(self, actions: Any, jit: bool) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """As plain Python, or with checks that the kernel does not make."""
        envs = self.envs
        outputs = envs._outputs.new(1)
        number = next(envs._numbers)
        _, info, _ = envs._runner.step(self._rows, actions, outputs, batch.DISABLED + batch.NUMBER * number, jit)
        envs._last = number, self._rows, None
        assert outputs.rewards is not None and outputs.terminated is not None and outputs.truncated is not None
        if envs.num_agents > 1:
            flags = outputs.terminated, outputs.truncated
            return envs._buffers.row(outputs.obs, 0), outputs.rewards, *flags, envs._infos.of_one(info)
        return (
            envs._buffers.row(outputs.obs, 0),
            float(outputs.rewards[0]),
            bool(outputs.terminated[0]),
            bool(outputs.truncated[0]),
            envs._infos.of_one(info),
        )

    def render(self) -> Any:
        """This row as it is now, by the batch's `render_mode`: a uint8 array `[H, W, 3]` or a string.

        Returns:
            None, with a warning, without a `render_mode`.

        Raises:
            gymnasium.error.ClosedEnvironmentError, ResetNeeded: the batch is closed, the row was never reset.
        """
        frames = self.envs._render_rows(self._rows)
        return None if frames is None else frames[0]

    def close(self) -> None:
        """Close the batch if this view owns it, as one made by `vecenv.make` does."""
        if self._owner:
            self.envs.close()

    @property
    def np_random(self) -> np.random.Generator:
        """A copy of the row's random stream: drawing from it does not move the row. Assigning one sets the stream."""
        stream = self.envs._memory.columns["engine.rng"][self.row]
        return streams.load(self.envs._claim.run(stream.copy))

    @np_random.setter
    def np_random(self, generator: np.random.Generator) -> None:
        if not isinstance(generator, np.random.Generator) or not isinstance(generator.bit_generator, np.random.PCG64):
            raise TypeError(f"np_random: expected a Generator on PCG64, got {shown(generator)}")
        self.envs._claim.run(streams.store, self.envs._memory.columns["engine.rng"][self.row], generator)

    @property
    def _np_random(self) -> np.random.Generator:  # type: ignore[override]
        return self.np_random

    def __reduce__(self) -> tuple[Any, ...]:
        return View, (self.envs, self.row, self._owner)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self.envs.state[name][self.row].tolist()}" for name in self.envs.state)
        return f"View({self.envs.definition.id} row {self.row}: {fields})"

    __str__ = __repr__
