"""FedAvgM: momentum on the server (Hsu, Qi, Brown 2019, arXiv 1909.06335).

From "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification", which prints the two rules below
without numbers. Its experiments take Nesterov's form of momentum; here is what it prints. Momentum acts on trainable parameters;
statistics of normalisation layers are averaged. Momentum 0 is FedAvg bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedshift.federation.method import Method, Server, Slot, equation


@dataclass(frozen=True)
class Params:
    """momentum: beta, what the server keeps of its last step, from 0 to below 1."""

    momentum: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise ValueError("momentum must be from 0 to below 1")


@equation("FedAvgM", "velocity")
def velocity(v: Tensor, delta: Tensor, beta: float) -> Tensor:
    """v <- beta v + delta: v, delta [P]; delta = w - sum_k p_k w_k is the step that FedAvg takes."""
    return beta * v + delta


@equation("FedAvgM", "step")
def step(average: Tensor, v: Tensor, beta: float) -> Tensor:
    """w - (beta v + delta) with v from before the round, written from FedAvg's result: average = w - delta, all [P]."""
    return average - beta * v


class FedAvgM(Method):
    """The server keeps the velocity v and takes the step w <- w - v; clients train as in FedAvg."""

    name = "fedavgm"
    Params = Params
    slots = (Slot("v", "w", "server"),)

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        W, v, beta = S.layout.W, S.slot.v, self.hp.momentum
        before = S.row[W].clone()
        super().aggregate(S, rows, p, up)
        average = S.row[W].clone()
        S.row[W] = step(average, v, beta)
        v.copy_(velocity(v, before - average, beta))
