"""Row and Cells: compiled form and Python twin hold the same values.

Oracles: modular arithmetic on Python ints and NumPy 2 casts (`float32`) for what a store keeps; the twin for the
compiled form and the other way round.
"""

from __future__ import annotations

import itertools

import envs as e
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from vecenv import B1, F4, F8, I1, I2, I4, I8, U1, U2, U4, U8, Array, BindError, EnvDef, Params, State, Table, jit
from vecenv.kernels.batch import BatchKernels
from vecenv.kernels.row import CellsTwin, RecordTwin, RowTwin
from vecenv.vec_env import VecEnv

COLUMNS = {"b1": B1, "i1": I1, "i2": I2, "i4": I4, "i8": I8, "u1": U1, "u2": U2, "u4": U4, "u8": U8, "f4": F4, "f8": F8}
KINDS = tuple(COLUMNS)
ROWS = 16


class TypesState(State):
    """Three sources, then for each storage type: a scalar set from each source, and what is read back from it."""

    x: F8
    n: I8
    c: B1
    b1: B1
    i1: I1
    i2: I2
    i4: I4
    i8: I8
    u1: U1
    u2: U2
    u4: U4
    u8: U8
    f4: F4
    f8: F8
    cells_b1: Array[B1, 3]
    cells_i1: Array[I1, 3]
    cells_i2: Array[I2, 3]
    cells_i4: Array[I4, 3]
    cells_i8: Array[I8, 3]
    cells_u1: Array[U1, 3]
    cells_u2: Array[U2, 3]
    cells_u4: Array[U4, 3]
    cells_u8: Array[U8, 3]
    cells_f4: Array[F4, 3]
    cells_f8: Array[F8, 3]
    read: Array[I8, 11]  # scalars as read, floats scaled
    half: Array[F8, 11]  # scalars as read, halved


@jit
def types_reset(state, params, rng):
    state.c = True


@jit
def put(cells, x, n, c):
    cells[0] = x
    cells[1] = n
    cells[2] = c


@jit
def types_step(state, action, params, rng):
    if action == 0:
        state.b1, state.i1, state.i2, state.i4, state.i8 = state.x, state.x, state.x, state.x, state.x
        state.u1, state.u2, state.u4, state.u8 = state.x, state.x, state.x, state.x
        state.f4, state.f8 = state.x, state.x
    elif action == 1:
        state.b1, state.i1, state.i2, state.i4, state.i8 = state.n, state.n, state.n, state.n, state.n
        state.u1, state.u2, state.u4, state.u8 = state.n, state.n, state.n, state.n
        state.f4, state.f8 = state.n, state.n
    else:
        state.b1, state.i1, state.i2, state.i4, state.i8 = state.c, state.c, state.c, state.c, state.c
        state.u1, state.u2, state.u4, state.u8 = state.c, state.c, state.c, state.c
        state.f4, state.f8 = state.c, state.c
    put(state.cells_b1, state.x, state.n, state.c)
    put(state.cells_i1, state.x, state.n, state.c)
    put(state.cells_i2, state.x, state.n, state.c)
    put(state.cells_i4, state.x, state.n, state.c)
    put(state.cells_i8, state.x, state.n, state.c)
    put(state.cells_u1, state.x, state.n, state.c)
    put(state.cells_u2, state.x, state.n, state.c)
    put(state.cells_u4, state.x, state.n, state.c)
    put(state.cells_u8, state.x, state.n, state.c)
    put(state.cells_f4, state.x, state.n, state.c)
    put(state.cells_f8, state.x, state.n, state.c)
    read, half = state.read, state.half
    read[0], half[0] = state.b1, state.b1 / 2
    read[1], half[1] = state.i1 * 3, state.cells_i1[1] / 2
    read[2], half[2] = state.i2 * 3, state.cells_i2[1] / 2
    read[3], half[3] = state.i4 * 3, state.cells_i4[1] / 2
    read[4], half[4] = state.i8 * 3, state.cells_i8[1] / 2
    read[5], half[5] = state.u1 * 3, state.cells_u1[1] / 2
    read[6], half[6] = state.u2 * 3, state.cells_u2[1] / 2
    read[7], half[7] = state.u4 * 3, state.cells_u4[1] / 2
    read[8], half[8] = state.u8 * 3, state.cells_u8[1] / 2
    read[9], half[9] = state.f4 > 0.0, state.f4 / 2
    read[10], half[10] = state.f8 > 0.0, state.f8 / 2
    return 0.0, False


