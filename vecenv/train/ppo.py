"""Proximal policy optimisation with clipped ratios and GAE(lambda).

Source: Schulman et al. 2017, https://arxiv.org/abs/1707.06347.

One file from top to bottom: configuration, agent, loss, rollout and update. Actions are Discrete or Box,
observations of any space; actor and critic are separate networks. One agent per environment.
"""

from __future__ import annotations

import copy
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy.typing as npt
import torch
from gymnasium import spaces
from torch import Tensor, nn

from vecenv.rollout import Rollout
from vecenv.train import checkpoint
from vecenv.train.features import encode, num_features, select
from vecenv.train.heads import head_of
from vecenv.train.monitor import Monitor
from vecenv.train.networks import as_one_vector, descend, mlp
from vecenv.train.running import Result, RunConfig, make_envs, run
from vecenv.train.scaling import ObservationScale, RewardScale
from vecenv.train.settings import check_ints, check_range, check_widths
from vecenv.vec_env import VecEnv

ALGORITHM = "ppo"
CACHED = 2048  # samples whose hidden layers fit into the cache: 62 ms for 131,072 of them where all at once take 119
Schedule = Literal["constant", "linear"]  # linear: to 0 at the end


@dataclass(frozen=True, kw_only=True)
class Config(RunConfig):
    """All that the curve of a run depends on. Wrong values raise a TypeError or ValueError when it is made."""

    num_steps: int = 128  # steps of a rollout, T
    minibatch_size: int = 64  # samples per gradient step; divides N * T
    num_epochs: int = 10  # passes over a rollout
    gamma: float = 0.99  # discount
    gae_lambda: float = 0.95  # of GAE
    learning_rate: float = 3e-4  # of Adam
    learning_rate_schedule: Schedule = "constant"  # linear: to 0 at the end
    clip: float = 0.2  # how far the ratio of probabilities may move
    clip_schedule: Schedule = "constant"  # linear: to 0 at the end
    value_clip: float | None = 0.2  # how far values may move per update; None for no clipping
    value_coef: float = 0.5  # weight of the squared error of values
    entropy_coef: float = 0.01  # weight of the entropy
    max_grad_norm: float = 0.5  # gradients are scaled down to this norm
    target_kl: float | None = 0.01  # an update ends after an epoch that went further; None for no such end
    normalize_advantages: bool = True  # in every minibatch
    normalize_observations: bool = False  # by their running mean and deviation
    normalize_rewards: bool = False  # by the running deviation of returns
    hidden: tuple[int, ...] = (64, 64)  # widths of the hidden layers of both networks
    activation: Literal["tanh", "relu"] = "tanh"  # between layers

    FIXED = (*RunConfig.FIXED, "hidden", "activation", "normalize_observations", "normalize_rewards")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ints(self, 1, "num_steps", "minibatch_size", "num_epochs")
        check_range(self, 0, math.inf, "learning_rate", "clip", "value_clip", "value_coef", "entropy_coef")
        check_range(self, 0, math.inf, "max_grad_norm", "target_kl")
        check_range(self, 0, 1, "gamma", "gae_lambda")
        check_widths(self, "hidden")
        if self.batch_size % self.minibatch_size:
            raise ValueError(
                f"minibatch_size: expected a divisor of num_envs * num_steps = {self.num_envs} * {self.num_steps} = "
                f"{self.batch_size}, got {self.minibatch_size}"
            )

    @property
    def batch_size(self) -> int:
        """Samples of a rollout, N * T."""
        return self.num_envs * self.num_steps


