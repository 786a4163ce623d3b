"""Is the exact model of a definition what its `reset` and `step` do?"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import numpy.typing as npt

from vecenv.checks.report import Report
from vecenv.kernels.envdef import EnvDef
from vecenv.models import Model
from vecenv.vec_env import VecEnv

PAIRS = 200  # of a state and an action that are sampled
SAMPLES = 1000  # of each, more if there are fewer pairs, and ten times as many starts
SIGMAS = 6.0  # one false alarm in a billion


def check_model(definition: EnvDef, report: Report, seed: int) -> None:
    """Sample starts and steps and compare: nothing that the model excludes, and frequencies by a chi-square test."""
    model = Model(definition)
    _check_keys(model, report)
    _check_starts(model, report, seed)
    _check_steps(model, report, seed)


def _batch(model: Model, num_envs: int, seed: int) -> VecEnv:
    envs = VecEnv(model.definition, num_envs, autoreset_mode="disabled", max_episode_steps=-1)
    envs.reset(seed=seed)
    return envs


def _check_keys(model: Model, report: Report) -> None:
    envs = _batch(model, model.num_states, 0)
    model.put(envs, np.arange(model.num_states))
    keys = model.keys_of(envs)
    if (wrong := np.flatnonzero(keys != model.keys)).size:
        s = int(wrong[0])
        report.add("model-keys", f"encode(decode({model.keys[s]})) to be the same", str(keys[s]))


def _check_starts(model: Model, report: Report, seed: int) -> None:
    counts = np.bincount(model.states_of(_batch(model, 10 * SAMPLES, seed)), minlength=model.num_states)
    if impossible := np.flatnonzero((counts > 0) & (model.starts == 0)).tolist():
        report.add("model-starts", "starts that the model has", f"state {impossible[0]} ({_raw(model, impossible[0])})")
    elif surprise(*chi_square(counts, model.starts)) > SIGMAS:
        expected = f"each start as often as in the model, {model.starts[model.starts > 0]}"
        report.add("model-starts", expected, f"{counts[model.starts > 0]} times")


def _check_steps(model: Model, report: Report, seed: int) -> None:
    """Each pair is put into a block of rows and stepped once."""
    rng = np.random.default_rng(seed)
    pairs = np.flatnonzero(np.repeat(~model.absorbing, model.num_actions))
    pairs = np.sort(rng.choice(pairs, min(len(pairs), PAIRS), replace=False))
    samples = PAIRS * SAMPLES // len(pairs)
    envs = _batch(model, len(pairs) * samples, seed)
    states, actions = (part.repeat(samples) for part in divmod(pairs, model.num_actions))
    model.put(envs, states)
    _, rewards, terminated, _, _ = envs.step(actions + envs.single_action_space.start)  # type: ignore[attr-defined]
    keys = model.keys_of(envs)
    total, degrees = 0.0, 0
    for k, pair in enumerate(pairs.tolist()):
        rows, block = slice(model.offsets[pair], model.offsets[pair + 1]), slice(k * samples, (k + 1) * samples)
        state, action = divmod(pair, model.num_actions)
        where = f"state {state} ({_raw(model, state)}), action {action}"
        known = list(zip(model.keys[model.next_states[rows]], model.rewards[rows], model.terminals[rows], strict=True))
        seen = Counter(zip(keys[block].tolist(), rewards[block].tolist(), terminated[block].tolist(), strict=True))
        counts = np.array([seen.pop(outcome, 0) for outcome in known])
        for key, reward, end in seen:
            got = f"raw key {key}, reward {reward}, {'an end' if end else 'no end'}"
            report.add("model-steps", "an outcome that the model has", got, where=where)
        if not seen:
            chances = model.probabilities[rows]
            statistic = chi_square(counts, chances)
            total, degrees = total + statistic[0], degrees + statistic[1]
            if surprise(*statistic) > SIGMAS:
                expected = f"frequencies as in the model, {samples * chances}"
                report.add("model-frequencies", expected, f"{counts} times", where=where)
    if surprise(total, degrees) > SIGMAS:
        report.add("model-frequencies", f"a chi-square of about {degrees}", f"{total:.0f}", where="all pairs together")


def chi_square(counts: npt.NDArray[np.int64], probabilities: npt.NDArray[np.float64]) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom; outcomes that are expected less than 5 times count as one."""
    expected = counts.sum() * probabilities
    often = expected >= 5
    observed = np.append(counts[often], counts[~often].sum())
    expected = np.append(expected[often], expected[~often].sum())
    observed, expected = observed[expected > 0], expected[expected > 0]
    return float((np.square(observed - expected) / expected).sum()), len(expected) - 1


def surprise(statistic: float, degrees: int) -> float:
    """A chi-square in standard deviations of a normal variable, by Wilson and Hilferty's cube root."""
    if degrees == 0:
        return 0.0
    spread = 2 / (9 * degrees)
    return float(((statistic / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread))


def _raw(model: Model, state: int) -> str:
    return str(model.id2state(state))
