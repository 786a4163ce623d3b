"""`step` made of `events` and `apply`. Oracles: Gymnasium 1.4.0's `categorical_sample`, NumPy's Generator."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.envs.toy_text.utils import categorical_sample
from gymnasium.spaces import Discrete
from hypothesis import given
from hypothesis import strategies as st

from vecenv import I4, EnvDef, ModelDef, Params, State, jit, make, make_vec
from vecenv.kernels.chance import pick

CHANCES = (0.2, 0.0, 0.3, 0.4, 0.1)


class WheelState(State):
    total: I4
    last: I4


@jit
def reset(state, params, rng):
    state.total = 0


@jit
def events(state, action, params):
    return CHANCES if state.total < 1000 else (1.0, 0.0, 0.0, 0.0, 0.0)


@jit
def turn(state, action, event, params):
    state.total += event + action
    state.last = event
    return float(event), state.total > 5000


@jit
def observe(state, params, obs):
    obs[0] = state.last


@jit
def encode(state, params):
    return state.total


@jit
def decode(state, key, params):
    state.total = key


def wheel():
    return EnvDef(
        "Wheel-v0", WheelState, Params, reset, None, observe,
        observation_space=Discrete(5), action_space=Discrete(2),
        model=ModelDef(5010, encode, decode, events=events, apply=turn),
    )  # fmt: skip


@pytest.mark.nojit
@given(
    weights=st.lists(st.floats(0, 1), min_size=1, max_size=7).filter(lambda weights: sum(weights) > 0.01),
    draw=st.floats(0, 1, exclude_max=True),
    edge=st.integers(0, 6),
    ulps=st.integers(-1, 1),
)
def test_pick_is_gymnasiums_sampling_at_every_edge(weights, draw, edge, ulps):
    probabilities = tuple((np.array(weights) / sum(weights)).tolist())
    sums = np.cumsum(probabilities)
    if edge < len(sums) and 0 <= sums[edge] < 1:
        draw = float(sums[edge]) if ulps == 0 else float(np.nextafter(sums[edge], ulps * np.inf))
        draw = min(max(draw, 0.0), float(np.nextafter(1.0, 0.0)))
    stub = SimpleNamespace(random=lambda: draw)
    assert pick(draw, probabilities) == categorical_sample(probabilities, stub)


@pytest.mark.nojit
def test_a_step_draws_once_and_takes_the_event_of_the_draw():
    view = make(wheel())
    view.reset(seed=5)
    rng = np.random.default_rng(5)
    for t in range(300):
        expected = int(np.argmax(np.cumsum(CHANCES) > rng.random()))
        obs, reward, *_ = view.step(t % 2, jit=t % 3 > 0)
        assert (obs, reward) == (expected, expected)
    assert view.np_random.bit_generator.state == rng.bit_generator.state


@pytest.mark.nojit
def test_probabilities_are_those_of_the_state_before():
    envs = make_vec(wheel(), 50, autoreset_mode="disabled")
    envs.reset(seed=1)
    envs.state.total[:] = 999
    obs, *_ = envs.step(np.ones(50, np.int64))
    assert len(set(obs.tolist())) > 2
    assert (envs.state.total >= 1000).all()
    assert (envs.step(np.ones(50, np.int64))[0] == 0).all()
