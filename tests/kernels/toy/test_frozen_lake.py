"""FrozenLake against Gymnasium 1.4.0's FrozenLake-v1 and FrozenLake8x8-v1, bit for bit, and against known results."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.utils import categorical_sample
from gymnasium.vector import AutoresetMode
from hypothesis import example, given
from hypothesis import strategies as st
from oracle import (
    Singles,
    assert_frequencies,
    assert_infos,
    assert_lockstep,
    assert_mean,
    assert_same_bits,
    first_episodes,
    sync_vector_env,
)

import vecenv
from vecenv.kernels.chance import pick
from vecenv.kernels.jit import cache_root
from vecenv.kernels.toy import frozen_lake
from vecenv.kernels.toy.frozen_lake import build, parse_map

TWO_STARTS = ["SFFFG", "FHFFF", "FFFHS", "GFFFF"]
# Ten probabilities of 0.1 add up to 0.9999999999999999.
TEN_STARTS = ["SSSSSSSSSS", "FFHFFFFFHF", "FFFFGFFFFF"]

VARIANTS = {
    "4x4": ("FrozenLake-v1", {}),
    "8x8": ("FrozenLake8x8-v1", {}),
    "8x8 by name": ("FrozenLake-v1", {"map_name": "8x8", "max_episode_steps": 40}),
    "two starts": ("FrozenLake-v1", {"desc": TWO_STARTS}),
    "ten starts": ("FrozenLake8x8-v1", {"desc": TEN_STARTS}),
    "not slippery": ("FrozenLake-v1", {"is_slippery": False}),
    "success rate": ("FrozenLake8x8-v1", {"success_rate": 0.7}),
    "rewards": ("FrozenLake-v1", {"success_rate": 0.9, "reward_schedule": (10.5, -2, -0.1)}),
    "short": ("FrozenLake-v1", {"max_episode_steps": 3, "desc": ["SFG"]}),
}
BOTH = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)


def lockstep(variant, mode, num_envs, num_steps, seed):
    id, options = VARIANTS[variant]
    envs = vecenv.make_vec(id, num_envs, autoreset_mode=mode, **options)
    return assert_lockstep(envs, sync_vector_env(id, num_envs, mode, **options), num_steps, seed)


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("variant", VARIANTS)
def test_lockstep_with_gymnasium(variant, mode):
    assert lockstep(variant, mode, num_envs=16, num_steps=1000, seed=3) > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("variant", ["4x4", "8x8", "two starts", "not slippery", "rewards"])
def test_lockstep_with_gymnasium_for_long(variant, mode, seed):
    assert lockstep(variant, mode, num_envs=64, num_steps=10_000, seed=seed) > 1000


@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("variant", ["4x4", "not slippery", "rewards"])
def test_prob_of_every_row_is_gymnasiums(variant, mode):
    id, options = VARIANTS[variant]
    envs = vecenv.make_vec(id, 8, autoreset_mode=mode, **options)
    singles = Singles(id, 8, mode, **options)
    finals = assert_infos(envs, singles, num_steps=300, seed=5)
    assert (finals > 50) == (mode is AutoresetMode.SAME_STEP)


@example(rate=0.465, draw=1 - 2**-53, edge=3, ulps=0)  # the three probabilities add up to 1 - 2**-53
@given(rate=st.floats(0, 1), draw=st.floats(0, 1, exclude_max=True), edge=st.integers(0, 3), ulps=st.integers(-1, 1))
def test_slip_is_gymnasiums_sampling_at_every_edge(rate, draw, edge, ulps):
    """Oracle: Gymnasium 1.4.0's `categorical_sample`, also where rounding leaves the last sum below the draw."""
    aside = (1.0 - rate) / 2.0
    sums = np.cumsum([aside, rate, aside])
    if edge < 3 and 0 <= sums[edge] < 1:
        draw = float(sums[edge]) if ulps == 0 else float(np.nextafter(sums[edge], ulps * np.inf))
        draw = min(max(draw, 0.0), float(np.nextafter(1.0, 0.0)))
    stub = SimpleNamespace(random=lambda: draw)
    assert pick(draw, (aside, rate, aside)) == categorical_sample([aside, rate, aside], stub)


