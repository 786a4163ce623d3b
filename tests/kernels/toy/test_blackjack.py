"""Blackjack against Gymnasium 1.4.0's Blackjack-v1, bit for bit, and against known probabilities."""

from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from oracle import assert_frequencies, assert_lockstep, assert_mean, assert_same_bits, sync_vector_env

import vecenv
from vecenv.planning import greedy_policy, value_iteration

BOTH = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)


def careful(obs, rng):
    """Hit below 17, now and then at random."""
    points = obs[0]
    return np.where(rng.random(len(points)) < 0.1, rng.integers(2, size=len(points)), (points < 17).astype(np.int64))


POLICIES = {"random": None, "careful": careful}
VARIANTS = {
    "default": {},
    "natural": {"natural": True, "sab": False},
    "neither": {"sab": False},
    "both": {"natural": True, "sab": True},
    "short": {"max_episode_steps": 2},
}


def lockstep(variant, policy, mode, num_envs, num_steps, seed):
    options = VARIANTS[variant]
    envs = vecenv.make_vec("Blackjack-v1", num_envs, autoreset_mode=mode, **options)
    oracle = sync_vector_env("Blackjack-v1", num_envs, mode, **options)
    return assert_lockstep(envs, oracle, num_steps, seed, policy=POLICIES[policy])


@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("policy", POLICIES)
def test_lockstep_with_gymnasium(policy, mode):
    assert lockstep("default", policy, mode, 16, 1000, seed=0) > 5000


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("variant", list(VARIANTS)[1:])
def test_lockstep_with_options(variant, mode):
    assert lockstep(variant, "careful", mode, 16, 300, seed=1) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("mode", BOTH, ids=lambda mode: mode.name)
@pytest.mark.parametrize("variant", ["default", "natural"])
@pytest.mark.parametrize("policy", POLICIES)
def test_lockstep_with_gymnasium_for_long(policy, variant, mode, seed):
    assert lockstep(variant, policy, mode, 64, 10_000, seed) > 200_000


def test_the_card_in_the_picture_is_gymnasiums():
    """Suit and face are drawn by every reset."""
    oracle = gymnasium.make("Blackjack-v1").unwrapped
    view = vecenv.make("Blackjack-v1", render_mode="ansi")
    names = {"C": "clubs", "D": "diamonds", "H": "hearts", "S": "spades"}
    for seed in range(200):
        oracle.reset(seed=seed)
        obs, _ = view.reset(seed=seed)
        card = f"{oracle.dealer_top_card_value_str} of {names[oracle.dealer_top_card_suit]}"
        ace = ", an ace counted as 11" if obs[2] else ""
        assert view.render() == f"dealer: {card}\nplayer: {obs[0]}{ace}\n"


def put(view, player, dealer):
    """Hands, as lists of cards; an ace is 1."""
    view.reset(seed=0)
    for name, cards in (("player", player), ("dealer", dealer)):
        setattr(view.state, name, sum(cards))
        setattr(view.state, f"{name}_ace", 1 in cards)
        setattr(view.state, f"{name}_cards", len(cards))
    view.state.shown = dealer[0]


@pytest.mark.nojit
@pytest.mark.parametrize(
    "player, dealer, reward, natural",
    [
        ([10, 9], [10, 8], 1.0, 1.0),
        ([10, 8], [10, 8], 0.0, 0.0),
        ([10, 7], [1, 7], -1.0, -1.0),
        ([1, 6], [10, 7], 0.0, 0.0),  # a usable ace
        ([1, 10], [1, 10], 0.0, 0.0),
        ([1, 10], [10, 8], 1.0, 1.5),
        ([1, 10], [7, 7, 7], 1.0, 0.0),  # a natural and an ordinary 21
        ([5, 6, 10], [1, 10], 0.0, 0.0),
        ([5, 6, 10], [10, 10], 1.0, 1.0),
        ([10, 5, 6], [10, 6, 9], 1.0, 1.0),  # the dealer is over
    ],
)
@pytest.mark.parametrize("sab", [True, False])
def test_who_wins(player, dealer, reward, natural, sab):
    """With the dealer's hand played out; the oracle says the same."""
    options = {"sab": sab, "natural": not sab}
    view = vecenv.make("Blackjack-v1", **options)
    put(view, player, dealer)
    obs, got, terminated, truncated, info = view.step(0)
    assert (got, terminated, truncated, info) == (reward if sab else natural, True, False, {})
    oracle = gymnasium.make("Blackjack-v1", **options).unwrapped
    oracle.reset(seed=0)
    oracle.player, oracle.dealer = list(player), list(dealer)
    expected = oracle.step(0)
    assert tuple(map(int, obs)) == expected[0] and got == expected[1]


