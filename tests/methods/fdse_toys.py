"""What several tests of FDSE share."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.registry import get
from fedshift.federation.layout import Layout
from fedshift.federation.loop import Federation
from fedshift.methods import fdse
from fedshift.testing.toys import finish, method, spec

RUN = spec(local={"batch": 8, "lr": 0.1}, federation={"rounds": 2})


def alexnet(params: dict[str, Any]) -> tuple[Any, Any]:
    chosen = method("fdse", **params)
    with torch.device("meta"):
        model = chosen.model(get("models", "alexnet_bn")(10, 256))
    return Layout(model), chosen


def channels(*sizes: int) -> Tensor:
    return torch.block_diag(*[torch.full((1, size), 1 / size, dtype=torch.float64) for size in sizes])


def spied(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Tensor]]:
    """Run to the end; for every aggregation what the server had, what came, and what it and the clients have then."""
    seen: list[dict[str, Tensor]] = []
    aggregate = fdse.FDSE.aggregate

    def spy(self: fdse.FDSE, S: Any, rows: Tensor, p: Tensor, up: Any) -> None:
        seen.append({"base": S.row.clone(), "rows": rows.clone(), "p": p})
        aggregate(self, S, rows, p, up)
        seen[-1] |= {"row": S.row.clone(), "mixed": rows.clone()}

    monkeypatch.setattr(fdse.FDSE, "aggregate", spy)
    finish(federation)
    return seen
