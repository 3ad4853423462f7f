"""What hFedF and pFedHN share: a hypernetwork on the server makes every client's model."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from fedshift.common.equations import equation
from fedshift.federation.layout import Layout
from fedshift.federation.method import Method
from fedshift.federation.server import Server
from fedshift.federation.state import Slot
from fedshift.models.layers.hypernet import Hypernetwork, Pullback, generate, pullback


@equation("hFedF", "Sec. 4.1, e")
def embedding_dim(clients: int) -> int:
    """floor(1 + N / 4): hFedF, Section 4.1, after pFedHN."""
    return 1 + clients // 4


def own_deviation(L: Layout) -> Tensor:
    """The deviation with which torch starts convolutions and linear maps, 1 / sqrt(3 fan-in), of every
    trainable entry [P].
    """
    fans = {entry.name: math.prod(entry.shape[1:]) for entry in L.entries}
    deviation = torch.zeros(L.size, dtype=L.dtype)
    for entry in L.entries:
        weight = f"{entry.name.removesuffix('bias')}weight" if entry.kind == "bias" else entry.name
        deviation[entry.slice] = 1 / math.sqrt(3 * fans[weight])
    return deviation[L.W]


class Generated(Method):
    """Slot h: embeddings and hypernetwork in one vector, so that one optimiser steps on both.

    Everything trainable is generated; statistics of batch normalisation are not, they stay in the server's
    row.
    """

    generates = True
    weighs = True

    def __init__(self, hp: Any = None) -> None:
        super().__init__(hp)
        size = lambda L, N: (self.net(L, N).size,)  # noqa: E731
        self.slots = (Slot("h", size, "server", init=self._start, saved=True),)

    def net(self, L: Layout, N: int) -> Hypernetwork:
        """The hypernetwork of N clients for a model."""
        return Hypernetwork(N, self.hp.embedding_dim or embedding_dim(N), self.hp.hidden, L.P)

    def _start(self, L: Layout, N: int, rng: torch.Generator) -> Tensor:
        deviation = own_deviation(L) if self.hp.head_init == "fanin" else None
        return self.net(L, N).draw(rng, L.dtype, deviation)

    def broadcast(self, S: Server, clients: list[int]) -> Tensor:
        net, rows = self.net(S.layout, S.N), S.row.repeat(len(clients), 1)
        for row, client in zip(rows, clients, strict=True):
            row[S.layout.W] = generate(net, S.slot.h, client)
        return rows

    def pulled(self, S: Server, rows: Tensor) -> Pullback:
        """The gradients of the active clients, with phi - phi~ as cotangents; rows [K, P + Q] as they came
        back.
        """
        W = S.layout.W
        cotangents = self.broadcast(S, S.active)[:, W] - rows[:, W]
        return pullback(self.net(S.layout, S.N), S.slot.h, S.active, cotangents)
