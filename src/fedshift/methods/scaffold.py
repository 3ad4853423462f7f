"""SCAFFOLD: control variates correct the clients' drift (Karimireddy et al. 2020, Algorithm 1, Option II).

The average is uniform. Clipping acts on the raw stochastic gradient, before the correction. With momentum or weight decay the
control is the average effective step; with heavy-ball momentum m that is 1 / (1 - m) times the gradient, and training may
diverge. Statistics of normalisation layers are averaged like the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedshift.federation.aggregate import mean
from fedshift.federation.local import Client
from fedshift.federation.method import Message, Method, Slot
from fedshift.federation.state import Server


@dataclass(frozen=True)
class Params:
    """eta_g: the server's step."""

    eta_g: float = 1.0


class Scaffold(Method):
    """Local step w -= lr (g - c_k + c); the server keeps c, the mean of all clients' controls c_k."""

    name = "scaffold"
    Params = Params
    slots = (Slot("c", "w", "server", travels="down"), Slot("ck", "w", "client"))
    messages = (Message("dc"),)
    weights = "uniform"
    clip_first = True

    def grad(self, C: Client, g: Tensor) -> None:
        g.add_(C.down.c - C.slot.ck)

    def end(self, C: Client) -> Mapping[str, Tensor]:
        """Eq. 4, Option II: c_k+ - c_k = (w^t - w_k) / (K lr) - c; K lr is the sum of the rates of the steps taken."""
        if C.lr_sum == 0:
            return {"dc": C.w.new_zeros(C.w.shape)}
        dc = (C.w0 - C.w) / C.lr_sum - C.down.c
        C.slot.ck.add_(dc)
        return {"dc": dc}

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        """Eq. 5: w += eta_g mean(w_k - w), c += sum_k (c_k+ - c_k) / N."""
        average, W = mean(rows, p), S.layout.W
        average[W] = S.row[W].lerp(average[W], self.hp.eta_g)
        S.row.copy_(average)
        S.slot.c.add_(up["dc"].sum(0) / S.N)
