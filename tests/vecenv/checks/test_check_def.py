"""`check_def` lets good definitions pass and names what is wrong with others."""

import numpy as np
import pytest
import walk
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from walk import Fault, build

import vecenv
from vecenv import F4, I4, Array, BindError, EnvDef, Params, State, jit
from vecenv.checks import check_def, check_vec_env
from vecenv.checks.model import chi_square, surprise
from vecenv.registry import definition_of


def violations(definition, **options):
    with pytest.raises(AssertionError) as caught:
        check_def(definition, boundscheck=False, **options)
    lines = str(caught.value).splitlines()
    return [line.strip().split(":")[0] for line in lines[1:]], str(caught.value)


@pytest.mark.parametrize("id", vecenv.registered_ids())
def test_every_environment_passes(id):
    """Where there is no limit, 500 random steps need not find the end."""
    check_def(id, num_steps=500, boundscheck=False, continuing=definition_of(id).max_episode_steps is None)


@pytest.mark.slow
@pytest.mark.parametrize("id", vecenv.registered_ids())
def test_every_environment_passes_with_checked_indices(id):
    check_def(id, num_steps=20_000)


def test_the_walk_passes():
    check_def(build())


@pytest.mark.parametrize(
    "fault", [Fault.OBS_NEVER_WRITTEN, Fault.OBS_UNWRITTEN_IN_ONE_STATE, Fault.OBS_ADDED_TO], ids=lambda f: f.name
)
def test_unwritten_observations(fault):
    names, message = violations(build(fault))
    assert names[0] == "obs-unwritten" and "expected observe to write obs[1], got" in message, message


def test_unwritten_leaf_of_a_dict():
    names, message = violations(build(observe=walk.observe_dict, observation_space=walk.DICT))
    assert names[0] == "obs-unwritten" and "observe to write obs['seen'][1]," in message, message


def test_observe_that_changes_the_state():
    names, message = violations(build(Fault.OBSERVE_COUNTS))
    assert names == ["observe-impure"] and "got a write in observe (file" in message, message


def test_info_that_changes_the_state():
    names, message = violations(build(info=walk.info_and_move, info_type=walk.WalkInfo))
    assert names == ["observe-impure"] and "got a write in info_and_move (file" in message, message


def test_observations_outside_the_space():
    names, message = violations(build(Fault.OBS_TOO_LARGE))
    assert names == ["obs-space"]
    assert "expected obs[0] in 0.0 to 7.0, got 8.0 (step " in message and ", row " in message
    names, message = violations(build(Fault.OBS_NAN))
    assert names == ["obs-space"] and "obs[1] in 0.0 to 1.0" in message


def test_last_observations_count_too():
    names, message = violations(build(Fault.LAST_OBS_TOO_LARGE))
    assert names == ["obs-space"] and "the last obs[0] in 0.0 to 7.0, got 8.0" in message


@pytest.mark.parametrize(
    ("fault", "function", "line"),
    [(Fault.INDEX, walk.step, 7), (Fault.INDEX_IN_RESET, walk.reset, 4)],
    ids=["step", "reset"],
)
def test_index_out_of_bounds(fault, function, line):
    names, message = violations(build(fault))
    assert names == ["index-out-of-bounds"]
    assert "index 8 is out of bounds for shape (8,)" in message
    place = f'{function.__name__} (file "{walk.__file__}", line {function.__code__.co_firstlineno + line})'
    assert place in message, message


def test_index_that_plain_python_did_not_meet(monkeypatch):
    """The compiled run with checks finds what the shorter plain run did not."""
    monkeypatch.setattr("vecenv.checks.definition.LOCKSTEP", 5)
    with pytest.raises(AssertionError, match="index-out-of-bounds") as caught:
        check_def(build(Fault.INDEX))
    assert "row " in str(caught.value) and "index 8 is out of bounds" in str(caught.value)
    assert f'in step (file "{walk.__file__}", line ' in str(caught.value)


def test_numbers_that_are_none():
    names, message = violations(build(Fault.STATE_NAN))
    assert names == ["state-nan"] and "state.hidden" in message
    names, message = violations(build(Fault.REWARD_INFINITE))
    assert names == ["reward-finite"] and "got inf" in message


def test_episodes_without_end():
    assert violations(build(Fault.NO_END, limit=None))[0] == ["never-ends"]
    check_def(build(Fault.NO_END, limit=None), num_steps=200, continuing=True, boundscheck=False)
    check_def(build(Fault.NO_END), num_steps=200, boundscheck=False)