class Agent(nn.Module):
    """Actor and critic, and what they see."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        config: Config,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self._space, inputs = observation_space, num_features(observation_space)
        self.head = head_of(action_space)
        # A first policy near uniform, and values of the size of what they estimate.
        self.actor = mlp((inputs, *config.hidden, self.head.num_outputs), config.activation, 0.01, generator)
        self.critic = mlp((inputs, *config.hidden, 1), config.activation, 1.0, generator)
        self.scale = ObservationScale(inputs) if config.normalize_observations else None

    def features(self, obs: Any) -> Tensor:
        """Observations `[..., *shape]` as the networks see them, `[..., F]`."""
        features = encode(self._space, obs)
        if self.scale is not None:
            features = self.scale(features)
        return features

    def value(self, features: Tensor) -> Tensor:
        """V, `[...]`."""
        values: Tensor = self.critic(features).squeeze(-1)
        return values

    @torch.inference_mode()
    def act(self, obs: Any) -> npt.NDArray[Any]:
        """Greedy actions `[K, ...]` for observations `[K, ...]`."""
        return self.head.actions(self.head.mode(self.actor(self.features(obs))))


class Batch(NamedTuple):
    """Samples to learn from, `[B, ...]` each; `values` and `log_probs` are those of the policy that acted."""

    features: Tensor
    samples: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor


class Losses(NamedTuple):
    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    log_ratios: Tensor


def ppo_loss(agent: Agent, batch: Batch, config: Config, clip: float) -> Losses:
    """The loss of a minibatch: -min(r A, clip(r) A) + value_coef (V - R)^2 - entropy_coef H, in the mean."""
    log_probs, entropy = agent.head.log_prob_and_entropy(agent.actor(batch.features), batch.samples)
    values = agent.value(batch.features)
    advantages = batch.advantages
    if config.normalize_advantages and len(advantages) > 1:  # one sample has no deviation
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    log_ratios = log_probs - batch.log_probs
    ratios = log_ratios.exp()
    policy = -torch.min(ratios * advantages, ratios.clamp(1 - clip, 1 + clip) * advantages).mean()
    errors = (values - batch.returns).square()
    if config.value_clip is not None:  # the worse of both, so that no step further is rewarded
        moved = (values - batch.values).clamp(-config.value_clip, config.value_clip)
        errors = torch.max(errors, (batch.values + moved - batch.returns).square())
    value, mean_entropy = errors.mean(), entropy.mean()
    total = policy + config.value_coef * value
    if config.entropy_coef:
        total = total - config.entropy_coef * mean_entropy
    return Losses(total, policy, value, mean_entropy, log_ratios)


class Learner:
    """The parts of a run that change, and what changes them: `collect` and `update` in turns."""

    def __init__(self, config: Config, envs: VecEnv, monitor: Monitor) -> None:
        self.config, self.envs, self.monitor = config, envs, monitor
        self.generator = torch.Generator().manual_seed(config.seed)
        self.agent = Agent(envs.single_observation_space, envs.single_action_space, config, self.generator)
        self.parameters = as_one_vector(self.agent)
        self.optimizer = torch.optim.Adam([self.parameters], lr=config.learning_rate, eps=1e-5, fused=True)
        self.reward_scale = RewardScale(config.num_envs, config.gamma) if config.normalize_rewards else None
        self.rollout = Rollout(envs, config.num_steps)
        self.samples = torch.zeros(
            config.num_steps, config.num_envs, *self.agent.head.shape, dtype=self.agent.head.dtype
        )

    def begin(self, obs: Any) -> None:
        """Begin with the first observations of all environments."""
        self.rollout.begin(obs)

    def advance(self) -> tuple[int, dict[str, float]]:
        """A rollout and an update: steps that were taken, and figures of the update."""
        self.collect()
        return self.config.batch_size, self.update()

    def collect(self) -> None:
        """Fill the rollout. Values and log-probabilities come later, in one pass: acting needs neither."""
        agent, head, envs, rollout, samples = self.agent, self.agent.head, self.envs, self.rollout, self.samples
        noise = head.noise((self.config.num_steps, self.config.num_envs), self.generator)
        with torch.inference_mode():
            for t in range(self.config.num_steps):
                samples[t] = chosen = head.sample(agent.actor(agent.features(select(rollout.obs, t))), noise[t])
                envs.step(head.actions(chosen), out=rollout[t])
                if (ended := rollout.terminated[t] | rollout.truncated[t]).any():
                    self.monitor.episodes(envs.episode_returns[ended], envs.episode_lengths[ended])

    def batch(self) -> Batch:
        """The rollout as samples `[T * N]`, with advantages and returns."""
        agent, rollout, config = self.agent, self.rollout, self.config
        final = rollout.final_obs_rows().obs
        with torch.no_grad():
            features = agent.features(rollout.obs).flatten(0, 1)
            samples = self.samples.flatten(0, 1)
            parts = list(zip(torch.split(features, CACHED), torch.split(samples, CACHED), strict=True))
            log_probs = torch.cat([agent.head.log_prob_and_entropy(agent.actor(x), a)[0] for x, a in parts])
            values = torch.cat([agent.value(x) for x, _ in parts])
            last_values, final_values = (
                agent.value(agent.features(rollout.last_obs)),
                agent.value(agent.features(final)),
            )
        if self.reward_scale is not None:
            rollout.rewards[:] = self.reward_scale(rollout.rewards, rollout.terminated | rollout.truncated)
        shaped = values.numpy().reshape(rollout.rewards.shape)
        advantages, returns = rollout.gae(
            shaped, last_values.numpy(), config.gamma, config.gae_lambda, final_values.numpy()
        )
        return Batch(
            features,
            samples,
            log_probs,
            values,
            torch.from_numpy(advantages).ravel(),
            torch.from_numpy(returns).ravel(),
        )

    def update(self) -> dict[str, float]:
        """Learn from the rollout, and begin the next one where it stopped.

        Returns:
            Figures of the last minibatch: losses, entropy, KL divergence from the policy that acted, share of ratios
            that were clipped; learning rate and number of epochs.

        Raises:
            FloatingPointError: loss or gradient is not finite; the step was not taken.
        """
        config, batch = self.config, self.batch()
        left = max(0.0, 1.0 - self.monitor.step / config.total_steps)
        rate = config.learning_rate * (left if config.learning_rate_schedule == "linear" else 1.0)
        clip = config.clip * (left if config.clip_schedule == "linear" else 1.0)
        self.optimizer.param_groups[0]["lr"] = rate
        epochs = 0
        while epochs < config.num_epochs:
            epochs += 1
            for minibatch in self.minibatches(batch):
                losses = ppo_loss(self.agent, minibatch, config, clip)
                descend(losses.total, self.parameters, self.optimizer, config.max_grad_norm)
            log_ratios = losses.log_ratios.detach()
            kl = (log_ratios.exp() - 1 - log_ratios).mean().item()  # http://joschu.net/blog/kl-approx.html
            if config.target_kl is not None and kl > config.target_kl:
                break
        if self.agent.scale is not None:
            self.agent.scale.update(encode(self.envs.single_observation_space, self.rollout.obs).flatten(0, 1))
        self.rollout.begin()
        return {
            "policy_loss": losses.policy.item(),
            "value_loss": losses.value.item(),
            "entropy": losses.entropy.item(),
            "kl": kl,
            "clipped": ((log_ratios.exp() - 1).abs() > clip).float().mean().item(),
            "learning_rate": rate,
            "epochs": epochs,
        }

    def minibatches(self, batch: Batch) -> list[Batch]:
        """All samples in random order, in equal parts; all at once need no order."""
        size = self.config.minibatch_size
        if size == self.config.batch_size:
            return [batch]
        order = torch.randperm(self.config.batch_size, generator=self.generator)
        shuffled = [torch.split(part.index_select(0, order), size) for part in batch]
        return [Batch(*parts) for parts in zip(*shuffled, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """All that changes, between two rollouts. Copies: nothing that comes later changes them."""
        return {
            "parameters": self.parameters.detach().clone(),
            "optimizer": copy.deepcopy(self.optimizer.state_dict()),
            "generator": self.generator.get_state(),
            "observations": None if self.agent.scale is None else self.agent.scale.moments.state_dict(),
            "rewards": None if self.reward_scale is None else self.reward_scale.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was called; the environments are where they were then."""
        self.rollout.begin(self.envs.observe())
        with torch.no_grad():
            self.parameters.copy_(state["parameters"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        if self.agent.scale is not None:
            self.agent.scale.moments.load_state_dict(state["observations"])
            self.agent.scale.refresh()
        if self.reward_scale is not None:
            self.reward_scale.load_state_dict(state["rewards"])


def train(
    config: Config,
    envs: VecEnv | None = None,
    *,
    run_dir: str | os.PathLike[str] | None = None,
    resume: bool = False,
    checkpoint_seconds: float = 60.0,
    progress: bool = False,
) -> Result:
    """Train until `total_steps` or `stop_return`, then evaluate.

    Same configuration, same curve, bit for bit, also if the run was interrupted and resumed. Whatever stops it (Ctrl-C,
    a loss that is NaN, an error), the checkpoint holds it as it was before the update that was not finished.

    Args:
        config: what to do.
        envs: a batch under SAME_STEP to train on, for example one with transforms; None makes it from `config`, with
            as many environments. It is reset, and afterwards yours.
        run_dir: a folder for `checkpoint.pt`, TensorBoard's logs and `curve.png`; None writes nothing.
        resume: go on from the checkpoint in `run_dir`; else there must be none.
        checkpoint_seconds: how often to save.
        progress: show a bar on stderr.

    Raises:
        TypeError, ValueError: spaces, environments or the checkpoint do not fit.
        ImportError: `run_dir` needs TensorBoard and matplotlib.
        FileExistsError, FileNotFoundError: there is a checkpoint already; there is none to resume.
        FloatingPointError: loss or gradient became NaN or infinite.
    """
    return run(ALGORITHM, Learner, config, envs, run_dir, resume, checkpoint_seconds, progress)


def load_config(run_dir: str | os.PathLike[str]) -> Config:
    """The configuration of the run in `run_dir`."""
    return Config(**checkpoint.load(Path(run_dir) / checkpoint.NAME, ALGORITHM)["config"])


def load_agent(run_dir: str | os.PathLike[str], envs: VecEnv | None = None) -> Agent:
    """The agent of the run in `run_dir`; `envs` is needed if it was trained on a batch that was given."""
    path = Path(run_dir) / checkpoint.NAME
    saved = checkpoint.load(path, ALGORITHM)
    config, state = Config(**saved["config"]), saved["learner"]
    batch = make_envs(config) if envs is None else envs
    checkpoint.check_spaces(saved, batch, path)
    agent = Agent(batch.single_observation_space, batch.single_action_space, config, torch.Generator())
    with torch.no_grad():
        as_one_vector(agent).copy_(state["parameters"])
    if agent.scale is not None:
        agent.scale.moments.load_state_dict(state["observations"])
        agent.scale.refresh()
    return agent
