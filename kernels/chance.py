"""`step` made of an author's `events` and `apply`: one draw picks the event, `apply` does the rest.

The model (`explore.py`) goes through the same two functions with every event in turn, so that it cannot differ from
what is sampled.
"""

from __future__ import annotations

from typing import Any

from vecenv.kernels.jit import jit

# What a definition with events puts in their place.
chance_events: Any = None
chance_apply: Any = None


@jit
def pick(draw, probabilities):
    """Number of the first event whose cumulative probability exceeds the draw; 0 if rounding leaves the sum below it.

    Without branches: which event takes place is unpredictable for the processor as well.
    """
    cumulative, event = 0.0, 0
    for probability in probabilities:
        cumulative += probability
        event += int(cumulative <= draw)
    return event if event < len(probabilities) else 0


@jit
def step(state, action, params, rng):
    """Draw an event and apply it. Returns what `apply` returns."""
    event = pick(rng.random(), chance_events(state, action, params))  # before `apply` changes the state
    return chance_apply(state, action, event, params)
