"""Checkpoints: one file that holds all that a run goes on from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vecenv.snapshot import Snapshot
from vecenv.vec_env import VecEnv

NAME = "checkpoint.pt"
VERSION = 1


def save(path: Path, state: dict[str, Any]) -> None:
    """Write `state` to `path`, which never holds half of it.

    Args:
        path: the file.
        state: plain values, lists, dicts and tensors; a `Snapshot` as "snapshot".
    """
    rows = torch.frombuffer(bytearray(state["snapshot"].to_bytes()), dtype=torch.uint8)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        torch.save({**state, "version": VERSION, "snapshot": rows}, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path, algorithm: str) -> dict[str, Any]:
    """Read what `save` wrote. Nothing in the file is executed.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not a checkpoint of `algorithm`.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no checkpoint to go on from")
    try:
        state: Any = torch.load(path, weights_only=True)
    except Exception as error:  # a damaged file makes the unpickler stumble anywhere
        raise ValueError(f"{path}: not a checkpoint of vecenv, or damaged: {error}") from error
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise ValueError(f"{path}: not a checkpoint of this version of vecenv")
    if state["algorithm"] != algorithm:
        raise ValueError(f"{path}: expected a checkpoint of {algorithm}, got one of {state['algorithm']}")
    rows: Tensor = state["snapshot"]
    return {**state, "snapshot": Snapshot.from_bytes(rows.numpy().tobytes(), str(path))}


def check_same(then: dict[str, Any], now: dict[str, Any], names: tuple[str, ...], path: Path | None) -> None:
    """Raise unless these fields of two configurations are equal."""
    for name in names:
        if then[name] != now[name]:
            raise ValueError(f"{path}: was made with {name}={then[name]!r}; it cannot go on with {now[name]!r}")


def spaces_of(envs: VecEnv) -> dict[str, str]:
    """The spaces of one environment, for `check_spaces`."""
    return {"observations": str(envs.single_observation_space), "actions": str(envs.single_action_space)}


def check_spaces(state: dict[str, Any], envs: VecEnv, path: Path | None) -> None:
    """Raise unless `envs` have the spaces that the run was trained with."""
    for what, here in spaces_of(envs).items():
        if state["spaces"][what] != here:
            raise ValueError(f"{path}: was trained with {what} {state['spaces'][what]}; here they are {here}")