def test_python_that_raises():
    names, message = violations(build(Fault.EMPTY_RANGE))
    assert names == ["python-raises"] and "ValueError: high <= 0" in message and "in step (file" in message


def test_python_that_is_not_the_compiled_code(monkeypatch):
    from vecenv.kernels.batch import BatchKernels

    def step_rows(self):
        kernel = self._bind(vecenv.kernels.batch.step, listed=True, compiled=False)

        def wrong(head, arena, rows, count, mode, actions, obs, rewards, *rest):
            code = kernel(head, arena, rows, count, mode, actions, obs, rewards, *rest)
            obs[:, 1] += 0.25
            return code

        return wrong

    monkeypatch.setattr(BatchKernels, "python_step_rows", property(step_rows))
    names, message = violations(build(), num_steps=50)
    assert names == ["jit-differs"] and "obs [[" not in message and "after step" in message


def test_what_cannot_be_bound_raises_as_it_is():
    @jit
    def step_slices(state, action, params, rng):
        return (0.0, 1.0)[action:], False

    with pytest.raises(BindError, match="slices are not possible"):
        check_def(build(step=step_slices))


# --- several agents, and actions of many parts ------------------------------------------------------------------------


class RaceState(State):
    at: Array[I4, 2]
    pushed: Array[F4, 2]


class RaceParams(Params):
    fault: I4 = 0


@jit
def race_reset(state, params, rng):
    for agent in range(2):
        state.at[agent] = rng.integers(0, 2)


@jit
def race_step(state, actions, params, rng, rewards, terminated, truncated):
    for agent in range(2):
        if state.alive[agent]:
            state.at[agent] += 1 + agent * int(rng.random() < 0.5)
            state.pushed[agent] = actions.push[agent, 0]
        rewards[agent] = actions.kind[agent] - state.pushed[agent]
        terminated[agent] = state.at[agent] >= 9
    if params.fault == 1:
        rewards[1] = np.inf


@jit
def race_observe(state, params, agent, obs):
    obs[0] = state.at[agent] + 50 * int(params.fault == 2) * agent
    if params.fault != 3 or agent == 0:
        obs[1] = state.pushed[agent]


def race(fault=0):
    return EnvDef(
        "Race-v0", RaceState, RaceParams, race_reset, race_step, race_observe, num_agents=2, max_episode_steps=8,
        observation_space=Box(-1, 12, (2,)), action_space=Dict(push=Box(-1, 1, (1,)), kind=Discrete(3)),
        param_values={"fault": fault},
    )  # fmt: skip


def test_several_agents_pass():
    """Agents that end before their row, at the limit and by chance; actions and observations of each."""
    check_def(race(), num_steps=200, boundscheck=False)


@pytest.mark.parametrize(
    ("fault", "name", "message"),
    [
        (1, "reward-finite", "expected a finite reward, got inf (step 1, row 0, agent 1)"),
        (2, "obs-space", "expected obs[0] in -1.0 to 12.0, got 5"),
        (3, "obs-unwritten", "expected observe to write obs[1], got what was in the buffer (step 0, row 0, agent 1)"),
    ],
    ids=["reward", "space", "unwritten"],
)
def test_faults_of_one_agent(fault, name, message):
    names, text = violations(race(fault), num_steps=20)
    assert names[0] == name and message in text and "row 0, agent 1" in text, text


def test_the_contract_of_gymnasium_knows_no_several_agents():
    with pytest.raises(TypeError, match=r"2 agents share a row, .*; check_def checks their definition"):
        check_vec_env(vecenv.make_vec(race(), 2))


@jit
def parts_reset(state, params, rng):
    state.at[0] = rng.integers(0, 2)


@jit
def parts_step(state, action, params, rng):
    state.at[0] += action[0][0]
    state.pushed[0] = action[1][0]
    return state.pushed[0], state.at[0] >= 9


@jit
def parts_observe(state, params, obs):
    obs[0], obs[1] = state.at[0], state.pushed[0]


def test_actions_of_many_parts_pass():
    check_def(
        EnvDef(
            "Parts-v0", RaceState, RaceParams, parts_reset, parts_step, parts_observe,
            observation_space=Box(-1, 12, (2,)), action_space=Tuple((Discrete(3), Box(-1, 1, (1,)))),
        ),
        num_steps=100, boundscheck=False,
    )  # fmt: skip


