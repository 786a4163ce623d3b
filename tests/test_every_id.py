"""What every registered environment promises. Oracle where named: Gymnasium 1.4.0."""

import importlib
import inspect
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete, MultiDiscrete
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate
from oracle import assert_same_bits

import vecenv
from vecenv.registry import BUILT_IN, definition_of

IDS = vecenv.registered_ids()
#: The first id of every file; the others run the same kernels over other params, in the slow suite.
FIRST = {BUILT_IN[id].partition(":")[0]: id for id in reversed(IDS)}.values()
every_id = pytest.mark.parametrize(
    "id", [pytest.param(id, marks=() if id in FIRST else pytest.mark.slow) for id in IDS]
)
every_mode = pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)


def leaves(value):
    """The arrays or numbers that make up an observation, an info or a whole step result."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in leaves(value[key])]
    if isinstance(value, tuple) or (isinstance(value, np.ndarray) and value.dtype == object):
        return [leaf for part in value for leaf in leaves(part)]
    return [np.asarray(value)]


def assert_same(got, expected, where=""):
    got, expected = leaves(got), leaves(expected)
    assert len(got) == len(expected), where
    for a, b in zip(got, expected, strict=True):
        assert_same_bits(a, b, where)


def row_of(batched, i):
    """Row i of a batched observation."""
    if isinstance(batched, dict):
        return {key: row_of(part, i) for key, part in batched.items()}
    if isinstance(batched, tuple):
        return tuple(row_of(part, i) for part in batched)
    return batched[i]


def assert_dtypes(value, space, num_envs=None):
    """Exactly the dtype and shape of the space, leaf by leaf."""
    if isinstance(space, gymnasium.spaces.Dict):
        assert list(value) == list(space.spaces)
        for key, part in space.spaces.items():
            assert_dtypes(value[key], part, num_envs)
    elif isinstance(space, gymnasium.spaces.Tuple):
        assert len(value) == len(space.spaces)
        for part, one in zip(value, space.spaces, strict=True):
            assert_dtypes(part, one, num_envs)
    else:
        assert value.dtype == space.dtype
        assert value.shape == (space.shape if num_envs is None else (num_envs, *space.shape))


def actions_for(envs, seed):
    """Random actions without end, from a stream of their own."""
    space = envs.action_space
    space.seed(seed)
    while True:
        yield space.sample()


def reset_ended(envs, terminated, truncated):
    """What DISABLED leaves to the caller; the observations of all rows, or None if no row had ended."""
    mask = terminated | truncated
    return envs.reset(options={"reset_mask": mask})[0] if mask.any() else None


def short(id):
    """At most 100 steps: random play ends some environments late or never."""
    return {"max_episode_steps": min(definition_of(id).max_episode_steps or 100, 100)}


def trace(envs, seed, num_steps):
    """Everything that a seeded batch returns."""
    results = [envs.reset(seed=seed)]
    actions = actions_for(envs, seed)
    for _ in range(num_steps):
        results.append(envs.step(next(actions)))
        if envs.autoreset_mode is AutoresetMode.DISABLED:
            reset_ended(envs, *results[-1][2:4])
    return results


# --- spaces, types, flags ---------------------------------------------------------------------------------------------


@every_id
@every_mode
@pytest.mark.parametrize("num_envs", [1, 5])
def test_what_is_returned_fits_the_spaces(id, mode, num_envs):
    """Cases C100, C102, C110, C122 and C128: dtypes are the spaces', actions sampled from the space are taken, final
    observations lie in the space too; infos are dicts of arrays; one environment is a batch of one."""
    envs = vecenv.make_vec(id, num_envs, autoreset_mode=mode)
    single = envs.single_observation_space
    assert envs.metadata["autoreset_mode"] is mode
    assert envs.observation_space == gymnasium.vector.utils.batch_space(single, num_envs)
    assert envs.action_space == gymnasium.vector.utils.batch_space(envs.single_action_space, num_envs)
    for space in (envs.single_action_space, single):
        assert not isinstance(space, (Discrete, MultiDiscrete)) or space.dtype == np.int64
    assert envs.num_envs == num_envs and envs.action_space.sample().dtype == envs.single_action_space.dtype
    obs, infos = envs.reset(seed=1)
    actions = actions_for(envs, 1)
    for t in range(300):
        assert type(infos) is dict
        assert_dtypes(obs, single, num_envs)
        assert envs.observation_space.contains(obs)
        assert all(single.contains(row) for row in iterate(envs.observation_space, obs))
        for name, values in infos.items():
            if not name.startswith("_") and name not in ("final_obs", "final_info"):
                assert values.shape[0] == num_envs and infos[f"_{name}"].all()
        obs, rewards, terminated, truncated, infos = envs.step(next(actions))
        assert rewards.dtype == np.float64 and rewards.shape == (num_envs,) and np.isfinite(rewards).all()
        assert terminated.dtype == truncated.dtype == np.bool_ and terminated.shape == truncated.shape == (num_envs,)
        assert not (terminated & truncated).any(), f"both flags at step {t}"
        ended = terminated | truncated
        assert ("final_obs" in infos) == (mode is AutoresetMode.SAME_STEP and bool(ended.any()))
        if "final_obs" in infos:
            assert_same_bits(infos["_final_obs"], ended)
            if not isinstance(single, gymnasium.spaces.Tuple):  # else an object array, as Gymnasium's
                assert_dtypes(infos["final_obs"], single, num_envs)
            for i in np.flatnonzero(ended):
                assert_dtypes(row_of(infos["final_obs"], i), single)
                assert single.contains(row_of(infos["final_obs"], i))
        if mode is AutoresetMode.DISABLED and ended.any():
            obs = reset_ended(envs, terminated, truncated)
    envs.close()


@every_id
def test_ten_thousand_steps_stay_in_the_space(id):
    """Case C100: 50 rows, 200 steps, final observations included."""
    envs = vecenv.make_vec(id, 50, autoreset_mode="same_step", **short(id))
    space, actions, num_ended = envs.observation_space, actions_for(envs, 4), 0
    envs.reset(seed=4)
    for _ in range(200):
        obs, _, terminated, truncated, infos = envs.step(next(actions))
        assert space.contains(obs)
        num_ended += int((terminated | truncated).sum())
        for i in np.flatnonzero(terminated | truncated):
            assert envs.single_observation_space.contains(row_of(infos["final_obs"], i))
    assert num_ended >= 50


# --- determinism ------------------------------------------------------------------------------------------------------


@every_id
@every_mode
def test_a_seed_decides_everything(id, mode):
    runs = [trace(vecenv.make_vec(id, 6, autoreset_mode=mode), seed=7, num_steps=200) for _ in range(2)]
    for t, results in enumerate(zip(*runs, strict=True)):
        assert_same(*results, where=f"step {t}")


@every_id
def test_reseeding_starts_over(id):
    envs = vecenv.make_vec(id, 4)
    first, second = trace(envs, seed=3, num_steps=60), trace(envs, seed=3, num_steps=60)
    for t, results in enumerate(zip(first, second, strict=True)):
        assert_same(*results, where=f"step {t}")


@every_id
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.name)
def test_a_row_of_many_is_one_environment_alone(id, mode):
    """Row i of 4096 seeded s is `make(id)` seeded s + i: observations, rewards, flags, infos and random stream."""
    n, seed = 4096, 2**40 + 5
    chosen = [0, 1, 2047, 4095]
    envs = vecenv.make_vec(id, n, autoreset_mode=mode, **short(id))
    views = [vecenv.make(id, **short(id)) for _ in chosen]
    obs, _ = envs.reset(seed=seed)
    for i, view in zip(chosen, views, strict=True):
        assert_same(row_of(obs, i), view.reset(seed=seed + i)[0])
    ended, num_ended = dict.fromkeys(chosen, False), 0
    actions = actions_for(envs, 5)
    for t in range(300):
        action = next(actions)
        obs, rewards, terminated, truncated, infos = envs.step(action)
        for i, view in zip(chosen, views, strict=True):
            where = f"row {i}, step {t}"
            got = row_of(obs, i), rewards[i], terminated[i], truncated[i]
            if ended[i]:  # NEXT_STEP only resets
                assert_same(got, (view.reset()[0], 0.0, False, False), where)
                ended[i] = False
                continue
            *expected, info = view.step(action[i])
            ended[i] = expected[2] or expected[3]
            num_ended += ended[i]
            if ended[i] and mode is AutoresetMode.SAME_STEP:
                assert_same(row_of(infos["final_obs"], i), expected[0], where)
                for name, value in info.items():
                    assert_same(infos["final_info"][name][i], np.asarray(value), where)
                expected[0], info = view.reset()
                ended[i] = False
            assert_same(got, tuple(expected), where)
            for name, value in info.items():
                assert_same(infos[name][i], np.asarray(value), where)
    assert num_ended > 0
    for i, view in zip(chosen, views, strict=True):
        assert envs.view(i).np_random.bit_generator.state == view.np_random.bit_generator.state


@every_id
@pytest.mark.parametrize("math", ["portable", pytest.param("libm", marks=pytest.mark.slow)])
def test_plain_python_is_the_compiled_step(id, math):
    """Exactly: results, state and random stream, over several episodes."""
    compiled, python = (vecenv.make(id, math=math, **short(id)) for _ in range(2))
    num_ended, t = 0, 0
    assert_same(compiled.reset(seed=9), python.reset(seed=9))
    compiled.action_space.seed(9)
    while t < 200 or num_ended < 2:
        action = compiled.action_space.sample()
        result, expected = compiled.step(action), python.step(action, jit=False)
        assert [type(part) for part in result] == [type(part) for part in expected]
        assert_same(result, expected, f"step {t}")
        for name in dir(compiled.envs.state):
            assert_same_bits(getattr(compiled.envs.state, name), getattr(python.envs.state, name), f"{name}, step {t}")
        assert compiled.np_random.bit_generator.state == python.np_random.bit_generator.state
        if result[2] or result[3]:
            num_ended += 1
            assert_same(compiled.reset(), python.reset())
        t += 1


@every_id
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.name)
def test_a_snapshot_replays(id, mode):
    """Case C076: 37 steps, a snapshot, 100 steps, and the same 100 again: results, statistics and streams."""
    envs = vecenv.make_vec(id, 8, autoreset_mode=mode)
    trace(envs, seed=2, num_steps=37)
    snapshot, actions = envs.snapshot(), actions_for(envs, 8)
    played = [next(actions) for _ in range(100)]

    def play():
        for action in played:
            yield envs.step(action), envs.episode_returns, envs.episode_lengths, envs.episode_ended
        yield tuple(str(envs.view(i).np_random.bit_generator.state) for i in range(8))

    first = list(play())
    envs.restore(snapshot)
    for t, results in enumerate(zip(play(), first, strict=True)):
        assert_same(*results, where=f"step {t}")


# --- Gymnasium --------------------------------------------------------------------------------------------------------


def checker_warnings(env, **arguments):
    """What `check_env` warns of, render modes and the spec aside: those belong to the caller."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, **arguments)
    texts = {str(warning.message) for warning in caught}
    return {text for text in texts if "render" not in text and "having a spec" not in text}


