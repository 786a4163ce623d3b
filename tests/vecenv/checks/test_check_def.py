"""`check_def` lets good definitions pass and names what is wrong with others."""

import pytest
import walk
from walk import Fault, build

import vecenv
from vecenv import BindError, jit
from vecenv.checks import check_def


def violations(definition, **options):
    with pytest.raises(AssertionError) as caught:
        check_def(definition, boundscheck=False, **options)
    lines = str(caught.value).splitlines()
    return [line.strip().split(":")[0] for line in lines[1:]], str(caught.value)


@pytest.mark.parametrize("id", vecenv.registered_ids())
def test_every_environment_passes(id):
    check_def(id, num_steps=500, boundscheck=False)


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
    assert names == ["obs-unwritten"] and "observe to write obs['seen'][1]," in message, message


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
    def step_prints(state, action, params, rng):
        print(state.x)
        return 0.0, False

    with pytest.raises(BindError, match="print"):
        check_def(build(step=step_prints))
