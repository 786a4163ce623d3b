"""`check_port` proves a port, and says where a wrong one differs first."""

import re

import gymnasium
import numpy as np
import ported
import pytest
from gymnasium.spaces import Box
from ported import Mistake, build, build_wrong, gym_probe

import vecenv
from vecenv.checks import check_def, check_port, check_vec_env


def message_of(definition, gym_factory=gym_probe, **options):
    with pytest.raises(AssertionError) as caught:
        check_port(definition, gym_factory, **options)
    return str(caught.value)


def test_the_port_is_the_same_task():
    check_port(build(), gym_probe)


def test_the_port_is_a_sound_definition():
    check_def(build(), boundscheck=False)
    check_vec_env(vecenv.make_vec(build(), 3))


def test_big_seeds_and_other_actions():
    check_port(build(), gym_probe, seeds=[2**40 + 7], actions=[0, 0, 2, 1], num_steps=300)
    seen = []

    def late_burn(seed, t, obs):
        seen.append((seed, t))
        return 2 if obs[0] < 40 and obs[1] < -3 else 0

    check_port(build(), gym_probe, seeds=[3, 4], actions=late_burn, num_steps=200)
    assert seen == [(seed, t) for seed in (3, 4) for t in range(200)]


FALLING, HOVERING = [0, 1, 0, 0, 2], [1, 0, 1, 1, 0]


@pytest.mark.parametrize(
    ("mistake", "field"),
    [
        (Mistake.OTHER_ORDER_OF_DRAWS, "obs[0]"),
        (Mistake.CLOSED_RANGE, "obs[2]"),
        (Mistake.ONE_MORE_DRAW, "obs[1]"),
        (Mistake.SPEED_BEFORE_HEIGHT, "obs[0]"),
        (Mistake.LANDS_LATE, "terminated"),
        (Mistake.NO_TOLERANCE_IN_REWARD, "reward"),
        (Mistake.OBS_SWAPPED, "obs[0]"),
        (Mistake.INFO_DIFFERS, "info['leaking']"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_mistake_is_named(mistake, field):
    first = message_of(build_wrong(mistake), actions=FALLING).splitlines()[0]
    assert re.fullmatch(
        rf"check_port\(Probe-v0\): seed \d+, step \d+.*: {re.escape(field)}: Gymnasium .*, port .*", first
    ), first


@pytest.mark.parametrize(("limit", "elapsed"), [(59, 59), (61, 60), (None, 60)])
def test_another_limit_is_named(limit, elapsed):
    message = message_of(build_wrong(limit=limit), actions=HOVERING)
    assert re.search(rf"\(step {elapsed} of episode \d+\): truncated: Gymnasium ", message), message


def test_another_space_is_named():
    space = Box(ported.SPACE.low, ported.SPACE.high + np.float32(1), dtype=np.float32)
    assert message_of(build_wrong(space=space)).startswith("check_port(Probe-v0): observation_space: Gymnasium Box")


def test_without_a_mistake_all_of_this_passes():
    check_port(build_wrong(), gym_probe, num_steps=200)


def test_the_message_says_what_was_before():
    message = message_of(build_wrong(Mistake.SPEED_BEFORE_HEIGHT))
    first, before, *_ = message.splitlines()
    assert "seed 0, step 1 (step 1 of episode 1): obs[0]: Gymnasium " in first
    assert "before, with action " in before and "View(Probe-v0 row 0: height=" in before and "fuel=" in before


def test_the_message_says_where_streams_part():
    message = message_of(build_wrong(Mistake.ONE_MORE_DRAW))
    assert "the random streams parted in the reset of step 0" in message


def test_the_message_says_that_limits_differ():
    message = message_of(build(), ported.ProbeEnv, actions=HOVERING)
    assert "truncated: Gymnasium False, port True" in message and "TimeLimit" in message


def test_infos_may_be_left_out():
    check_port(build_wrong(Mistake.INFO_DIFFERS), gym_probe, compare_infos=False)


def test_termination_wins_where_gymnasium_reports_both():
    def gym_factory():
        return gymnasium.wrappers.TimeLimit(ported.ProbeEnv(), 13)

    env, both = gym_factory(), 0
    for seed in range(300):
        env.reset(seed=seed)
        for _ in range(13):
            *_, terminated, truncated, _ = env.step(0)
            if terminated or truncated:
                both += terminated and truncated
                break
    assert both, "some seed has to end on the step of the limit"
    check_port(build_wrong(limit=13), gym_factory, seeds=range(300), num_steps=13, actions=[0])


def test_tolerance_in_units_of_the_last_place():
    class Rounded(ported.ProbeEnv):
        """One unit of float32 off in the speed."""

        def _obs(self):
            obs = super()._obs()
            obs[1] = np.nextafter(obs[1], np.float32(100))
            return obs

    def gym_factory():
        return gymnasium.wrappers.TimeLimit(Rounded(), 60)

    check_port(build(), gym_factory, num_steps=200, tolerance=1)
    assert "obs[1]" in message_of(build(), gym_factory, num_steps=200)


def test_built_in_environments_are_ports():
    check_port("CartPole-v1", lambda: gymnasium.make("CartPole-v1"))
    check_port("FrozenLake-v1", lambda: gymnasium.make("FrozenLake-v1"))


def test_portable_arithmetic_differs_only_in_the_last_places():
    check_port("CartPole-v1", lambda: gymnasium.make("CartPole-v1"), math="portable", num_steps=15, tolerance=64)


def test_something_that_is_no_environment():
    with pytest.raises(TypeError, match=r"gymnasium\.Env"):
        check_port(build(), lambda: vecenv.make_vec("CartPole-v1", 1))