@pytest.mark.parametrize("draw", [0.0, 0.1, np.nextafter(0.1, 0), 0.55, 0.7, np.nextafter(1.0, 0.0)])
def test_start_is_gymnasiums_sampling_at_every_edge(draw):
    """The last draw lies above the sum of ten probabilities of 0.1: Gymnasium then starts in cell 0."""
    desc = ["FFFFFFFFFF", *TEN_STARTS]
    distribution = np.array([letter == "S" for row in desc for letter in row]) / 10
    stub = SimpleNamespace(random=lambda: draw)
    state, params = SimpleNamespace(), SimpleNamespace(**build(desc).default_params)
    frozen_lake.reset(state, params, stub)
    assert state.cell == categorical_sample(distribution, stub)


@pytest.mark.parametrize("cell", [5, 15])
def test_a_hole_or_goal_keeps_whoever_is_put_there(cell):
    rewards = {"reward_schedule": (1, 2, 3)}
    oracle = gymnasium.make("FrozenLake-v1", **rewards).unwrapped
    oracle.reset(seed=1)
    view = vecenv.make("FrozenLake-v1", **rewards)
    view.reset(seed=1)
    oracle.s = cell
    view.state.cell = cell
    assert view.step(2) == oracle.step(2) == (cell, 0, True, False, {"prob": 1.0})
    assert view.np_random.bit_generator.state == oracle.np_random.bit_generator.state


@pytest.mark.nojit
def test_walk_to_the_goal():
    """Fixture FL6: not slippery, actions 1,1,2,2,1,2."""
    view = vecenv.make("FrozenLake-v1", is_slippery=False)
    assert view.reset(seed=0) == (0, {"prob": 1.0})
    results = [view.step(action) for action in (1, 1, 2, 2, 1, 2)]
    assert [int(result[0]) for result in results] == [4, 8, 9, 10, 14, 15]
    assert [result[1] for result in results] == [0, 0, 0, 0, 0, 1]
    assert [result[2] for result in results] == [False] * 5 + [True]
    assert not any(result[3] for result in results)


@pytest.mark.parametrize("form", [int, np.int64, np.int32, np.uint8, np.array, "int32 batch", "int64 batch"])
def test_every_form_of_action_is_the_same_action(form):
    """Case C108: from cell 14 of the 4x4 map."""
    view = vecenv.make("FrozenLake-v1", is_slippery=False)
    for action, cell in enumerate([13, 14, 15, 10]):
        view.reset(seed=0)
        view.state.cell = 14
        if isinstance(form, str):
            obs = view.envs.step(np.array([action], form.split()[0]))[0][0]
        else:
            obs = view.step(form(action))[0]
        assert obs == cell


@pytest.mark.parametrize("id, limit", [("FrozenLake-v1", 100), ("FrozenLake8x8-v1", 200)])
def test_idling_is_truncated_at_the_limit(id, limit):
    """Case C029; the same limit through Gymnasium, applied once."""
    for env in (vecenv.make(id, is_slippery=False), gymnasium.make(f"vecenv/{id}", is_slippery=False)):
        env.reset(seed=0)
        for t in range(1, limit + 1):
            obs, reward, terminated, truncated, _ = env.step(0)
            assert (obs, reward, terminated, truncated) == (0, 0, False, t == limit)


def test_stepping_past_the_goal_is_refused_before_any_row_moves():
    """Case C015."""
    envs = vecenv.make_vec("FrozenLake-v1", 2, autoreset_mode="disabled", is_slippery=False)
    envs.reset(seed=0)
    envs.state.cell[0] = 14
    _, rewards, terminated, _, _ = envs.step(np.array([2, 1]))
    assert rewards.tolist() == [1, 0] and terminated.tolist() == [True, False]
    before = envs.observe()
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"row 0.*reset_mask"):
        envs.step(np.array([2, 1]))
    assert_same_bits(envs.observe(), before)
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert envs.observe().tolist() == [0, 4]
    assert envs.step(np.array([1, 1]))[0].tolist() == [4, 8]


