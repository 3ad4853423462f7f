"""Trains one run and dies at a chosen place, in a process of its own."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import torch

from fedshift.common import tensors
from fedshift.federation import checkpoint
from fedshift.federation.evaluator import Evaluator
from fedshift.federation.loop import Federation
from fedshift.spec import parse
from fedshift.spec.resolve import resolve
from fedshift.storage.workspace import Workspace
from fedshift.training.run import Machine, train


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def term() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def after_calls(
    owner: Any, name: str, place: int, before_death: Any = lambda *args: None, death: Any = die
) -> None:
    """Replace a function by one that does the same, but dies at its call number `place`."""
    real, calls = getattr(owner, name), [0]

    def counted(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == place:
            before_death(*args)
            death()
        return real(*args, **options)

    setattr(owner, name, counted)


def half(_: Any, path: Path, metadata: Any) -> None:
    path.write_bytes(b"\x00" * 1000)


def main(root: str, spec: str, how: str, place: str) -> None:
    if how == "client":
        after_calls(Federation, "_train_client", int(place))
    elif how == "round":
        after_calls(
            Evaluator, "inactive", int(place) + 1
        )  # once before the first round, then at each aggregation
    elif how == "checkpoint":
        after_calls(tensors, "save_file", int(place), half)
    elif how == "segment":
        after_calls(checkpoint, "write_bytes", int(place))
    elif how == "sigterm":
        after_calls(Federation, "_train_client", int(place), death=term)
    seconds = (
        3600 if how == "sigterm" else 0
    )  # then no checkpoint is there but the one that the signal asks for
    run = resolve(parse(json.loads(Path(spec).read_text()), spec))
    train(Workspace(Path(root)), run, Machine(torch.device("cpu"), 1, checkpoint_seconds=seconds))
