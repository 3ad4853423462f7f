"""An experiment under any protocol on the embedded digits, and what its first three rounds did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from fedshift.data.load import load as load_data
from fedshift.data.partition import partition
from fedshift.experiments import load
from fedshift.experiments.expand import Cell, expand
from fedshift.federation.client import Client
from fedshift.federation.loop import Federation
from fedshift.federation.optimizer import Optimizer
from fedshift.methods.fedavg import FedAvg
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace
from fedshift.training.assemble import assemble

SMALL: dict[str, Any] = {
    "data": {"dataset": "digits", "prepare": {"px": 32}, "input_px": 32},
    "model": {"name": "digits_cnn"},
}


@dataclass
class Seen:
    """What three rounds did: (t, k, n, steps, rates) of every turn, and (limit, norm before, norm after) of every clipping."""

    federation: Federation
    turns: list[tuple[int, int, int, int, float, float]]
    clipped: list[tuple[float | None, float, float]]
    optimizers: set[type[torch.optim.Optimizer]]

    def rounds(self) -> list[list[int]]:
        """The clients of every round."""
        return [[k for t, k, *_ in self.turns if t == one] for one in range(3)]

    def sizes(self, *splits: str) -> list[int]:
        """Samples of every client in these splits."""
        return [
            sum(len(client.split(split)) for split in splits) for client in self.federation.evaluated_clients
        ]

    def took(self, steps: Callable[[int], int], rates: list[float]) -> None:
        """Every turn took `steps(n)` steps for its client's n training samples, at its round's rate."""
        for t, k, n, taken, rate, summed in self.turns:
            assert (n, taken) == (self.sizes("train")[k], steps(n))
            assert rate == pytest.approx(rates[t], rel=1e-7)
            assert summed == pytest.approx(taken * rate)


def declared(project: Path, protocol: str, **keys: Any) -> list[Cell]:
    path = project / "experiments" / "tried.yaml"
    held_out = [None] if protocol == "fdse" else ["outline"]
    scratch = (
        {"preset": "scratch"} if "scratch" in load.protocol(Workspace(project), protocol).presets else {}
    )
    told = {"title": "Tried", "protocol": protocol, **scratch, "spec": SMALL, "methods": {"fedavg": None}}
    path.write_text(yaml.safe_dump({**told, "axes": {"target": held_out, "seed": [0]}, **keys}))
    return expand(Workspace(project), load.load(Workspace(project), "tried"))


def play(project: Path, spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Three rounds of a run that stays as long as declared: its schedule does not change."""
    workspace = Workspace(project)
    partition(workspace, spec)
    federation, _ = assemble(spec, load_data(workspace, spec), torch.device("cpu"))
    seen = Seen(federation, [], [], set())

    def end(self: FedAvg, client: Client) -> dict[str, torch.Tensor]:
        seen.turns.append((client.t, client.k, client.n, client.steps, client.lr, client.tmp.lr_sum))
        return {}

    def step(self: FedAvg, client: Client, x: torch.Tensor, y: torch.Tensor) -> None:
        client.tmp.lr_sum = getattr(client.tmp, "lr_sum", 0.0) + client.lr

    real = Optimizer.clip

    def clip(self: Optimizer) -> None:
        before = float(self.g.norm())
        real(self)
        seen.optimizers.add(type(self._inner))
        seen.clipped.append((self._clip, before, float(self.g.norm())))

    monkeypatch.setattr(FedAvg, "step", step)
    monkeypatch.setattr(FedAvg, "end", end)
    monkeypatch.setattr(Optimizer, "clip", clip)
    events = federation.run()
    while federation.round < 3:
        next(events)
    return seen
