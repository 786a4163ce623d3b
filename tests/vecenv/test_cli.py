"""The command line: what it prints, what it refuses, and that its statistics are those of the episodes played."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from gymnasium import spaces

import vecenv
from vecenv import cli, registry


def run(*args: str) -> Result:
    return CliRunner().invoke(cli.main, list(args))


def run_json(*args: str) -> Any:
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def python(*args: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False
    )


# --- list and info ----------------------------------------------------------------------------------------------------


@pytest.mark.nojit
def test_list() -> None:
    result = run("list")
    assert result.exit_code == 0
    header, *lines = result.stdout.splitlines()
    assert header.split() == ["id", "observation", "action", "limit", "what", "it", "is"]
    assert [line.split()[0] for line in lines] == vecenv.registered_ids()
    cartpole = next(line for line in lines if line.startswith("CartPole-v1"))
    assert "Box(4) float32" in cartpole and "Discrete(2)" in cartpole and "  500  " in cartpole
    assert cartpole.endswith("CartPole: balance a pole on a cart by pushing the cart left or right.")


def test_list_in_a_process_of_its_own_compiles_nothing(tmp_path: Path) -> None:
    done = python("-m", "vecenv", "list", "--json", NUMBA_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert [row["id"] for row in json.loads(done.stdout)] == sorted(registry.BUILT_IN)
    assert done.stderr == ""
    assert list(tmp_path.rglob("*.nb?")) == []


@pytest.mark.nojit
def test_list_shows_what_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._registry, "Broken-v0", "vecenv.no_such_module:build")
    assert "unavailable: No module named 'vecenv.no_such_module'" in run("list").stdout
    assert run("info", "Broken-v0").exit_code == 1
    assert "Broken-v0: its module cannot be imported" in run("info", "Broken-v0").output


@pytest.mark.nojit
def test_an_id_without_version_is_its_newest() -> None:
    """Case C158."""
    with pytest.warns(UserWarning, match="'CartPole' has no version: using the newest, 'CartPole-v1'"):
        assert run_json("info", "CartPole")["id"] == "CartPole-v1"


@pytest.mark.nojit
def test_info_json() -> None:
    facts = run_json("info", "CartPole-v1")
    assert facts["id"] == "CartPole-v1"
    assert facts["docstring"].startswith(facts["summary"])
    assert facts["action_space"] == "Discrete(2)"
    assert facts["max_episode_steps"] == 500
    assert facts["options"] == {"integrator": "euler", "last_step_reward": "one", "sutton_barto_reward": False}
    params = {row["name"]: row for row in facts["params"]}
    assert params["gravity"]["default"] == 9.8
    assert params["gravity"]["comment"] == "[m/s^2]"
    assert [row["name"] for row in facts["reset_options"]] == ["low", "high"]
    assert facts["state"][2] == {
        "name": "theta",
        "dtype": "float64",
        "shape": [],
        "comment": "pole angle from upright [rad]",
    }
    nbytes = facts["bytes_per_row"]
    assert nbytes["state"] == 4 * 8
    assert 0 < nbytes["engine"] <= 80
    assert nbytes["total"] == nbytes["state"] + nbytes["engine"]


@pytest.mark.nojit
@pytest.mark.parametrize("env_id", sorted(registry.BUILT_IN))
def test_info_of_every_environment(env_id: str) -> None:
    result = run("info", env_id)
    assert result.exit_code == 0, result.output
    for part in ("observation  ", "action  ", "limit  ", "\nOptions, ", "\nParams, ", "\nState, ", " bytes per row"):
        assert part in result.stdout
    assert run_json("info", f"vecenv/{env_id}")["id"] == env_id


def test_an_environment_of_a_module_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "my_envs.py").write_text(
        '"""Count: goes up. And a second sentence."""\n'
        "from gymnasium.spaces import Discrete\n"
        "from vecenv import EnvDef, I4, Params, State, jit, register\n"
        "class S(State):\n"
        "    n: I4  # how far\n"
        "@jit\n"
        "def reset(state, params, rng): state.n = 0\n"
        "@jit\n"
        "def step(state, action, params, rng):\n"
        "    state.n += 1\n"
        "    return 1.0, False\n"
        "@jit\n"
        "def observe(state, params, obs): obs[0] = state.n\n"
        "register(EnvDef('Count-v0', S, Params, reset, step, observe,\n"
        "                observation_space=Discrete(100), action_space=Discrete(2)))\n"
    )
    done = python("-m", "vecenv", "info", "my_envs:Count-v0", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["id"], facts["summary"], facts["max_episode_steps"]) == ("Count-v0", "Count: goes up.", None)
    assert facts["state"] == [{"name": "n", "dtype": "int32", "shape": [], "comment": "how far"}]
    assert (facts["params"], facts["options"]) == ([], {})


# --- rollout ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_rollout_statistics_are_those_of_its_episodes(mode: str) -> None:
    num_envs, num_steps, seed = 7, 400, 3
    result = run_json(
        *("rollout", "CartPole-v1", "--num-envs", str(num_envs), "--num-steps", str(num_steps)),
        *("--seed", str(seed), "--autoreset-mode", mode, "--max-episode-steps", "25"),
    )
    # The same rollout, counted by hand.
    envs = vecenv.make_vec("CartPole-v1", num_envs, autoreset_mode=mode, max_episode_steps=25)
    envs.reset(seed=seed)
    running, episodes = np.zeros(num_envs, np.int64), []
    reset_calls, ended = 0, np.zeros(num_envs, np.bool_)
    for actions in cli.ActionPool(envs.single_action_space, num_envs, seed).windows(num_steps):
        resetting = ended & (mode == "next_step")
        _, _, terminated, truncated, _ = envs.step(actions)
        ended = terminated | truncated
        reset_calls += int(resetting.sum())
        running = np.where(resetting, 0, running + 1)
        episodes += [(int(running[i]), bool(terminated[i])) for i in np.flatnonzero(ended)]
        running[ended] = 0
    lengths = np.array([length for length, _ in episodes])
    assert lengths.max() == 25 and lengths.min() < 25

    assert result["reset_calls"] == reset_calls
    assert result["transitions"] == num_envs * num_steps - reset_calls
    ends = result["episodes"]
    assert ends["finished"] == len(episodes)
    assert ends["terminated_share"] == pytest.approx(np.mean([ending for _, ending in episodes]))
    assert ends["truncated_share"] == pytest.approx(1 - ends["terminated_share"])
    for what in ("length", "return"):  # CartPole's reward is 1 on every step
        assert ends[what]["mean"] == pytest.approx(lengths.mean())
        assert ends[what]["std"] == pytest.approx(lengths.std())
        assert (ends[what]["min"], ends[what]["max"]) == (lengths.min(), lengths.max())


def test_rollout_json_is_reproducible_and_says_what_it_ran() -> None:
    args = ("rollout", "CartPole-v1", "--num-envs", "64", "--num-steps", "50", "--math", "libm")
    first, second = (run_json(*args, "--option", "integrator=semi_implicit") for _ in range(2))
    assert first["episodes"] == second["episodes"]
    assert first["options"] == {"integrator": "semi_implicit"}
    assert (first["math"], first["autoreset_mode"], first["seed"]) == ("libm", "next_step", 0)
    assert first["max_episode_steps"] == 500
    assert set(first["versions"]) >= {"vecenv", "numba", "numpy", "gymnasium", "python"}
    assert first["warm_up_seconds"]["make_vec"] > 0
    assert first["sps"] == pytest.approx(first["transitions"] / first["seconds"])
    assert first["episodes"] != run_json(*args)["episodes"]


def test_rollout_without_a_finished_episode() -> None:
    args = ("rollout", "CartPole-v1", "--num-envs", "2", "--num-steps", "3")
    ends = run_json(*args)["episodes"]
    assert ends["finished"] == 0 and ends["terminated_share"] is None
    assert ends["return"] == {"mean": None, "std": None, "min": None, "max": None}
    assert "episodes     0 finished\n" in run(*args).stdout


def test_rollout_text() -> None:
    result = run("rollout", "CartPole-v1", "--num-envs", "32", "--num-steps", "200")
    assert result.exit_code == 0, result.output
    assert "CartPole-v1: 32 environments x 200 steps" in result.stdout
    for part in (
        " SPS, ",
        "reset calls of NEXT_STEP (",
        "warm-up ",
        " finished: 100.0% terminated",
        "What to try next:",
    ):
        assert part in result.stdout
    same_step = run("rollout", "CartPole-v1", "--num-envs", "32", "--num-steps", "200", "--autoreset-mode", "SameStep")
    assert "transitions  6,400\n" in same_step.stdout


def test_the_bar_is_drawn_only_when_asked_for_without_a_terminal() -> None:
    args = ("rollout", "CartPole-v1", "--num-envs", "2", "--num-steps", "20")
    assert "20/20" not in run(*args).output
    forced = run(*args, "--progress", "--json")
    assert "20/20" in forced.stderr
    assert json.loads(forced.stdout)["num_steps"] == 20


# --- bench ------------------------------------------------------------------------------------------------------------


def test_bench() -> None:
    args = ("bench", "CartPole-v1", "--num-envs", "256", "--num-envs", "32", "--seconds", "0.001", "--repeats", "2")
    result = run_json(*args)
    assert [(cell["num_envs"], cell["copy"]) for cell in result["cells"]] == [
        (256, True),
        (256, False),
        (32, True),
        (32, False),
    ]
    for cell in result["cells"]:
        assert 0 < cell["sps_min"] <= cell["sps"] <= cell["sps_max"]
        assert cell["us_per_step"] * 1000 == pytest.approx(cell["ns_per_row"] * cell["num_envs"])
        assert 0.01 < cell["reset_call_share"] < 0.1  # an episode of random actions has about 22 steps
    assert result["warm_up_seconds"] > 0
    text = run(*args)
    assert text.exit_code == 0
    assert text.stdout.splitlines()[2].split()[:3] == ["N", "outputs", "SPS"]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize(
    "args, message",
    [
        (["info", "CartPol-v1"], "did you mean 'CartPole-v1'"),
        (["info", "CartPole-v7"], "there is: CartPole-v1"),
        (["rollout", "Nothing-v0"], "'Nothing-v0' does not exist"),
        (["bench", "Nothing-v0"], "'Nothing-v0' does not exist"),
        (["rollout"], "Missing argument 'ID'"),
        (
            ["rollout", "CartPole-v1", "--option", "integratr=1"],
            "unknown option 'integratr'; did you mean 'integrator'",
        ),
        (["rollout", "CartPole-v1", "--option", "integrator=rk4"], "integrator is one of euler, semi_implicit"),
        (["rollout", "CartPole-v1", "--option", "integrator"], "expected key=value, got 'integrator'"),
        (["rollout", "CartPole-v1", "--option", "a=1", "--option", "a=2"], "'a' was given twice"),
        (["rollout", "CartPole-v1", "--autoreset-mode", "disabled"], "use next_step or same_step"),
        (["rollout", "CartPole-v1", "--autoreset-mode", "sometimes"], "expected next_step or same_step"),
        (["rollout", "CartPole-v1", "--max-episode-steps", "0"], "max_episode_steps: expected -1"),
        (["rollout", "CartPole-v1", "--num-envs", "0"], "0 is not in the range x>=1"),
        (["rollout", "CartPole-v1", "--num-steps", "x"], "'x' is not a valid integer"),
        (["rollout", "CartPole-v1", "--seed", "-1"], "-1 is not in the range x>=0"),
        (["rollout", "CartPole-v1", "--math", "fast"], "'fast' is not one of 'portable', 'libm'"),
        (["bench", "CartPole-v1", "--seconds", "0"], "0.0 is not in the range x>0"),
        (["lst"], "No such command 'lst'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_calls_exit_with_2_and_say_why(args: list[str], message: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)


@pytest.mark.nojit
def test_version_and_help() -> None:
    assert run("--version").stdout == f"vecenv, version {vecenv.__version__}\n"
    for command in ([], ["list"], ["info"], ["rollout"], ["bench"]):
        result = run(*command, "--help")
        assert result.exit_code == 0
        assert "Examples:\n  vecenv " in result.stdout


# --- parts ------------------------------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize(
    "text, value",
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("null", None),
        ('["SF", "FG"]', ["SF", "FG"]),
        ("8x8", "8x8"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_option_values_are_json_or_strings(text: str, value: Any) -> None:
    context = click.Context(cli.main)
    assert cli.parse_options(context, click.Option(["--option"]), (f"key={text}",)) == {"key": value}


@pytest.mark.nojit
@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(4),
        spaces.Box(-1, 1, (2,), np.float32),
    ],
    ids=str,
)
@pytest.mark.parametrize("num_envs", [1, 5])
def test_action_pool(space: spaces.Space[Any], num_envs: int) -> None:
    pool = cli.ActionPool(space, num_envs, seed=0)
    windows = pool.windows(300)
    for actions in windows:
        assert actions.shape == (num_envs, *(space.shape or ()))
        assert actions.dtype == space.dtype
        assert actions.flags.carray  # otherwise a step converts it, and that is what would be measured
        assert all(action in space for action in actions)
    first = [actions[0].tobytes() for actions in windows]
    assert len(set(first)) > 1
    again = cli.ActionPool(space, num_envs, seed=0).windows(300)
    assert all(np.array_equal(a, b) for a, b in zip(windows, again, strict=True))


@pytest.mark.nojit
def test_actions_of_a_row_are_fair_coins() -> None:
    """A row that saw only 16 actions over and over would be a biased one."""
    pool = cli.ActionPool(spaces.Discrete(2), 100, seed=0)
    mean = np.mean(pool.windows(20_000), axis=0)
    # 2,048 actions and 20,000 draws from them: standard deviation 0.0117 over the rows; 16 would have 0.125.
    assert abs(mean - 0.5).max() < 0.06


@pytest.mark.nojit
def test_moments_merge_batches() -> None:
    values = 1e6 + np.random.default_rng(0).normal(size=1000)
    moments = cli.Moments()
    for part in np.split(values, [0, 1, 10, 700]):
        moments.add(part)
    assert moments.summary() == {
        "mean": pytest.approx(values.mean(), rel=1e-14),
        "std": pytest.approx(values.std(), rel=1e-9),
        "min": values.min(),
        "max": values.max(),
    }


@pytest.mark.nojit
def test_json_of_anything(capsys: pytest.CaptureFixture[str]) -> None:
    cli.echo_json({"a": np.float32(1), "b": np.arange(2), "c": [float("inf"), float("nan")], "d": (None, int)})
    assert json.loads(capsys.readouterr().out) == {
        "a": 1.0,
        "b": [0, 1],
        "c": ["inf", "nan"],
        "d": [None, "<class 'int'>"],
    }


@pytest.mark.nojit
def test_a_class_without_source_has_no_comments() -> None:
    namespace: dict[str, Any] = {}
    source = "from vecenv import F8, State\nclass Typed(State):\n    x: F8  # nobody can read this back"
    exec(compile(source, "<stdin>", "exec", dont_inherit=True), namespace)
    assert cli.source_comments(namespace["Typed"]) == {}


@pytest.mark.nojit
def test_short_spaces() -> None:
    space = spaces.Dict({"a": spaces.Box(0, 1, (2, 3)), "b": spaces.Tuple([spaces.Discrete(2)])})
    assert cli.short_space(space) == "Dict(a: Box(2, 3) float32, b: Tuple(Discrete(2)))"
