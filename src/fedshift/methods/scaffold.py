"""SCAFFOLD: control variates correct the clients' drift (Karimireddy et al. 2020, Algorithm 1, Option II).

Models and controls are averaged uniformly, whatever the value of `federation.weights`. Clipping acts on the
raw stochastic gradient, before the correction. Statistics of normalisation layers are averaged like the other
entries.

With momentum or weight decay the control is the average effective step. With heavy-ball momentum m that is 1
/ (1 - m) times the gradient, and training diverges if a round's steps do not converge. A client's deviation
then grows by up to m / (1 - m) a round (9 at m = 0.9).

The preset `released` is the code that FedRD and FedDG-GA share. It weighs both averages by the clients' sizes
(`weights: size`). It divides the control by K alone, without the rate (`control: steps`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from fedshift.federation.method import Client, Method, Server, Slot, equation, mean


@dataclass(frozen=True)
class Params:
    """eta_g: the server's step; control: a client's movement divided by the sum of its steps' rates, or by
    their number (FedRD's code).

    weights: of models and controls, uniform or by training samples (FedRD's code: by all samples of the
        domain).
    """

    eta_g: float = 1.0
    control: Literal["rates", "steps"] = "rates"
    weights: Literal["uniform", "size"] = "uniform"


@equation("SCAFFOLD", "Eq. 3")
def corrected(g: Tensor, c: Tensor, c_k: Tensor) -> Tensor:
    """The gradient [P] of a local step, g - c_k + c, in place; c, c_k [P]: controls of the server and the
    client.
    """
    return g.add_(c - c_k)


@equation("SCAFFOLD", "Eq. 4, Option II")
def control_change(moved: Tensor, lr_sum: float, c: Tensor) -> Tensor:
    """c_k+ - c_k = (w^t - w_k) / (K lr) - c, [P]; moved = w^t - w_k.

    lr_sum: the sum of the rates of the steps taken, K lr if the rate is constant (FedRD's code: K).
    """
    return moved / lr_sum - c


@equation("SCAFFOLD", "Eq. 5, model")
def next_model(w: Tensor, average: Tensor, eta_g: float) -> Tensor:
    """w^t + eta_g (mean of w_k - w^t), [P]; exactly the average at eta_g 1."""
    return w.lerp(average, eta_g)


@equation("SCAFFOLD", "Eq. 5, control")
def next_control(c: Tensor, changes: Tensor, share: Tensor) -> Tensor:
    """c + sum over the round's clients of share_k (c_k+ - c_k), in place; c [P], changes [K, P].

    share [K]: the clients' parts of the weights of all N clients (1 / N), so that c remains the mean of all
    controls.
    """
    return c.add_(mean(changes, share))


class Scaffold(Method):
    """Local step w -= lr (g - c_k + c); the server stores c, the mean of all clients' controls c_k."""

    name = "scaffold"
    steady = "round"
    version = 2
    Params = Params
    slots = (Slot("c", "w", "server", travels="down"), Slot("ck", "w", "client"))
    clip_first = True

    def __init__(self, hp: Any = None) -> None:
        super().__init__(hp)
        self.weights = self.hp.weights

    def grad(self, C: Client, g: Tensor) -> None:
        corrected(g, C.down.c, C.slot.ck)

    def end(self, C: Client) -> Mapping[str, Tensor]:
        if C.lr_sum == 0:
            return {"dc": C.w.new_zeros(C.w.shape)}
        divisor = C.lr_sum if self.hp.control == "rates" else float(C.steps)
        dc = control_change(C.w0 - C.w, divisor, C.down.c)
        C.slot.ck.add_(dc)
        return {"dc": dc}

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        average, W = mean(rows, p), S.layout.W
        average[W] = next_model(S.row[W], average[W], self.hp.eta_g)
        S.row.copy_(average)
        next_control(S.slot.c, up["dc"], S.weights[S.active] / S.weights.sum())
