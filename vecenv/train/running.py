"""The run around every trainer: what all configurations have, the folder, resuming, stopping, evaluation."""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from vecenv.registry import make_vec
from vecenv.train import checkpoint
from vecenv.train.evaluation import evaluate
from vecenv.train.monitor import Monitor, summary_writer
from vecenv.train.plot import figure_type, plot_curve
from vecenv.train.settings import check_choices, check_ints, torch_settings
from vecenv.vec_env import VecEnv


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What every trainer's configuration has."""

    env_id: str = "CartPole-v1"  # the environment
    env_options: dict[str, Any] = field(default_factory=dict)  # its options
    max_episode_steps: int | None = None  # step limit; -1 for none; None for the environment's own
    math: Literal["portable", "libm"] = "portable"  # arithmetic of the environment
    seed: int = 0  # of networks and noise; environment i has seed + i
    num_envs: int = 8  # environments, N
    total_steps: int = 500_000  # steps of all environments together
    stop_return: float | None = None  # stop when the mean return of the last episodes reaches this
    window: int = 50  # how many episodes that mean is over
    eval_episodes: int = 20  # greedy episodes at the end, on environments with seeds of their own
    torch_threads: int = 1  # threads of PyTorch: more change the bits, and on small networks cost time
    deterministic: bool = True  # only algorithms of PyTorch that give the same bits every time

    #: What a checkpoint has to be resumed with: it fixes shapes, or what the state means.
    FIXED: ClassVar[tuple[str, ...]] = ("env_id", "env_options", "max_episode_steps", "math", "num_envs")

    def __post_init__(self) -> None:
        check_ints(self, 1, "num_envs", "total_steps", "window", "torch_threads")
        check_ints(self, 0, "seed", "eval_episodes")
        check_choices(self)


class Learner(Protocol):
    """What `run` drives."""

    agent: Any

    def begin(self, obs: Any) -> None:
        """Begin with the first observations of all environments."""

    def advance(self) -> tuple[int, dict[str, float]]:
        """Act and learn for a while; steps of all environments that were taken, and figures for the curve."""

    def state_dict(self) -> dict[str, Any]:
        """All that changes, without environments and monitor. Copies: nothing that comes later changes them."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was called; the environments are where they were then."""


class LearnerType(Protocol):
    def __call__(self, config: Any, envs: VecEnv, monitor: Monitor) -> Learner: ...


@dataclass(frozen=True)
class Result:
    """What training returns.

    Attributes:
        agent: the networks; `agent.act(obs)` are greedy actions.
        config: the configuration.
        step: environment steps, summed over environments.
        seconds: time they took, learning included; compiling and evaluation are not in it.
        stopped: whether `stop_return` was reached.
        curve: a dict of figures per update, as `Monitor` explains.
        eval_returns: returns of the greedy episodes, `[eval_episodes]`.
    """

    agent: Any
    config: Any
    step: int
    seconds: float
    stopped: bool
    curve: list[dict[str, float]]
    eval_returns: npt.NDArray[np.float64]


