"""`check_vec_env` lets good vector environments pass and names what is wrong with others."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from mutants import MUTANTS, made

import vecenv
from vecenv.checks import check_vec_env

IDS = vecenv.registered_ids()
every_mode = pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)


def sync(id, mode, num_envs=3):
    return gymnasium.make_vec(id, num_envs, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})


def violations(envs, **options):
    """Names of the violations that are found, and the message."""
    with pytest.raises(AssertionError) as caught:
        check_vec_env(envs, **options)
    lines = str(caught.value).splitlines()
    assert len(lines) > 1 and all(line.startswith("  ") for line in lines[1:])
    return [line.strip().split(":")[0] for line in lines[1:]], str(caught.value)


#: Mutants that the default suite looks at; the slow one takes all, in all their modes and environments.
ALWAYS = set(
    [
        "ObsAliased",
        "RewardBufferReused",
        "ResetObsOnTheEndingStep",
        "FinalObsOfTheNewEpisode",
        "FinalObsOfWrongRows",
        "RewardOnTheResetCall",
        "FlagOnTheResetCall",
        "MaskMissing",
        "Float64Obs",
        "CounterNotClearedByReset",
        "CounterNotClearedByMask",
        "LimitLate",
        "LimitEarly",
        "AutoresetReseeds",
        "RowsShareAStream",
        "DependsOnN",
        "SnapshotWithoutRng",
        "SnapshotWithoutElapsed",
        "SnapshotWithoutPending",
        "SeedListIgnored",
        "OptionsMutated",
        "SyncObsAliased",
        "SyncOneStream",
    ]
)


def cases():
    """Every mutant of `ALWAYS` once, everything else in the slow suite."""
    seen = set()
    for cls, id, mode, name in MUTANTS:
        marks = [] if cls.__name__ in ALWAYS - seen else [pytest.mark.slow]
        seen.add(cls.__name__)
        yield pytest.param(cls, id, mode, name, id=f"{cls.__name__}-{id}-{mode.name}-{name}", marks=marks)
    assert seen >= ALWAYS


@every_mode
@pytest.mark.parametrize("id", IDS)
def test_every_environment_passes(id, mode):
    check_vec_env(vecenv.make_vec(id, 6, autoreset_mode=mode))


@every_mode
@pytest.mark.parametrize("id", ["CartPole-v1", "FrozenLake-v1", "Pendulum-v1"])
def test_gymnasium_sync_passes(id, mode):
    check_vec_env(sync(id, mode))


@pytest.mark.slow
@every_mode
@pytest.mark.parametrize("id", ["Blackjack-v1", "MountainCarContinuous-v0", "Acrobot-v1", "Taxi-v4", "CliffWalking-v1"])
def test_more_of_gymnasium_sync_passes(id, mode):
    check_vec_env(sync(id, mode), num_steps=1000)


@pytest.mark.parametrize(("cls", "id", "mode", "name"), list(cases()))
def test_every_mutant_is_named(cls, id, mode, name):
    with made(cls, id, mode) as (envs, make):
        names, message = violations(envs, make=make)
    assert name in names, message


def cartpole_vector_env(num_envs, **options):
    return gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="vector_entry_point", **options)


def test_gymnasiums_own_cartpole_depends_on_n():
    names, message = violations(cartpole_vector_env(4), make=cartpole_vector_env)
    assert "num-envs" in names, message
    assert "row-independence" in names and "autoreset-mode" in names and "close" in names
    assert not {"limit", "last-obs", "reset-call-reward", "same-seed", "obs-dtype"} & set(names), message


def test_without_a_factory_the_batch_itself_is_played_and_stays_usable():
    class Opaque(gymnasium.vector.VectorWrapper):
        """A wrapper: nothing can be derived from it."""

    envs = Opaque(vecenv.make_vec("LineWorld-v0", 4))
    check_vec_env(envs)
    obs, *_ = envs.step(np.zeros(4, np.int64))
    assert obs.shape == (4,) and (envs.unwrapped.episode_lengths == 1).all()

    class LastObsLost(Opaque):
        def step(self, actions):
            obs, rewards, terminated, truncated, infos = self.env.step(actions)
            obs[terminated | truncated] = 0
            return obs, rewards, terminated, truncated, infos

    names, _ = violations(LastObsLost(vecenv.make_vec("LineWorld-v0", 4)))
    assert names == ["last-obs"]


def test_a_batch_with_a_derived_factory_is_not_touched():
    envs = vecenv.make_vec("CartPole-v1", 3)
    envs.reset(seed=5)
    envs.step(np.array([0, 1, 0]))
    before = envs.snapshot()
    check_vec_env(envs)
    assert np.array_equal(before.arena, envs.snapshot().arena)


def test_params_and_limits_are_those_of_the_batch():
    check_vec_env(vecenv.make_vec("CartPole-v1", 2, params={"gravity": 3.0}, max_episode_steps=np.array([4, 9])))
    check_vec_env(vecenv.make_vec("FrozenLake-v1", 2, math="libm", max_episode_steps=-1, map_name="8x8"))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"params": {"length": np.array([0.4, 0.6, 0.5])}}, marks=pytest.mark.slow),
        pytest.param({"params": {"length": vecenv.uniform(0.3, 0.7)}}, marks=pytest.mark.slow),
        {"autoreset_mode": "disabled", "ended": "absorb"},
        {"autoreset_mode": "same_step", "final_obs": "object"},
        {"autoreset_mode": "same_step", "infos": False},
    ],
    ids=["params per row", "random params", "absorb", "final_obs", "no infos"],
)
def test_other_forms_pass(options):
    check_vec_env(vecenv.make_vec("CartPole-v1", 3, **options))


def test_one_row_is_enough():
    check_vec_env(vecenv.make_vec("CartPole-v1", 1, autoreset_mode="same_step"))
    check_vec_env(sync("CartPole-v1", AutoresetMode.SAME_STEP, 1))


def test_the_message_says_what_where():
    class Rewarded(vecenv.VecEnv):
        def step(self, actions, **options):
            waiting = self.episode_ended
            obs, rewards, *rest = super().step(actions, **options)
            rewards[waiting] = 0.5
            return obs, rewards, *rest

    definition = vecenv.registry.definition_of("LineWorld-v0")
    names, message = violations(Rewarded(definition, 4))
    assert "reset-call-reward" in names
    line = next(line for line in message.splitlines() if "reset-call-reward" in line)
    assert "expected reward 0 on the call that only resets, got 0.5 (step " in line and ", row " in line


def test_something_that_is_no_vector_environment():
    with pytest.raises(TypeError, match="VectorEnv"):
        check_vec_env(gymnasium.make("CartPole-v1"))


def test_a_batch_that_raises_is_reported():
    class Broken(vecenv.VecEnv):
        def step(self, actions, **options):
            raise RuntimeError("the simulator is gone")

    names, message = violations(Broken(vecenv.registry.definition_of("CartPole-v1"), 2))
    assert "raised-play" in names and "the simulator is gone" in message