@jit
def types_observe(state, params, obs):
    obs[0] = state.n


TYPES = EnvDef(
    "Types-v0", TypesState, e.NoParams, types_reset, types_step, types_observe,
    observation_space=spaces.Box(-np.inf, np.inf, (1,)), action_space=spaces.Discrete(3),
)  # fmt: skip


@pytest.fixture(scope="module")
def batch() -> VecEnv:
    envs = VecEnv(TYPES, ROWS)
    envs.reset(seed=0)
    return envs


def wrapped(value: int, dtype: np.dtype) -> int:
    """`value` modulo 2**bits, in the type's range."""
    bits = 8 * dtype.itemsize
    value %= 1 << bits
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def stored(value: float | int | bool, dtype: np.dtype) -> bool | int | float | None:
    """What a store of a float, int or bool keeps; None where a float does not fit int64 (left to the machine)."""
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return dtype.type(float(value))
    if isinstance(value, float) and not -(2.0**63) <= value < 2.0**63:
        return None
    return wrapped(int(value), dtype)


def equal(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


floats = st.one_of(
    st.floats(width=64),
    st.sampled_from(
        [0.0, -0.0, 1.5, -1.5, 127.9, 128.0, -129.0, 255.5, 256.0, 65536.0, 2.0**31, 2.0**32, 2.0**53 + 1, 2.0**63]
    ),
    st.sampled_from([-(2.0**63), 1e300, -1e300, np.inf, -np.inf, np.nan, 3.4028235677973366e38, 1.4e-45, 7e-46]),
    st.integers(-(2**40), 2**40).map(lambda n: n / 8),
)
integers = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.integers(-70000, 70000), st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1])
)


@settings(max_examples=40, deadline=None)
@given(
    x=st.lists(floats, min_size=ROWS, max_size=ROWS),
    n=st.lists(integers, min_size=ROWS, max_size=ROWS),
    c=st.lists(st.booleans(), min_size=ROWS, max_size=ROWS),
)
def test_every_storage_type_narrows_on_store_and_widens_on_read(batch, x, n, c):
    """Compiled: against modular arithmetic. Twin: every byte of the batch as compiled. From float, int and bool."""
    for source, values in enumerate((x, n, c)):
        batch.state.x, batch.state.n, batch.state.c = x, n, c
        before = batch.snapshot()
        batch.step(np.full(ROWS, source))
        for k, name in enumerate(KINDS):
            column = getattr(batch.state, name)
            cells = getattr(batch.state, f"cells_{name}")
            for i in range(ROWS):
                got = [column[i], *cells[i]]
                for value, kept in zip((values[i], x[i], n[i], c[i]), got, strict=True):
                    if (expected := stored(value, column.dtype)) is not None:
                        assert equal(kept, expected), (name, value, kept, expected)
                wide = wrapped(int(column[i]), np.dtype(np.int64)) if column.dtype.kind in "iub" else float(column[i])
                read = wide if name == "b1" else wide * 3 if column.dtype.kind in "iu" else wide > 0
                assert batch.state.read[i, k] == wrapped(int(read), np.dtype(np.int64)), name
                if column.dtype.kind in "iu":
                    wide = wrapped(int(cells[i, 1]), np.dtype(np.int64))
                assert equal(batch.state.half[i, k], wide / 2), name
        compiled = e.arena(batch)
        batch.restore(before)
        for i in range(ROWS):
            batch.view(i).step(source, jit=False)
        twin = e.arena(batch)
        for name in compiled:
            assert compiled[name] == twin[name] or nan_equal(batch, compiled, name), name


