"""FlickeringCartPole: balance a pole on a cart while the observation goes blank at random.

Source: FlickeringCartPole of the Rust crate thrust-rl 0.4.0 (https://crates.io/crates/thrust-rl), by its rules;
CartPole itself as in `cartpole.py`.

| observation | meaning                        | unit  | range            |
|-------------|--------------------------------|-------|------------------|
| 0           | cart position, 0 when blank    | m     | +-4.8            |
| 1           | cart velocity, 0 when blank    | m/s   | any              |
| 2           | pole angle, 0 when blank       | rad   | +-0.419          |
| 3           | pole angular velocity, 0 when blank | rad/s | any         |

| action | meaning             |
|--------|---------------------|
| 0      | push left with 10 N |
| 1      | push right          |

Every observation, the first of an episode included, is blank with probability `blank_probability`: independently, or
with `mean_run` in runs of so many steps on average. Then it is a Markov chain that leaves a blank run with probability
1 / mean_run and begins one with p / (mean_run * (1 - p)), so that the share p of blank observations stays.

Reward: 1 on every step, the last one included (option `last_step_reward`).
End: terminated when |position| > 2.4 m or |angle| > 12 degrees.
Limit: 500 steps.
Reset options: `low` and `high`, as in CartPole.
Options: `blank_probability`: see above; 0.5; `mean_run`: see above, at least 1; None draws independently; `integrator`
and `last_step_reward`, as in CartPole.

A snapshot replays bit for bit, blanks included: every draw comes from the row's own random stream.

Differs from the source in: Gymnasium's integrator and reward unless "semi_implicit" and "zero" are chosen; float64 in
place of float32; one random stream for starts and blanks; termination wins where the limit falls on the same step.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.classic.cartpole import (
    CartPoleOptions,
    CartPoleParams,
    CartPoleState,
    check_options,
    choose_functions,
    render,
)
from vecenv.kernels.classic.cartpole import observe as see
from vecenv.kernels.classic.cartpole import reset as begin
from vecenv.kernels.classic.cartpole import step as push
from vecenv.kernels.envdef import EnvDef, number, probability
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import B1, F8


class FlickeringCartPoleState(CartPoleState):
    blank: B1  # the observation is


class FlickeringCartPoleParams(CartPoleParams):
    first: F8 = 0.5  # probability of a blank observation after a reset
    begin: F8 = 0.5  # after one that was seen
    stay: F8 = 0.5  # after a blank one


@jit
def reset(state, params, rng, options):
    begin(state, params, rng, options)
    state.blank = rng.random() < params.first


@jit
def step(state, action, params, rng):
    """One step of CartPole, then blank or not. Returns (reward, terminated)."""
    reward, terminated = push(state, action, params, rng)
    state.blank = rng.random() < (params.stay if state.blank else params.begin)
    return reward, terminated


@jit
def observe(state, params, obs):
    if state.blank:
        obs.fill(0.0)
    else:
        see(state, params, obs)


def chances(blank_probability: float, mean_run: float | None) -> dict[str, float]:
    """`first`, `begin` and `stay` of the options; raises TypeError or ValueError."""
    p = probability("blank_probability", blank_probability)
    if mean_run is None:
        return {"first": p, "begin": p, "stay": p}
    run = number("mean_run", mean_run)
    if run < 1:
        raise ValueError(f"mean_run: expected at least 1 step, got {mean_run!r}")
    if not 0 < p < 1:
        raise ValueError(f"blank_probability: expected a number between 0 and 1, for runs, got {blank_probability!r}")
    begin = 1 / (run * (1 - p) / p)
    if begin > 1:
        raise ValueError(f"mean_run: a share {p} of blank observations needs runs of {p / (1 - p):.4g} or more steps, "
                         f"got {mean_run!r}")  # fmt: skip
    return {"first": p, "begin": begin, "stay": 1 - 1 / run}


def build(
    blank_probability: float = 0.5,
    mean_run: float | None = None,
    integrator: str = "euler",
    last_step_reward: str = "one",
) -> EnvDef:
    largest = np.finfo(np.float32).max
    high = np.array([4.8, largest, 2 * CartPoleParams.theta_threshold, largest], np.float32)
    return EnvDef(
        "FlickeringCartPole-v0",
        FlickeringCartPoleState,
        FlickeringCartPoleParams,
        reset,
        step,
        observe,
        observation_space=Box(-high, high, dtype=np.float32),
        action_space=Discrete(2),
        max_episode_steps=500,
        param_values=chances(blank_probability, mean_run),
        options_type=CartPoleOptions,
        check_options=check_options,
        functions=choose_functions(integrator, last_step_reward),
        render=render,
    )