# --- models -----------------------------------------------------------------------------------------------------------


class CoinState(State):
    at: I4


@jit
def coin_reset(state, params, rng):
    state.at = rng.integers(0, 2)


@jit
def coin_step(state, action, params, rng):
    state.at += 1 + int(rng.random() < 0.75)
    return float(state.at), state.at >= 6


@jit
def coin_observe(state, params, obs):
    obs[0] = state.at


@jit
def coin_encode(state, params):
    return state.at


@jit
def coin_decode(state, key, params):
    state.at = key


@jit
def shifted_decode(state, key, params):
    state.at = min(key + 1, 7)


@jit
def coin_start(state, k, params):
    state.at = k
    return 0.5


@jit
def uneven_start(state, k, params):
    state.at = k
    return 0.4 if k == 0 else 0.6


@jit
def one_start(state, k, params):
    state.at = 0
    return 1.0 if k == 0 else 0.0


@jit
def coin_outcomes(state, action, k, params):
    state.at += 1 + k
    return 0.25 + 0.5 * k, float(state.at), state.at >= 6


@jit
def other_chances(state, action, k, params):
    state.at += 1 + k
    return 0.3 + 0.4 * k, float(state.at), state.at >= 6


@jit
def other_rewards(state, action, k, params):
    state.at += 1 + k
    return 0.25 + 0.5 * k, float(state.at - (state.at == 4) * 1), state.at >= 6


@jit
def other_ends(state, action, k, params):
    state.at += 1 + k
    return 0.25 + 0.5 * k, float(state.at), state.at >= 5


@jit
def other_places(state, action, k, params):
    state.at += 1 + 2 * k
    return 0.25 + 0.5 * k, float(state.at), state.at >= 6


def coin(outcomes=coin_outcomes, start=coin_start, decode=coin_decode):
    return vecenv.EnvDef(
        "Coin-v0", CoinState, Params, coin_reset, coin_step, coin_observe,
        observation_space=Discrete(8), action_space=Discrete(2),
        model=vecenv.ModelDef(
            9, coin_encode, decode, outcomes=outcomes, num_outcomes=2, start=start, num_starts=2
        ),
    )  # fmt: skip


@pytest.mark.nojit
@pytest.mark.parametrize(("statistic", "degrees"), [(10.828, 1), (13.816, 2), (29.588, 10), (149.449, 100)])
def test_surprise(statistic, degrees):
    """What a chi-square exceeds once in 1000, from its tables; a normal variable exceeds 3.090 as often. For one degree
    of freedom the approximation is off by .043."""
    assert surprise(statistic, degrees) == pytest.approx(3.090, abs=0.05)


@pytest.mark.nojit
def test_chi_square():
    """By hand: 2^2 / 10 + 2^2 / 30; outcomes expected less than 5 times count as one."""
    assert chi_square(np.array([12, 28]), np.array([0.25, 0.75])) == (pytest.approx(4 / 10 + 4 / 30), 1)
    got = chi_square(np.array([12, 28, 1, 3, 0]), np.array([0.2, 0.6, 0.08, 0.08, 0.04]) / 1.0)
    expected = np.array([8.8, 26.4, 8.8])
    assert got == (pytest.approx((np.square(np.array([12, 28, 4]) - expected) / expected).sum()), 2)


def test_a_model_that_is_the_sampler_passes():
    check_def(coin(), num_steps=100, boundscheck=False)


@pytest.mark.parametrize(
    ("options", "name", "message"),
    [
        ({"outcomes": other_chances}, "model-frequencies", "expected frequencies as in the model, "),
        (
            {"outcomes": other_rewards},
            "model-steps",
            "an outcome that the model has, got raw key 4, reward 4.0",
        ),
        ({"outcomes": other_ends}, "model-steps", "got raw key 5, reward 5.0, no end (state 3 (3), action 0)"),
        ({"outcomes": other_places}, "model-steps", "got raw key 2"),
        ({"start": uneven_start}, "model-starts", "expected each start as often as in the model, [0.4 0.6], got ["),
        ({"start": one_start}, "model-starts", "expected starts that the model has, got state 1 (1)"),
        ({"decode": shifted_decode}, "model-keys", "expected encode(decode(0)) to be the same, got 1"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("model") else "",
)
def test_models_that_are_not_the_sampler(options, name, message):
    names, text = violations(coin(**options), num_steps=100)
    assert name in names and all(name.startswith("model") for name in names) and message in text, text
