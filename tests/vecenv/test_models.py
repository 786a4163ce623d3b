"""Exact models. Oracle where named: Gymnasium 1.4.0's transition tables."""

import pickle
from collections import defaultdict

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from oracle import assert_frequencies

import vecenv
from vecenv import I4, BindError, EnvDef, ModelDef, Params, State, jit
from vecenv.registry import definition_of

WITH_MODEL = [id for id in vecenv.registered_ids() if definition_of(id).model is not None]


ONE = Discrete(1)


class DotState(State):
    at: I4


class DotParams(Params):
    chance: vecenv.F8 = 0.5


@jit
def reset(state, params, rng):
    state.at = 1


@jit
def draws(state, params, rng):
    state.at = rng.integers(0, 3)


@jit
def events(state, action, params):
    return params.chance, 1.0 - params.chance


@jit
def apply(state, action, event, params):
    state.at += event
    return 1.0, state.at >= 4


@jit
def observe(state, params, obs):
    obs[0] = state.at


@jit
def encode(state, params):
    return state.at


@jit
def decode(state, key, params):
    state.at = key


@jit
def step(state, action, params, rng):
    state.at += rng.integers(0, 2)
    return 1.0, state.at >= 4


def dot(
    num_states=5, encode=encode, decode=decode, reset=reset, step=None, action_space=ONE, params=DotParams,
    **model,
):  # fmt: skip
    if step is None:
        model = {"events": events, "apply": apply, **model}
    return EnvDef(
        "Dot-v0", DotState, params, reset, step, observe,
        observation_space=Discrete(9), action_space=action_space, model=ModelDef(num_states, encode, decode, **model),
    )  # fmt: skip


# --- transitions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "id, options",
    [
        ("FrozenLake-v1", {}),
        ("FrozenLake8x8-v1", {}),
        ("FrozenLake-v1", {"is_slippery": False}),
        ("FrozenLake-v1", {"success_rate": 0.9, "reward_schedule": (3, -1, -0.25)}),
        ("FrozenLake-v1", {"desc": ["SFFFG", "FHFFF", "FFFHS", "GFFFF"], "success_rate": 0.7}),
        ("CliffWalking-v1", {}),
        ("CliffWalkingSlippery-v1", {}),
        ("Taxi-v4", {}),
        ("Taxi-v4", {"is_rainy": True, "rainy_probability": 0.7}),
    ],
)
def test_model_is_gymnasiums_transition_table(id, options):
    """Equal entries of Gymnasium's `P` are merged; its probabilities are rounded in another order, by 1 ulp."""
    oracle = gymnasium.make(id, **options).unwrapped
    model = vecenv.model(id, **options)
    assert model.starts == pytest.approx(oracle.initial_state_distrib[model.keys], abs=1e-15)
    for s in np.flatnonzero(~model.absorbing).tolist():  # Gymnasium also lists steps that come after an end
        key = int(model.keys[s])
        for action in range(model.num_actions):
            expected = defaultdict(float)
            for probability, to, reward, terminated in oracle.P[key][action]:
                expected[to, float(reward), terminated] += probability
            got = zip(*model.transitions(s, action), strict=True)
            got = {(int(model.keys[to]), float(r), bool(end)): p for to, r, end, p in got}
            assert got == pytest.approx(expected, abs=1e-15)
    reachable = set(model.keys.tolist())
    live = model.keys[~model.absorbing].tolist()
    assert {to for key in live for a in range(model.num_actions) for _, to, _, _ in oracle.P[key][a]} <= reachable


def test_rows_of_the_slippery_lake():
    """Case C139."""
    model = vecenv.model("FrozenLake-v1")
    to, rewards, ends, chances = model.transitions(6, "left")
    assert (to, rewards.tolist(), ends.tolist()) == ([2, 5, 10], [0, 0, 0], [False, True, False])
    assert chances == pytest.approx(1 / 3, abs=1e-15)
    to, _, _, chances = model.transitions(0, 0)
    assert (to, chances.tolist()) == ([0, 4], pytest.approx([2 / 3, 1 / 3], abs=1e-15))


