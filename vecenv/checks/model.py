"""Is the exact model of a definition what its `reset` and `step` do?"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from vecenv.checks.report import Report
from vecenv.kernels.envdef import EnvDef
from vecenv.models import Model
from vecenv.vec_env import VecEnv

PAIRS = 200  # of a state and an action that are sampled
SAMPLES = 1000  # of each, and ten times as many starts
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
    elif surprise(counts, model.starts) > SIGMAS:
        expected = f"each start as often as in the model, {model.starts[model.starts > 0]}"
        report.add("model-starts", expected, f"{counts[model.starts > 0]} times")


def _check_steps(model: Model, report: Report, seed: int) -> None:
    """Each pair is put into a block of rows and stepped once."""
    rng = np.random.default_rng(seed)
    pairs = np.flatnonzero(np.repeat(~model.absorbing, model.num_actions))
    pairs = np.sort(rng.choice(pairs, min(len(pairs), PAIRS), replace=False))
    envs = _batch(model, len(pairs) * SAMPLES, seed)
    states, actions = (part.repeat(SAMPLES) for part in divmod(pairs, model.num_actions))
    model.put(envs, states)
    _, rewards, terminated, _, _ = envs.step(actions + envs.single_action_space.start)  # type: ignore[attr-defined]
    keys = model.keys_of(envs)
    for k, pair in enumerate(pairs.tolist()):
        rows = slice(model.offsets[pair], model.offsets[pair + 1])
        block = slice(k * SAMPLES, (k + 1) * SAMPLES)
        expected = zip(model.keys[model.next_states[rows]], model.rewards[rows], model.terminals[rows], strict=True)
        known = {outcome: j for j, outcome in enumerate(expected)}
        counts = np.zeros(len(known), np.int64)
        state, action = divmod(pair, model.num_actions)
        where = f"state {state} ({_raw(model, state)}), action {action}"
        for outcome in zip(keys[block], rewards[block], terminated[block], strict=True):
            if outcome not in known:
                key, reward, end = outcome
                got = f"raw key {key}, reward {reward}, {'an end' if end else 'no end'}"
                report.add("model-steps", "an outcome that the model has", got, where=where)
                break
            counts[known[outcome]] += 1
        else:
            if surprise(counts, model.probabilities[rows]) > SIGMAS:
                chances = f"frequencies as in the model, {SAMPLES * model.probabilities[rows]}"
                report.add("model-frequencies", chances, f"{counts} times", where=where)


def surprise(counts: npt.NDArray[np.int64], probabilities: npt.NDArray[np.float64]) -> float:
    """Pearson's chi-square of counts against probabilities, in standard deviations of a normal variable.

    Outcomes that are expected less than 5 times count as one. Wilson and Hilferty's approximation: the cube root of
    chi-square / degrees is nearly normal.
    """
    expected = counts.sum() * probabilities
    often = expected >= 5
    observed = np.append(counts[often], counts[~often].sum())
    expected = np.append(expected[often], expected[~often].sum())
    observed, expected = observed[expected > 0], expected[expected > 0]
    degrees = len(expected) - 1
    if degrees == 0:
        return 0.0
    ratio = float((np.square(observed - expected) / expected).sum()) / degrees
    return (ratio ** (1 / 3) - (1 - 2 / (9 * degrees))) / math.sqrt(2 / (9 * degrees))


def _raw(model: Model, state: int) -> str:
    return str(model.id2state(state))
