"""What clients send before their first step is drawn by a generator of round and client, as by dropout."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from fedshift.federation.client import Client
from fedshift.federation.method import Method, Visit
from fedshift.federation.server import Server
from fedshift.testing.toys import finish, quadratics


def drawn(visiting: bool, seed: int) -> list[list[float]]:
    """The numbers that arrive from two clients in two rounds, when torch's generator was at `seed`."""
    arrived: list[list[float]] = []

    class Draws(Method):
        name = "draws"

        def setup(self, S: Server, visit: Visit) -> Mapping[str, Tensor]:
            if visiting:
                arrived.append(torch.stack(visit(S.active, self.number)["drawn"]).tolist())
            return {}

        def begin(self, C: Client) -> Mapping[str, Tensor] | None:
            return None if visiting else self.number(C)

        def number(self, C: Client) -> Mapping[str, Tensor]:
            return {"drawn": torch.rand(())}

        def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
            if "drawn" in up:
                arrived.append(up["drawn"].tolist())
            super().aggregate(S, rows, p, up)

    federation = quadratics(Draws(), [1.0] * 2, [0.0, 1.0], 3.0, 0.1, 1, 2)
    torch.manual_seed(seed)
    finish(federation)
    return arrived


@pytest.mark.parametrize("visiting", [False, True])
def test_draws_are_the_rounds_and_the_clients(visiting: bool) -> None:
    first = drawn(visiting, 1)
    assert first == drawn(visiting, 2)
    assert len({value for values in first for value in values}) == 4