def nan_equal(envs: VecEnv, bytes_of: dict[str, bytes], name: str) -> bool:
    """Equal but for signs and payloads of NaN, which nothing promises."""
    column = e.columns(envs)[name]
    other = np.frombuffer(bytes_of[name], column.dtype).reshape(column.shape)
    return column.dtype.kind == "f" and np.array_equal(column, other, equal_nan=True)


def test_a_row_out_of_range_float_is_the_same_number_in_both_forms(batch):
    """Floats beyond int64 are the machine's business, but the twin and the compiled form agree (x86-64: -2**63)."""
    batch.state.x = ([1e19, -1e19, np.inf, -np.inf, np.nan, 2.0**63, 9.3e18, -9.3e18] * 2)[:ROWS]
    batch.step(np.zeros(ROWS, np.int64))
    i8 = batch.state.i8.copy()
    for i in range(ROWS):
        batch.view(i).step(0, jit=False)
    np.testing.assert_array_equal(batch.state.i8, i8)


# --- arithmetic on what a row function reads --------------------------------------------------------------------------


class SumsState(State):
    x: F8
    y: F8
    n: I8
    m: I8
    p: B1
    q: B1
    reals: Array[F8, 9]
    ints: Array[I8, 14]


@jit
def sums_reset(state, params, rng):
    state.x = 0.0


@jit
def sums_step(state, action, params, rng):
    x, y, n, m, p, q = state.x, state.y, state.n, state.m, state.p, state.q
    state.reals[0] = x / y
    state.reals[1] = x % y
    state.reals[2] = x // y
    state.reals[3] = n / m
    state.reals[4] = n * y - p * x
    state.reals[5] = min(x, y) + max(n, m)
    state.reals[6] = abs(x) - round(y)
    state.reals[7] = float(n) + int(y)
    state.reals[8] = 2.5 if p else float(n)
    state.ints[0] = n // (m | 1 if m != -1 else 1)
    state.ints[1] = n % (m | 1 if m != -1 else 1)
    state.ints[2] = n * m + 3
    state.ints[3] = n - m
    state.ints[4] = abs(n)
    state.ints[5] = ((n << 3) ^ (m >> 2)) & ~n
    state.ints[6] = -m
    state.ints[7] = (x > y) | (n == m)
    state.ints[8] = (p & q) ^ (not p)
    state.ints[9] = n if p else m
    state.ints[10] = int(x) - int(y)
    state.ints[11] = min(n, m) if p and q else max(n, m)
    state.ints[12] = n // 0 if n == 3 else 7
    state.ints[13] = (n < m < 100) * 5 + p * 3
    return 0.0, False


@jit
def sums_observe(state, params, obs):
    obs[0] = state.n


SUMS = EnvDef(
    "Sums-v0", SumsState, e.NoParams, sums_reset, sums_step, sums_observe,
    observation_space=spaces.Box(-np.inf, np.inf, (1,)), action_space=spaces.Discrete(1),
)  # fmt: skip


@pytest.fixture(scope="module")
def sums() -> VecEnv:
    envs = VecEnv(SUMS, 64)
    envs.reset(seed=0)
    return envs


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(floats, integers), min_size=8, max_size=8))
def test_arithmetic_of_the_twin_is_that_of_the_compiled_form(sums, pairs):
    """Division by zero, overflow, NaN and signed zero included; every pair of eight values meets every other."""
    for k, ((x, n), (y, m)) in enumerate(itertools.product(pairs, pairs)):
        sums.state.x[k], sums.state.n[k], sums.state.y[k], sums.state.m[k] = x, n, y, m
        sums.state.p[k], sums.state.q[k] = k & 1, k & 2
    before = sums.snapshot()
    sums.step(np.zeros(64, np.int64))
    reals, ints = sums.state.reals.copy(), sums.state.ints.copy()
    sums.restore(before)
    for i in range(64):
        sums.view(i).step(0, jit=False)
    for got, expected in ((sums.state.reals, reals), (sums.state.ints, ints)):
        same = (got == expected) | ((got != got) & (expected != expected))
        assert same.all(), (np.argwhere(~same)[0], got[~same][0], expected[~same][0])