def test_hands_and_dealers():
    """First hands: an ace shows in 1 of 13, a ten in 4; naturals in 8 of 169; chi-square with 9 degrees exceeds 27.9
    once in 1000 seeds."""
    n = 50_000
    envs = vecenv.make_vec("Blackjack-v1", n, autoreset_mode="disabled")
    (points, shown, usable), _ = envs.reset(seed=9)
    assert_frequencies(np.bincount(shown, minlength=11), [0, *[1 / 13] * 9, 4 / 13], 27.9)
    assert_mean((points == 21).astype(float), 8 / 169)
    assert_mean(usable.astype(float), 25 / 169)
    assert points.min() == 4 and points.max() == 21
    suits = np.bincount(envs.state.suit, minlength=4)
    assert_frequencies(suits, [0.25] * 4, 16.3)


def test_a_natural_is_settled_by_the_first_action():
    """Case C142, as in Gymnasium: no reset ends an episode; after a stick a natural wins or draws, after a hit the hand
    goes on."""
    n = 2000
    envs = vecenv.make_vec("Blackjack-v1", n, autoreset_mode="same_step")
    (points, _, usable), _ = envs.reset(seed=2)
    natural = (points == 21) & usable.astype(np.bool_)
    assert natural.sum() > 50 and not envs.episode_ended.any()
    sticks = np.arange(n) % 2 == 0
    oracles = []
    for i in np.flatnonzero(natural):
        oracle = gymnasium.make("Blackjack-v1").unwrapped
        oracle.reset(seed=2 + int(i))
        oracles.append(oracle.step(int(not sticks[i])))
    obs, rewards, terminated, _, _ = envs.step((~sticks).astype(np.int64))
    assert_same_bits(terminated[natural], sticks[natural])
    assert set(rewards[natural & sticks]) == {0.0, 1.0} and not rewards[natural & ~sticks].any()
    assert (obs[0][natural & ~sticks] <= 21).all()
    assert [(float(rewards[i]), bool(terminated[i])) for i in np.flatnonzero(natural)] == [x[1:3] for x in oracles]
    # Those that ended have new hands, naturals among them, and all of these can be played.
    again = terminated & (obs[0] == 21) & obs[2].astype(np.bool_)
    assert again.any() and (envs.state.elapsed[terminated] == 0).all()
    _, rewards, terminated, _, _ = envs.step(np.ones(n, np.int64))
    assert not terminated[again].any() and not rewards[again].any() and (envs.state.elapsed[again] == 1).all()


def dealer_bust():
    """The exact probability that a dealer who draws to 17 goes over 21."""

    def bust(points, ace):
        total = points + 10 if ace and points <= 11 else points
        if total >= 17:
            return float(total > 21)
        return sum(bust(points + card, ace or card == 1) * (4 if card == 10 else 1) for card in range(1, 11)) / 13

    return bust(0, False)


