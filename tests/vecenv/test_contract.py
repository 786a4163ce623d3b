"""Params per row, start states, sizes, masks, array infos, composite actions, absorb, like, Gymnasium's extras."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.vector import AutoresetMode

import vecenv
from vecenv import F8, I4, I8, Array, EnvDef, Info, Params, State, jit, uniform
from vecenv.kernels.math import sin
from vecenv.vec_env import VecEnv


class WalkState(State):
    x: F8
    noise: F8
    trail: Array[I4, "size"]  # noqa: F821


class WalkParams(Params):
    speed: F8 = 1.0
    goal: I4 = 5


class WalkInfo(Info):
    trail: Array[I4, "size"]  # noqa: F821
    last: I8


@jit
def reset(state, params, rng):
    state.x = rng.uniform(0.0, 0.5)
    state.noise = rng.normal()


@jit
def step(state, action, params, rng):
    state.x += params.speed * action
    state.trail[(state.elapsed + 1) % len(state.trail)] = int(state.x)
    state.noise = rng.random()
    return state.x, state.x >= params.goal, state.noise < 0.01


@jit
def observe(state, params, obs):
    obs[0] = state.x
    obs[1] = params.speed
    obs[2] = state.elapsed


@jit
def info(state, params, out):
    out.trail.copy_from(state.trail)
    out.last = state.trail[state.elapsed % len(state.trail)]


@jit
def mask(state, params, mask):
    for k in range(len(mask)):
        mask[k] = k * params.speed + state.x < params.goal + 1


def walk(size=4, **kwargs):
    return EnvDef(
        "Walk-v0", WalkState, WalkParams, reset, step, observe,
        observation_space=Box(-np.inf, np.inf, (3,), np.float64), action_space=Discrete(3),
        info_type=WalkInfo, info=info, action_mask=mask, sizes={"size": size}, **kwargs,
    )  # fmt: skip


WALK = walk()


# --- params -----------------------------------------------------------------------------------------------------------


def test_params_per_row_equal_batches_of_one_with_that_value():
    speeds = np.array([0.5, 1.0, 2.0])
    envs = VecEnv(WALK, 3, params={"speed": speeds}, autoreset_mode="same_step")
    singles = [VecEnv(WALK, 1, params={"speed": v}, autoreset_mode="same_step") for v in speeds]
    obs, _ = envs.reset(seed=3)
    for i, single in enumerate(singles):
        assert np.array_equal(single.reset(seed=3 + i)[0][0], obs[i])
    actions = np.random.default_rng(0).integers(0, 3, (200, 3))
    for a in actions:
        result = envs.step(a)
        for i, single in enumerate(singles):
            for mine, theirs in zip(result[:4], single.step(a[i : i + 1])[:4], strict=True):
                assert np.array_equal(mine[i], theirs[0])
    assert envs.params["speed"].tolist() == speeds.tolist()


def test_reset_params_hold_over_auto_resets_and_touch_only_reset_rows():
    envs = VecEnv(WALK, 3, params={"speed": np.ones(3)}, autoreset_mode="same_step", max_episode_steps=2)
    envs.reset(seed=0)
    mask = np.array([True, False, True])
    obs, _ = envs.reset(options={"reset_mask": mask, "params": {"speed": np.array([3.0, 9.0, 4.0])}})
    assert obs[:, 1].tolist() == [3.0, 1.0, 4.0]
    for _ in range(7):
        obs = envs.step(np.zeros(3, int))[0]
    assert obs[:, 1].tolist() == [3.0, 1.0, 4.0]
    assert envs.reset(options={"params": {"speed": 2.0}})[0][:, 1].tolist() == [2.0] * 3


def test_shared_params_change_only_with_a_reset_of_all_rows():
    envs = VecEnv(WALK, 2)
    envs.reset(seed=0)
    before = envs._arena.tobytes(), envs._head.tobytes()
    with pytest.raises(ValueError, match="param 'speed' is shared by all rows, so it needs a reset of all rows"):
        envs.reset(options={"reset_mask": np.array([True, False]), "params": {"speed": 2.0}})
    assert (envs._arena.tobytes(), envs._head.tobytes()) == before
    obs, _ = envs.reset(options={"params": {"speed": 2.5}})
    assert obs[:, 1].tolist() == [2.5, 2.5] and envs.params["speed"] == 2.5
    assert envs.reset()[0][:, 1].tolist() == [2.5, 2.5]


def test_random_params_are_drawn_first_from_the_rows_own_stream():
    """A reset draws random params before anything else: the oracle is the row's NumPy Generator."""
    envs = VecEnv(WALK, 4, params={"speed": uniform(0.3, 0.7)}, autoreset_mode="same_step", max_episode_steps=1)
    envs.reset(seed=11)
    generators = [np.random.Generator(np.random.PCG64(np.random.SeedSequence(11 + i))) for i in range(4)]
    for _ in range(5):
        for i, generator in enumerate(generators):
            assert envs.params["speed"][i] == generator.uniform(0.3, 0.7)
            assert envs.state.x[i] == generator.uniform(0.0, 0.5)
            generator.normal()
        envs.step(np.zeros(4, int))
        for generator in generators:
            generator.random()
    assert len(set(envs.params["speed"])) == 4