@pytest.mark.parametrize(
    "cell, action, outcomes",
    [(6, 0, {2: 1 / 3, 5: 1 / 3, 10: 1 / 3}), (0, 0, {0: 2 / 3, 4: 1 / 3}), (14, 2, {10: 1 / 3, 14: 1 / 3, 15: 1 / 3})],
)
def test_slip_frequencies(cell, action, outcomes):
    """Case C139; 30,000 rows forked from one with fresh streams. A chi-square with 2 degrees exceeds 13.8 once in 1000
    seeds; this one is fixed."""
    n = 30_000
    envs = vecenv.make_vec("FrozenLake-v1", n, autoreset_mode="disabled")
    envs.reset(seed=7)
    envs.state.cell[0] = cell
    envs.fork(0, np.arange(1, n), rng="fresh", seed=11)
    obs, _, terminated, _, _ = envs.step(np.full(n, action))
    assert_frequencies(np.bincount(obs, minlength=16), [outcomes.get(k, 0) for k in range(16)], 13.8)
    assert_same_bits(terminated, np.isin(obs, [5, 7, 11, 12, 15]))


def test_streams_belong_to_rows():
    """Case C090: 10,000 rows, 100 steps, three times with each number of threads there is: equal bit for bit."""

    def played(num_threads):
        envs = vecenv.make_vec("FrozenLake-v1", 10_000, num_threads=num_threads)
        parts = [envs.reset(seed=1)[0]]
        policy = np.random.default_rng(1)
        for _ in range(100):
            parts += envs.step(policy.integers(4, size=10_000))[:4]
        return [part.tobytes() for part in parts]

    first = played(1)
    for num_threads in (1, 1, "auto", "auto", "auto"):
        assert played(num_threads) == first


@pytest.mark.parametrize("rng", ["copy", "fresh"])
def test_copies_of_one_row(rng):
    """Cases C078 and C080: with copied streams 64 copies of a row stay equal, with fresh ones they part."""
    envs = vecenv.make_vec("FrozenLake-v1", 64, autoreset_mode="next_step")
    envs.reset(seed=4)
    envs.fork(0, np.arange(1, 64), rng=rng)
    cells = [set(envs.step(np.full(64, 2))[0].tolist()) for _ in range(50)]
    streams = {str(envs.view(i).np_random.bit_generator.state) for i in range(64)}
    if rng == "copy":
        assert all(len(step) == 1 for step in cells) and len(streams) == 1
    else:
        assert len(cells[-1]) > 1 and len(streams) == 64


@pytest.mark.parametrize("is_slippery", [True, False])
def test_random_play(is_slippery):
    """Exact for uniformly random actions without a limit, slippery or not (reference systems 6.7): mean length
    7.672602, P(goal) .013940."""
    envs = vecenv.make_vec("FrozenLake-v1", 100_000, max_episode_steps=-1, is_slippery=is_slippery)
    episodes = first_episodes(envs, seed=1)
    assert_mean(episodes.lengths, 7.672602)
    assert_mean(episodes.returns, 0.013940)


def test_best_policy():
    """Exact without a limit: P(goal) 14/17 (reference systems 6.3). Away from the holes wherever that is possible."""
    best = np.array([0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0])
    n = 20_000
    envs = vecenv.make_vec("FrozenLake-v1", n, autoreset_mode="disabled", max_episode_steps=-1)
    obs, _ = envs.reset(seed=2)
    rows, won = np.arange(n), 0
    while len(rows):
        obs, rewards, terminated, _, _ = envs.step(best[obs], rows=rows)
        won += int(rewards.sum())
        rows, obs = rows[~terminated], obs[~terminated]
    assert abs(won / n - 14 / 17) < 4.5 * np.sqrt(14 / 17 * 3 / 17 / n)


