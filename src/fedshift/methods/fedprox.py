"""FedProx: a proximal term keeps the clients near the global model (Li et al. 2020, Algorithm 2).

The term acts on trainable parameters, not on statistics. mu = 0 is FedAvg bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedshift.federation.local import Client
from fedshift.federation.method import Method


@dataclass(frozen=True)
class Params:
    """mu: weight of the proximal term, mu / 2 ||w - w^t||^2."""

    mu: float = 0.01


class FedProx(Method):
    """Local objective f_k(w) + mu / 2 ||w - w^t||^2; its gradient is added before clipping."""

    name = "fedprox"
    Params = Params

    def grad(self, C: Client, g: Tensor) -> None:
        g.add_(C.w - C.w0, alpha=self.hp.mu)
