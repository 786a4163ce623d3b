"""`vecenv train`: it does what `train` does, and says what went wrong."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import vecenv
from vecenv import cli

torch = pytest.importorskip("torch", reason="training needs PyTorch: pip install vecenv[train]")

from vecenv.train import checkpoint, ppo  # noqa: E402

TINY = (
    *("--num-envs", "4", "--num-steps", "16", "--minibatch-size", "32", "--num-epochs", "1", "--hidden", "8,8"),
    *("--total-steps", "256", "--max-episode-steps", "20", "--eval-episodes", "3", "--target-kl", "none"),
)
CONFIG = ppo.Config(
    num_envs=4,
    num_steps=16,
    minibatch_size=32,
    num_epochs=1,
    hidden=(8, 8),
    total_steps=256,
    max_episode_steps=20,
    eval_episodes=3,
    target_kl=None,
    seed=3,
)


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*args: str) -> Result:
    return CliRunner().invoke(cli.main, ["train", *args])


def test_it_trains(tmp_path: Path) -> None:
    result = run("ppo", "CartPole-v1", *TINY, "--seed", "3", "--progress")
    assert result.exit_code == 0, result.output
    expected = ppo.train(CONFIG)
    folder = Path("runs") / "CartPole-v1-ppo-3"
    assert "CartPole-v1: 256 steps in " in result.stdout and "all steps done" in result.stdout
    returns = expected.eval_returns
    assert f"evaluation  3 greedy episodes: mean {returns.mean():.2f}, std {returns.std():.2f}" in result.stdout
    assert f"{folder}: checkpoint.pt, curve.png, TensorBoard logs" in result.stdout
    assert "SPS" in result.stderr and "value_loss" in result.stderr  # the bar
    kinds = sorted(path.name.split(".")[0] for path in folder.iterdir())
    assert kinds == ["checkpoint", "curve", "events"]
    assert ppo.load_config(folder) == CONFIG
    obs = vecenv.make_vec("CartPole-v1", 20).reset(seed=0)[0]
    assert ppo.load_agent(folder).act(obs).tolist() == expected.agent.act(obs).tolist()


def test_json() -> None:
    result = run("ppo", "CartPole-v1", *TINY, "--json", "--run-dir", "here", "--option", "integrator=euler")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["step"] == 256 and len(facts["eval_returns"]) == 3 and facts["run_dir"] == "here"
    assert facts["config"]["env_options"] == {"integrator": "euler"}
    assert facts["config"]["hidden"] == [8, 8] and facts["config"]["target_kl"] is None
    assert "SPS" not in result.stderr  # no bar


def press_ctrl_c(patch: pytest.MonkeyPatch, method: str, call: int) -> None:
    """Send this process a SIGINT in the given call of a method of batches."""
    original, count = getattr(vecenv.VecEnv, method), iter(range(10**9))

    def called(self: Any, *args: Any, **keywords: Any) -> Any:
        if next(count) == call:
            signal.raise_signal(signal.SIGINT)
        return original(self, *args, **keywords)

    patch.setattr(vecenv.VecEnv, method, called)


def test_ctrl_c_and_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    """The resumed run ends where an uninterrupted one does, bit for bit; the command it names is the one to type."""
    with monkeypatch.context() as patch:
        press_ctrl_c(patch, "step", 40)
        result = run("ppo", "CartPole-v1", *TINY, "--seed", "3", "--run-dir", "run")
    assert result.exit_code == 130
    assert "Interrupted. Go on with: " in result.stderr and "train ppo --resume --run-dir run" in result.stderr
    assert len(checkpoint.load(Path("run") / checkpoint.NAME, "ppo")["monitor"]["curve"]) == 2

    assert run("ppo", "CartPole-v1", *TINY, "--run-dir", "run").exit_code == 2  # would overwrite it
    result = run("ppo", "--resume", "--run-dir", "run")
    assert result.exit_code == 0, result.output
    state = checkpoint.load(Path("run") / checkpoint.NAME, "ppo")
    expected = ppo.train(CONFIG)
    parameters = torch.cat([parameter.detach().reshape(-1) for parameter in expected.agent.parameters()])
    assert torch.equal(state["learner"]["parameters"], parameters)
    assert state["monitor"]["step"] == 256


def test_ctrl_c_before_there_is_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    press_ctrl_c(monkeypatch, "reset", 0)
    result = run("ppo", "CartPole-v1", *TINY, "--run-dir", "run")
    assert result.exit_code == 130 and "Interrupted before there was anything to save." in result.stderr


def test_resume_with_other_settings() -> None:
    assert run("ppo", "CartPole-v1", *TINY, "--seed", "3", "--run-dir", "run").exit_code == 0
    result = run("ppo", "--resume", "--run-dir", "run", "--total-steps", "512", "--learning-rate", "1e-4")
    assert result.exit_code == 0, result.output
    assert ppo.load_config("run") == dataclasses.replace(CONFIG, total_steps=512, learning_rate=1e-4)
    assert "CartPole-v1: 512 steps" in result.stdout


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("ppo",), 2, "Missing argument 'ID'"),
        (("ppo", "CartPole-v9"), 2, "list` shows all ids"),
        (("ppo", "CartPole-v1", "--minibatch-size", "60"), 2, "minibatch_size: expected a divisor of"),
        (("ppo", "CartPole-v1", "--clip", "-1"), 2, "clip: expected a number of at least 0, got -1.0"),
        (("ppo", "CartPole-v1", "--value-clip", "some"), 2, "expected float|none, got 'some'"),
        (("ppo", "CartPole-v1", "--hidden", "8,x"), 2, "expected ints with commas between them, got '8,x'"),
        (("ppo", "CartPole-v1", "--activation", "step"), 2, "'step' is not one of 'tanh', 'relu'"),
        (("ppo", "CartPole-v1", "--option", "integrator=no"), 2, "integrator"),
        (("ppo", "--resume"), 2, "say which run with --run-dir DIR"),
        (("ppo", "--resume", "--run-dir", "none"), 2, "there is no checkpoint to go on from"),
        (("ppo", "no_such_module:Grid-v0"), 1, "its module cannot be imported"),
        (("nothing",), 2, "No such command 'nothing'"),
    ],
)  # fmt: skip
def test_wrong_arguments(args: tuple[str, ...], code: int, message: str) -> None:
    result = run(*args)
    assert result.exit_code == code
    assert message in " ".join(result.stderr.split())
    assert not list(Path().iterdir())


def test_an_environment_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To go on in another process takes its name as well: an id alone says not where it is registered."""
    text = "import vecenv\nfrom vecenv.kernels.classic.cartpole import build\nvecenv.register('Own-v0', build)\n"
    (tmp_path / "own_env.py").write_text(text)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with monkeypatch.context() as patch:
        press_ctrl_c(patch, "step", 40)
        result = run("ppo", "own_env:Own-v0", *TINY, "--run-dir", "run")
    assert "train ppo own_env:Own-v0 --resume --run-dir run" in result.stderr
    vecenv.unregister("Own-v0")
    monkeypatch.delitem(sys.modules, "own_env")
    result = run("ppo", "--resume", "--run-dir", "run", "--total-steps", "512")
    assert result.exit_code == 2 and "Own-v0" in result.stderr and "Traceback" not in result.output
    result = run("ppo", "own_env:Own-v0", "--resume", "--run-dir", "run", "--total-steps", "512")
    vecenv.unregister("Own-v0")
    assert result.exit_code == 0, result.output


def test_a_loss_that_is_nan() -> None:
    result = run("ppo", "CartPole-v1", *TINY, "--learning-rate", "1e30", "--run-dir", "run")
    assert result.exit_code == 1
    assert "update 1: the loss is" in result.stderr and "Traceback" not in result.output
    assert (Path("run") / checkpoint.NAME).exists()


def test_help_explains_every_setting() -> None:
    text = run("ppo", "--help").stdout
    for field in dataclasses.fields(ppo.Config):
        if not field.name.startswith("env_"):
            assert f"--{field.name.replace('_', '-')}" in text
    assert "samples per gradient step; divides N * T" in text
    assert "vecenv train ppo CartPole-v1 --seed 1" in text


def test_missing_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("vecenv.train")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    result = run("ppo", "CartPole-v1")
    assert result.exit_code == 1
    assert "training needs PyTorch, which is not installed: pip install vecenv[train]" in result.stderr


def test_other_commands_do_not_import_pytorch() -> None:
    code = "import sys, vecenv.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
