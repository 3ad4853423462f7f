"""What several tests of StableFDG share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from fedshift.federation.loop import Federation
from fedshift.methods.stablefdg import Params, Steps


def maps(*shape: int, seed: int = 6) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def steps(labels: list[int], phi: Tensor | None = None, **hp: Any) -> Steps:
    """Steps 2-5 for a batch with these labels, at a client that received `phi`."""
    down = SimpleNamespace() if phi is None else SimpleNamespace(style=phi)
    client: Any = SimpleNamespace(labels=torch.tensor(labels), down=down, rng=rng())
    return Steps(Params(**{"p": 1.0, **hp}), client, torch.tensor(labels))


def cost(federation: Federation, name: str) -> list[float]:
    return [
        row["value"] for row in federation.records.rows if row["stage"] == "cost" and row["metric"] == name
    ]
