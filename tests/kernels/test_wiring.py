"""Layouts of a definition's memory. Oracle: the words of the head, read with NumPy."""

from __future__ import annotations

import envs as e
import numpy as np
import pytest

from vecenv import EnvDef
from vecenv.kernels.soa import Column
from vecenv.kernels.wiring import UNRESET, Wiring, engine_columns, side_columns
from vecenv.vec_env import VecEnv

pytestmark = pytest.mark.nojit


@pytest.mark.parametrize("name", e.ALL)
def test_every_column_lies_where_the_head_says(name):
    wiring = Wiring(e.definition(name))
    num_rows = 37
    head, arena = wiring.new_head(num_rows), wiring.new_arena(num_rows)
    words = head[: 8 * len(wiring.word)].view(np.int64)
    columns, side = wiring.arena_layout.carve(arena, num_rows), wiring.carve_side(head, num_rows)
    for base, views in ((arena, columns), (head, side)):
        for column, view in views.items():
            assert words[wiring.word[column]] == view.ctypes.data - base.ctypes.data, column
            assert view.ctypes.data + view.nbytes <= base.ctypes.data + base.nbytes
    assert words[wiring.word["num_rows"]] == num_rows
    assert (wiring.arena_layout.carve(arena, num_rows)["engine.flags"] == UNRESET).all()


def test_reading_64_flags_never_leaves_the_arena():
    """The kernel loads 64 flag bytes at once: the padding behind the last column must hold 63 more."""
    assert engine_columns(1)[-1].name == "engine.flags"
    for num_rows in (1, 63, 64, 65):
        wiring = Wiring(e.definition("bits"))
        arena = wiring.new_arena(num_rows)
        flags = wiring.arena_layout.carve(arena, num_rows)["engine.flags"]
        assert flags.ctypes.data + num_rows - 1 + 64 <= arena.ctypes.data + arena.nbytes


def test_engine_columns_take_at_most_80_bytes_a_row():
    assert sum(column.row_nbytes for column in engine_columns(1)) <= 80


def test_no_two_columns_have_one_name():
    assert len({c.name for c in (*engine_columns(1), *side_columns(1))}) == len(engine_columns(1)) + 3
    assert all(isinstance(column, Column) for column in engine_columns(1))


def test_scalars_of_every_type_pass_through_the_head():
    """Params and options: int64, float64 or the bits of a uint64; a float32 as the float64 it is."""

    class P(e.Params):
        f: e.F4 = 0.1
        d: e.F8 = -1e300
        b: e.B1 = True
        u: e.U8 = 2**64 - 1
        i: e.I1 = -128

    class S(e.State):
        f: e.F8
        d: e.F8
        b: e.B1
        u: e.U8
        i: e.I8

    definition = EnvDef(
        "Scalars-v0", S, P, scalars_reset, scalars_step, scalars_observe,
        observation_space=e.spaces.Box(-1, 1, (1,)), action_space=e.spaces.Discrete(1),
    )  # fmt: skip
    envs = VecEnv(definition, 2)
    envs.reset(seed=0)
    compiled = envs.snapshot()
    for name, expected in (("f", float(np.float32(0.1))), ("d", -1e300), ("b", True), ("u", 2**64 - 1), ("i", -128)):
        assert getattr(envs.state, name).tolist() == [expected] * 2
    for column in e.columns(envs).values():
        column[:] = 0
    rows = np.arange(2)
    envs._runner.kernels.python_reset_rows(envs._head, envs._arena, rows, 2, np.empty((2, 1), np.float32), 0)
    assert [envs.state[name].tolist() for name in "fdbui"] == [
        compiled.layout.carve(compiled.arena, 2)[f"state.{name}"].tolist() for name in "fdbui"
    ]


@e.jit
def scalars_reset(state, params, rng):
    state.f = params.f
    state.d = params.d
    state.b = params.b
    state.u = params.u
    state.i = params.i


@e.jit
def scalars_step(state, action, params, rng):
    return 0.0, False


@e.jit
def scalars_observe(state, params, obs):
    obs[0] = state.f


def test_columns_have_an_agent_axis():
    """What is per agent is `[N, A]`; with one agent the axis is left out, and so is what only several need."""
    shapes = {c.name: c.shape for c in (*engine_columns(3), *side_columns(3)) if c.shape and "rng" not in c.name}
    assert shapes == {
        "engine.policy": (2,),
        "engine.total": (3,),
        "engine.alive": (3,),
        "engine.ending": (3,),
        "engine.length": (3,),
        "side.final_total": (3,),
        "side.final_length": (3,),
    }
    assert [c.name for c in engine_columns(1) if c.shape] == ["engine.rng", "engine.policy"]