def test_the_dealer_goes_over_as_often_as_it_should():
    n = 50_000
    envs = vecenv.make_vec("Blackjack-v1", n, autoreset_mode="disabled", sab=False)
    envs.reset(seed=4)
    _, _, terminated, _, _ = envs.step(np.zeros(n, np.int64))
    assert terminated.all()
    assert_mean((np.asarray(envs.state.dealer) > 21).astype(float), dealer_bust())


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"natural": 1}, TypeError, "natural: expected True or False, got 1"),
        ({"sab": "yes"}, TypeError, "sab: expected True or False, got 'yes'"),
        ({"sap": True}, TypeError, "unknown option 'sap'; did you mean 'sab'"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        vecenv.make_vec("Blackjack-v1", 2, **options)


# --- the model --------------------------------------------------------------------------------------------------------

CARDS = {**{card: Fraction(1, 13) for card in range(1, 10)}, 10: Fraction(4, 13)}


def points_of(hand):
    return sum(hand) + 10 if 1 in hand and sum(hand) <= 11 else sum(hand)


@cache
def dealers(hand):
    """Probabilities of (points or 0, natural) after the dealer has played, exactly."""
    points = points_of(hand)
    if points >= 17:
        return {(0 if points > 21 else points, points == 21 and len(hand) == 2): Fraction(1)}
    results = defaultdict(Fraction)
    for card, chance in CARDS.items():
        for result, further in dealers(tuple(sorted((*hand, card)))).items():
            results[result] += chance * further
    return results


def rewards_of(player, shown, sab, natural):
    """Probabilities of the reward of a stick, exactly, with the dealer's second card not known."""
    mine, is_natural, results = points_of(player), len(player) == 2 and points_of(player) == 21, defaultdict(Fraction)
    for hole, chance in CARDS.items():
        for (points, theirs), further in dealers(tuple(sorted((shown, hole)))).items():
            reward = (mine > points) - (mine < points)
            if is_natural and sab and not theirs:
                reward = 1
            if is_natural and natural and not sab and reward == 1:
                reward = 1.5
            results[float(reward)] += chance * further
    return results


@pytest.mark.parametrize("sab, natural", [(True, False), (False, True), (False, False)])
def test_model_marginalises_the_hole_card(sab, natural):
    """Every state that two or three cards make, every first card of the dealer, both actions, against fractions."""
    model = vecenv.model("Blackjack-v1", sab=sab, natural=natural)
    hands = [h for n in (2, 3) for h in combinations_with_replacement(CARDS, n) if sum(h) <= 21]

    def key_of(hand, shown):
        is_natural = len(hand) == 2 and points_of(hand) == 21
        return ((sum(hand) * 2 + (1 in hand)) * 2 + is_natural) * 10 + shown - 1

    for hand in hands:
        for shown in CARDS:
            s = int(np.searchsorted(model.keys, key_of(hand, shown)))
            assert model.keys[s] == key_of(hand, shown)
            to, rewards, ends, chances = model.transitions(s, "stick")
            assert set(to) == {s} and ends.all()
            expected = {reward: float(chance) for reward, chance in rewards_of(hand, shown, sab, natural).items()}
            assert dict(zip(rewards.tolist(), chances.tolist(), strict=True)) == pytest.approx(expected, abs=1e-14)
            rows = zip(*model.transitions(s, "hit"), strict=True)
            got = {(int(model.keys[to]), reward, bool(end)): chance for to, reward, end, chance in rows}
            expected = {}
            for card, chance in CARDS.items():
                bust = sum(hand) + card > 21
                expected[key_of((*hand, card), shown), -1.0 if bust else 0.0, bust] = float(chance)
            assert got == pytest.approx(expected, abs=1e-15)
    starts = defaultdict(float)
    for shown, first, second in product(CARDS, repeat=3):
        starts[key_of((first, second), shown)] += float(CARDS[shown] * CARDS[first] * CARDS[second])
    assert {int(model.keys[s]): model.starts[s] for s in np.flatnonzero(model.starts)} == pytest.approx(starts)


@pytest.mark.parametrize("sab, natural", [(True, False), (False, True)])
def test_the_best_policy_and_its_value(sab, natural):
    """Without a usable ace: Thorp's numbers, as in Sutton and Barto, figure 5.2. Its value is the mean return of
    play from `reset`, where the dealer does have a second card."""
    model = vecenv.model("Blackjack-v1", sab=sab, natural=natural)
    best = value_iteration(model, discount=1.0, precision=1e-12)
    policy = greedy_policy(model, best.values, discount=1.0)
    sticks_from = {}
    for shown in CARDS:
        keys = np.array([40 * points + shown - 1 for points in range(12, 22)])
        sticks_from[shown] = 12 + int(policy[np.searchsorted(model.keys, keys)].sum())
    assert sticks_from == {1: 17, 2: 13, 3: 13, 4: 12, 5: 12, 6: 12, 7: 17, 8: 17, 9: 17, 10: 17}
    n = 200_000
    envs = vecenv.make_vec(model.definition, n, autoreset_mode="disabled", ended="absorb")
    envs.reset(seed=0)
    returns, ended = np.zeros(n), np.zeros(n, bool)
    while not ended.all():
        _, rewards, terminated, _, _ = envs.step(policy[model.states_of(envs)])
        returns += rewards
        ended |= terminated
    assert_mean(returns, float(best.values @ model.starts))
