"""Pong: return the ball with the left paddle and get it past the right one, first to seven points.

Source: Pong of the Rust crate thrust-rl 0.4.0 (https://crates.io/crates/thrust-rl), by its rules.

| observation | meaning                                                    | unit           | range      |
|-------------|------------------------------------------------------------|----------------|------------|
| 0           | the ball from the middle, right positive                   | half courts    | -1 to 1    |
| 1           | the ball from the middle, down positive                    | half courts    | -1 to 1    |
| 2           | the ball's speed to the right                              | 0.018 per step | -1 or 1    |
| 3           | the ball's speed down                                      | 0.018 per step | -1.2 to 1.2|
| 4           | the own paddle from the middle, down positive              | half courts    | -1 to 1    |
| 5           | the other paddle                                           | half courts    | -1 to 1    |

| action    | meaning   |
|-----------|-----------|
| 0         | move up   |
| 2         | move down |
| any other | stay      |

The court is 1 wide and 1 high, y grows down. A paddle moves by 0.025 per step; the right one, a tracker, by at most
0.015 towards the ball. Then the ball moves. It bounces off the upper and lower walls; a paddle that is no further from
it than 0.1 sends it back, the steeper the further from the paddle's middle. A ball that leaves the court is a point for
the other side, and is served again from the middle line to a random side.

Reward: 1 for a point, -1 for one of the other side, 0.1 for returning the ball.
End: terminated when a side has seven points.
Limit: 2000 steps.
Start: no points, paddles in the middle, a serve.
Options: `num_players`: 1 plays against the tracker; with 2 there are two agents, and each sees the court from the left
and gets rewards as if it played there.

A snapshot replays bit for bit, serves included: every draw comes from the row's own random stream.

Differs from the source in: float64 in place of float32; termination wins where the limit falls on the same step; the
serves are part of a snapshot; the second player's rewards, of which the source has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.jit import jit
from vecenv.kernels.math import clip
from vecenv.kernels.soa import F8, I1, Params, State

LEFT, RIGHT = 0.05, 0.95  # x of the paddles
TOP, BOTTOM = 0.1, 0.9  # y between which their middles stay


class PongState(State):
    x: F8  # the ball, from the left [court]
    y: F8  # from the top [court]
    dx: F8  # [court per step]
    dy: F8
    left: F8  # y of the left paddle's middle [court]
    right: F8  # and of the right one's
    left_score: I1  # [points]
    right_score: I1


class PongParams(Params):
    ball_speed: F8 = 0.018  # along x [court per step]
    radius: F8 = 0.015  # of the ball [court]
    half_height: F8 = 0.1  # of a paddle [court]
    paddle_speed: F8 = 0.025  # [court per step]
    tracker_speed: F8 = 0.015
    spin: F8 = 0.6  # change of dy at a paddle's tip [ball_speed]
    max_slope: F8 = 1.2  # bound of dy after a return [ball_speed]
    hit_reward: F8 = 0.1
    points_to_win: I1 = 7


@jit
def serve(state, params, rng):
    """From a random place on the middle line, to a random side."""
    state.x = 0.5
    state.y = 0.3 + rng.uniform(0.0, 0.4)
    side = -1.0 if rng.random() < 0.5 else 1.0
    state.dx = side * params.ball_speed
    state.dy = rng.uniform(-0.5, 0.5) * params.ball_speed


@jit
def reset(state, params, rng):
    state.left, state.right = 0.5, 0.5
    state.left_score, state.right_score = 0, 0
    serve(state, params, rng)


@jit
def moved(paddle, action, params):
    """Where an action takes a paddle."""
    return clip(paddle + params.paddle_speed * (int(action == 2) - int(action == 0)), TOP, BOTTOM)


@jit
def tracked(paddle, ball, params):
    """Where the tracker's paddle goes."""
    return clip(paddle + clip(ball - paddle, -params.tracker_speed, params.tracker_speed), TOP, BOTTOM)


@jit
def slope(dy, offset, params):
    """dy after a return, `offset` paddle heights from the paddle's middle."""
    bound = params.max_slope * params.ball_speed
    return clip(dy + params.spin * params.ball_speed * offset / params.half_height, -bound, bound)


