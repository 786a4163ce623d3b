"""PPO. Oracle of an update: losses written sample by sample, GAE as a double loop, `torch.distributions`, PyTorch's
gradients of that, and Adam in NumPy. Learning itself is measured on Gymnasium's environments, in the slow suite."""

from __future__ import annotations

import dataclasses
import math
import signal
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import vecenv
from vecenv import I4, EnvDef, FrameStack, Params, State, jit, make_vec

torch = pytest.importorskip("torch", reason="training needs PyTorch: pip install vecenv[train]")

from vecenv.train import checkpoint, ppo  # noqa: E402
from vecenv.train.monitor import Monitor  # noqa: E402

Config = ppo.Config
TINY = {
    "num_envs": 4,
    "num_steps": 16,
    "minibatch_size": 16,
    "num_epochs": 2,
    "hidden": (8,),
    "total_steps": 4 * 16 * 8,
    "eval_episodes": 0,
    "target_kl": None,
}
CARTPOLE = Config(**TINY, learning_rate=3e-3, max_episode_steps=20, normalize_observations=True, normalize_rewards=True)
PENDULUM = Config(**TINY, env_id="Pendulum-v1", max_episode_steps=9, normalize_rewards=True, clip_schedule="linear")


def curve(result: ppo.Result) -> list[dict[str, float]]:
    """What does not depend on the clock."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in result.curve]


def same(one: ppo.Result, two: ppo.Result) -> bool:
    """Bit for bit: curves, with NaN where there is NaN, and networks."""
    parameters = zip(one.agent.state_dict().values(), two.agent.state_dict().values(), strict=True)
    return repr(curve(one)) == repr(curve(two)) and all(torch.equal(a, b) for a, b in parameters)


# --- one update -------------------------------------------------------------------------------------------------------


def reference_update(learner: ppo.Learner, batch_numbers: Any) -> list[Any]:
    """Parameters after an update, by the slow way: float64, a sample at a time."""
    config, agent, rollout, envs = learner.config, learner.agent, learner.rollout, learner.envs
    steps, rows = rollout.rewards.shape
    network = ppo.Agent(envs.single_observation_space, envs.single_action_space, config, torch.Generator()).double()
    network.load_state_dict(agent.state_dict())
    parameters = list(network.parameters())
    discrete = isinstance(envs.single_action_space, gymnasium.spaces.Discrete)

    def value(obs: Any) -> Any:
        return network.critic(torch.from_numpy(obs).double())[0]

    def distribution(obs: Any) -> Any:
        outputs = network.actor(torch.from_numpy(obs).double())
        if discrete:
            return torch.distributions.Categorical(logits=outputs)
        return torch.distributions.Independent(torch.distributions.Normal(outputs, network.head.log_std.exp()), 1)

    final = rollout.final_obs_rows()
    last_of = {(t, i): obs for t, i, obs in zip(final.t, final.row, final.obs, strict=True)}
    samples, advantages = {}, {}
    with torch.no_grad():
        for i in range(rows):
            later = 0.0
            for t in reversed(range(steps)):
                here = value(rollout.obs[t, i]).item()
                if rollout.terminated[t, i]:
                    after, later = 0.0, 0.0
                elif rollout.truncated[t, i]:
                    after, later = value(last_of[t, i]).item(), 0.0
                else:
                    after = value(rollout.obs[t + 1, i] if t + 1 < steps else rollout.last_obs[i]).item()
                later = rollout.rewards[t, i] + config.gamma * after - here + config.gamma * config.gae_lambda * later
                sample = learner.samples[t, i]
                old = distribution(rollout.obs[t, i]).log_prob(sample.double()).item()
                samples[t * rows + i] = (rollout.obs[t, i], sample, old, here)
                advantages[t * rows + i] = later

    first = [np.zeros(p.shape) for p in parameters]
    second = [np.zeros(p.shape) for p in parameters]
    for count, numbers in enumerate(batch_numbers, 1):
        chosen = np.array([advantages[k] for k in numbers])
        normal = (chosen - chosen.mean()) / (chosen.std(ddof=1) + 1e-8) if config.normalize_advantages else chosen
        total: Any = torch.zeros((), dtype=torch.float64)
        for k, advantage in zip(numbers, normal, strict=True):
            obs, sample, old, before = samples[k]
            now, policy = value(obs), distribution(obs)
            ratio = (policy.log_prob(sample.double()) - old).exp()
            clipped = min(max(ratio.item(), 1 - config.clip), 1 + config.clip)
            # The gradient flows only where the unclipped term is the smaller one.
            surrogate = ratio * advantage if ratio.item() * advantage <= clipped * advantage else clipped * advantage
            target = advantages[k] + before
            error = (now - target) ** 2
            if config.value_clip is not None:
                moved = before + (now - before).clamp(-config.value_clip, config.value_clip)
                error = torch.maximum(error, (moved - target) ** 2)
            total = total - surrogate + config.value_coef * error - config.entropy_coef * policy.entropy()
        gradients = torch.autograd.grad(total / len(numbers), parameters)
        norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
        for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
            g = g.numpy() * min(1.0, config.max_grad_norm / norm)
            m += 0.1 * (g - m)
            v += 0.001 * (g**2 - v)
            step = m / (1 - 0.9**count) / (np.sqrt(v / (1 - 0.999**count)) + 1e-5)
            p.data -= config.learning_rate * torch.from_numpy(step)
    return [p.detach().numpy() for p in parameters]


@pytest.mark.parametrize(
    "settings",
    [
        {"value_clip": None, "minibatch_size": 64},
        {"value_clip": 0.02, "minibatch_size": 16, "clip": 0.05, "activation": "relu"},
        {"env_id": "Pendulum-v1", "max_episode_steps": 9, "value_clip": 0.02, "minibatch_size": 32},
        {"normalize_advantages": False, "max_grad_norm": 1e9, "entropy_coef": 0.0, "gae_lambda": 0.3},
    ],
    ids=["whole", "minibatches", "gaussian", "plain"],
)
def test_an_update_is_the_slow_one(settings: dict[str, Any]) -> None:
    base = {**TINY, "max_episode_steps": 9, "learning_rate": 1e-2, "entropy_coef": 0.05, "gamma": 0.9, "num_epochs": 3}
    config = Config(**{**base, **settings})
    # A pole that soon counts as fallen, so that some episodes terminate and some reach the limit.
    narrow = {"theta_threshold": 0.1} if config.env_id == "CartPole-v1" else {}
    limit, mode = config.max_episode_steps, "same_step"
    envs = make_vec(config.env_id, 4, autoreset_mode=mode, max_episode_steps=limit, params=narrow)
    learner = ppo.Learner(config, envs, Monitor("", 1, 1, None, False))
    learner.begin(envs.reset(seed=0)[0])
    learner.collect()
    rollout = learner.rollout
    assert rollout.truncated.any() and (rollout.terminated.any() or config.env_id == "Pendulum-v1")
    order = torch.Generator()
    order.set_state(learner.generator.get_state())
    numbers = []
    for _ in range(config.num_epochs):
        permutation = list(range(64)) if config.minibatch_size == 64 else torch.randperm(64, generator=order).tolist()
        numbers += [permutation[k : k + config.minibatch_size] for k in range(0, 64, config.minibatch_size)]
    before = [p.detach().numpy().copy() for p in learner.agent.parameters()]
    expected = reference_update(learner, numbers)
    figures = learner.update()
    if config.clip == 0.05:
        assert figures["clipped"] > 0
    for parameter, old, new in zip(learner.agent.parameters(), before, expected, strict=True):
        # Float32 against float64: Adam divides by gradients' sizes, so its first steps move little ones as far.
        np.testing.assert_allclose(parameter.detach().numpy() - old, new - old, rtol=1e-4, atol=1e-6)
    assert max(np.abs(new - old).max() for old, new in zip(before, expected, strict=True)) > 0.01


def test_an_update_ends_at_the_target_kl() -> None:
    base = {**TINY, "learning_rate": 0.02, "num_epochs": 20, "total_steps": 64}
    free = ppo.train(Config(**base))
    held = ppo.train(Config(**{**base, "target_kl": 0.01}))
    assert free.curve[0]["epochs"] == 20 and held.curve[0]["epochs"] < 20
    assert held.curve[0]["kl"] > 0.01


def test_schedules_go_to_zero() -> None:
    rows = ppo.train(Config(**TINY, learning_rate=1e-3, learning_rate_schedule="linear")).curve
    np.testing.assert_allclose([row["learning_rate"] for row in rows], 1e-3 * (1 - np.arange(8) / 8))
    assert {row["learning_rate"] for row in ppo.train(Config(**TINY)).curve} == {3e-4}


# --- same seed, same curve --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [CARTPOLE, PENDULUM], ids=["CartPole", "Pendulum"])
def test_same_seed_same_curve(config: Config) -> None:
    one = ppo.train(config)
    torch.manual_seed(99)  # nothing comes from PyTorch's own stream
    two = ppo.train(config)
    assert same(one, two) and len(one.curve) == 8
    assert not same(one, ppo.train(dataclasses.replace(config, seed=1)))
    assert one.step == 512 and one.curve[-1]["step"] == 512


@pytest.mark.parametrize("how", ["interrupt", "steps"])
@pytest.mark.parametrize("config", [CARTPOLE, PENDULUM], ids=["CartPole", "Pendulum"])
def test_resumed_is_uninterrupted(config: Config, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, whether Ctrl-C came in the middle of a rollout or the run had ended and gets more steps."""
    whole = ppo.train(config)
    if how == "interrupt":
        with monkeypatch.context() as patch:
            press_ctrl_c(patch, steps=16 * 4 + 5)
            with pytest.raises(KeyboardInterrupt):
                ppo.train(config, run_dir=tmp_path)
        assert len(checkpoint.load(tmp_path / checkpoint.NAME, "ppo")["monitor"]["curve"]) == 4
        rest = ppo.train(config, run_dir=tmp_path, resume=True)
    else:
        config = dataclasses.replace(config, clip_schedule="constant")
        whole = ppo.train(config)
        ppo.train(dataclasses.replace(config, total_steps=4 * 16 * 3), run_dir=tmp_path)
        rest = ppo.train(config, run_dir=tmp_path, resume=True)
    assert same(rest, whole)
    assert rest.seconds > 0 and ppo.load_config(tmp_path) == config
    obs = make_vec(config.env_id, 5).reset(seed=3)[0]
    np.testing.assert_array_equal(ppo.load_agent(tmp_path).act(obs), whole.agent.act(obs))