@every_id
@pytest.mark.parametrize("through_gymnasium", [False, True], ids=["make", "gymnasium.make"])
def test_check_env_warns_as_for_gymnasiums_own(id, through_gymnasium):
    expected = set()
    if id in gymnasium.registry:
        expected = checker_warnings(gymnasium.make(id).unwrapped, skip_render_check=True)
    env = gymnasium.make(f"vecenv/{id}").unwrapped if through_gymnasium else vecenv.make(id)
    assert checker_warnings(env) == expected


def limits(envs):
    return [int(envs.view(i).state.limit) for i in range(envs.num_envs)]


@every_id
def test_gymnasium_make_vec(id):
    envs = gymnasium.make_vec(f"vecenv/{id}", num_envs=3)
    assert isinstance(envs, vecenv.VecEnv) and envs.num_envs == 3
    assert envs.spec is not None and envs.spec.id == f"vecenv/{id}"
    own = vecenv.make_vec(id, 3)
    for results in zip(trace(envs, 4, 40), trace(own, 4, 40), strict=True):
        assert_same(*results)
    assert limits(envs) == limits(own)
    envs.close()


@every_id
def test_gymnasium_make(id):
    """Gymnasium's wrappers (passive checker, order, limit) run without a warning over several episodes."""
    env = gymnasium.make(f"vecenv/{id}")
    assert isinstance(env.unwrapped, vecenv.View)
    env.action_space.seed(6)
    env.reset(seed=6)
    for _ in range(200):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    env.close()


