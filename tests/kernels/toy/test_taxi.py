"""Taxi against Gymnasium 1.4.0's Taxi-v4, bit for bit, and against known results."""

from collections import defaultdict
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.utils import categorical_sample
from gymnasium.vector import AutoresetMode
from hypothesis import example, given
from hypothesis import strategies as st
from oracle import Singles, assert_frequencies, assert_infos, assert_lockstep, sync_vector_env

import vecenv
from vecenv.kernels.toy.taxi import STANDS, drift, find, parts, tables

BOTH = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)
VARIANTS = {
    "default": {},
    "rainy": {"is_rainy": True},
    "fickle": {"fickle_passenger": True},
    "both": {
        "is_rainy": True,
        "fickle_passenger": True,
        "rainy_probability": 0.465,
        "fickle_probability": 0.9,
        "max_episode_steps": 60,
    },
    "always right": {"is_rainy": True, "rainy_probability": 1, "max_episode_steps": 30},
    "always wrong": {"is_rainy": True, "rainy_probability": 0.0, "fickle_passenger": True, "fickle_probability": 1},
}


def best_actions():
    """`[500]`: on a shortest way to the passenger, then to the destination: breadth first, over Gymnasium's P."""
    P = gymnasium.make("Taxi-v4").unwrapped.P
    best = np.full(500, -1)
    done = [s for s in range(500) for a in range(6) if P[s][a][0][3]]
    best[done] = 5
    while done:
        done = [
            s
            for s in range(500)
            if best[s] < 0 and any(best[P[s][a][0][1]] >= 0 and not P[s][a][0][3] for a in range(6))
        ]
        found = {s: next(a for a in range(6) if best[P[s][a][0][1]] >= 0) for s in done}
        for s, a in found.items():
            best[s] = a
    return best


BEST = best_actions()


def drive(obs, rng):
    """The shortest way, one step in five at random."""
    return np.where(rng.random(len(obs)) < 0.2, rng.integers(6, size=len(obs)), BEST[obs])


POLICIES = {"random": None, "drive": drive}


def lockstep(variant, policy, mode, num_envs, num_steps, seed):
    options = VARIANTS[variant]
    envs = vecenv.make_vec("Taxi-v4", num_envs, autoreset_mode=mode, **options)
    oracle = sync_vector_env("Taxi-v4", num_envs, mode, **options)
    return assert_lockstep(envs, oracle, num_steps, seed, policy=POLICIES[policy])