def test_a_random_param_that_is_given_is_not_drawn():
    envs = VecEnv(WALK, 2, params={"speed": uniform(0.3, 0.7)}, max_episode_steps=1)
    envs.reset(seed=0, options={"params": {"speed": 2.0}})
    assert envs.params["speed"].tolist() == [2.0, 2.0]
    first = np.random.Generator(np.random.PCG64(np.random.SeedSequence(0))).uniform(0.0, 0.5)
    assert envs.state.x[0] == first
    envs.reset()
    assert all(0.3 <= v < 0.7 for v in envs.params["speed"])


def test_params_per_row_travel_with_snapshots_and_forks():
    envs = VecEnv(WALK, 3, params={"speed": np.array([1.0, 2.0, 3.0])})
    envs.reset(seed=0)
    snap = envs.snapshot()
    envs.fork(2, [0])
    assert envs.params["speed"].tolist() == [3.0, 2.0, 3.0]
    envs.restore(snap)
    assert envs.params["speed"].tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match=r"other columns: param\.speed"):
        VecEnv(WALK, 3).restore(snap)


# --- start states -----------------------------------------------------------------------------------------------------


def test_start_states_are_written_after_the_authors_reset():
    envs, twin = VecEnv(WALK, 3), VecEnv(WALK, 3)
    twin.reset(seed=5)
    obs, infos = envs.reset(seed=5, options={"state": {"x": [1.0, 2.0, 3.0], "elapsed": 2, "trail": np.arange(4)}})
    assert obs[:, 0].tolist() == [1.0, 2.0, 3.0] and obs[:, 2].tolist() == [2, 2, 2]
    assert infos["trail"].tolist() == [[0, 1, 2, 3]] * 3 and infos["last"].tolist() == [2] * 3
    assert envs.state.noise.tolist() == twin.state.noise.tolist()  # draws are consumed as ever
    mask = np.array([False, True, False])
    obs, _ = envs.reset(options={"reset_mask": mask, "state": {"x": np.array([7.0, 8.0, 9.0])}})
    assert obs[:, 0].tolist() == [1.0, 8.0, 3.0]
    assert envs.view(2).reset(options={"state": {"x": 0.25}})[0][0] == 0.25


# --- sizes, infos, masks ----------------------------------------------------------------------------------------------


def test_sizes_share_a_kernel_but_not_a_layout():
    small, large = VecEnv(WALK, 2), VecEnv(walk(size=9), 2)
    assert small.state.trail.shape == (2, 4) and large.state.trail.shape == (2, 9)
    for envs in (small, large):
        envs.reset(seed=0)
        for _ in range(12):
            envs.step(np.zeros(2, int))
    assert small._runner.kernels.wiring.description() == large._runner.kernels.wiring.description()
    with pytest.raises(ValueError, match=r"other columns: state\.trail"):
        small.restore(large.snapshot())