# --- Cells: indexing, shape, len, fill, copy_from ---------------------------------------------------------------------


class GridState(State):
    grid: Array[I4, 2, 3, 4]
    copy: Array[U1, 2, 3, 4]
    filled: Array[F4, 2, 3]
    sizes: Array[I4, 8]


class GridParams(Params):
    table: Table[I2, 2]


@jit
def grid_reset(state, params, rng):
    state.filled.fill(1.1)


@jit
def grid_step(state, action, params, rng):
    for a in range(state.grid.shape[0]):
        for b in range(state.grid.shape[1]):
            for c in range(state.grid.shape[2]):
                state.grid[a, b, c] = 100 * a + 10 * b + c + params.table[a, 0]
    state.grid[True, 0, 0] += 1000
    state.copy.copy_from(state.grid)
    state.filled.fill(action + 0.1)
    sizes = state.sizes
    sizes[0], sizes[1], sizes[2] = len(state.grid), len(state.filled), len(params.table)
    sizes[3], sizes[4] = params.table.shape
    rows, columns = state.filled.shape
    sizes[5], sizes[6], sizes[7] = rows, columns, len(state.grid.shape)
    return params.table[1, len(params.table) - 1], False


@jit
def grid_observe(state, params, obs):
    obs[0] = state.grid[1, 2, 3]


GRID = EnvDef(
    "Grid-v0", GridState, GridParams, grid_reset, grid_step, grid_observe,
    observation_space=spaces.Box(-np.inf, np.inf, (1,)), action_space=spaces.Discrete(3),
    param_values={"table": [[5, 6, 7], [8, -9, 10]]},
)  # fmt: skip


@pytest.mark.nojit
@pytest.mark.parametrize("jit", [True, False], ids=["compiled", "twin"])
def test_cells(jit):
    """Full integer indexing, shape, len, fill and copy_from, in row 1 of 3 only."""
    envs = VecEnv(GRID, 3)
    envs.reset(seed=0)
    np.testing.assert_array_equal(envs.state.filled, np.full((3, 2, 3), 1.1, np.float32))
    before = envs.snapshot()
    _, reward, *_ = envs.view(1).step(2, jit=jit)
    assert reward == -9.0
    a, b, c = np.indices((2, 3, 4))
    expected = 100 * a + 10 * b + c + np.array([5, 8])[:, None, None]
    expected[1, 0, 0] += 1000
    np.testing.assert_array_equal(envs.state.grid[1], expected)
    np.testing.assert_array_equal(envs.state.copy[1], expected.astype(np.uint8))
    np.testing.assert_array_equal(envs.state.filled[1], np.full((2, 3), 2.1, np.float32))
    assert envs.state.sizes[1].tolist() == [2, 2, 2, 2, 3, 2, 3, 3]
    after = envs.snapshot()
    envs.restore(before, rows=[1], from_rows=[1])
    assert envs.snapshot().arena.tobytes() == before.arena.tobytes() != after.arena.tobytes()


