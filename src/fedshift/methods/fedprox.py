"""FedProx: a proximal term keeps the clients near the global model (Li et al. 2020, Algorithm 2).

The term acts on trainable parameters, not on statistics. mu = 0 is FedAvg bit for bit.
The average is the protocol's; FDSE's platform averages FedProx without sizes (preset `released-fdse`).
"""

from dataclasses import dataclass

from torch import Tensor

from fedshift.federation.method import Client, Method, equation


@dataclass(frozen=True)
class Params:
    """mu: weight of the proximal term, mu / 2 ||w - w^t||^2."""

    mu: float = 0.01


@equation("FedProx", "Algorithm 2, local objective")
def proximal(g: Tensor, moved: Tensor, mu: float) -> Tensor:
    """The gradient [P] of f(w) + mu / 2 ||w - w^t||^2 from g = grad f(w), in place; moved = w - w^t."""
    return g.add_(moved, alpha=mu)


class FedProx(Method):
    """Local objective f_k(w) + mu / 2 ||w - w^t||^2; its gradient is added before clipping."""

    name = "fedprox"
    steady = "round"
    Params = Params

    def grad(self, C: Client, g: Tensor) -> None:
        proximal(g, C.w - C.w0, self.hp.mu)