def test_array_infos_and_masks_against_plain_numpy():
    envs = VecEnv(WALK, 5, autoreset_mode="same_step", max_episode_steps=6)
    envs.reset(seed=1)
    for t in range(60):
        *_, terminated, truncated, infos = envs.step(np.full(5, t % 3))
        ended = terminated | truncated
        assert infos["trail"].shape == (5, 4) and infos["trail"].dtype == np.int32 and infos["_trail"].all()
        assert np.array_equal(infos["trail"], envs.state.trail)
        expected = np.arange(3) + envs.state.x[:, None] < 6
        assert np.array_equal(infos["action_mask"] != 0, expected) and infos["action_mask"].dtype == np.int8
        assert np.array_equal(envs.action_masks(), expected) and envs.action_masks().dtype == np.bool_
        if ended.any():
            assert np.array_equal(infos["_final_info"], ended)
            assert set(infos["final_info"]) == {"trail", "_trail", "last", "_last", "action_mask", "_action_mask"}
            assert (infos["trail"][ended] == 0).all()  # of the new episode
    without = VecEnv(WALK, 2, infos=False)
    assert without.reset(seed=0)[1] == {} and without.step(np.zeros(2, int))[4] == {}
    view = envs.view(0)
    assert set(view.reset()[1]) == {"trail", "last", "action_mask"} and view.reset()[1]["trail"].shape == (4,)


# --- composite actions ------------------------------------------------------------------------------------------------


class EchoState(State):
    total: F8


@jit
def echo_reset(state, params, rng):
    state.total = 0.0


@jit
def echo_dict(state, action, params, rng):
    state.total = action.turn[0] + 10 * action.push[1] + 100 * action.gear[0] + 1000 * action.lamps[2]
    return state.total, False


@jit
def echo_tuple(state, action, params, rng):
    state.total = action[0][0] + 10 * action[1][1]
    return state.total, False


@jit
def echo_observe(state, params, obs):
    obs[0] = sin(state.total)


PARTS = {
    "turn": Discrete(3, start=1),
    "push": Box(-1, 1, (2,)),
    "gear": MultiDiscrete([4, 5]),
    "lamps": MultiBinary(3),
}


def echo(space, function):
    return EnvDef(
        "Echo-v0", EchoState, Params, echo_reset, function, echo_observe,
        observation_space=Box(-1, 1, (1,)), action_space=space,
    )  # fmt: skip


def test_dict_actions():
    envs = VecEnv(echo(Dict(PARTS), echo_dict), 2)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(20):
        action = envs.action_space.sample()
        expected = (
            action["turn"] + 10 * action["push"][:, 1].astype(float) + 100 * action["gear"][:, 0].astype(float)
            + 1000 * action["lamps"][:, 2].astype(float)
        )  # fmt: skip
        assert np.array_equal(envs.step(action)[1], expected)
        one = {key: part[0] for key, part in action.items()}
        assert envs.view(0).step(one)[1] == expected[0] == envs.view(0).step(one, jit=False)[1]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("turn", [1, 4], r"row 1: action\['turn'\] 4 is outside Discrete"),
        ("push", [[0, np.nan], [0, 0]], r"row 0: action\['push'\] .*is not finite"),
        ("gear", [[0, 0], [0, 5]], r"row 1: action\['gear'\]"),
        ("lamps", [[0, 0, 0], [0, 2, 0]], r"row 1: action\['lamps'\]"),
        ("turn", [1], r"actions\['turn'\]: expected an array of shape \(2,\)"),
    ],
)
def test_bad_dict_actions_name_leaf_and_row(key, value, message):
    envs = VecEnv(echo(Dict(PARTS), echo_dict), 2)
    envs.reset(seed=0)
    good = {"turn": [1, 1], "push": np.zeros((2, 2)), "gear": np.zeros((2, 2), int), "lamps": np.zeros((2, 3), int)}
    before = envs._arena.tobytes()
    with pytest.raises(ValueError, match=message):
        envs.step({**good, key: np.array(value)})
    with pytest.raises(TypeError, match="expected a dict with the keys"):
        envs.step({"turn": [1, 1]})
    assert envs._arena.tobytes() == before
    envs.step(good)


def test_tuple_actions():
    envs = VecEnv(echo(Tuple([Discrete(3), Box(-1, 1, (2,))]), echo_tuple), 2)
    envs.reset(seed=0)
    assert envs.step((np.array([1, 2]), np.full((2, 2), 0.5)))[1].tolist() == [6.0, 7.0]
    with pytest.raises(TypeError, match="expected a tuple of 2 arrays"):
        envs.step(np.zeros(2))


def test_strict_actions():
    space = Box(-1, 1, (1,))

    @jit
    def push(state, action, params, rng):
        state.total += action[0]
        return 0.0, False

    loose, strict = (VecEnv(echo(space, push), 2, strict_actions=s) for s in (False, True))
    for envs in (loose, strict):
        envs.reset(seed=0)
    loose.step(np.array([[0.0], [3.0]]))
    with pytest.raises(ValueError, match=r"row 1: action \[3\.\] is outside Box"):
        strict.step(np.array([[0.0], [3.0]]))
    assert strict.state.total.tolist() == [0.0, 0.0]