def run(
    algorithm: str,
    make_learner: LearnerType,
    config: RunConfig,
    envs: VecEnv | None,
    run_dir: str | os.PathLike[str] | None,
    resume: bool,
    checkpoint_seconds: float,
    progress: bool,
) -> Result:
    """Train until `total_steps` or `stop_return`, then evaluate; `train` of the algorithms explains the arguments."""
    folder = None if run_dir is None else Path(run_dir)
    if folder is None and resume:
        raise ValueError("resume: give run_dir, the folder with the checkpoint to go on from")
    state: dict[str, Any] | None = None
    path = None
    if folder is not None:
        summary_writer(), figure_type()  # not installed? say so now
        path = folder / checkpoint.NAME
        if resume:
            state = checkpoint.load(path, algorithm)
            checkpoint.check_same(state["config"], dataclasses.asdict(config), config.FIXED, path)
        elif path.exists():
            raise FileExistsError(f"{path} is there already: resume it, or choose another run_dir")
    own = envs is None
    batch = make_envs(config) if envs is None else envs
    check_envs(config, batch)
    if state is not None:
        checkpoint.check_spaces(state, batch, path)
    try:
        with torch_settings(config.torch_threads, config.deterministic):
            monitor = Monitor(config.env_id, config.total_steps, config.window, folder, progress)
            learner = make_learner(config, batch, monitor)
            if state is None:
                learner.begin(batch.reset(seed=config.seed)[0])
            else:
                batch.restore(state["snapshot"])
                monitor.load_state_dict(state["monitor"])
                learner.load_state_dict(state["learner"])
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            stopped = _loop(algorithm, learner, config, batch, monitor, path, checkpoint_seconds)
            if folder is not None:
                title = f"{algorithm.upper()} on {config.env_id}, seed {config.seed}"
                plot_curve(monitor.curve, folder / "curve.png", title)
            returns = np.zeros(0)
            if config.eval_episodes:
                returns = evaluate(batch, learner.agent.act, config.eval_episodes, config.seed + config.num_envs)
    finally:
        if own:
            batch.close()
    return Result(learner.agent, config, monitor.step, monitor.seconds, stopped, monitor.curve, returns)


def _loop(
    algorithm: str,
    learner: Learner,
    config: RunConfig,
    envs: VecEnv,
    monitor: Monitor,
    path: Path | None,
    checkpoint_seconds: float,
) -> bool:
    """Advance until the end, saving to `path`. Returns whether `stop_return` was reached."""

    def state() -> dict[str, Any]:
        return {
            "algorithm": algorithm,
            "config": dataclasses.asdict(config),
            "spaces": checkpoint.spaces_of(envs),
            "snapshot": envs.snapshot(),
            "monitor": monitor.state_dict(),
            "learner": learner.state_dict(),
        }

    good = None if path is None else state()  # the run as it was before the update that is under way
    saved = before = time.perf_counter()
    reached = False
    try:
        with monitor:
            while monitor.step < config.total_steps and not reached:
                steps, figures = learner.advance()
                now = time.perf_counter()
                monitor.record(steps, now - before, **figures)
                before = now
                reached = config.stop_return is not None and monitor.window_return >= config.stop_return
                if path is not None:
                    good = state()
                    if now - saved >= checkpoint_seconds:
                        checkpoint.save(path, good)
                        saved = now
    except FloatingPointError as error:
        kept = "" if path is None else f"; {path} holds the run before this update"
        number = len(monitor.curve) + 1
        raise FloatingPointError(f"update {number}: {error}{kept}. A smaller learning_rate may help") from None
    finally:
        if path is not None and good is not None:
            checkpoint.save(path, good)
    return reached


def make_envs(config: RunConfig) -> VecEnv:
    """The batch that `config` asks for."""
    return make_vec(
        config.env_id,
        config.num_envs,
        autoreset_mode="same_step",
        max_episode_steps=config.max_episode_steps,
        math=config.math,
        infos=False,
        **config.env_options,
    )


def check_envs(config: RunConfig, envs: VecEnv) -> None:
    """Raise unless `envs` can be trained on, as far as that depends on no algorithm."""
    if not isinstance(envs, VecEnv):
        raise TypeError(f"envs: expected a VecEnv, got {type(envs).__name__}")
    if envs.num_agents != 1:
        raise ValueError(f"envs: expected one agent per environment; {envs.definition.id} has {envs.num_agents}")
    if envs.num_envs != config.num_envs:
        raise ValueError(f"envs: expected num_envs={config.num_envs} as in the configuration, got {envs.num_envs}")
    if envs.autoreset_mode is not AutoresetMode.SAME_STEP:
        raise ValueError(f"envs: expected autoreset_mode='same_step', got {envs.autoreset_mode.name}")