@pytest.mark.parametrize("id", WITH_MODEL)
def test_every_model_is_sound(id):
    model = vecenv.model(id)
    sums = np.add.reduceat(model.probabilities, model.offsets[:-1])
    assert model.offsets[0] == 0 and model.offsets[-1] == len(model.next_states) and (np.diff(model.offsets) > 0).all()
    assert np.abs(sums - 1).max() <= 1e-12 and abs(model.starts.sum() - 1) <= 1e-12
    assert (model.probabilities > 0).all() and (np.diff(model.keys) > 0).all()
    assert model.next_states.min() >= 0 and model.next_states.max() < model.num_states
    reached = np.zeros(model.num_states, bool)
    reached[model.starts > 0] = True
    while True:  # a slow search over the finished model finds all of its states
        pairs = np.repeat(np.arange(model.num_states), model.num_actions).repeat(np.diff(model.offsets))
        ahead = reached.copy()
        ahead[model.next_states[reached[pairs]]] = True
        if (ahead == reached).all():
            break
        reached = ahead
    assert reached.all()
    assert not model.next_states.flags.writeable


@pytest.mark.nojit
def test_a_small_model_by_hand():
    model = vecenv.model(dot())
    assert (model.num_states, model.num_actions, model.keys.tolist()) == (4, 1, [1, 2, 3, 4])
    assert model.starts.tolist() == [1, 0, 0, 0] and model.absorbing.tolist() == [False, False, False, True]
    assert model.offsets.tolist() == [0, 2, 4, 6, 7]
    assert model.next_states.tolist() == [0, 1, 1, 2, 2, 3, 3]
    assert model.probabilities.tolist() == [0.5] * 6 + [1]
    assert model.rewards.tolist() == [1] * 6 + [0]
    assert model.terminals.tolist() == [False] * 5 + [True, True]
    assert vecenv.model(dot(), params={"chance": 0.25}).probabilities.tolist() == [0.25, 0.75] * 3 + [1]
    assert repr(model) == "Model(Dot-v0, 4 states, 1 actions, 7 transitions)"


