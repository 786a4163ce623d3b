"""CartPole learned by vecenv's PPO and by stable-baselines3's, by one rule.

    python -m benchmarks.learning                   # print both settings, a line per run, a table
    python -m benchmarks.learning --check           # exit 1 if a target is missed
    python -m benchmarks.learning --seeds 3 --json result.json

Needs `pip install vecenv[train] stable-baselines3`.

Training stops when the mean return of the last 50 training episodes is at least 475, looked at after every update, or
after 100,000 steps. Then the greedy policy plays 100 episodes of `gymnasium.make("CartPole-v1")` on seeds that no
training has seen, once; it passes with a mean of at least 475. Timed is the training loop: environments, networks and
kernels are made before, evaluation comes after. Both have one thread of PyTorch. Seeds run in turns, so that another
load on the machine meets all alike; CPU seconds hardly feel it.

Stable-baselines3 has its tuned settings (rl-baselines3-zoo); vecenv has settings of its own, and as a third case those
of stable-baselines3.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import gymnasium
import numpy as np
import numpy.typing as npt
import torch

from benchmarks.measure import machine
from vecenv.train import ppo
from vecenv.train.running import make_envs

EPISODES, WINDOW, BAR, TOTAL_STEPS = 100, 50, 475.0, 100_000

#: Keywords of `stable_baselines3.PPO`; rate and clip go to 0 over the 100,000 steps.
SB3 = {"n_steps": 32, "batch_size": 256, "n_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8, "ent_coef": 0.0}
SB3_NUM_ENVS, SB3_LEARNING_RATE, SB3_CLIP = 8, 1e-3, 0.2

COMMON = ppo.Config(
    total_steps=TOTAL_STEPS,
    learning_rate_schedule="linear",
    clip_schedule="linear",
    value_clip=None,
    entropy_coef=0.0,
    target_kl=None,
    stop_return=BAR,
    window=WINDOW,
    eval_episodes=0,
)
SAME = dataclasses.replace(
    COMMON,
    num_envs=SB3_NUM_ENVS,
    num_steps=32,
    minibatch_size=256,
    num_epochs=20,
    gamma=0.98,
    gae_lambda=0.8,
    learning_rate=SB3_LEARNING_RATE,
    clip=SB3_CLIP,
)
OWN = dataclasses.replace(
    COMMON,
    num_envs=32,
    num_steps=32,
    minibatch_size=256,
    num_epochs=5,
    gamma=0.98,
    gae_lambda=0.9,
    learning_rate=3e-3,
    clip=0.2,
)

Act = Callable[[npt.NDArray[Any]], Any]


@dataclasses.dataclass
class Run:
    """One training: seconds of the clock and of the processor, steps, whether the rule was met, greedy mean."""

    case: str
    seed: int
    seconds: float
    cpu_seconds: float
    steps: int
    stopped: bool
    greedy_mean: float = float("nan")

    @property
    def passed(self) -> bool:
        return self.stopped and self.greedy_mean >= BAR


def greedy_mean(act: Act, seed: int) -> float:
    """Mean return of 100 episodes of Gymnasium's CartPole, seeded far from what training saw."""
    env = gymnasium.make("CartPole-v1")
    total = 0.0
    for episode in range(EPISODES):
        obs, _ = env.reset(seed=1_000_000 + seed * EPISODES + episode)
        over = False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(act(obs))
            total += float(reward)
            over = terminated or truncated
    return total / EPISODES


def train_vecenv(case: str, settings: ppo.Config, seed: int) -> tuple[Run, Act]:
    config = dataclasses.replace(settings, seed=seed)
    envs = make_envs(config)
    before = time.process_time()
    result = ppo.train(config, envs)
    cpu = time.process_time() - before
    run = Run(case, seed, result.seconds, cpu, result.step, result.stopped)
    return run, lambda obs: result.agent.act(obs[np.newaxis])[0]


def train_sb3(case: str, seed: int) -> tuple[Run, Act]:
    import stable_baselines3
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    class Stop(BaseCallback):
        """The same rule: looked at in the first step after an update, when all episodes before it are counted."""

        def _on_step(self) -> bool:
            episodes = self.model.ep_info_buffer
            looks = self.n_calls % SB3["n_steps"] == 1 and episodes is not None and len(episodes) == WINDOW
            self.reached = looks and float(np.mean([episode["r"] for episode in episodes])) >= BAR
            return not self.reached

    model = stable_baselines3.PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=SB3_NUM_ENVS),
        learning_rate=lambda left: left * SB3_LEARNING_RATE,
        clip_range=lambda left: left * SB3_CLIP,
        stats_window_size=WINDOW,
        seed=seed,
        device="cpu",
        **SB3,
    )
    stop = Stop()
    before, clock = time.process_time(), time.perf_counter()
    model.learn(TOTAL_STEPS, callback=stop)
    seconds, cpu = time.perf_counter() - clock, time.process_time() - before
    run = Run(case, seed, seconds, cpu, model.num_timesteps, stop.reached)
    return run, lambda obs: model.predict(obs, deterministic=True)[0]


