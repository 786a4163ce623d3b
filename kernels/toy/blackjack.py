"""Blackjack: get closer to 21 than the dealer without going over, with cards drawn from an endless deck.

Source: Sutton and Barto, "Reinforcement Learning: An Introduction", example 5.1, as in Gymnasium 1.4's Blackjack-v1
(https://gymnasium.farama.org/environments/toy_text/blackjack/).

| observation | meaning                                                      | unit   | range   |
|-------------|--------------------------------------------------------------|--------|---------|
| 0           | the player's sum, a usable ace counted as 11                 | points | 4 to 31 |
| 1           | the dealer's first card, 1 an ace                            | points | 1 to 10 |
| 2           | whether the player has a usable ace, one that may count 11   | -      | 0 or 1  |

| action | meaning                 |
|--------|-------------------------|
| 0      | stick: the dealer plays |
| 1      | hit: draw another card  |

Aces count 1 or 11, jacks, queens and kings 10, as a ten does, other cards their number. After a stick the dealer draws
until the sum is 17 or more.

Reward: at the end 1 for a win, 0 for a draw and -1 for a loss, options `sab` and `natural` aside; 0 before.
End: terminated when the player sticks or goes over 21.
Limit: none.
Options: `sab`: Sutton and Barto's rules, True unless given: a natural, an ace and a ten in the first two cards, wins
unless the dealer has one too; `natural`: without `sab`, a win with a natural is worth 1.5.
Model: its states are what the player knows. The dealer's second card is dealt with the rest of the play.

Differs from the source in: nothing.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Discrete, Tuple

from vecenv.kernels.envdef import EnvDef, ModelDef, flag
from vecenv.kernels.jit import jit
from vecenv.kernels.soa import B1, F8, I1, Params, State, Table


class Suit(IntEnum):
    CLUBS = 0
    DIAMONDS = 1
    HEARTS = 2
    SPADES = 3


FACES = ("J", "Q", "K")  # the pictures on a card that counts 10, as in Gymnasium
RED, BLACK = (200, 50, 50), (40, 40, 46)


class BlackjackState(State):
    player: I1  # sum of the cards, aces as 1
    player_ace: B1  # whether there is an ace among them
    player_cards: I1  # number of cards
    dealer: I1
    dealer_ace: B1
    dealer_cards: I1
    shown: I1  # the dealer's first card, 1 to 10
    suit: I1  # of it, for pictures
    face: I1  # of it, if it counts 10, for pictures


class BlackjackParams(Params):
    dealer: Table[F8, 2]  # [first card - 1, result]: how probable the dealer's results are, see `dealer_results`
    sab: B1 = True
    natural: B1 = False


@jit
def draw(rng):
    """A card from 1 to 10: one of 13 equally probable ones, four of which count 10."""
    return min(rng.choice(13) + 1, 10)


@jit
def total(points, ace):
    """What a hand counts: one ace as 11 if that is at most 21."""
    return points + 10 if ace & (points <= 11) else points


@jit
def is_natural(points, ace, cards):
    return (cards == 2) & ace & (points == 11)


@jit
def reset(state, params, rng):
    first, second = draw(rng), draw(rng)
    state.shown = first
    state.dealer, state.dealer_ace, state.dealer_cards = first + second, (first == 1) | (second == 1), 2
    card, other = draw(rng), draw(rng)
    state.player, state.player_ace, state.player_cards = card + other, (card == 1) | (other == 1), 2
    state.suit = rng.choice(4)
    state.face = 0
    if first == 10:
        state.face = rng.choice(3)


@jit
def take(state, card):
    """The player takes a card. Returns (reward, terminated)."""
    state.player += card
    state.player_ace = state.player_ace | (card == 1)
    state.player_cards += 1
    bust = state.player > 21
    return -1.0 if bust else 0.0, bust


@jit
def pay(state, dealer, dealer_is_natural, params):
    """The reward against a dealer with so many points, 0 after going over 21."""
    player = total(state.player, state.player_ace)
    reward = 1.0 if player > dealer else (0.0 if player == dealer else -1.0)
    if is_natural(state.player, state.player_ace, state.player_cards):
        if params.sab:
            reward = reward if dealer_is_natural else 1.0
        elif params.natural:
            reward = 1.5 if reward == 1.0 else reward
    return reward


@jit
def stick(state, params, rng):
    while total(state.dealer, state.dealer_ace) < 17:
        card = draw(rng)
        state.dealer += card
        state.dealer_ace = state.dealer_ace | (card == 1)
        state.dealer_cards += 1
    dealer = total(state.dealer, state.dealer_ace)
    natural = is_natural(state.dealer, state.dealer_ace, state.dealer_cards)
    return pay(state, 0 if dealer > 21 else dealer, natural, params), True


@jit
def step(state, action, params, rng):
    """Hit or stick. Returns (reward, terminated)."""
    if action == 1:
        return take(state, draw(rng))
    return stick(state, params, rng)


# The model does not know the dealer's second card. To deal it when the player sticks makes no difference, so `decode`
# leaves the dealer with the first one.


@jit
def card_chance(card):
    return 4.0 / 13.0 if card == 10 else 1.0 / 13.0


@jit
def start(state, k, params):
    """One of 1000 deals: the dealer's first card and the player's two. Returns its probability."""
    shown, card, other = k // 100 + 1, k // 10 % 10 + 1, k % 10 + 1
    state.shown, state.dealer, state.dealer_ace, state.dealer_cards = shown, shown, shown == 1, 1
    state.player, state.player_ace, state.player_cards = card + other, (card == 1) | (other == 1), 2
    return card_chance(shown) * card_chance(card) * card_chance(other)


@jit
def outcomes(state, action, k, params):
    """Card k + 1 after a hit, the dealer's result k after a stick. Returns (probability, reward, terminated)."""
    if action == 1:
        reward, bust = take(state, k + 1)
        return card_chance(k + 1), reward, bust
    dealer = 0 if k == 0 else min(16 + k, 21)
    return params.dealer[state.shown - 1, k], pay(state, dealer, k == 6, params), True