@pytest.mark.nojit
def test_equal_rows_are_merged_and_others_are_not():
    """Two outcomes with the same next state are one row if reward and end are equal too."""

    @jit
    def outcomes(state, action, k, params):
        state.at = 2
        return 0.2, float(k // 2), k == 4

    model = vecenv.model(dot(step=step, outcomes=outcomes, num_outcomes=5))
    to, rewards, ends, chances = model.transitions(0, 0)
    assert (to, rewards.tolist(), ends.tolist()) == ([1, 1, 1], [0, 1, 2], [False, False, True])
    assert chances == pytest.approx([0.4, 0.4, 0.2])


def test_a_state_that_also_ends_an_episode_is_followed():
    """5Walk: leaving the line keeps the number of its end."""
    model = vecenv.model("5Walk-v0")
    assert model.num_states == 5 and not model.absorbing.any()
    assert [part if isinstance(part, list) else part.tolist() for part in model.transitions(0, "left")] == [
        [0], [0], [True], [1]
    ]  # fmt: skip
    assert [part if isinstance(part, list) else part.tolist() for part in model.transitions(4, "right")] == [
        [4], [1], [True], [1]
    ]  # fmt: skip


def test_several_starts():
    model = vecenv.model("FrozenLake-v1", desc=["SFS", "FHS", "FFG"])
    assert model.starts == pytest.approx([1 / 3, 0, 1 / 3, 0, 0, 1 / 3, 0, 0, 0])
    envs = vecenv.make_vec(model.definition, 30_000)
    envs.reset(seed=3)
    assert_frequencies(np.bincount(model.states_of(envs), minlength=9), model.starts, 13.8)


def test_dense():
    model = vecenv.model("FrozenLake-v1", reward_schedule=(1, -2, -0.5))
    probability, reward = model.dense()
    assert probability.shape == reward.shape == (16, 4, 16)
    expected, expected_reward = np.zeros((16, 4, 16)), np.zeros((16, 4, 16))
    for s in range(16):
        for a in range(4):
            for to, r, _, p in zip(*model.transitions(s, a), strict=True):
                expected[s, a, to] += p
                expected_reward[s, a, to] += p * r
    np.testing.assert_array_equal(probability, expected)
    assert np.abs(probability.sum(2) - 1).max() <= 1e-12
    np.testing.assert_allclose(probability * reward, expected_reward, atol=1e-15)
    assert reward[14, 2, 15] == 1 and reward[4, 2, 5] == -2 and reward[0, 0, 4] == -0.5 and reward[0, 0, 15] == 0


def test_dense_refuses_what_is_too_large():
    """16,384 states and one action are 2**28 entries; one state more is too many."""
    model = vecenv.model("LineWorld-v0", n=11_586)
    with pytest.raises(ValueError, match=r"11586 states and 2 actions make 268,470,792 entries, more than 268,435,456"):
        model.dense()


# --- names and batches ------------------------------------------------------------------------------------------------


def test_names():
    model = vecenv.model("TinyGrid-v0")
    assert model.id2state([0, 5, 8]) == [(0, 0), (1, 2), (2, 2)] and model.id2state(np.int64(3)) == (1, 0)
    assert model.state2id((1, 2)) == 5 and model.state2id([(0, 0), (2, 2)]) == [0, 8]
    assert model.is_reachable((2, 2)) and not model.is_reachable((3, 0))
    assert model.action2id("right") == 1 and model.action2id("jump") == -1
    assert [model.id2action(a) for a in range(4)] == ["up", "right", "down", "left"]
    assert "".join(model.id2action(a, "arrow") for a in range(4)) == "↑→↓←"
    assert vecenv.model("LineWorld-v0").id2state(3) == 3
    assert vecenv.model(dot()).action_labels == ("0",)
    assert model.to_matrix(np.arange(9)).tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda model: model.id2state(9), ValueError, "state: expected an int from 0 to 8, got 9"),
        (lambda model: model.id2state(1.0), TypeError, "state: expected an int"),
        (lambda model: model.state2id((7, 7)), ValueError, r"state \(7, 7\): expected a state that can be reached"),
        (lambda model: model.transitions(0, 4), ValueError, "action: expected 0 to 3 or one of up, right"),
        (lambda model: model.transitions(0, "jump"), ValueError, "got 'jump'"),
        (lambda model: model.transitions(0, 1.5), TypeError, "action: expected an int"),
        (lambda model: model.id2action(0, "emoji"), ValueError, "'text' or 'arrow', got 'emoji'"),
        (lambda model: model.to_matrix([1, 2]), ValueError, r"each of 9 states, got shape \(2,\)"),
        (lambda model: model.states_of(vecenv.make_vec("LineWorld-v0", 1)), ValueError, "another definition"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call(vecenv.model("TinyGrid-v0"))


@pytest.mark.nojit
def test_states_of_a_batch():
    model = vecenv.model("TinyGrid-v0")
    envs = vecenv.make_vec("TinyGrid-v0", 9)
    envs.reset(seed=0)
    assert (model.states_of(envs) == 0).all()
    model.put(envs, np.arange(9))
    assert model.states_of(envs).tolist() == list(range(9)) and envs.state.row.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert model.keys_of(envs).tolist() == list(range(9))
    model.put(envs, 4)
    assert (model.states_of(envs) == 4).all()
    with pytest.raises(ValueError, match="states: expected ints from 0 to 8"):
        model.put(envs, [9] * 9)
    envs.state.row[3] = 7
    with pytest.raises(ValueError, match=r"row 3: its state \(raw key 22\) is none of the model's"):
        model.states_of(envs)


# --- what cannot be a model -------------------------------------------------------------------------------------------


@jit
def too_much(state, action, params):
    return 0.5, 0.6


@jit
def negative(state, action, params):
    return 1.5, -0.5


@jit
def pays_infinity(state, action, event, params):
    state.at += event
    return 1.0 / (state.at - 3), state.at >= 4


@jit
def half_a_start(state, k, params):
    state.at = k
    return 0.25


@jit
def far_start(state, k, params):
    state.at = 10
    return 1.0


@pytest.mark.nojit
@pytest.mark.parametrize(
    "options, message",
    [
        ({"events": too_much}, "Dot-v0: state 1, action 0: expected probabilities that add up to 1, got 1.1"),
        ({"events": negative}, "state 1, action 0, outcome 0: expected a probability from 0 to 1, got 1.5"),
        ({"num_states": 3}, r"state 2, action 0, outcome 1: expected `encode` .* from 0 to 2, got 3"),
        ({"apply": pays_infinity}, "state 2, action 0, outcome 1: expected a finite reward, got inf"),
        ({"reset": draws, "start": half_a_start, "num_starts": 3}, "starts: .* add up to 1, got 0.75"),
        ({"reset": draws, "start": far_start, "num_starts": 1}, "start 0: expected `encode` .* from 0 to 4, got 10"),
    ],
)
def test_wrong_models(options, message):
    with pytest.raises(ValueError, match=message):
        vecenv.model(dot(**options))


@jit
def one_argument(state):
    return 0


def unmarked(state, params):
    return 0


@pytest.mark.nojit
@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"step": step}, TypeError, "`step` draws, so its model needs `events` and `apply`, or `outcomes`"),
        ({"reset": draws}, TypeError, "`reset` draws, so its model needs `start` and `num_starts`"),
        ({"step": step, "outcomes": events, "num_outcomes": 2}, BindError, "`outcomes` takes"),
        ({"step": step, "events": events, "apply": apply}, TypeError, "pass None for `step`"),
        ({"apply": None}, TypeError, "`events` and `apply` come together"),
        ({"encode": one_argument}, BindError, r"`encode` takes \(state, params\), got one_argument\(state\)"),
        ({"encode": unmarked}, BindError, "`encode` is not marked; put @jit above `def unmarked`"),
        ({"num_states": 0}, ValueError, "num_states: expected an int >= 1, got 0"),
        ({"action_space": Box(0, 1)}, TypeError, "a model needs a Discrete action space"),
        ({"action_labels": ["a", "b"]}, ValueError, "action_labels: expected 1 names"),
        ({"cells": np.array([[9]])}, ValueError, r"cells: expected \[rows, columns\] of raw keys below 5"),
        ({"cells": (2, 3)}, ValueError, "raw keys below 5"),
    ],
)
def test_wrong_definitions(options, error, message):
    with pytest.raises(error, match=message):
        dot(**options)