@every_id
def test_the_limit_is_stated_once(id):
    """Case C029. Through `gymnasium.make` Gymnasium's own TimeLimit counts, and nothing else."""
    limit = definition_of(id).max_episode_steps
    assert gymnasium.spec(f"vecenv/{id}").max_episode_steps == limit
    if id in gymnasium.registry:
        assert gymnasium.spec(id).max_episode_steps == limit
    expected = -1 if limit is None else limit
    assert limits(vecenv.make_vec(id, 2)) == [expected] * 2
    assert vecenv.make(id).state.limit == expected
    assert gymnasium.make(f"vecenv/{id}").unwrapped.state.limit == -1


@pytest.mark.parametrize("through_gymnasium", [False, True], ids=["make", "gymnasium.make"])
@pytest.mark.parametrize(
    "id, limit, action, options",
    [
        ("CartPole-v1", 500, 1, {"params": {"tau": 0.0}}),  # time stands still
        ("MountainCar-v0", 200, 1, {}),
        ("MountainCarContinuous-v0", 999, np.zeros(1, np.float32), {}),
        ("Pendulum-v1", 200, np.zeros(1, np.float32), {}),
        ("Acrobot-v1", 500, 1, {}),
        ("FrozenLake-v1", 100, 0, {"is_slippery": False}),
        ("FrozenLake8x8-v1", 200, 0, {"is_slippery": False}),
        ("Taxi-v4", 200, 0, {}),
        ("CliffWalking-v1", None, 0, {}),
        ("CliffWalkingSlippery-v1", None, 0, {"is_slippery": False}),
    ],
)
def test_idling_lasts_as_long_as_the_limit(id, limit, action, options, through_gymnasium):
    """Case C029: the limits as numbers, applied once."""
    env = gymnasium.make(f"vecenv/{id}", **options) if through_gymnasium else vecenv.make(id, **options)
    assert env.spec.max_episode_steps == limit
    env.reset(seed=0)
    for t in range(1, (limit or 2000) + 1):
        assert env.step(action)[2:4] == (False, t == limit), f"step {t}"