@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("policy", POLICIES)
def test_lockstep_with_gymnasium(policy, mode):
    assert lockstep("default", policy, mode, 16, 1000, seed=0) > (500 if policy == "drive" else 60)


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("variant", list(VARIANTS)[1:])
def test_lockstep_with_options(variant, mode):
    """Masked resets under DISABLED let few rows get to an end."""
    assert lockstep(variant, "drive", mode, 16, 250, seed=1) > (-1 if mode is AutoresetMode.DISABLED else 10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("variant", ["default", "both"])
def test_lockstep_with_gymnasium_for_long(variant, policy, mode, seed):
    assert lockstep(variant, policy, mode, 64, 10_000, seed) > 3000


@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("variant", ["default", "both"])
def test_infos_of_every_row_are_gymnasiums(variant, mode):
    """`prob` and `action_mask`."""
    options = VARIANTS[variant]
    envs = vecenv.make_vec("Taxi-v4", 8, autoreset_mode=mode, **options)
    finals = assert_infos(envs, Singles("Taxi-v4", 8, mode, **options), num_steps=200, seed=5, policy=drive)
    assert (finals > 20) == (mode is AutoresetMode.SAME_STEP)
    mask = envs.step(np.zeros(8, np.int64))[4]["action_mask"]
    assert mask.dtype == np.int8 and mask.shape == (8, 6)


@pytest.mark.parametrize("is_rainy", [False, True])
def test_tables_are_gymnasiums(is_rainy):
    """Every outcome and mask of all 500 places, those that play never gets to included."""
    oracle = gymnasium.make("Taxi-v4", is_rainy=is_rainy).unwrapped
    ours = tables()
    for place in range(500):
        assert parts(place) == oracle.decode(place)
        assert ours["masks"][place].tolist() == oracle.action_mask(place).tolist()
        for action in range(6):
            outcomes = oracle.P[place][action]
            assert ours["moves"][place, action, : len(outcomes)].tolist() == [outcome[1] for outcome in outcomes]
            reward = ours["rewards"][place, action]
            assert {outcome[2:] for outcome in outcomes} == {(reward, reward == 20)}
    distribution = oracle.initial_state_distrib
    assert ours["starts"].tolist() == np.flatnonzero(distribution).tolist()
    assert ours["sums"].tolist() == np.cumsum(distribution)[ours["starts"]].tolist()


@given(draw=st.floats(0, 1, exclude_max=True), k=st.integers(0, 299), ulps=st.integers(-2, 2))
def test_start_is_gymnasiums_sampling_at_every_edge(draw, k, ulps):
    """Also within two ulps of each cumulative probability."""
    oracle, sums, starts = gymnasium.make("Taxi-v4").unwrapped, tables()["sums"], tables()["starts"]
    edge = sums[k]
    for _ in range(abs(ulps)):
        edge = np.nextafter(edge, np.sign(ulps) * np.inf)
    for value in (draw, min(edge, np.nextafter(1.0, 0.0))):
        expected = categorical_sample(oracle.initial_state_distrib, SimpleNamespace(random=lambda value=value: value))
        found = find(sums, value)
        assert (starts[found] if found >= 0 else 0) == expected


@example(rate=0.465, draw=1 - 2**-53, edge=3, ulps=0)
@given(rate=st.floats(0, 1), draw=st.floats(0, 1, exclude_max=True), edge=st.integers(0, 3), ulps=st.integers(-1, 1))
def test_drift_is_gymnasiums_sampling_at_every_edge(rate, draw, edge, ulps):
    aside = (1.0 - rate) / 2.0
    sums = np.cumsum([rate, aside, aside])
    if edge < 3 and 0 <= sums[edge] < 1:
        draw = float(sums[edge]) if ulps == 0 else float(np.nextafter(sums[edge], ulps * np.inf))
        draw = min(max(draw, 0.0), float(np.nextafter(1.0, 0.0)))
    stub = SimpleNamespace(random=lambda: draw)
    assert drift(draw, rate, aside) == categorical_sample([rate, aside, aside], stub)


def encode(row, column, passenger, destination):
    return ((row * 5 + column) * 5 + passenger) * 4 + destination


@pytest.mark.nojit
@pytest.mark.parametrize(
    "place, action, after, reward, terminated",
    [
        (encode(0, 1, 0, 1), 2, encode(0, 1, 0, 1), -1, False),  # a wall
        (encode(2, 1, 0, 1), 2, encode(2, 2, 0, 1), -1, False),
        (encode(4, 2, 0, 1), 0, encode(4, 2, 0, 1), -1, False),  # the edge
        (encode(0, 0, 0, 1), 4, encode(0, 0, 4, 1), -1, False),
        (encode(0, 1, 0, 1), 4, encode(0, 1, 0, 1), -10, False),
        (encode(0, 4, 4, 1), 5, encode(0, 4, 1, 1), 20, True),
        (encode(4, 3, 4, 1), 5, encode(4, 3, 3, 1), -1, False),  # the wrong stand
        (encode(2, 2, 4, 1), 5, encode(2, 2, 4, 1), -10, False),
        (encode(0, 4, 0, 1), 5, encode(0, 4, 0, 1), -10, False),
    ],
)
def test_one_step(place, action, after, reward, terminated):
    view = vecenv.make("Taxi-v4")
    view.reset(seed=0)
    view.state.place = place
    obs, *rest, info = view.step(action)
    assert (int(obs), *rest) == (after, reward, terminated, False)
    assert info["prob"] == 1.0


@pytest.mark.nojit
@pytest.mark.parametrize(
    "place, action, after, reward, terminated",
    [
        (16, 5, 0, 20, True),  # at R with the passenger for R
        (17, 5, 1, -1, False),  # at R with the passenger for G
        (encode(2, 2, 4, 0), 5, encode(2, 2, 4, 0), -10, False),  # in mid-map
        (encode(2, 2, 0, 1), 4, encode(2, 2, 0, 1), -10, False),  # nobody there
    ],
)
def test_a_good_drop_off_pays_20(place, action, after, reward, terminated):
    """Case C134, in the tables and by a step."""
    ours = tables()
    assert ours["moves"][place, action, 0] == after and ours["rewards"][place, action] == reward
    view = vecenv.make("Taxi-v4")
    view.reset(seed=0)
    view.state.place = place
    obs, *rest, _ = view.step(action)
    assert (int(obs), *rest) == (after, reward, terminated, False)


@pytest.mark.nojit
def test_the_best_way_gets_there():
    """A shortest way from every 25th start: at most 18 moves, a pick-up and a set-down."""
    starts = tables()["starts"]
    view = vecenv.make("Taxi-v4")
    for place in starts[::25]:
        view.reset(seed=0)
        view.state.place = obs = int(place)
        rewards = []
        terminated = False
        while not terminated:
            obs, reward, terminated, _, info = view.step(BEST[obs])
            rewards.append(reward)
            assert info["action_mask"].shape == (6,)
        assert rewards[-1] == 20 and set(rewards[:-1]) == {-1.0} and len(rewards) <= 20


def test_a_fickle_passenger_changes_the_destination_once():
    """In 30 % of the episodes, on the first move, to each other stand equally often; chi-square with 3 degrees exceeds
    16.3 once in 1000 seeds. Picked up again, the passenger has made up their mind."""
    n = 40_000
    envs = vecenv.make_vec("Taxi-v4", n, autoreset_mode="disabled", fickle_passenger=True)
    envs.reset(seed=3)
    envs.state.place = encode(0, 0, 4, 1)
    assert envs.step(np.full(n, 1))[0].tolist() == [encode(0, 0, 4, 1)] * n  # no move, no change
    obs, rewards, *_ = envs.step(np.full(n, 0))
    assert (rewards == -1).all() and set(obs // 4) == {encode(1, 0, 4, 0) // 4}
    assert_frequencies(np.bincount(obs % 4, minlength=4), [0.1, 0.7, 0.1, 0.1], 16.3)
    again = envs.step(np.full(n, 0))[0]
    assert (again % 4 == obs % 4).all()


def test_drift_frequencies():
    n = 30_000
    envs = vecenv.make_vec("Taxi-v4", n, autoreset_mode="disabled", is_rainy=True)
    envs.reset(seed=3)
    envs.state.place = encode(2, 2, 0, 1)
    obs, _, _, _, infos = envs.step(np.full(n, 1))
    cells = np.bincount(obs // 20, minlength=25)
    expected = np.zeros(25)
    expected[[7, 11, 13]] = 0.8, 0.1, 0.1
    assert_frequencies(cells, expected, 13.8)
    assert (infos["prob"] == np.where(obs // 20 == 7, 0.8, (1 - 0.8) / 2)).all()


def test_starts():
    """Uniform over 300 places: chi-square with 299 degrees exceeds 380 once in 1000 seeds."""
    envs = vecenv.make_vec("Taxi-v4", 30_000)
    obs, infos = envs.reset(seed=5)
    expected = np.zeros(500)
    expected[tables()["starts"]] = 1 / 300
    assert_frequencies(np.bincount(obs, minlength=500), expected, 380)
    assert (infos["prob"] == 1).all()


@pytest.mark.parametrize("is_rainy", [False, True])
def test_model_of_a_fickle_passenger(is_rainy):
    """States come with and without the flag. Without it, Gymnasium's `P`; with it, every outcome of `P` that moves the
    taxi with the passenger in it splits evenly into the three other destinations without the flag."""
    oracle = gymnasium.make("Taxi-v4", is_rainy=is_rainy).unwrapped
    model = vecenv.model("Taxi-v4", is_rainy=is_rainy, fickle_passenger=True, fickle_probability=0.25)
    places, fickle = model.keys % 500, model.keys // 500 == 1
    assert model.starts[fickle].sum() == pytest.approx(0.25, abs=1e-12)
    assert model.starts[~fickle] == pytest.approx(0.75 * oracle.initial_state_distrib[places[~fickle]], abs=1e-15)
    seen = 0
    for s in np.flatnonzero(~model.absorbing).tolist():
        place = int(places[s])
        for action in range(6):
            expected = defaultdict(float)
            for probability, to, reward, terminated in oracle.P[place][action]:
                if fickle[s] and parts(place)[2] == 4 and parts(place)[:2] != parts(to)[:2]:
                    for destination in {0, 1, 2, 3} - {to % 4}:
                        expected[to // 4 * 4 + destination, reward, terminated] += probability / 3
                        seen += 1
                else:
                    expected[to + 500 * fickle[s], reward, terminated] += probability
            rows = zip(*model.transitions(s, action), strict=True)
            got = {(int(model.keys[to]), reward, end): chance for to, reward, end, chance in rows}
            assert got == pytest.approx(expected, abs=1e-15)
    assert seen >= 63  # the first moves from the four stands, in dry weather


def test_text_is_gymnasiums():
    """Its last line names the last action."""
    oracle = gymnasium.make("Taxi-v4", render_mode="ansi", disable_env_checker=True)
    view = vecenv.make("Taxi-v4", render_mode="ansi")
    rng = np.random.default_rng(0)
    seen = set()
    for seed in range(15):
        obs, _ = oracle.reset(seed=seed)
        view.reset(seed=seed)
        for _ in range(40):
            assert view.render() == "".join(oracle.render().splitlines(keepends=True)[:-1])
            row, column, passenger, _ = parts(int(obs))
            seen.add((passenger == 4, (row, column) in STANDS))
            action = drive(np.array([obs]), rng)[0]
            obs, _, terminated, _, _ = oracle.step(action)
            view.step(action)
            if terminated:
                break
    assert len(seen) == 4


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"is_rainy": 1}, TypeError, "is_rainy: expected True or False, got 1"),
        ({"fickle_passenger": None}, TypeError, "fickle_passenger: expected True or False, got None"),
        ({"rainy_probability": 1.2}, ValueError, "rainy_probability: expected a probability from 0 to 1, got 1.2"),
        ({"fickle_probability": -0.1}, ValueError, "fickle_probability: expected a probability from 0 to 1, got -0.1"),
        ({"rainy": True}, TypeError, "unknown option 'rainy'; did you mean"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        vecenv.make_vec("Taxi-v4", 2, **options)


@pytest.mark.parametrize("id, newest", [("Taxi-v3", "Taxi-v4"), ("CliffWalking-v0", "CliffWalking-v1")])
def test_older_versions_are_out_of_date(id, newest):
    """As for `gymnasium.make`, which warns as well."""
    with pytest.raises(gymnasium.error.DeprecatedEnv, match=f"'{id}' is out of date; use '{newest}'"):
        vecenv.make(id)
    with pytest.warns(DeprecationWarning, match="out of date"), pytest.raises(gymnasium.error.DeprecatedEnv):
        gymnasium.make(id)