@pytest.mark.nojit
def test_whole_tables_only_in_their_dimensions():
    table = CellsTwin(np.arange(6).reshape(2, 3), writable=False)
    assert (len(table), table.shape, table[1, 2]) == (2, (2, 3), 5)
    for index in (0, (0, 0, 0), (0,)):
        with pytest.raises(IndexError, match="2 dimension"):
            table[index]
    for index in ((-1, 0), (0, 3), (2, 0)):
        with pytest.raises(IndexError, match="out of bounds"):
            table[index]
    with pytest.raises(TypeError):
        table[0.0, 1]
    with pytest.raises(TypeError, match="read-only"):
        table[0, 0] = 1
    with pytest.raises(TypeError, match="read-only"):
        table.fill(0)
    with pytest.raises(TypeError, match="read-only"):
        table.copy_from(table)
    with pytest.raises(ValueError, match=r"same shape, \(2,\), got \(3,\)"):
        CellsTwin(np.zeros(2)).copy_from(CellsTwin(np.zeros(3)))


@pytest.mark.nojit
def test_the_twin_reads_bool_int64_and_float64():
    columns = {name: np.zeros((2, *kind.shape), kind.dtype) for name, kind in COLUMNS.items()}
    row = RowTwin(columns, frozenset({"i8"}), 1)
    for name, kind in COLUMNS.items():
        expected = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}[kind.dtype.kind]
        assert type(getattr(row, name)) is expected
    row.u1 = 300
    row.u8 = -1
    row.f4 = 0.1
    row.b1 = 0.5
    assert (row.u1, row.u8, row.f4, row.b1) == (44, -1, np.float64(np.float32(0.1)), np.True_)
    assert columns["u8"][1] == 2**64 - 1 and columns["u8"][0] == 0
    with pytest.raises(AttributeError, match="read-only"):
        row.i8 = 1
    with pytest.raises(AttributeError, match=r"no field.*b1, i1"):
        row.speed = 1
    with pytest.raises(AttributeError, match="no field"):
        _ = row.speed
    assert "u1=np.int64(44)" in repr(row)
    with pytest.raises(AttributeError, match="read-only"):
        RecordTwin({"a": 1}).a = 2


# --- refusals ---------------------------------------------------------------------------------------------------------


@jit
def write_elapsed(state, action, params, rng):
    state.elapsed = 3
    return 0.0, False


@jit
def write_limit(state, action, params, rng):
    state.limit = 3
    return 0.0, False


@jit
def write_array_field(state, action, params, rng):
    state.grid = 3
    return 0.0, False


@jit
def write_unknown(state, action, params, rng):
    state.speed = 3
    return 0.0, False


@jit
def write_table(state, action, params, rng):
    params.table[0, 0] = 1
    return 0.0, False


@jit
def fill_table(state, action, params, rng):
    params.table.fill(1)
    return 0.0, False


@jit
def partial_index(state, action, params, rng):
    return state.grid[0], False


@jit
def float_index(state, action, params, rng):
    return state.grid[0.5, 0, 0], False


@jit
def copy_of_other_shape(state, action, params, rng):
    state.grid.copy_from(state.filled)
    return 0.0, False


@jit
def no_pair(state, action, params, rng):
    return 0.0


@jit
def four_values(state, action, params, rng):
    return 0.0, False, False, False


REFUSED = {
    write_elapsed: (AttributeError, "`elapsed` is read-only"),
    write_limit: (AttributeError, "`limit` is read-only"),
    write_array_field: (AttributeError, "`grid` is an array field"),
    write_unknown: (AttributeError, "speed"),
    write_table: (TypeError, "read-only"),
    fill_table: (TypeError, "read-only"),
    partial_index: (IndexError, r"3 dimension\(s\)"),
    float_index: (TypeError, "integer|index"),
    copy_of_other_shape: (ValueError, "same shape"),
    no_pair: (TypeError, r"returns \(reward, terminated\)"),
    four_values: (TypeError, r"returns \(reward, terminated\)"),
}


def grid_with(step) -> EnvDef:
    return EnvDef(
        "Grid-v0", GridState, GridParams, grid_reset, step, grid_observe,
        observation_space=spaces.Box(-np.inf, np.inf, (1,)), action_space=spaces.Discrete(3),
        param_values={"table": [[5, 6, 7], [8, -9, 10]]},
    )  # fmt: skip