# --- DISABLED, absorb -------------------------------------------------------------------------------------------------


def test_absorbing_rows_stay_as_they_are():
    """The rows that still run move as in a batch that resets nothing; ended ones keep state, flags and stream."""
    envs = VecEnv(WALK, 4, autoreset_mode="disabled", ended="absorb", max_episode_steps=3)
    envs.reset(seed=0)
    envs.step(np.array([2, 0, 0, 0]))
    envs.step(np.array([2, 0, 0, 0]))
    obs, rewards, terminated, truncated, _ = envs.step(np.array([2, 1, 1, 1]))
    assert terminated.tolist() == [True, False, False, False] and truncated.tolist() == [False, True, True, True]
    assert envs.ended_rows.tolist() == [0, 1, 2, 3]
    arena = envs._arena.copy()
    again = envs.step(np.array([1, 1, 1, 1]))
    assert np.array_equal(again[0], obs) and again[1].tolist() == [0.0] * 4
    assert np.array_equal(again[2], terminated) and np.array_equal(again[3], truncated)
    assert envs.ended_rows.tolist() == [] and not envs.episode_ended.any()
    flags = envs._memory.layout.offsets(4)[envs._memory.layout.index["engine.flags"]]
    arena[flags : flags + 4] &= 0b1110_1111
    assert np.array_equal(envs._arena, arena)
    envs.reset(options={"reset_mask": np.array([False, True, False, False])})
    _, rewards, terminated, truncated, infos = envs.step(np.ones(4, int))
    assert rewards[[0, 2, 3]].tolist() == [0.0] * 3 and rewards[1] > 0
    assert (terminated | truncated).tolist() == [True, False, True, True]
    assert infos["last"].shape == (4,)


def test_absorb_belongs_to_disabled():
    with pytest.raises(ValueError, match="ended='absorb' belongs to autoreset_mode='disabled', got 'next_step'"):
        VecEnv(WALK, 1, ended="absorb")


# --- ended rows and final observations --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_ended_rows_and_their_final_observations(mode):
    envs = VecEnv(WALK, 6, autoreset_mode=mode)
    envs.reset(seed=2, options={"state": {"x": [0.0, 4.0, 0.0, 4.5, 0.0, 4.0]}})
    rows = np.array([5, 0, 3])
    obs, _, terminated, _, infos = envs.step(np.array([2, 0, 1]), rows=rows)
    assert terminated.tolist() == [True, False, True]
    assert envs.ended_rows.tolist() == [5, 3]
    assert envs.final_obs_rows[:, 0].tolist() == [6.0, 5.5]
    if mode == "same_step":
        assert infos["final_obs"][:, 0].tolist() == [6.0, 0.0, 5.5] and infos["_final_obs"].tolist() == [1, 0, 1]
        assert (obs[[0, 2], 0] < 0.5).all()
    else:
        assert obs[:, 0].tolist() == [6.0, 0.0, 5.5]


def test_final_obs_as_objects():
    envs = VecEnv(WALK, 2, autoreset_mode="same_step", final_obs="object")
    envs.reset(seed=0, options={"state": {"x": [4.0, 0.0]}})
    infos = envs.step(np.array([1, 0]))[4]
    assert infos["final_obs"].dtype == object and infos["final_obs"][1] is None
    assert infos["final_obs"][0].tolist() == [5.0, 1.0, 1.0]


# --- like, copies, Gymnasium's extras ---------------------------------------------------------------------------------


def test_like_takes_rows_of_the_original():
    envs = VecEnv(WALK, 3, params={"speed": np.array([1.0, 2.0, 3.0]), "goal": 7}, max_episode_steps=9)
    envs.reset(seed=0)
    other = envs.like(5, autoreset_mode="disabled", ended="absorb")
    assert other.num_envs == 5 and other.autoreset_mode is AutoresetMode.DISABLED and other.params["goal"] == 7
    other.restore(envs.snapshot([2]))
    assert other.params["speed"].tolist() == [3.0] * 5
    a = envs.step(np.ones(3, int))[0][2]
    assert np.array_equal(other.step(np.ones(5, int))[0], np.tile(a, (5, 1)))
    with pytest.raises(TypeError, match="like: unknown argument 'modus'"):
        envs.like(2, modus=1)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda envs: pickle.loads(pickle.dumps(envs))])
