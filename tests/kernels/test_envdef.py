"""What a definition checks when it is made: classes, functions, spaces, limits."""

from __future__ import annotations

import gc
import weakref

import envs as e
import numpy as np
import pytest
from gymnasium import spaces

from vecenv import BindError, EnvDef, Options, jit
from vecenv.kernels.batch import BatchKernels
from vecenv.kernels.envdef import close_matches, flat_leaves, leaves_of
from vecenv.kernels.wiring import Wiring, bound_functions

pytestmark = pytest.mark.nojit


@jit
def two_arguments(state, action):
    return 0.0, False


@jit
def with_default(state, action, params, rng=None):
    return 0.0, False


@jit
def with_stars(*arguments):
    return 0.0, False


def unmarked(state, action, params, rng):
    return 0.0, False


class MyOptions(Options):
    pass


def make(*, state=e.DriftState, params=e.DriftParams, reset=e.drift_reset, step=e.drift_step, observe=e.drift_observe,
         observation_space=None, action_space=None, id="Mine-v0", **kwargs):  # fmt: skip
    return EnvDef(
        id, state, params, reset, step, observe,
        observation_space=observation_space or spaces.Box(-1, 1, (1,)),
        action_space=action_space or spaces.Box(-1, 1, (1,)),
        **kwargs,
    )  # fmt: skip


box = spaces.Box(-1, 1, (1,))


@pytest.mark.parametrize(
    ("kwargs", "kind", "message"),
    [
        ({"step": unmarked}, BindError, "Mine-v0: `step` is not marked; put @jit above `def unmarked`"),
        ({"reset": 3}, BindError, "Mine-v0: `reset` is not marked"),
        ({"step": two_arguments}, BindError, r"`step` takes \(state, action, params, rng\), got two_arguments"),
        ({"step": with_default}, BindError, r"`step` takes \(state, action, params, rng\), got with_default"),
        ({"step": with_stars}, BindError, r"`step` takes \(state, action, params, rng\), got with_stars\(arguments\)"),
        ({"observe": e.drift_step}, BindError, r"`observe` takes \(state, params, obs\)"),
        ({"reset": e.rooms_reset}, BindError, r"`reset` takes \(state, params, rng\), got rooms_reset"),
        ({"options_type": MyOptions}, BindError, r"`reset` takes \(state, params, rng, options\)"),
        ({"state": e.DriftParams}, TypeError, "expected a subclass of State"),
        ({"state": 3}, TypeError, "expected a subclass of State, got 3"),
        ({"params": e.DriftState}, TypeError, "expected a subclass of Params"),
        ({"info_type": e.PairInfo}, TypeError, "`info` and `info_type` come together"),
        ({"info": e.pair_info}, TypeError, "`info` and `info_type` come together"),
        ({"invalid_action": "clip"}, ValueError, "invalid_action is 'raise' or 'step', got 'clip'"),
        (
            {"invalid_action": "step", "action_space": spaces.Box(0, 1)},
            ValueError,
            "invalid_action='step' is for integers outside their space; Box actions",
        ),
        ({"max_episode_steps": 0}, ValueError, "max_episode_steps is an int >= 1 or None, got 0"),
        ({"max_episode_steps": True}, ValueError, "max_episode_steps is an int >= 1 or None"),
        ({"param_values": {"gian": 1.0}}, ValueError, "DriftParams has no field 'gian'; did you mean 'gain'?"),
        ({"param_values": {"gain": "x"}}, TypeError, "Mine-v0: param 'gain': expected one float64"),
        ({"functions": {"f": unmarked}}, BindError, r"functions\['f'\] is not marked"),
        ({"observation_space": spaces.Text(3)}, TypeError, "observation_space: expected Box, Discrete"),
        ({"observation_space": spaces.Dict(a=spaces.Dict(b=box))}, TypeError, r"_space\['a'\]: expected Box"),
        ({"observation_space": spaces.Tuple([spaces.Tuple([box])])}, TypeError, r"_space\[0\]: expected Box"),
        ({"observation_space": spaces.Box(0, 1, ())}, ValueError, r"Box needs at least one dimension, .* \(1,\)"),
        ({"action_space": spaces.Dict(a=spaces.Dict(b=box))}, TypeError, r"action_space\['a'\]: expected Box"),
        ({"sizes": {"n": 0}}, ValueError, r"sizes\['n'\]: expected an int >= 1 .*, got 0"),
        ({"action_mask": e.drift_step}, BindError, r"`action_mask` takes \(state, params, mask\)"),
        ({"action_mask": e.drift_observe}, TypeError, "action_mask needs a Discrete or MultiDiscrete"),
        ({"action_space": spaces.Sequence(box)}, TypeError, "action_space: expected Box"),
    ],
)  # fmt: skip
def test_wrong_definitions(kwargs, kind, message):
    with pytest.raises(kind, match=message):
        make(**kwargs)


def test_a_state_has_fields():
    class Empty(e.State):
        pass

    with pytest.raises(TypeError, match="Empty has no fields"):
        make(state=Empty)


