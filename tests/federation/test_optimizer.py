"""The flat optimiser is torch's, the schedules are the formulas, clipping is the norm's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from fedshift.federation.optimizer import Optimizer, learning_rate
from fedshift.testing.toys import finish, method, small, spec


@pytest.mark.parametrize(
    "options",
    [
        {"momentum": 0.9, "weight_decay": 0.1},
        {"weight_decay": 0.1},
        {"optimizer": "adam", "weight_decay": 0.1},
    ],
)
def test_flat_equals_per_tensor(options: dict[str, Any]) -> None:
    local = spec(local={"lr": 0.1, **options}).local
    flat, g = torch.linspace(-1, 1, 12), torch.zeros(12)
    parts = [torch.nn.Parameter(part.clone()) for part in flat.split([5, 7])]
    chosen = {key: value for key, value in options.items() if key != "optimizer"}
    reference = (torch.optim.Adam if "optimizer" in options else torch.optim.SGD)(parts, lr=0.1, **chosen)
    memory: dict[str, torch.Tensor] = {}
    for step in range(4):
        optimizer = Optimizer(local, flat, g, memory)  # made anew each time: its memory is what persists
        g.copy_(torch.sin(flat + step))
        for part, gradient in zip(parts, g.split([5, 7]), strict=True):
            part.grad = gradient.clone()
        optimizer.step(0.1)
        reference.step()
    torch.testing.assert_close(flat, torch.cat([part.detach() for part in parts]), rtol=1e-6, atol=1e-7)


def test_clipping() -> None:
    g = torch.tensor([3.0, 4.0])
    optimizer = Optimizer(spec(local={"clip": 1.0}).local, torch.zeros(2), g, {})
    optimizer.clip()
    torch.testing.assert_close(g, torch.tensor([0.6, 0.8]))
    g.copy_(torch.tensor([0.3, 0.4]))
    optimizer.clip()
    assert g.tolist() == torch.tensor([0.3, 0.4]).tolist()
    free = Optimizer(spec().local, torch.zeros(2), g.mul_(100), {})
    free.clip()
    assert g.norm() == pytest.approx(50)


@pytest.mark.parametrize(
    ("schedule", "t", "epoch", "factor"),
    [
        ({}, 7, 1, 1.0),
        ({"kind": "exponential", "gamma": 0.998}, 0, 1, 1.0),
        ({"kind": "exponential", "gamma": 0.998}, 500, 0, 0.998**500),
        ({"kind": "exponential", "gamma": 0.5, "unit": "epoch"}, 1, 1, 0.5**6),
        ({"kind": "step", "gamma": 0.1, "step": 20}, 39, 0, 0.1),
        ({"kind": "step", "gamma": 0.1, "step": 400, "unit": "epoch"}, 80, 0, 0.1),
        ({"kind": "cosine"}, 25, 0, (1 + math.cos(math.pi / 4)) / 2),
        ({"kind": "cosine", "unit": "epoch"}, 25, 3, (1 + math.cos(math.pi * 128 / 500)) / 2),
        ({"kind": "cosine"}, 0, 0, 1.0),
    ],
)
def test_schedules(schedule: dict[str, Any], t: int, epoch: int, factor: float) -> None:
    local = spec(local={"lr": 0.2, "epochs": 5, "schedule": schedule}).local
    assert learning_rate(local, 100, t, epoch) == pytest.approx(0.2 * factor, rel=1e-12)


def test_training_learns() -> None:
    federation = finish(
        small(
            spec(local={"lr": 0.05, "momentum": 0.9, "epochs": 5}, federation={"rounds": 4}), method("fedavg")
        )
    )
    accuracy = {
        row["round"]: row["value"]
        for row in federation.records.rows
        if row["metric"] == "accuracy" and row["client"] == -1
    }
    assert accuracy[4] == 1.0
