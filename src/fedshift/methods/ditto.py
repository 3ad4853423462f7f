"""Ditto: a personal model in addition to the global model (Li et al. 2021, Algorithm 1).

Both take a step on the same batch. The personal model starts from the first model received, has its own
statistics, and never leaves its client. lam = 0 is local training from the common start.
"""

from dataclasses import dataclass

from torch import Tensor

from fedshift.federation.method import Client, Method, Slot, equation


@dataclass(frozen=True)
class Params:
    """lam: pull of the personal model towards the global model."""

    lam: float = 0.1


@equation("Ditto", "Algorithm 1, personal objective")
def pull(v: Tensor, received: Tensor, lam: float) -> Tensor:
    """lam (v - w^t), [P]: the gradient of lam / 2 ||v - w^t||^2, added to that of the personal loss."""
    return lam * (v - received)


class Ditto(Method):
    """Global branch: FedAvg. Personal branch: v -= lr (grad f(v) + lam (v - w^t))."""

    name = "ditto"
    steady = "round"
    Params = Params
    slots = (Slot("v", "model", "client", init="received"),)
    evaluates = "v"

    def step(self, C: Client, x: Tensor, y: Tensor) -> None:
        v = C.net(C.slot.v)
        C.descend(v, C.criterion(v.model(x).logits, y), add=pull(v.w, C.w0, self.hp.lam))