@jit
def reads_an_unknown_field(state, params):
    return state.nowhere


def test_a_typing_error_names_the_function(jit_only):
    line = reads_an_unknown_field.__code__.co_firstlineno + 2
    where = rf'reads_an_unknown_field \(file ".*", line {line}\)'
    with pytest.raises(BindError, match=f"Dot-v0: {where}: no field .nowhere"):
        vecenv.model(dot(encode=reads_an_unknown_field))


def test_models_travel():
    model = pickle.loads(pickle.dumps(vecenv.model("FrozenLake-v1")))
    assert model.transitions(6, "left")[0] == [2, 5, 10] and model.id2state(6) == 6


@pytest.mark.nojit
def test_what_has_no_model():
    with pytest.raises(ValueError, match="CartPole-v1 has no model"):
        vecenv.model("CartPole-v1")
    with pytest.raises(TypeError, match="model: expected a ModelDef"):
        EnvDef(
            "Dot-v0", DotState, Params, reset, step, observe,
            observation_space=Discrete(9), action_space=Discrete(1), model=7,
        )  # fmt: skip
    with pytest.raises(BindError, match="`step` is not marked"):
        EnvDef(
            "Dot-v0", DotState, Params, reset, None, observe, observation_space=Discrete(9), action_space=Discrete(1)
        )
    with pytest.raises(ValueError, match="one value for each param"):
        vecenv.model(dot(), params={"chance": [0.25]})
    with pytest.raises(ValueError, match="math: expected"):
        vecenv.model(dot(), math="fast")