def press_ctrl_c(patch: pytest.MonkeyPatch, steps: int) -> None:
    """Send this process a SIGINT in the given step of the batch."""
    step, count = vecenv.VecEnv.step, iter(range(10**9))

    def stepped(self: Any, *args: Any, **keywords: Any) -> Any:
        if next(count) == steps:
            signal.raise_signal(signal.SIGINT)
        return step(self, *args, **keywords)

    patch.setattr(vecenv.VecEnv, "step", stepped)


def test_ctrl_c_before_the_first_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        press_ctrl_c(patch, steps=3)
        with pytest.raises(KeyboardInterrupt):
            ppo.train(CARTPOLE, run_dir=tmp_path)
    assert same(ppo.train(CARTPOLE, run_dir=tmp_path, resume=True), ppo.train(CARTPOLE))


def test_it_saves_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was saved last goes on as well, should the process be killed."""
    saved = []
    monkeypatch.setattr(checkpoint, "save", lambda path, state: saved.append(len(state["monitor"]["curve"])))
    ppo.train(CARTPOLE, run_dir=tmp_path / "often", checkpoint_seconds=0)
    assert saved == [1, 2, 3, 4, 5, 6, 7, 8, 8]
    saved.clear()
    ppo.train(CARTPOLE, run_dir=tmp_path / "seldom")
    assert saved == [8]


def test_a_failed_save_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ppo.train(CARTPOLE, run_dir=tmp_path)
    path = tmp_path / checkpoint.NAME
    before, state = path.read_bytes(), checkpoint.load(path, "ppo")

    def half(state: Any, target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save(path, state)
    assert path.read_bytes() == before and len(list(tmp_path.glob("checkpoint*"))) == 1


# --- what a run leaves ------------------------------------------------------------------------------------------------


def test_run_dir(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = dataclasses.replace(CARTPOLE, eval_episodes=3)
    result = ppo.train(config, run_dir=tmp_path / "new" / "run")
    assert result.eval_returns.shape == (3,) and (result.eval_returns >= 1).all()
    assert (tmp_path / "new" / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")
    events = EventAccumulator(str(tmp_path / "new" / "run")).Reload()
    for name in ("policy_loss", "value_loss", "window_return", "return"):
        rows = [row for row in result.curve if not math.isnan(row[name])]
        scalars = events.Scalars(f"train/{name}") if rows else []
        assert [event.step for event in scalars] == [row["step"] for row in rows]
        np.testing.assert_allclose([event.value for event in scalars], [row[name] for row in rows], rtol=1e-6)
    assert len(events.Scalars("train/sps")) == 8


def test_stop_return() -> None:
    config = dataclasses.replace(CARTPOLE, total_steps=100_000, stop_return=10.0, window=5)
    result = ppo.train(config)
    assert result.stopped and result.step < 10_000
    assert result.curve[-1]["window_return"] >= 10 and all(not row["window_return"] >= 10 for row in result.curve[:-1])


def test_batches_of_the_user() -> None:
    """With transforms, for example; it stays theirs."""
    envs = make_vec("CartPole-v1", 4, autoreset_mode="same_step", transforms=(FrameStack(3),))
    result = ppo.train(dataclasses.replace(CARTPOLE, eval_episodes=2), envs)
    assert result.agent.actor[0].weight.shape == (8, 12)
    envs.step(result.agent.act(envs.observe()))


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "Blackjack-v1", "MountainCarContinuous-v0", "Taxi-v4"])
def test_spaces_of_all_kinds(env_id: str) -> None:
    """Discrete and Tuple observations, Box actions, infos with masks."""
    result = ppo.train(Config(**TINY, env_id=env_id, max_episode_steps=20))
    assert all(math.isfinite(row["value_loss"]) for row in result.curve)


@pytest.mark.parametrize(("num_envs", "num_steps", "size"), [(1, 1, 1), (1, 8, 4), (2, 1, 2), (2, 5, 10), (3, 4, 2)])
def test_edges_of_the_shape(num_envs: int, num_steps: int, size: int) -> None:
    """Case C131: three updates with one environment, one step, one minibatch."""
    shape = {
        "num_envs": num_envs,
        "num_steps": num_steps,
        "minibatch_size": size,
        "total_steps": 3 * num_envs * num_steps,
    }
    result = ppo.train(Config(**{**TINY, **shape}))
    assert len(result.curve) == 3 and all(math.isfinite(row["policy_loss"]) for row in result.curve)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"minibatch_size": 48}, ValueError, r"minibatch_size: expected a divisor of .* = 4 \* 16 = 64, got 48"),
        ({"minibatch_size": 128}, ValueError, "minibatch_size: expected a divisor"),
        ({"num_envs": 0}, ValueError, "num_envs: expected at least 1, got 0"),
        ({"num_steps": 2.5}, TypeError, "num_steps: expected an int, got 2.5"),
        ({"num_epochs": True}, TypeError, "num_epochs: expected an int, got True"),
        ({"gamma": 1.5}, ValueError, "gamma: expected a number from 0 to 1, got 1.5"),
        ({"gae_lambda": math.nan}, ValueError, "gae_lambda: expected a number from 0 to 1, got nan"),
        ({"learning_rate": -1.0}, ValueError, "learning_rate: expected a number of at least 0, got -1.0"),
        ({"learning_rate": "fast"}, TypeError, "learning_rate: expected a number, got 'fast'"),
        ({"clip": math.inf}, ValueError, "clip: expected a number of at least 0, got inf"),
        ({"seed": 1.0}, TypeError, "seed: expected an int, got 1.0"),
        ({"seed": -1}, ValueError, "seed: expected at least 0, got -1"),
        ({"activation": "step"}, ValueError, "activation: expected 'tanh' or 'relu', got 'step'"),
        ({"clip_schedule": "cosine"}, ValueError, "clip_schedule: expected 'constant' or 'linear', got 'cosine'"),
        ({"hidden": (8, 0)}, ValueError, r"hidden: expected a tuple of widths of at least 1, got \(8, 0\)"),
    ],
)
def test_bad_configurations(settings: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        Config(**{**TINY, **settings})


def test_batches_that_do_not_fit() -> None:
    cases: list[tuple[Any, str]] = [
        (make_vec("CartPole-v1", 4), "expected autoreset_mode='same_step', got NEXT_STEP"),
        (make_vec("CartPole-v1", 5, autoreset_mode="same_step"), "expected num_envs=4 as in the configuration, got 5"),
    ]
    for envs, match in cases:
        with pytest.raises(ValueError, match=match):
            ppo.train(CARTPOLE, envs)
    with pytest.raises(TypeError, match="envs: expected a VecEnv, got SyncVectorEnv"):
        ppo.train(CARTPOLE, gymnasium.make_vec("CartPole-v1", 4, vectorization_mode="sync"))  # type: ignore[arg-type]


class PairState(State):
    count: I4


@jit
def pair_reset(state, params, rng):
    state.count = 0


@jit
def pair_step(state, actions, params, rng, rewards, terminated, truncated):
    state.count += 1


@jit
def pair_observe(state, params, agent, obs):
    obs[0] = state.count


def test_several_agents_are_refused() -> None:
    box, discrete = gymnasium.spaces.Box(0, 99, (1,)), gymnasium.spaces.Discrete(2)
    functions = (pair_reset, pair_step, pair_observe)
    pair = EnvDef("Pair-v0", PairState, Params, *functions, num_agents=2, observation_space=box, action_space=discrete)
    envs = make_vec(pair, 2, autoreset_mode="same_step")
    with pytest.raises(ValueError, match=r"expected one agent per environment; .* has 2"):
        ppo.train(CARTPOLE, envs)


def test_resume_refuses_what_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no checkpoint to go on from"):
        ppo.train(CARTPOLE, run_dir=tmp_path, resume=True)
    with pytest.raises(ValueError, match="resume: give run_dir"):
        ppo.train(CARTPOLE, resume=True)
    ppo.train(CARTPOLE, run_dir=tmp_path)
    before = (tmp_path / checkpoint.NAME).read_bytes()
    with pytest.raises(FileExistsError, match=r"checkpoint.pt is there already: resume it, or choose another run_dir"):
        ppo.train(CARTPOLE, run_dir=tmp_path)
    for change, match in (
        ({"env_id": "Acrobot-v1"}, "was made with env_id='CartPole-v1'; it cannot go on with 'Acrobot-v1'"),
        ({"hidden": (9,)}, r"was made with hidden=\(8,\); it cannot go on with \(9,\)"),
        ({"normalize_rewards": False}, "was made with normalize_rewards=True"),
    ):
        with pytest.raises(ValueError, match=match):
            ppo.train(dataclasses.replace(CARTPOLE, **change), run_dir=tmp_path, resume=True)
    stacked = make_vec("CartPole-v1", 4, autoreset_mode="same_step", transforms=(FrameStack(2),))
    with pytest.raises(
        ValueError, match=r"(?s)was trained with observations Box\(.*\(4,\).*; here they are Box\(.*\(2, 4\)"
    ):
        ppo.train(CARTPOLE, stacked, run_dir=tmp_path, resume=True)
    assert (tmp_path / checkpoint.NAME).read_bytes() == before


def test_files_that_are_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / checkpoint.NAME
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"checkpoint.pt: not a checkpoint of vecenv, or damaged"):
        ppo.load_config(tmp_path)
    torch.save({"weights": 1}, path)
    with pytest.raises(ValueError, match="not a checkpoint of this version of vecenv"):
        ppo.load_config(tmp_path)
    torch.save({"version": checkpoint.VERSION, "algorithm": "dqn"}, path)
    with pytest.raises(ValueError, match="expected a checkpoint of ppo, got one of dqn"):
        ppo.load_config(tmp_path)


def test_nan_stops_with_a_checkpoint_that_goes_on(tmp_path: Path) -> None:
    """A learning rate so high that parameters overflow; from the checkpoint, a smaller one learns on."""
    config = dataclasses.replace(CARTPOLE, learning_rate=1e30)
    with pytest.raises(
        FloatingPointError, match=r"update 1: the loss is .*checkpoint.pt holds the run before this upd"
    ):
        ppo.train(config, run_dir=tmp_path)
    with pytest.raises(FloatingPointError, match=r"update 1: the loss is .* gradient \w+. A smaller learning_rate may"):
        ppo.train(config)
    assert same(ppo.train(CARTPOLE, run_dir=tmp_path, resume=True), ppo.train(CARTPOLE))


@pytest.mark.parametrize("missing", ["torch.utils.tensorboard", "matplotlib.figure"])
def test_missing_extras(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, missing, None)
    with pytest.raises(ImportError, match=r"which is not installed: pip install vecenv\["):
        ppo.train(CARTPOLE, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    ppo.train(dataclasses.replace(CARTPOLE, total_steps=64))  # without a folder neither is needed


# --- learning ---------------------------------------------------------------------------------------------------------


def greedy_return(agent: ppo.Agent, env_id: str, episodes: int, seed: int) -> float:
    env = gymnasium.make(env_id)
    total = 0.0
    for episode in range(episodes):
        obs, _ = env.reset(seed=seed + episode)
        over = False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(agent.act(obs[np.newaxis])[0])
            total, over = total + float(reward), terminated or truncated
    return total / episodes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_cartpole_is_learned(seed: int) -> None:
    from benchmarks.learning import OWN

    result = ppo.train(dataclasses.replace(OWN, seed=seed))
    assert result.stopped and greedy_return(result.agent, "CartPole-v1", 100, 10**6) >= 475


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_pendulum_is_learned(seed: int) -> None:
    """Box actions, normalised observations and rewards; random play has about -1,200, 150 k steps -180 to -200."""
    config = Config(
        env_id="Pendulum-v1",
        seed=seed,
        num_envs=16,
        minibatch_size=256,
        gamma=0.9,
        learning_rate=1e-3,
        learning_rate_schedule="linear",
        value_clip=None,
        target_kl=None,
        entropy_coef=0.0,
        total_steps=150_000,
        normalize_observations=True,
        normalize_rewards=True,
        eval_episodes=0,
    )
    assert greedy_return(ppo.train(config).agent, "Pendulum-v1", 100, 10**6) >= -250