@jit
def move_ball(state, params, rng):
    """Move, bounce, return, score. Returns (left reward, right reward, whether a side has won)."""
    # Without branches but for the serve: the loop over rows stays short, and no ball is like its neighbour.
    radius = params.radius
    old_x, dx = state.x, state.dx
    x, y, dy = old_x + dx, state.y + state.dy, state.dy
    above, below = y - radius < 0.0, y + radius > 1.0
    y = radius if above else (1.0 - radius if below else y)
    dy = abs(dy) if above else (-abs(dy) if below else dy)
    left_off, right_off = y - state.left, y - state.right
    left_hit = (old_x - radius >= LEFT) & (x - radius < LEFT) & (dx < 0.0) & (abs(left_off) <= params.half_height)
    right_hit = (old_x + radius <= RIGHT) & (x + radius > RIGHT) & (dx > 0.0) & (abs(right_off) <= params.half_height)
    x = LEFT + radius if left_hit else (RIGHT - radius if right_hit else x)
    dx = params.ball_speed if left_hit else (-params.ball_speed if right_hit else dx)
    dy = slope(dy, left_off if left_hit else right_off, params) if left_hit | right_hit else dy
    state.x, state.y, state.dx, state.dy = x, y, dx, dy
    lost, won = x - radius < 0.0, x + radius > 1.0
    if lost | won:
        state.left_score += int(won)
        state.right_score += int(lost)
        serve(state, params, rng)
    point = 1.0 if won else (-1.0 if lost else 0.0)
    left_reward = params.hit_reward if left_hit else point
    right_reward = params.hit_reward if right_hit else -point
    return left_reward, right_reward, max(state.left_score, state.right_score) >= params.points_to_win


@jit
def step(state, action, params, rng):
    """Move the paddle, the tracker's, the ball. Returns (reward, terminated)."""
    state.left = moved(state.left, action, params)
    state.right = tracked(state.right, state.y, params)
    reward, _, terminated = move_ball(state, params, rng)
    return reward, terminated


@jit
def step_both(state, actions, params, rng, rewards, terminated, truncated):
    """Move both paddles, then the ball."""
    state.left = moved(state.left, actions[0], params)
    state.right = moved(state.right, actions[1], params)
    rewards[0], rewards[1], ended = move_ball(state, params, rng)
    terminated[0], terminated[1] = ended, ended


@jit
def observe(state, params, obs):
    obs[0] = 2.0 * state.x - 1.0
    obs[1] = 2.0 * state.y - 1.0
    obs[2] = state.dx / params.ball_speed
    obs[3] = state.dy / params.ball_speed
    obs[4] = 2.0 * state.left - 1.0
    obs[5] = 2.0 * state.right - 1.0


@jit
def observe_both(state, params, agent, obs):
    """The right player sees the court mirrored."""
    side = 1.0 if agent == 0 else -1.0
    own = state.left if agent == 0 else state.right
    other = state.right if agent == 0 else state.left
    obs[0] = side * (2.0 * state.x - 1.0)
    obs[1] = 2.0 * state.y - 1.0
    obs[2] = side * state.dx / params.ball_speed
    obs[3] = state.dy / params.ball_speed
    obs[4] = 2.0 * own - 1.0
    obs[5] = 2.0 * other - 1.0


def render(state, params, canvas):
    """The court from above, with the score; the left paddle is the agent's."""
    canvas.world(0.0, 1.0, -1.0, 0.0, width=400, background=(24, 28, 36))
    canvas.line([(0.5, 0.0), (0.5, -1.0)], (70, 76, 90), 0.006)
    canvas.text(0.38, -0.08, str(int(state.left_score)), (110, 180, 240), size=0.1)
    canvas.text(0.62, -0.08, str(int(state.right_score)), (240, 150, 110), size=0.1)
    for x, y, color in ((LEFT, state.left, (110, 180, 240)), (RIGHT, state.right, (240, 150, 110))):
        canvas.rectangle(x - 0.008, -y - params.half_height, x + 0.008, -y + params.half_height, color)
    canvas.circle(state.x, -state.y, params.radius, "white")


def build(num_players: int = 1) -> EnvDef:
    if isinstance(num_players, bool) or num_players not in (1, 2):
        raise ValueError(f"num_players: expected 1 or 2, got {num_players!r}")
    functions: tuple[Any, Any] = (step, observe) if num_players == 1 else (step_both, observe_both)
    high = np.array([1.0, 1.0, 1.0, PongParams.max_slope, 1.0, 1.0], np.float32)
    return EnvDef(
        "Pong-v0",
        PongState,
        PongParams,
        reset,
        *functions,
        observation_space=Box(-high, high, dtype=np.float32),
        action_space=Discrete(3),
        max_episode_steps=2000,
        num_agents=int(num_players),
        invalid_action="step",
        render=render,
        render_fps=60,
    )
