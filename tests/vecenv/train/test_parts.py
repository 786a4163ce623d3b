"""What trainers share: features, networks, heads, scaling, evaluation, settings.

Oracles: NumPy, torch.distributions and Gymnasium's `flatten`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

import vecenv

torch = pytest.importorskip("torch", reason="training needs PyTorch: pip install vecenv[train]")

from vecenv.train.evaluation import evaluate  # noqa: E402
from vecenv.train.features import encode, num_features, select  # noqa: E402
from vecenv.train.heads import Categorical, Gaussian, head_of  # noqa: E402
from vecenv.train.monitor import Monitor  # noqa: E402
from vecenv.train.networks import as_one_vector, descend, mlp  # noqa: E402
from vecenv.train.plot import plot_curve  # noqa: E402
from vecenv.train.scaling import ObservationScale, RewardScale, RunningMoments  # noqa: E402
from vecenv.train.settings import torch_settings  # noqa: E402

SPACES = [
    spaces.Box(-1, 1, (3,), np.float32),
    spaces.Box(0, 255, (2, 3), np.uint8),
    spaces.Box(-1, 1, (), np.float64),
    spaces.Discrete(5),
    spaces.MultiBinary(4),
    spaces.MultiDiscrete([3, 2, 4]),
    spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 1, (2,), np.float32))),
    spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(0, 1, (2, 2), np.float32)}),
]


def generator(seed: int = 0) -> Any:
    return torch.Generator().manual_seed(seed)


# --- features ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_features_are_gymnasiums_flatten(space: Any) -> None:
    batch = batch_space(space, 6)
    batch.seed(0)
    obs = batch.sample()
    if isinstance(space, spaces.Tuple):
        obs = tuple(obs)
    encoded = encode(space, obs)
    assert encoded.dtype == torch.float32 and encoded.shape == (6, num_features(space))
    for i in range(6):
        one = select(obs, i)
        np.testing.assert_array_equal(encoded[i].numpy(), spaces.flatten(space, one).astype(np.float32))
    np.testing.assert_array_equal(encode(space, select(obs, 2)).numpy(), encoded[2].numpy())


def test_features_of_values_that_start_elsewhere() -> None:
    assert encode(spaces.Discrete(3, start=-1), np.array([-1, 1])).tolist() == [[1, 0, 0], [0, 0, 1]]
    space = spaces.MultiDiscrete([2, 3], start=[1, 5])
    assert encode(space, np.array([[2, 5]])).tolist() == [[0, 1, 1, 0, 0]]


def test_features_share_memory() -> None:
    obs = np.zeros((4, 2, 3), np.float32)
    features = encode(spaces.Box(-1, 1, (3,), np.float32), obs)
    obs[1, 1, 2] = 7
    assert features[1, 1, 2] == 7


def test_features_refuse_what_they_cannot_encode() -> None:
    with pytest.raises(TypeError, match=r"observations: expected Box, Discrete, .* got Text"):
        num_features(spaces.Text(3))


# --- networks ---------------------------------------------------------------------------------------------------------


def test_mlp() -> None:
    before = torch.get_rng_state()
    network = mlp((3, 8, 8, 2), "tanh", 0.01, generator())
    assert torch.equal(torch.get_rng_state(), before)
    linears = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
    assert [tuple(linear.weight.shape) for linear in linears] == [(8, 3), (8, 8), (2, 8)]
    for linear, gain in zip(linears, (2**0.5, 2**0.5, 0.01), strict=True):
        weight = linear.weight.detach().double()
        gram = weight @ weight.T if weight.shape[0] <= weight.shape[1] else weight.T @ weight
        np.testing.assert_allclose(gram.numpy(), gain**2 * np.eye(len(gram)), atol=1e-6 * gain**2 + 1e-9)
        assert not linear.bias.any()
    assert [type(layer).__name__ for layer in mlp((1, 2, 1), "relu", 1.0, generator())] == ["Linear", "ReLU", "Linear"]


def test_one_vector_is_the_module() -> None:
    """Its gradient and what an optimiser does to it are those of the parameters themselves."""
    one, two = mlp((3, 5, 2), "tanh", 1.0, generator()), mlp((3, 5, 2), "tanh", 1.0, generator())
    vector, inputs = as_one_vector(one), torch.randn(7, 3, generator=generator(1))
    mine = torch.optim.Adam([vector], lr=0.1)
    theirs = torch.optim.Adam(two.parameters(), lr=0.1)
    for _ in range(3):
        theirs.zero_grad()
        two(inputs).square().sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(two.parameters(), 0.5)
        assert norm > 0.5
        theirs.step()
        descend(one(inputs).square().sum(), vector, mine, 0.5)
        expected = torch.cat([parameter.grad.reshape(-1) for parameter in two.parameters()])
        torch.testing.assert_close(vector.grad, expected, rtol=1e-5, atol=1e-7)  # the norm is another sum
    expected = torch.cat([parameter.detach().reshape(-1) for parameter in two.parameters()])
    torch.testing.assert_close(vector.detach(), expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(one(inputs), torch.nn.Sequential(*one)(inputs))


def test_descend_refuses_what_is_not_finite() -> None:
    network = mlp((2, 2), "tanh", 1.0, generator())
    vector = as_one_vector(network)
    optimizer = torch.optim.Adam([vector], lr=0.1)
    before = vector.detach().clone()
    for factor in (math.nan, math.inf):
        with pytest.raises(FloatingPointError, match=r"the loss is (nan|inf) and the norm of its gradient (nan|inf)"):
            descend(network(torch.ones(1, 2)).square().sum() * factor, vector, optimizer, 1.0)
    assert torch.equal(vector, before)


# --- heads ------------------------------------------------------------------------------------------------------------


def test_categorical_against_torch() -> None:
    head = Categorical(spaces.Discrete(4, start=3))
    outputs = torch.randn(50, 4, generator=generator()) * 3
    samples = head.sample(outputs, head.noise((50,), generator(1)))
    reference = torch.distributions.Categorical(logits=outputs)
    log_probs, entropy = head.log_prob_and_entropy(outputs, samples)
    torch.testing.assert_close(log_probs, reference.log_prob(samples), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(entropy, reference.entropy(), rtol=1e-6, atol=1e-6)
    assert head.mode(outputs).tolist() == outputs.numpy().argmax(-1).tolist()
    assert head.actions(samples).tolist() == (samples + 3).tolist()
    assert head.actions(samples).dtype == np.int64


def test_categorical_samples_as_often_as_it_says() -> None:
    head = Categorical(spaces.Discrete(3))
    outputs = torch.tensor([0.0, 1.0, -2.0])
    count = 200_000
    samples = head.sample(outputs, head.noise((count,), generator()))
    expected = torch.softmax(outputs.double(), 0).numpy()
    seen = np.bincount(samples.numpy(), minlength=3) / count
    assert np.all(np.abs(seen - expected) < 5 * np.sqrt(expected * (1 - expected) / count))  # five deviations


def test_gaussian_against_torch() -> None:
    space = spaces.Box(-1, np.array([[0.5, 2.0]], np.float32), (1, 2), np.float32)
    head = Gaussian(space)
    with torch.no_grad():
        head.log_std.copy_(torch.tensor([0.3, -1.0]))
    outputs = torch.randn(40, 2, generator=generator())
    noise = head.noise((40,), generator(1))
    samples = head.sample(outputs, noise).detach()
    reference = torch.distributions.Normal(outputs, head.log_std.exp())
    log_probs, entropy = head.log_prob_and_entropy(outputs, samples)
    torch.testing.assert_close(log_probs, reference.log_prob(samples).sum(-1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(entropy, reference.entropy().sum(-1), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close((samples - outputs) / reference.scale, noise, rtol=1e-4, atol=1e-5)
    actions = head.actions(samples)
    assert actions.shape == (40, 1, 2) and actions.dtype == np.float32
    np.testing.assert_array_equal(actions[:, 0], np.clip(samples.numpy(), -1, [0.5, 2.0]).astype(np.float32))
    assert (actions != samples.numpy()[:, np.newaxis]).any()
    assert head.mode(outputs) is outputs


@pytest.mark.parametrize(
    "space", [spaces.MultiDiscrete([2, 2]), spaces.MultiBinary(3), spaces.Box(0, 9, (2,), np.int64)], ids=str
)
def test_actions_without_a_head_are_refused(space: Any) -> None:
    with pytest.raises(TypeError, match="actions: expected Discrete or a Box of floats, got "):
        head_of(space)


# --- scaling ----------------------------------------------------------------------------------------------------------


def test_moments_are_those_of_all_samples() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(1e4, [1e-2, 5.0], (count, 2)) for count in (1, 7, 0, 100)]
    moments = RunningMoments(2)
    for part in parts:
        moments.update(part)
    together = np.concatenate(parts)
    assert moments.count == 108
    np.testing.assert_allclose(moments.mean, together.mean(0), rtol=1e-14)
    np.testing.assert_allclose(moments.var, together.var(0), rtol=1e-7)  # 1e-4 beside 1e8: half of the digits are left


def test_observation_scale() -> None:
    rng = np.random.default_rng(1)
    scale = ObservationScale(3)
    features = torch.from_numpy(rng.normal([0, 5, -100], [1, 0.1, 20], (500, 3)).astype(np.float32))
    assert torch.equal(scale(features), features.clamp(-10, 10))  # before any statistics
    scale.update(features[:200])
    scale.update(features[200:])
    seen = features.double().numpy()
    expected = (seen - seen.mean(0)) / np.sqrt(seen.var(0) + 1e-8)
    np.testing.assert_allclose(scale(features).numpy(), expected, atol=2e-5)  # float32 of numbers around 100
    assert scale(torch.tensor([0.0, 500.0, 0.0]))[1] == 10
    again = ObservationScale(3)
    again.load_state_dict(scale.state_dict())  # what `torch.save(agent.state_dict())` keeps scales alike
    assert torch.equal(again(features), scale(features))


def test_reward_scale_against_one_environment_at_a_time() -> None:
    """Oracle: sums kept for each environment alone, statistics over all of them so far."""
    rng = np.random.default_rng(2)
    scale, gamma = RewardScale(4, 0.9), 0.9
    sums, seen = [0.0] * 4, []
    for _ in range(3):
        rewards, ended = rng.normal(2, 3, (6, 4)), rng.random((6, 4)) < 0.3
        for i in range(4):
            for t in range(6):
                sums[i] = gamma * sums[i] + rewards[t, i]
                seen.append(sums[i])
                if ended[t, i]:
                    sums[i] = 0.0
        expected = np.clip(rewards / np.sqrt(np.var(seen) + 1e-8), -10, 10)
        np.testing.assert_allclose(scale(rewards, ended), expected, rtol=1e-12)


# --- evaluation, settings, monitor ------------------------------------------------------------------------------------


def test_evaluate_counts_the_first_episode_of_each_environment() -> None:
    """Oracle: the same seeds played one by one."""
    envs = vecenv.make_vec("CartPole-v1", 3, autoreset_mode="same_step", max_episode_steps=30)
    envs.reset(seed=9)
    before = envs.snapshot().to_bytes()
    returns = evaluate(envs, lambda obs: (obs[:, 2] + obs[:, 3] > 0).astype(np.int64), 12, seed=100)
    pushes = evaluate(envs, lambda obs: np.ones(len(obs), np.int64), 12, seed=100)
    assert envs.snapshot().to_bytes() == before
    for i in range(12):
        env = vecenv.make("CartPole-v1", max_episode_steps=30)
        for expected, policy in ((returns, lambda o: int(o[2] + o[3] > 0)), (pushes, lambda o: 1)):
            obs, _ = env.reset(seed=100 + i)
            total, over = 0.0, False
            while not over:
                obs, reward, terminated, truncated, _ = env.step(policy(obs))
                total, over = total + float(reward), terminated or truncated
            assert expected[i] == total
    assert returns.max() == 30 and pushes.max() < 30


def test_evaluate_stops_by_itself() -> None:
    envs = vecenv.make_vec("MountainCar-v0", 1, max_episode_steps=-1)
    returns = evaluate(envs, lambda obs: np.ones(len(obs), np.int64), 2, seed=0, max_steps=70)
    assert returns.tolist() == [-70, -70]


def test_settings_are_put_back() -> None:
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with pytest.raises(KeyError), torch_settings(1, True):
        assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == (1, True)
        raise KeyError
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before


def test_monitor() -> None:
    monitor = Monitor("x", 100, 3, None, False)
    with monitor:
        monitor.record(10, 0.5, policy_loss=1.0)
        monitor.episodes(np.array([1.0, 2.0]), np.array([4, 6]))
        monitor.record(10, 0.5, policy_loss=2.0)
        assert np.isnan(monitor.window_return)
        monitor.episodes(np.array([6.0, 7.0]), np.array([1, 1]))
        monitor.record(10, 1.0, policy_loss=3.0)
    assert monitor.window_return == 5.0  # of 2, 6, 7
    first, second, third = monitor.curve
    assert first["episodes"] == 0 and np.isnan(first["return"]) and first["policy_loss"] == 1.0
    assert (second["step"], second["seconds"], second["episodes"], second["return"], second["length"]) == (
        20,
        1,
        2,
        1.5,
        5,
    )
    assert (third["window_return"], third["return"], monitor.step, monitor.seconds) == (5, 6.5, 30, 2)
    again = Monitor("x", 100, 3, None, False)
    again.load_state_dict(monitor.state_dict())
    assert repr(again.state_dict()) == repr(monitor.state_dict()) and again.window_return == 5  # NaN is not NaN


def test_plot(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    nan = float("nan")
    returns = [nan, 1.0, nan, 3.0, 4.0]
    curve = [{"step": k, "episodes": r == r, "return": r, "window_return": r} for k, r in enumerate(returns)]
    plot_curve(curve, tmp_path / "curve.png", "a title")
    with image.open(tmp_path / "curve.png") as picture:
        assert picture.size == (960, 540)
        assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 10