@jit
def encode(state, params):
    natural = is_natural(state.player, state.player_ace, state.player_cards)
    return ((state.player * 2 + int(state.player_ace)) * 2 + int(natural)) * 10 + state.shown - 1


@jit
def decode(state, key, params):
    shown = key % 10 + 1
    state.shown, state.dealer, state.dealer_ace, state.dealer_cards = shown, shown, shown == 1, 1
    state.player, state.player_ace = key // 40, key // 20 % 2 == 1
    state.player_cards = 2 if key // 10 % 2 == 1 else 3  # 3: no natural


@jit
def observe(state, params, obs):
    points = total(state.player, state.player_ace)
    obs[0][0] = points
    obs[1][0] = state.shown
    obs[2][0] = int(points != state.player)


def card_name(state):
    """What is on the dealer's first card: A, 2 to 9, J, Q or K."""
    if state.shown == 10:
        return FACES[state.face]
    return "A" if state.shown == 1 else str(int(state.shown))


def paint_suit(canvas, suit, x, y, size):
    """A suit with its middle at (x, y)."""
    color = RED if suit in (Suit.DIAMONDS, Suit.HEARTS) else BLACK

    def polygon(*points):
        canvas.polygon([(x + size * a, y + size * b) for a, b in points], color)

    def circle(a, b, radius):
        canvas.circle(x + size * a, y + size * b, size * radius, color)

    if suit == Suit.DIAMONDS:
        polygon((0, 0.5), (0.38, 0), (0, -0.5), (-0.38, 0))
        return
    if suit == Suit.HEARTS:
        circle(-0.22, 0.2, 0.24)
        circle(0.22, 0.2, 0.24)
        polygon((-0.45, 0.13), (0.45, 0.13), (0, -0.5))
        return
    polygon((-0.18, -0.5), (0.18, -0.5), (0, 0.1))
    if suit == Suit.SPADES:
        circle(-0.22, -0.1, 0.24)
        circle(0.22, -0.1, 0.24)
        polygon((-0.45, -0.03), (0.45, -0.03), (0, 0.5))
    else:
        for a, b in ((0, 0.27), (-0.25, -0.1), (0.25, -0.1)):
            circle(a, b, 0.22)


def render(state, params, canvas):
    """As Gymnasium: the dealer's first card and a covered one above, the player's sum below."""
    canvas.world(0.0, 384.0, 0.0, 376.0, width=384, background=(196, 216, 158))
    ink = (60, 80, 40)
    canvas.text(96, 336, f"Dealer: {int(state.shown)}", ink, size=26)
    for left in (96, 208):
        canvas.rectangle(left, 196, left + 80, 304, ink)
        canvas.rectangle(left + 3, 199, left + 77, 301, "white" if left == 96 else (90, 120, 190))
    color = RED if state.suit in (Suit.DIAMONDS, Suit.HEARTS) else BLACK
    canvas.text(114, 282, card_name(state), color, size=28)
    paint_suit(canvas, state.suit, 136, 240, 50)
    for k in range(1, 6):
        canvas.line([(211, 199 + 17 * k), (285, 199 + 17 * k)], (140, 165, 220), 3)
    points = total(state.player, state.player_ace)
    canvas.text(74, 156, "Player", ink, size=26)
    canvas.text(192, 96, str(int(points)), ink, size=72)
    if points != state.player:
        canvas.text(192, 36, "usable ace", ink, size=24)


def text(state, params):
    """What the player sees, in two lines."""
    points = total(state.player, state.player_ace)
    ace = ", an ace counted as 11" if points != state.player else ""
    return f"dealer: {card_name(state)} of {Suit(state.suit).name.lower()}\nplayer: {int(points)}{ace}\n"


def dealer_results() -> npt.NDArray[np.float64]:
    """`[first card - 1, result]`: the probability that the dealer goes over 21 (0), gets 17 to 21 points (1 to 5), or
    has a natural (6). As wide as there are cards; results 7 to 9 do not exist."""
    chances = np.zeros((10, 10))

    def play(row: int, chance: float, points: int, ace: bool, cards: int) -> None:
        result = total(points, ace)
        if result >= 17:
            natural = is_natural(points, ace, cards)
            chances[row, 6 if natural else 0 if result > 21 else result - 16] += chance
            return
        for card in range(1, 11):
            play(row, chance * card_chance(card), points + card, ace or card == 1, cards + 1)

    for first in range(1, 11):
        play(first - 1, 1.0, first, first == 1, 1)
    return chances


def build(natural: bool = False, sab: bool = True) -> EnvDef:
    return EnvDef(
        "Blackjack-v1",
        BlackjackState,
        BlackjackParams,
        reset,
        step,
        observe,
        observation_space=Tuple((Discrete(32), Discrete(11), Discrete(2))),
        action_space=Discrete(2),
        param_values={"dealer": dealer_results(), "natural": flag("natural", natural), "sab": flag("sab", sab)},
        render=render,
        text=text,
        render_fps=4,
        model=ModelDef(
            32 * 2 * 2 * 10,
            encode,
            decode,
            outcomes=outcomes,
            num_outcomes=10,
            start=start,
            num_starts=1000,
            action_labels=("stick", "hit"),
        ),
    )