def test_clones_play_on_identically_and_apart(clone):
    envs = VecEnv(WALK, 3, autoreset_mode="same_step", params={"speed": np.array([1.0, 2.0, 3.0])}, max_episode_steps=4)
    envs.reset(seed=4)
    for _ in range(5):
        envs.step(np.ones(3, int))
    other = clone(envs)
    assert other.np_random_seed == envs.np_random_seed == (4, 5, 6)
    assert np.array_equal(other.episode_returns, envs.episode_returns)
    other.fork(0, [1], rng="fresh")
    envs.fork(0, [1], rng="fresh")
    for t in range(30):
        for a, b in zip(envs.step(np.full(3, t % 3))[:4], other.step(np.full(3, t % 3))[:4], strict=True):
            assert np.array_equal(a, b)
    other.state.x[:] = -1.0
    assert not (envs.state.x == -1.0).any()


def test_call_get_attr_set_attr_and_streams():
    envs = VecEnv(WALK, 3, params={"speed": np.array([1.0, 2.0, 3.0])})
    envs.reset(seed=[7, 8, 9])
    assert envs.np_random_seed == (7, 8, 9)
    for i, generator in enumerate(envs.np_random):
        expected = np.random.Generator(np.random.PCG64(np.random.SeedSequence(7 + i)))
        expected.uniform(), expected.normal()
        assert generator.random() == expected.random()
    assert envs.call("row") == (0, 1, 2)
    assert envs.get_attr("speed") == (1.0, 2.0, 3.0) and envs.get_attr("goal") == (5, 5, 5)
    envs.set_attr("x", [0.1, 0.2, 0.3])
    envs.set_attr("speed", 4.0)
    assert envs.get_attr("x") == (0.1, 0.2, 0.3) and envs.observe()[:, 1].tolist() == [4.0] * 3
    with pytest.raises(AttributeError, match="no state field or param per row 'goal'"):
        envs.set_attr("goal", 3)


def test_specs_rebuild_the_same_batch():
    envs = vecenv.make_vec("FrozenLake-v1", 3, desc=("SFG",), autoreset_mode="same_step", max_episode_steps=7)
    again = gymnasium.make_vec(envs.spec)
    assert isinstance(again, VecEnv) and again.num_envs == 3 and again.autoreset_mode is AutoresetMode.SAME_STEP
    assert again.single_observation_space == Discrete(3)
    assert again.spec == envs.spec
    assert gymnasium.envs.registration.EnvSpec.from_json(envs.spec.to_json()).kwargs["max_episode_steps"] == 7
    one = vecenv.make("CartPole-v1", integrator="semi_implicit")
    assert np.array_equal(gymnasium.make(one.spec).reset(seed=3)[0], one.reset(seed=3)[0])


def test_a_partial_seed_does_not_repeat_fresh_forks():
    """Fresh forks go on counting over a masked reset with a seed; only a seed for all rows starts them anew."""
    envs = VecEnv(WALK, 3)
    envs.reset(seed=0)
    seen = []
    for _ in range(2):
        envs.fork(0, [1, 2], rng="fresh")
        seen += [tuple(words) for words in envs._memory.columns["engine.rng"][1:]]
        envs.reset(seed=0, options={"reset_mask": np.array([True, False, False])})
    assert len(set(seen)) == 4
    envs.reset(seed=0)
    envs.fork(0, [1, 2], rng="fresh")
    assert [tuple(words) for words in envs._memory.columns["engine.rng"][1:]] == seen[:2]


def test_actions_that_are_a_column_of_the_state():
    """The kernel reads them as they were before the step."""

    class S(State):
        last: I8

    @jit
    def start(state, params, rng):
        state.last = 1

    @jit
    def follow(state, action, params, rng):
        state.last = (action + 1) % 3
        return float(action), False

    @jit
    def show(state, params, obs):
        obs[0] = state.last

    definition = EnvDef(
        "Follow-v0", S, Params, start, follow, show, observation_space=Box(0, 2, (1,)), action_space=Discrete(3)
    )  # fmt: skip
    envs = VecEnv(definition, 70)
    envs.reset(seed=0)
    for expected in (1, 2, 0, 1):
        assert envs.step(envs.state.last)[1].tolist() == [expected] * 70
