"""What clients send before their first step is drawn by a generator of round and client, as by dropout."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from fedshift.federation.client import Client
from fedshift.federation.method import Method
from fedshift.federation.server import Server
from fedshift.federation.state import Message
from fedshift.testing.toys import finish, quadratics


def drawn(exchanging: bool, seed: int) -> list[list[float]]:
    """The numbers that arrive from two clients in two rounds, when torch's generator was at `seed`."""
    arrived: list[list[float]] = []

    class Draws(Method):
        name = "draws"
        messages = (Message("drawn"),)

        def begin(self, C: Client) -> Mapping[str, Tensor]:
            return {"drawn": torch.rand(())}

        def exchanges(self, t: int) -> bool:
            return exchanging

        def exchange(self, S: Server, up: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
            arrived.append(up["drawn"].tolist())
            return {}

        def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
            if "drawn" in up:
                arrived.append(up["drawn"].tolist())
            super().aggregate(S, rows, p, up)

    federation = quadratics(Draws(), [1.0] * 2, [0.0, 1.0], 3.0, 0.1, 1, 2)
    torch.manual_seed(seed)
    finish(federation)
    return arrived


@pytest.mark.parametrize("exchanging", [False, True])
def test_draws_are_the_rounds_and_the_clients(exchanging: bool) -> None:
    first = drawn(exchanging, 1)
    assert first == drawn(exchanging, 2)
    assert len({value for values in first for value in values}) == 4
