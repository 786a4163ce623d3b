"""vecenv: batched reinforcement-learning environments at C speed, written as three Python functions."""

from vecenv.arguments import uniform
from vecenv.buffers import StepOut
from vecenv.kernels.envdef import EnvDef, ModelDef
from vecenv.kernels.grid.gridworld import gridworld
from vecenv.kernels.jit import BindError, jit
from vecenv.kernels.soa import (
    B1,
    F4,
    F8,
    I1,
    I2,
    I4,
    I8,
    U1,
    U2,
    U4,
    U8,
    Array,
    Info,
    Options,
    Params,
    State,
    Table,
)
from vecenv.models import Model, model
from vecenv.registry import make, make_vec, register, register_built_ins, registered_ids, unregister
from vecenv.replay import ReplayBuffer
from vecenv.rollout import Rollout
from vecenv.snapshot import Snapshot
from vecenv.transforms import FrameStack
from vecenv.vec_env import VecEnv
from vecenv.view import View

__version__ = "0.1.0"

register_built_ins()

__all__ = [
    "B1",
    "F4",
    "F8",
    "I1",
    "I2",
    "I4",
    "I8",
    "U1",
    "U2",
    "U4",
    "U8",
    "Array",
    "BindError",
    "EnvDef",
    "FrameStack",
    "Info",
    "Model",
    "ModelDef",
    "Options",
    "Params",
    "ReplayBuffer",
    "Rollout",
    "Snapshot",
    "State",
    "StepOut",
    "Table",
    "VecEnv",
    "View",
    "gridworld",
    "jit",
    "make",
    "make_vec",
    "model",
    "register",
    "registered_ids",
    "uniform",
    "unregister",
]