def test_leaves():
    leaves = leaves_of(spaces.Dict(b=spaces.Discrete(3), a=spaces.MultiBinary([2, 3])), "space")
    assert sorted((leaf.key, leaf.dtype.str, leaf.shape, leaf.cells) for leaf in leaves) == [
        ("a", "|i1", (2, 3), (2, 3)),
        ("b", "<i8", (), (1,)),
    ]
    pair = spaces.Tuple((box, spaces.MultiDiscrete([[2, 3]])))
    assert [(leaf.key, leaf.shape) for leaf in leaves_of(pair, "space")] == [(0, (1,)), (1, (1, 2))]
    (flat,) = flat_leaves(leaves_of(spaces.Box(0, 1, (2, 3), np.float64), "space"))
    assert flat.shape == (6,)


def test_close_matches():
    assert close_matches("gian", ["gain", "cost"]) == "; did you mean 'gain'?"
    assert close_matches("zzz", ["gain", "cost"]) == "; there are: cost, gain"
    assert close_matches("zzz", []) == "; there are none"


def test_params_given_to_make_vec():
    definition = make(param_values={"cost": 0.25})
    assert definition.resolve_params({"gain": 2})["gain"] == 2.0
    assert definition.resolve_params(None) == definition.default_params
    with pytest.raises(ValueError, match=r"no param 'gian'; did you mean 'gain'\?"):
        definition.resolve_params({"gian": 2})
    with pytest.raises(ValueError, match="param 'cost' follows from the options"):
        definition.resolve_params({"cost": 2})
    assert repr(definition) == "EnvDef(Mine-v0)"


def test_digests_of_variants():
    """Snapshots pass between equal variants only."""

    def digest(**kwargs):
        return Wiring(make(**kwargs)).env_digest()

    assert digest() == digest()
    variants = [
        digest(),
        digest(id="Other-v0"),
        digest(observation_space=spaces.Box(-1, 1, (2,))),
        digest(observation_space=spaces.Box(-1, 1, (1,), np.float64)),
        digest(action_space=spaces.Box(-1, 1, (1,), np.float64)),
        digest(functions={"sin": e.hottest}),
        digest(functions={"sin": e.scaled_luck}),
        digest(params=e.NoParams),
    ]
    assert len(set(variants)) == len(variants)


SCALE, ROUTE = 2.0, (1, 2)


def stepping_by(stride, table=(1, 2)):
    """A step that is a closure over constants."""

    @jit
    def step(state, action, params, rng):
        state.x += stride * SCALE
        return table[0] + ROUTE[1], False

    return step


def test_snapshots_do_not_pass_between_closures_over_other_constants(monkeypatch):
    """Nor between functions that read another global; the code may change, as it does from one Python to the next."""

    def digest(*args):
        return Wiring(make(step=stepping_by(*args))).env_digest()

    assert digest(1.0) == digest(1.0)
    array, other = np.array([1, 2]), np.array([1, 3])
    variants = [digest(1.0), digest(2.0), digest(1), digest(1.0, (1, 3)), digest(1.0, array), digest(1.0, other)]
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    variants.append(digest(1.0))
    assert len(set(variants)) == len(variants)


def test_constants_are_described_without_code():
    constants = bound_functions(make(step=stepping_by(0.5))).constants()
    assert constants == [
        "('ROUTE', ['tuple', None, [['int', '1'], ['int', '2']]])",
        "('SCALE', ['float', '2.0'])",
        "('stride', ['float', '0.5'])",
        "('table', ['tuple', None, [['int', '1'], ['int', '2']]])",
    ]


def test_equal_definitions_share_their_kernels(monkeypatch):
    """Whoever reads another constant, has other code, another size or another space, does not."""

    def kernels(math="portable", checked=False, stride=1.0, **kwargs):
        definition = make(step=stepping_by(stride), **kwargs)
        kept.append(definition)
        return BatchKernels.of(Wiring(definition), math, checked)

    kept = []
    assert kernels() is kernels()
    different = [
        kernels(),
        kernels(math="libm"),
        kernels(checked=True),
        kernels(stride=2.0),
        kernels(id="Other-v0"),
        kernels(observe=e.counter_observe),
        kernels(observation_space=spaces.Box(-1, 1, (2,))),
        kernels(action_space=spaces.MultiDiscrete([2, 3])),
        kernels(action_space=spaces.MultiDiscrete([3, 3])),
        kernels(sizes={"size": 3}),
        kernels(sizes={"size": 4}),
    ]
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    different.append(kernels())
    assert len(set(map(id, different))) == len(different)


def test_a_redefined_function_is_another_one():
    """As a notebook does: the cell is run again with another number in it."""
    found = []
    for number in ("1.0", "1.0", "2.0"):
        namespace = {"jit": jit}
        exec(f"@jit\ndef step(state, action, params, rng):\n    return {number}, False\n", namespace)
        found.append(BatchKernels.of(Wiring(make(step=namespace["step"])), "portable", False))
    assert found[0] is found[1] is not found[2]


def test_kernels_live_as_long_as_a_definition_that_has_them():
    definition = make(step=stepping_by(7.0))
    alive = weakref.ref(BatchKernels.of(Wiring(definition), "portable", False))
    gc.collect()
    assert alive() is not None
    del definition
    gc.collect()
    assert alive() is None
