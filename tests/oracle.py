"""What several tests need to compare vecenv with Gymnasium 1.4.0, bit for bit, and with exact expectations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from vecenv import VecEnv, make_vec


def assert_same_bits(got: Any, expected: Any, where: str = "") -> None:
    """Equal type, shape and bits, signs of zeros included."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.dtype == expected.dtype, f"{where}: {got.dtype} instead of {expected.dtype}"
    assert got.shape == expected.shape, f"{where}: shape {got.shape} instead of {expected.shape}"
    if got.tobytes() != expected.tobytes():
        np.testing.assert_array_equal(got, expected, err_msg=where)
        raise AssertionError(f"{where}: equal values, different bits")


def ulps_apart(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """How many float32 values lie between a and b."""

    def ordered(x: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        bits = x.view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)

    return np.abs(ordered(a) - ordered(b))


# --- lockstep with SyncVectorEnv --------------------------------------------------------------------------------------


def sync_vector_env(
    id: str, num_envs: int, mode: AutoresetMode | str, max_episode_steps: int | None = None, **options: Any
) -> SyncVectorEnv:
    """Gymnasium's own environments, one by one behind `SyncVectorEnv`."""

    def make() -> gymnasium.Env[Any, Any]:
        return gymnasium.make(id, max_episode_steps=max_episode_steps, disable_env_checker=True, **options)

    return SyncVectorEnv([make] * num_envs, autoreset_mode=mode)


#: `policy(obs, rng)` gives the actions `[N, ...]` for observations `[N, ...]`.
Policy = Callable[[Any, np.random.Generator], npt.NDArray[Any]]


def random_policy(space: gymnasium.Space[Any], num_envs: int) -> Policy:
    """Uniformly random actions of a Discrete or bounded Box space."""
    if isinstance(space, gymnasium.spaces.Box):
        return lambda obs, rng: rng.uniform(space.low, space.high, (num_envs, *space.shape)).astype(space.dtype)
    assert isinstance(space, gymnasium.spaces.Discrete)
    return lambda obs, rng: rng.integers(space.n, size=num_envs)


def assert_same_obs(got: Any, expected: Any, where: str, loose: npt.NDArray[np.bool_] | None = None) -> None:
    """Equal bits, leaf by leaf of a Tuple; within one float32 ulp in the rows `loose`."""
    if isinstance(got, tuple):
        assert isinstance(expected, tuple) and len(got) == len(expected), where
        for k, (a, b) in enumerate(zip(got, expected, strict=True)):
            assert_same_obs(a, b, f"{where}[{k}]", loose)
    elif loose is None:
        assert_same_bits(got, expected, where)
    else:
        assert_same_bits(got[~loose], expected[~loose], where)
        assert (ulps_apart(got[loose], expected[loose]) <= 1).all(), where


def assert_lockstep(
    envs: VecEnv,
    oracle: SyncVectorEnv,
    num_steps: int,
    seed: int,
    options: dict[str, Any] | None = None,
    policy: Policy | None = None,
    loose_resets: bool = False,
) -> int:
    """Reset and step both with the same seed and actions, random ones unless a policy is given; everything returned is
    equal bit for bit, and so are the random streams at the end. Rows are reset by mask under DISABLED. Observations of
    resets may be one float32 ulp apart if `loose_resets`. Returns the number of episodes that ended.

    Where an episode terminates at its limit, Gymnasium sets both flags; in vecenv termination wins.
    """
    assert envs.autoreset_mode is oracle.autoreset_mode
    n, mode = envs.num_envs, envs.autoreset_mode
    rng = np.random.default_rng(seed)
    policy = policy or random_policy(oracle.single_action_space, n)
    every, ended = np.ones(n, np.bool_), np.zeros(n, np.bool_)
    obs, _ = envs.reset(seed=seed, options=options)
    expected_obs, _ = oracle.reset(seed=seed, options=options)
    assert_same_obs(obs, expected_obs, "reset", every if loose_resets else None)
    num_ended = 0
    for t in range(num_steps):
        actions = policy(obs, rng)
        before = ended
        obs, rewards, terminated, truncated, infos = envs.step(actions)
        expected_obs, expected_rewards, expected_terminated, expected_truncated, expected_infos = oracle.step(actions)
        ended = terminated | truncated
        num_ended += int(ended.sum())
        reset = ended if mode is AutoresetMode.SAME_STEP else before & (mode is AutoresetMode.NEXT_STEP)
        assert_same_bits(terminated, expected_terminated, f"terminated at step {t}")
        assert_same_bits(truncated, expected_truncated & ~expected_terminated, f"truncated at step {t}")
        assert_same_bits(rewards, expected_rewards, f"rewards at step {t}")
        assert_same_obs(obs, expected_obs, f"observations at step {t}", reset if loose_resets else None)
        assert ("final_obs" in infos) == ("final_obs" in expected_infos)
        if "final_obs" in infos:
            assert_same_bits(infos["_final_obs"], expected_infos["_final_obs"], f"_final_obs at step {t}")
            assert_same_bits(infos["_final_obs"], ended, f"ended rows at step {t}")
            if isinstance(obs, tuple):
                assert infos["final_obs"].tolist() == expected_infos["final_obs"].tolist()
            else:
                last = np.stack([np.asarray(expected_infos["final_obs"][i]) for i in np.flatnonzero(ended)])
                assert_same_bits(infos["final_obs"][ended], last.astype(obs.dtype), f"final_obs at step {t}")
        if mode is AutoresetMode.DISABLED:
            mask = ended | (rng.random(n) < 0.02)
            if mask.any():
                seeds = [int(rng.integers(1000)) if rng.random() < 0.1 else None for _ in range(n)]
                obs, _ = envs.reset(seed=seeds, options={**(options or {}), "reset_mask": mask})
                expected_obs, _ = oracle.reset(seed=seeds, options={**(options or {}), "reset_mask": mask.copy()})
                loose = mask if loose_resets else None
                assert_same_obs(obs, expected_obs, f"masked reset after step {t}", loose)
    for i, env in enumerate(oracle.envs):
        stream = env.unwrapped.np_random.bit_generator.state
        assert envs.view(i).np_random.bit_generator.state == stream, f"random stream of row {i}"
    return num_ended


def assert_same_ends(
    id: str,
    num_envs: int,
    policy: Policy | None = None,
    num_close: int = 50,
    atol: float = 1e-6,
    max_steps: int | None = None,
    math: str = "portable",
) -> int:
    """The first episodes of rows seeded 0, 1, ... end on the same step and for the same reason as Gymnasium's with the
    same actions, random ones unless a policy is given; their first `num_close` observations differ by at most `atol`,
    or 1e-6 of their size. `max_steps`: look no further. Returns the number of episodes that terminated."""
    envs = make_vec(id, num_envs, math=math)
    oracle = sync_vector_env(id, num_envs, envs.autoreset_mode)
    rng = np.random.default_rng(8)
    policy = policy or random_policy(oracle.single_action_space, num_envs)
    obs, expected = envs.reset(seed=0)[0], oracle.reset(seed=0)[0]
    running, num_terminated, t = np.ones(num_envs, np.bool_), 0, 0
    while running.any() and t != max_steps:
        if t < num_close:
            np.testing.assert_allclose(obs[running], expected[running], rtol=1e-6, atol=atol, err_msg=f"step {t}")
        actions = policy(expected, rng)
        obs, _, terminated, truncated, _ = envs.step(actions)
        expected, _, expected_terminated, expected_truncated, _ = oracle.step(actions)
        assert_same_bits(terminated[running], expected_terminated[running], f"terminated at step {t}")
        expected_truncated &= ~expected_terminated  # in vecenv termination wins
        assert_same_bits(truncated[running], expected_truncated[running], f"truncated at step {t}")
        num_terminated += int(terminated[running].sum())
        running &= ~(terminated | truncated)
        t += 1
    return num_terminated


class Singles:
    """Single Gymnasium environments, reset by hand as a mode says; keeps their infos apart.

    `SyncVectorEnv` merges infos into arrays of the type that the first row has, which rounds floats where that row is
    reset and reports an int.
    """

    def __init__(self, id: str, num_envs: int, mode: AutoresetMode, **options: Any) -> None:
        self.envs = [gymnasium.make(id, disable_env_checker=True, **options) for _ in range(num_envs)]
        self.mode = mode
        self.ended = [False] * num_envs

    def reset(self, seed: int) -> list[dict[str, Any]]:
        return [env.reset(seed=seed + i)[1] for i, env in enumerate(self.envs)]

    def step(self, actions: npt.NDArray[Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
        """(info, final info or None) of each row."""
        for i, env in enumerate(self.envs):
            final = None
            if self.mode is AutoresetMode.NEXT_STEP and self.ended[i]:
                _, info = env.reset()
                self.ended[i] = False
            else:
                _, _, terminated, truncated, info = env.step(actions[i])
                self.ended[i] = terminated or truncated
                if self.mode is AutoresetMode.SAME_STEP and self.ended[i]:
                    final, (_, info) = info, env.reset()
            yield info, final


def assert_infos(envs: VecEnv, singles: Singles, num_steps: int, seed: int, policy: Policy | None = None) -> int:
    """Infos of every row, final ones included, have the values of single environments; floats are float64 in each call.
    Returns the number of final infos."""
    rng = np.random.default_rng(seed)
    policy = policy or random_policy(envs.single_action_space, envs.num_envs)

    def assert_row(infos: dict[str, Any], i: int, info: dict[str, Any]) -> None:
        assert set(info) <= set(infos)
        for name, value in info.items():
            got = infos[name]
            assert infos[f"_{name}"][i] and got.dtype == (np.float64 if np.ndim(value) == 0 else value.dtype)
            assert got[i].tolist() == np.asarray(value).tolist()

    obs, infos = envs.reset(seed=seed)
    for i, info in enumerate(singles.reset(seed=seed)):
        assert_row(infos, i, info)
    finals = 0
    for _ in range(num_steps):
        actions = policy(obs, rng)
        obs, _, _, _, infos = envs.step(actions)
        for i, (info, final) in enumerate(singles.step(actions)):
            assert_row(infos, i, info)
            if final is not None:
                finals += 1
                assert infos["_final_info"][i]
                assert_row(infos["final_info"], i, final)
    return finals


# --- lockstep with slow games in plain Python -------------------------------------------------------------------------


class Game(Protocol):
    """One environment in the plainest Python, which draws from NumPy's own generator."""

    def reset(self, rng: np.random.Generator) -> None: ...

    def step(self, action: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        """Reward and terminated; with several agents a list of each."""

    def obs(self) -> Any:
        """The observation; with several agents a list of them."""


def assert_follows(
    envs: VecEnv,
    make: Callable[[], Game],
    num_steps: int,
    seed: int,
    choose: Callable[[np.random.Generator], npt.NDArray[Any]] | None = None,
) -> int:
    """A SAME_STEP batch is what slow games do that are seeded alike: observations, final ones included, rewards, flags
    and the random streams at the end, all exactly. `choose(rng)` gives the actions `[N, ...]`, random ones by default.
    Returns the number of episodes that ended.

    Flags and rewards of an agent that has ended before the others are False and 0; a limit of the batch truncates.
    """
    assert envs.autoreset_mode is AutoresetMode.SAME_STEP
    rows, agents = envs.num_rows, envs.num_agents
    limit = envs.definition.max_episode_steps or 2**31
    games, rngs = [make() for _ in range(rows)], [np.random.default_rng(seed + i) for i in range(rows)]
    policy = np.random.default_rng(seed + 1)
    choose = choose or random_actions(envs)
    obs, _ = envs.reset(seed=seed)
    dtype = obs.dtype
    elapsed, alive, num_ended = np.zeros(rows, np.int64), np.ones((rows, agents), np.bool_), 0

    def shaped(parts: list[Any]) -> npt.NDArray[Any]:
        return np.array(parts).astype(dtype).reshape(obs.shape)

    for game, rng in zip(games, rngs, strict=True):
        game.reset(rng)
    np.testing.assert_array_equal(obs, shaped([game.obs() for game in games]), "reset")
    for t in range(num_steps):
        actions = choose(policy)
        obs, rewards, terminated, truncated, infos = envs.step(actions)
        by_row = actions.reshape(rows, agents, *actions.shape[1:])
        results = [game.step(a if agents > 1 else a[0], r) for game, a, r in zip(games, by_row, rngs, strict=True)]
        elapsed += 1
        expected = np.array([result[0] for result in results], np.float64).reshape(rows, agents)
        ends = np.array([result[1] for result in results]).reshape(rows, agents) & alive
        cut = alive & ~ends & (elapsed >= limit)[:, np.newaxis]
        np.testing.assert_array_equal(rewards, np.where(alive, expected, 0.0).ravel(), f"rewards at step {t}")
        np.testing.assert_array_equal(terminated, ends.ravel(), f"terminated at step {t}")
        np.testing.assert_array_equal(truncated, cut.ravel(), f"truncated at step {t}")
        alive &= ~(ends | cut)
        over = ~alive.any(axis=1)
        final = shaped([game.obs() for game in games])
        for i in np.flatnonzero(over):
            games[i].reset(rngs[i])
        if over.any():
            mask = np.repeat(over, agents)
            np.testing.assert_array_equal(infos["_final_obs"], mask, f"_final_obs at step {t}")
            np.testing.assert_array_equal(infos["final_obs"][mask], final[mask], f"final_obs at step {t}")
        np.testing.assert_array_equal(obs, shaped([game.obs() for game in games]), f"observations at step {t}")
        elapsed[over], alive[over] = 0, True
        num_ended += int(over.sum())
    if agents == 1:
        for i, rng in enumerate(rngs):
            assert envs.view(i).np_random.bit_generator.state == rng.bit_generator.state, f"stream of row {i}"
    return num_ended


def random_actions(envs: VecEnv) -> Callable[[np.random.Generator], npt.NDArray[Any]]:
    """Uniformly random actions of a batch, one per agent."""
    policy = random_policy(envs.single_action_space, envs.num_envs)
    return lambda rng: policy(None, rng)


# --- random play ------------------------------------------------------------------------------------------------------


@dataclass
class Episodes:
    """The first episode of every row: `[N]` each."""

    lengths: npt.NDArray[np.int64]
    returns: npt.NDArray[np.float64]
    terminated: npt.NDArray[np.bool_]


def first_episodes(envs: VecEnv, seed: int) -> Episodes:
    """Play uniformly random actions until every row has ended once. Only first episodes count, so long ones are not
    under-represented."""
    n = envs.num_envs
    policy = np.random.default_rng(seed)
    lengths, returns, won = np.zeros(n, np.int64), np.zeros(n), np.zeros(n, np.bool_)
    running = np.ones(n, np.bool_)
    envs.reset(seed=seed)
    while running.any():
        _, rewards, terminated, truncated, _ = envs.step(policy.integers(envs.single_action_space.n, size=n))
        lengths += running
        returns += np.where(running, rewards, 0.0)
        won |= running & terminated
        running &= ~(terminated | truncated)
    return Episodes(lengths, returns, won)


def assert_mean(samples: npt.NDArray[Any], expected: float, sigmas: float = 4.5, rounding: float = 0.0) -> None:
    """The mean is `expected` within `sigmas` standard errors (4.5: one false alarm in 150,000 seeds) and rounding."""
    error = samples.std(ddof=1) / np.sqrt(len(samples))
    assert abs(samples.mean() - expected) <= sigmas * error + rounding, f"{samples.mean()} +- {error}, not {expected}"


def assert_frequencies(counts: npt.NDArray[Any], probabilities: npt.NDArray[Any] | list[float], bound: float) -> None:
    """Pearson's chi-square of counts against probabilities is at most `bound`; impossible outcomes never occur."""
    counts, probabilities = np.asarray(counts), np.asarray(probabilities)
    assert (counts[probabilities == 0] == 0).all()
    possible = probabilities > 0
    expected = counts.sum() * probabilities[possible]
    chi_square = ((counts[possible] - expected) ** 2 / expected).sum()
    assert chi_square <= bound, f"chi-square {chi_square:.2f}: {counts}"