@every_id
def test_spaces_are_gymnasiums(id):
    if id not in gymnasium.registry:
        pytest.skip("not in Gymnasium")
    oracle = gymnasium.make(id)
    view = vecenv.make(id)
    assert view.observation_space == oracle.observation_space
    assert view.action_space == oracle.action_space


# --- definitions ------------------------------------------------------------------------------------------------------


@every_id
def test_options_have_defaults_and_typos_are_named(id):
    definition = definition_of(id)
    assert definition.id == id
    with pytest.raises(TypeError, match="unknown option 'no_such_option'"):
        vecenv.make_vec(id, 1, no_such_option=1)


@pytest.mark.parametrize("id", list(BUILT_IN))
def test_the_file_says_what_the_environment_is(id):
    module, _, build = BUILT_IN[id].partition(":")
    module = importlib.import_module(module)
    for part in ("Source:", "| observation", "| action", "Reward:", "End:", "Limit:", "Options:", "Differs from"):
        assert part in module.__doc__, f"{module.__name__}: no `{part}` in its docstring"
    parameters = inspect.signature(getattr(module, build)).parameters.values()
    for parameter in parameters:
        assert parameter.default is not parameter.empty
        assert f"`{parameter.name}`" in module.__doc__, f"{module.__name__}: option {parameter.name} is not described"
