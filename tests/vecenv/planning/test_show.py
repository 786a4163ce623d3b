"""Values and policies of grids as text and as pictures."""

import subprocess
import sys

import numpy as np
import pytest

import vecenv
from vecenv import gridworld
from vecenv.planning import (
    format_policy,
    format_values,
    greedy_policy,
    plot_policy,
    plot_values,
    uniform_policy,
    value_iteration,
)

MODEL = vecenv.model("ClassicGridworld-v1")
VALUES = value_iteration(MODEL, 1.0, 1e-12).values
POLICY = greedy_policy(MODEL, VALUES, 1.0)


def test_values():
    assert format_values(MODEL, VALUES) == (
        "+0.85 +0.91 +0.96 +0.00\n"
        "+0.80       +0.70 +0.00\n"
        "+0.75 +0.70 +0.65 +0.43\n"
    )  # fmt: skip
    assert format_values(MODEL, -VALUES, digits=1).splitlines()[2] == "-0.7 -0.7 -0.7 -0.4"


def test_policy():
    assert format_policy(MODEL, POLICY) == "→ → → *\n↑   ↑ *\n↑ ← ← ←\n"
    assert format_policy(MODEL, POLICY, "text").splitlines()[0] == "right right right     *"
    assert format_policy(MODEL, uniform_policy(MODEL)).splitlines()[2] == "↑ ↑ ↑ ↑"


def test_cells_that_cannot_be_reached_are_blank():
    model = vecenv.model(gridworld(["SGX.", "..X."]))
    assert format_policy(model, np.full(4, 1)) == "→ *\n→ →\n"
    assert format_values(model, [1, 2, 3, -4], 0) == "+2 -4\n+1 +3\n"


def test_frozen_lake_from_the_top_left():
    model = vecenv.model("FrozenLake-v1", is_slippery=False)
    policy = greedy_policy(model, value_iteration(model, 0.9, 1e-12).values, 0.9)
    assert format_policy(model, policy) == "↓ → ↓ ←\n↓ * ↓ *\n→ ↓ ↓ *\n* → → *\n"


def test_plots():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    ax = plot_values(MODEL, VALUES, POLICY, cmap="coolwarm")
    texts = {(round(t.get_position()[0]), round(t.get_position()[1])): t.get_text() for t in ax.texts}
    assert texts[0, 2] == "↑\n0.75" and texts[3, 0] == "*\n0.00" and len(texts) == 11
    (image,) = ax.images
    np.testing.assert_array_equal(image.get_array().filled(np.nan), MODEL.to_matrix(VALUES))
    assert image.get_cmap().name == "coolwarm"

    ax = plt.subplots()[1]
    assert plot_values(MODEL, VALUES, ax=ax) is ax and ax.texts[0].get_text() == "0.85"
    ax = plot_policy(MODEL, POLICY)
    texts = [t.get_text() for t in ax.texts]
    assert texts == ["→", "→", "→", "*", "↑", "", "↑", "*", "↑", "←", "←", "←"]
    ax.figure.canvas.draw()  # all glyphs exist: a missing one is a warning, and that an error
    plt.close("all")


def test_without_matplotlib():
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import vecenv, vecenv.planning as p\n"
        "model = vecenv.model('TinyGrid-v0')\n"
        "try: p.plot_policy(model, [0] * 9)\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "plots need matplotlib, which is not installed: pip install vecenv[plot]\n", done.stderr


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: format_values(MODEL, [1, 2]), r"one for each of 11 states, got shape \(2,\)"),
        (lambda: format_policy(MODEL, [9] * 11), "state 0: expected an action from 0 to 3, got 9"),
        (lambda: format_policy(MODEL, POLICY, "emoji"), "'text' or 'arrow'"),
        (lambda: format_values(vecenv.model("Racetrack1-v0", track=["S.G"]), 0), "values: expected one for each"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_what_is_no_grid():
    model = vecenv.model("Racetrack1-v0", track=["S.G"])
    with pytest.raises(ValueError, match="Racetrack1-v0 is no grid"):
        format_values(model, np.zeros(model.num_states))