CASES: dict[str, Callable[[str, int], tuple[Run, Act]]] = {
    "vecenv": lambda case, seed: train_vecenv(case, OWN, seed),
    "vecenv, SB3's settings": lambda case, seed: train_vecenv(case, SAME, seed),
    "stable-baselines3": train_sb3,
}


def show_settings() -> None:
    def fields(config: ppo.Config) -> str:
        names = (
            "num_envs",
            "num_steps",
            "minibatch_size",
            "num_epochs",
            "gamma",
            "gae_lambda",
            "learning_rate",
            "clip",
        )
        return ", ".join(f"{name}={getattr(config, name)}" for name in names)

    click.echo(f"vecenv: {fields(OWN)}")
    click.echo(f"stable-baselines3: {fields(SAME)}")
    click.echo("both: rate and clip to 0 over 100,000 steps, tanh 64 x 64 twice, no entropy bonus, gradient norm 0.5\n")


def summary(runs: list[Run]) -> dict[str, Any]:
    by_case = {case: [run for run in runs if run.case == case] for case in CASES}
    peer = by_case["stable-baselines3"]
    return {
        case: {
            "passed": sum(run.passed for run in mine),
            "runs": len(mine),
            "seconds": statistics.median(run.seconds for run in mine),
            "cpu_seconds": statistics.median(run.cpu_seconds for run in mine),
            "steps": statistics.median(run.steps for run in mine),
            "times_faster": statistics.median(b.seconds / a.seconds for a, b in zip(mine, peer, strict=True)),
            "times_faster_cpu": statistics.median(
                b.cpu_seconds / a.cpu_seconds for a, b in zip(mine, peer, strict=True)
            ),
        }
        for case, mine in by_case.items()
    }


def check(table: dict[str, Any]) -> list[str]:
    """What misses its target."""
    own = table["vecenv"]
    missed = []
    if own["passed"] < own["runs"]:
        missed.append(f"vecenv: {own['passed']} of {own['runs']} seeds pass")
    if own["seconds"] > 3.0:
        missed.append(f"vecenv: median of {own['seconds']:.2f} s of training, expected at most 3")
    if own["times_faster"] < 3.0:
        missed.append(f"vecenv: {own['times_faster']:.2f} times faster than stable-baselines3, expected at least 3")
    return missed


@click.command()
@click.option("--seeds", type=click.IntRange(min=1), default=10, show_default=True, help="Seeds 0, 1, ...")
@click.option("--check", "checks", is_flag=True, help="Exit 1 if a target is missed.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the runs and the table.")
def main(seeds: int, checks: bool, path: Path | None) -> None:
    """Train both on seeds 0 to SEEDS - 1."""
    torch.set_num_threads(1)
    show_settings()
    for case, train in CASES.items():  # compiles, loads, imports
        train(f"warm-up of {case}", 10_000)
    runs = []
    for seed in range(seeds):
        for case, train in CASES.items():
            run, act = train(case, seed)
            run.greedy_mean = greedy_mean(act, seed)
            runs.append(run)
            click.echo(
                f"seed {seed}  {case:24}{run.seconds:6.2f} s {run.cpu_seconds:6.2f} s of CPU {run.steps:8,} steps  "
                f"greedy {run.greedy_mean:6.2f}  {'passed' if run.passed else 'FAILED'}"
            )
    table = summary(runs)
    click.echo("\nmedians                  passed  seconds  CPU s    steps  times faster (by CPU)")
    for case, row in table.items():
        click.echo(
            f"{case:24}{row['passed']:3} of {row['runs']:2}  {row['seconds']:6.2f}  {row['cpu_seconds']:5.2f} "
            f"{row['steps']:8,.0f}  {row['times_faster']:5.2f} ({row['times_faster_cpu']:.2f})"
        )
    click.echo(f"\n{machine()}")
    if path is not None:
        path.write_text(json.dumps({"runs": [dataclasses.asdict(run) for run in runs], "table": table}, indent=2))
    if checks and (missed := check(table)):
        click.echo("\n".join(missed), err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
