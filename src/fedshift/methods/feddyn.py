"""FedDyn: a dynamic regulariser aligns the clients' optima with the federation's (Acar et al. 2021, Algorithm
1).

It acts on parameters only; statistics are averaged. The average is uniform. Clipping acts on the gradient of
the whole local objective. The released code scales alpha by a client's size; here alpha is the same for all
clients.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedshift.federation.method import Client, Method, Server, Slot, equation, mean


@dataclass(frozen=True)
class Params:
    """alpha: strength of the regulariser, above 0."""

    alpha: float = 0.1

    def __post_init__(self) -> None:
        if self.alpha <= 0:
            raise ValueError("alpha must be above 0")


@equation("FedDyn", "Algorithm 1, local objective")
def regularised(g: Tensor, g_k: Tensor, moved: Tensor, alpha: float) -> Tensor:
    """grad of f(w) - <g_k, w> + alpha/2 ||w - w^t||^2 [P], from g = grad f(w) in place; moved = w - w^t."""
    return g.sub_(g_k).add_(moved, alpha=alpha)


@equation("FedDyn", "Algorithm 1, client state")
def next_gradient(g_k: Tensor, moved: Tensor, alpha: float) -> Tensor:
    """g_k - alpha (w_k - w^t), [P]: the local gradient where the local objective is stationary."""
    return g_k - alpha * moved


@equation("FedDyn", "Algorithm 1, server state")
def next_h(h: Tensor, moved: Tensor, alpha: float, N: int) -> Tensor:
    """h - alpha / N sum over the round's clients of (w_k - w^t): h [P], moved [K, P], N all clients."""
    return h - alpha / N * moved.sum(0)


@equation("FedDyn", "Algorithm 1, server model")
def next_model(average: Tensor, h: Tensor, alpha: float) -> Tensor:
    """mean_k w_k - h / alpha, [P]: average, the plain mean over the round's clients; h after `next_h`."""
    return average - h / alpha


class FedDyn(Method):
    """Clients keep g_k, the server h; the new model is mean(w_k) - h / alpha."""

    name = "feddyn"
    steady = "round"
    Params = Params
    slots = (Slot("h", "w", "server"), Slot("gk", "w", "client"))
    weights = "uniform"

    def grad(self, C: Client, g: Tensor) -> None:
        regularised(g, C.slot.gk, C.w - C.w0, self.hp.alpha)

    def end(self, C: Client) -> None:
        C.slot.gk.copy_(next_gradient(C.slot.gk, C.w - C.w0, self.hp.alpha))

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        W, alpha = S.layout.W, self.hp.alpha
        S.slot.h.copy_(next_h(S.slot.h, rows[:, W] - S.row[W], alpha, S.N))
        S.row.copy_(mean(rows, p))
        S.row[W] = next_model(S.row[W], S.slot.h, alpha)
