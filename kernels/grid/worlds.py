"""Seven grid worlds of gym-classics2: walk from the start to the goal.

Source: gym-classics2 1.0.1 (https://github.com/brett-daley/gym-classics2), by its layouts and numbers; four of them are
examples of R. Sutton and A. Barto, "Reinforcement Learning: An Introduction", 2nd edition
(http://incompleteideas.net/book/the-book-2nd.html).

| observation | meaning                                                     | unit | range                  |
|-------------|-------------------------------------------------------------|------|------------------------|
| a number    | which of the reachable cells, counted by x and then y       | -    | 0 to their number - 1  |
| or x, y     | the cell, (0, 0) at the lower left (option `tabular=False`) | -    | 0 to width, height - 1 |

| action | meaning       |
|--------|---------------|
| 0      | up (y + 1)    |
| 1      | right (x + 1) |
| 2      | down (y - 1)  |
| 3      | left (x - 1)  |

Moves, blocks, noise, wind and cliff are those of `kernels/grid/gridworld.py`. In ClassicGridworld and SparseGridworld
a move turns to the left or right of its direction with probability .1 each.

| id                 | step | goal | otherwise                                       |
|--------------------|------|------|-------------------------------------------------|
| ClassicGridworld-v1 | -.04 | 1    | the trap (3, 1) ends with -1                   |
| CliffWalk-v1        | -1   | 0    | the cliff costs 100 and goes back to the start |
| the others          | 0    | 1    |                                                |

Reward: `goal_reward` for entering the goal, else `step_reward`; `trap_reward` for the trap; `cliff_reward` for a fall.
End: terminated at the goal, and in the trap.
Limit: none.
Options: `step_reward`, `goal_reward`, `trap_reward`, `cliff_reward`: see the table; `tabular`: see above.

Differs from the source in: what `kernels/grid/gridworld.py` says.
"""

from __future__ import annotations

from vecenv.kernels.envdef import EnvDef
from vecenv.kernels.grid.gridworld import NOISE, gridworld

CLASSIC = ["...G", ".X.G", "S..."]
L_MAZE = [
    "..........",
    "........G.",
    "..........",
    ".XXXXXX...",
    "......X...",
    "......X...",
    "......X...",
    "...S..X...",
    "..........",
    "..........",
]
CLIFF_WALK = ["." * 12] * 3 + ["S" + "C" * 10 + "G"]
DYNA_MAZE = [
    ".......XG",
    "..X....X.",
    "S.X....X.",
    "..X......",
    ".....X...",
    ".........",
]
FOUR_ROOMS = [
    ".....X.....",
    ".....X...G.",
    "...........",
    ".....X.....",
    ".....X.....",
    "X.XXXX.....",
    ".....XXX.XX",
    ".....X.....",
    ".....X.....",
    "...........",
    "S....X.....",
]
SPARSE = ["." * 10] * 4 + [".S....G..."] + ["." * 10] * 3
WINDY = ["." * 10] * 3 + ["S......G.."] + ["." * 10] * 3
WIND = (0, 0, 0, 1, 1, 1, 2, 2, 1, 0)


def build_classic(
    step_reward: float = -0.04, goal_reward: float = 1.0, trap_reward: float = -1.0, tabular: bool = True
) -> EnvDef:
    """ClassicGridworld: reach the goal of a 4x3 grid on slippery ground without stepping into the trap beside it."""
    goals = {(3, 2): goal_reward, (3, 1): trap_reward}
    return gridworld(
        CLASSIC, id="ClassicGridworld-v1", step_reward=step_reward, goal_reward=goals, noise=NOISE, tabular=tabular
    )


def build_l_maze(step_reward: float = 0.0, goal_reward: float = 1.0, tabular: bool = True) -> EnvDef:
    """LMaze: walk around an L-shaped wall to the goal."""
    return gridworld(L_MAZE, id="LMaze-v0", step_reward=step_reward, goal_reward=goal_reward, tabular=tabular)


def build_cliff_walk(
    step_reward: float = -1.0, goal_reward: float = 0.0, cliff_reward: float = -100.0, tabular: bool = True
) -> EnvDef:
    """CliffWalk: walk along a cliff to the goal without falling."""
    return gridworld(
        CLIFF_WALK,
        id="CliffWalk-v1",
        step_reward=step_reward,
        goal_reward=goal_reward,
        cliff="C",
        cliff_reward=cliff_reward,
        tabular=tabular,
    )


def build_dyna_maze(step_reward: float = 0.0, goal_reward: float = 1.0, tabular: bool = True) -> EnvDef:
    """DynaMaze: find the goal behind a few walls."""
    return gridworld(DYNA_MAZE, id="DynaMaze-v0", step_reward=step_reward, goal_reward=goal_reward, tabular=tabular)


def build_four_rooms(step_reward: float = 0.0, goal_reward: float = 1.0, tabular: bool = True) -> EnvDef:
    """FourRooms: walk through doors from one room to the goal in the room across."""
    return gridworld(FOUR_ROOMS, id="FourRooms-v0", step_reward=step_reward, goal_reward=goal_reward, tabular=tabular)


def build_sparse(step_reward: float = 0.0, goal_reward: float = 1.0, tabular: bool = True) -> EnvDef:
    """SparseGridworld: find the one reward of an empty grid on slippery ground."""
    return gridworld(
        SPARSE,
        id="SparseGridworld-v0",
        step_reward=step_reward,
        goal_reward=goal_reward,
        noise=NOISE,
        tabular=tabular,
    )


def build_windy(step_reward: float = 0.0, goal_reward: float = 1.0, tabular: bool = True) -> EnvDef:
    """WindyGridworld: reach the goal of an empty grid with an upward wind across its middle."""
    return gridworld(
        WINDY, id="WindyGridworld-v0", step_reward=step_reward, goal_reward=goal_reward, wind=WIND, tabular=tabular
    )