COMPILED = (write_elapsed, write_array_field, write_table, partial_index, copy_of_other_shape, no_pair)


@pytest.mark.parametrize("step", COMPILED, ids=lambda function: function.__name__)
def test_what_a_compiled_row_refuses(step, jit_only):
    message = {write_array_field: "an array field is written by element"}
    with pytest.raises(BindError, match=message.get(step, REFUSED[step][1])):
        VecEnv(grid_with(step), 1)


@pytest.mark.parametrize("step", REFUSED, ids=lambda function: function.__name__)
def test_what_the_twin_refuses(step):
    kind, message = REFUSED[step]
    envs = VecEnv(GRID, 1)
    envs.reset(seed=0)
    envs._memory.wiring.definition = grid_with(step)
    envs._runner.kernels = BatchKernels(envs._memory.wiring, "portable")  # the compiled step stays that of GRID
    with pytest.raises(kind, match=message):
        envs.view(0).step(0, jit=False)


# --- elapsed and limit as the author sees them (the engine counts after `step` and before `observe`) ------------------


class ClockState(State):
    in_step: I4
    limit_in_step: I4


@jit
def clock_reset(state, params, rng):
    state.in_step = state.elapsed - 7


@jit
def clock_step(state, action, params, rng):
    state.in_step = state.elapsed
    state.limit_in_step = state.limit
    last = state.elapsed + 1 == state.limit
    return -1.0 if last else 1.0, False


@jit
def clock_observe(state, params, obs):
    obs[0] = state.elapsed
    obs[1] = state.in_step
    obs[2] = state.limit
    obs[3] = state.limit_in_step


CLOCK = EnvDef(
    "Clock-v0", ClockState, e.NoParams, clock_reset, clock_step, clock_observe,
    observation_space=spaces.Box(-np.inf, np.inf, (4,), np.float64), action_space=spaces.Discrete(1),
)  # fmt: skip


@pytest.mark.nojit
@pytest.mark.parametrize("mode", e.MODES)
def test_elapsed_and_limit(mode):
    """Limits 2 and none (-1): step sees the steps before, observe those including this one; reset sees 0."""
    envs = VecEnv(CLOCK, 2, autoreset_mode=mode, max_episode_steps=[2, -1])
    zero = [0, 0]
    obs, _ = envs.reset(seed=0)
    assert obs.tolist() == [[0, -7, 2, 0], [0, -7, -1, 0]]
    obs, rewards, *_ = envs.step(zero)
    assert obs.tolist() == [[1, 0, 2, 2], [1, 0, -1, -1]] and rewards.tolist() == [1, 1]
    obs, rewards, _, truncated, infos = envs.step(zero)
    assert rewards.tolist() == [-1, 1] and truncated.tolist() == [True, False]
    last = infos["final_obs"] if mode == "same_step" else obs
    assert last[0].tolist() == [2, 1, 2, 2] and obs[1].tolist() == [2, 1, -1, -1]
    if mode == "disabled":
        np.testing.assert_array_equal(envs.observe()[0], [2, 1, 2, 2])
        e.reset_ended(envs, truncated, truncated)
    elif mode == "next_step":
        obs, rewards, _, truncated, _ = envs.step(zero)
        assert rewards.tolist() == [0, 1] and not truncated.any()
    assert envs.observe()[0].tolist() == [0, -7, 2, 0]


@pytest.mark.nojit
def test_elapsed_can_be_written_from_python():
    envs = VecEnv(CLOCK, 3, max_episode_steps=10)
    envs.reset(seed=0)
    envs.state.elapsed[1] = 9
    obs, _, terminated, truncated, _ = envs.step([0, 0, 0])
    assert obs[:, 0].tolist() == [1, 10, 1]
    assert truncated.tolist() == [False, True, False] and not terminated.any()