def test_one_kernel_serves_every_map():
    """The map is a run-time table: another one compiles nothing, and batches of different maps run side by side."""
    big = ["S" + "F" * 40, *["F" * 41] * 30, "F" * 40 + "G"]
    kernels = []
    lakes = []
    for desc in (big, ["SG"]):
        lakes.append(vecenv.make_vec("FrozenLake-v1", 3, desc=desc, is_slippery=False))
        kernels.append(sorted(cache_root().glob("FrozenLake-v1-*")))
    assert kernels[0] == kernels[1]
    assert [lake.single_observation_space.n for lake in lakes] == [32 * 41, 2]
    for lake in lakes:
        lake.reset(seed=0)
    assert [lake.step(np.full(3, 2))[0].tolist() for lake in lakes] == [[1] * 3, [1] * 3]
    assert lakes[0].step(np.full(3, 1))[0].tolist() == [42] * 3


def test_options_pass_through_gymnasium():
    single = gymnasium.make("vecenv/FrozenLake-v1", desc=TWO_STARTS, is_slippery=False)
    batch = gymnasium.make_vec("vecenv/FrozenLake-v1", num_envs=3, desc=TWO_STARTS, is_slippery=False)
    assert single.observation_space == batch.single_observation_space == gymnasium.spaces.Discrete(20)
    assert gymnasium.make(single.spec).observation_space == single.observation_space
    obs, _ = batch.reset(seed=5)
    for i in range(3):
        assert single.reset(seed=5 + i)[0] == obs[i] and obs[i] in (0, 14)


def test_a_snapshot_of_another_map_is_refused():
    small, big = vecenv.make_vec("FrozenLake-v1", 2), vecenv.make_vec("FrozenLake-v1", 2, map_name="8x8")
    small.reset(seed=0)
    big.reset(seed=0)
    with pytest.raises(ValueError, match="other params"):
        small.restore(big.snapshot())


@pytest.mark.parametrize(
    "desc",
    [
        ["SF", "HG"],
        ("SF", "HG"),
        [b"SF", b"HG"],
        [["S", "F"], ["H", "G"]],
        [[b"S", b"F"], [b"H", b"G"]],
        np.array(["SF", "HG"]),
        np.asarray(["SF", "HG"], dtype="c"),
    ],
    ids=repr,
)
def test_forms_of_a_map(desc):
    assert parse_map(desc).tolist() == [[1, 0], [2, 3]]


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"desc": ["SFF", "FG"]}, ValueError, "row 1 has 2 cells, row 0 has 3"),
        ({"desc": ["SFX", "FFG"]}, ValueError, "row 0: expected the letters S, F, H and G, got 'X'"),
        ({"desc": ["sfg"]}, ValueError, "got 's'"),
        ({"desc": ["FFG"]}, ValueError, r"at least one start \(S\)"),
        ({"desc": ["SFH"]}, ValueError, r"at least one goal \(G\)"),
        ({"desc": []}, ValueError, "at least one row"),
        ({"desc": [""]}, ValueError, "at least one row"),
        ({"desc": "SFFG"}, TypeError, "rows of letters"),
        ({"desc": 4}, TypeError, "rows of letters"),
        ({"desc": [1, 2]}, TypeError, "each row"),
        ({"desc": [["SF", "G"]]}, TypeError, "each row"),
        ({"map_name": "5x5"}, ValueError, "'4x4' or '8x8', got '5x5'"),
        ({"map_name": None}, ValueError, "pass a map of your own as desc"),
        ({"is_slippery": 1}, TypeError, "is_slippery: expected True or False, got 1"),
        ({"success_rate": 1.5}, ValueError, "success_rate: expected a probability from 0 to 1, got 1.5"),
        ({"success_rate": float("nan")}, ValueError, "success_rate: expected a finite number"),
        ({"success_rate": "often"}, TypeError, "success_rate: expected a number, got 'often'"),
        ({"reward_schedule": (1, 0)}, ValueError, "reward_schedule: expected rewards for goal, hole and other cells"),
        ({"reward_schedule": 1}, ValueError, "reward_schedule"),
        ({"reward_schedule": (1, 0, None)}, TypeError, "reward_schedule: expected a number, got None"),
        ({"slippery": False}, TypeError, "unknown option 'slippery'; did you mean 'is_slippery'"),
        ({"params": {"success_rate": 0.5}}, ValueError, "'success_rate' follows from the options"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        vecenv.make_vec("FrozenLake-v1", 2, **options)
