"""FedRD: debiased classifiers and an aggregation guided by divergences (Wang et al., "FedRD", equations by
its numbers).

Where the paper is silent, this code follows the released code:

- lambda is measured when a local epoch begins, so it is 0 in the first epoch of every round.
- Eq. 2's loss is divided by the sum of its class weights.
- Eq. 3 is the plain mean cross entropy on the client's validation split.

Deviations from that code: N is the number of training clients, and T rounds are trained, not T + 1.
`official_bug_n4` also counts the untouched model of the held-out domain; the weights then sum to 5/6 at three
clients. According to the paper's text, Eq. 4 compensates suboptimal local models. By its equations, a client
whose training lowered its loss *more* gets more weight. This code follows the equations.

A client's few-shot classes M_i are those that the partition made rare in its training part (modifier
label_shift). Without any, Eq. 1-2 are plain cross entropy. Eq. 4's distance is that of the network's
`indicator`: of ResNets layer1.1.conv2, as in the code. The paper does not name its "specific layer". Eq. 3's
validation split has its labels unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.method import Client, Method, Model, Server, Slot, equation, mean

HEAD = "head.weight"
Norm = Literal["weighted_mean", "batch_mean", "sum"]


@dataclass(frozen=True)
class Params:
    """`lambda_from`: W_i of Eq. 1 is the classifier at the start of the local epoch (code), the client's last
    trained one (lambda is 0 in its first round), or the one before each step.
    `ce_norm`: Eq. 2 divided by the sum of the class weights (code), by the batch size, or the sum.
    `debias`, `guide`: off for the ablations "w/o DC" and "w/o GGA" (weights by training and validation
    samples).
    `official_bug_n4`: Eq. 4 counts one model too many, as the released code does.
    """

    lambda_from: Literal["epoch_start", "prev_round", "step"] = "epoch_start"
    ce_norm: Norm = "weighted_mean"
    debias: bool = True
    guide: bool = True
    official_bug_n4: bool = False


@equation("FedRD", "Eq. 1")
def classifier_distance(W_g: Tensor, W_i: Tensor) -> Tensor:
    """Distance between each class's weights, without bias: W_g, W_i [C, F] to [C]. lambda is its mean."""
    return (W_g - W_i).norm(dim=1)


@equation("FedRD", "Sec. 2.3, alpha")
def class_weights(few: Tensor, lam: Tensor) -> Tensor:
    """1 + lambda for a few-shot class, 1 for the others: few [C] of 0 and 1, lam a scalar, to [C]."""
    return 1 + lam * few


@equation("FedRD", "Eq. 2")
def debiased_cross_entropy(logits: Tensor, y: Tensor, alpha: Tensor, norm: Norm) -> Tensor:
    """Cross entropy weighted by class, a scalar; logits [B, C], y [B], alpha [C] in the dtype of the logits.

    norm: how the sum of alpha_y CE is normalised.

    - weighted_mean: divided by the sum of alpha_y (code)
    - batch_mean: divided by B
    - sum: not divided, as published
    """
    if norm == "weighted_mean":
        return F.cross_entropy(logits, y, weight=alpha)
    total = F.cross_entropy(logits, y, weight=alpha, reduction="sum")
    return total / len(y) if norm == "batch_mean" else total


@equation("FedRD", "Eq. 3")
def performance_gap(loss_global: Tensor, loss_local: Tensor) -> Tensor:
    """How much a client's training lowered its own loss, F(D_i; w_g) - F(D_i; w_i); scalars, or [N] each.

    F is the plain mean cross entropy on the validation split (code), w_g the global model as received.
    """
    return loss_global - loss_local


@equation("FedRD", "Sec. 2.4, d")
def discrepancy(w_i: Tensor, w_g: Tensor) -> Tensor:
    """||w_i - w_g|| [N] of one layer's flattened weight: the clients' w_i [N, n], the broadcast w_g [n]."""
    return (w_i - w_g).norm(dim=1)


@equation("FedRD", "Sec. 2.4, gamma")
def gamma_parts(gap: Tensor) -> Tensor:
    """gamma_i / sum gamma, gamma = 1 / (1 + exp(-gap)); gap [N] to [N].

    Computed as the softmax of log gamma, which is finite even if every gamma underflows.
    """
    return F.logsigmoid(gap).softmax(0)


@equation("FedRD", "Sec. 2.4, beta")
def beta(d: Tensor) -> Tensor:
    """Each client's part of all distances, d_i / sum d; d [N] to [N]. Parts are equal if sum d <= 1e-8."""
    total = d.sum()
    return torch.where(total > 1e-8, d / total.clamp_min(1e-8), torch.full_like(d, 1 / len(d)))


@equation("FedRD", "Eq. 4")
def guided_weights(d: Tensor, gap: Tensor, uncounted: int = 0) -> Tensor:
    """Weights of the models, ((1 - beta_i) / (N - 1) + gamma_i / sum gamma) / 2; d, gap [N] to [N]. N = 1
    gives 1.

    - d: ||w_i - w_g|| of one layer's weight
    - gap: Eq. 3
    - uncounted: models counted in N - 1 but not averaged
    """
    others = len(d) - 1 + uncounted
    if others == 0:
        return torch.ones_like(d)
    return ((1 - beta(d)) / others + gamma_parts(gap)) / 2


class FedRD(Method):
    """FedAvg with the local loss of Eq. 1-2 and the aggregation of Eq. 3-4, on the model's `indicator`; all
    entries are shared.
    """

    name = "fedrd"
    steady = "epoch"
    version = 2
    weighs = True
    Params = Params
    logs = {
        "lambda": "lambda of the last local epoch, with few-shot classes (Eq. 1)",
        "gap": "F(D_i; w_g) - F(D_i; w_i) (Eq. 3)",
        "distance": "d_i of the indicator's weight (Sec. 2.4)",
        "weights": "of the clients' models in the average (Eq. 4)",
    }

    def __init__(self, hp: Any = None) -> None:
        super().__init__(hp)
        if self.hp.lambda_from == "prev_round":
            self.slots = (Slot("W", lambda L, N: (L.under(HEAD).size,), "client"),)

    def model(self, model: Model) -> Model:
        self._indicator = model.indicator
        return model

    def begin(self, C: Client) -> Mapping[str, Tensor]:
        C.tmp.W_g, C.tmp.W = (C.layout.named(row)[HEAD] for row in (C.received, C.row))
        C.tmp.few = C.w.new_zeros(len(C.tmp.W_g))
        C.tmp.few[list(C.data.few_shot)] = 1.0
        C.tmp.alpha = C.tmp.few.clone()
        C.tmp.loss_global = C.mean("val")
        return {"size": C.w.new_tensor(float(C.n + len(C.data.val)))}

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        if not (self.hp.debias and C.data.few_shot):
            return super().loss(C, x, y)
        if C.new_epoch or self.hp.lambda_from == "step":
            lam = classifier_distance(C.tmp.W_g, self._classifier(C)).mean()
            C.log("lambda", lam)
            C.tmp.alpha.copy_(class_weights(C.tmp.few, lam))
        return debiased_cross_entropy(C.model(x).logits.float(), y, C.tmp.alpha, self.hp.ce_norm)

    def end(self, C: Client) -> Mapping[str, Tensor]:
        if self.hp.lambda_from == "prev_round":
            C.slot.W.copy_(C.tmp.W.flatten())
        return {"gap": performance_gap(C.tmp.loss_global, C.mean("val"))} if self.hp.guide else {}

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        weights = up["size"] / up["size"].sum()
        if self.hp.guide:
            at = S.layout.under(self._indicator).at
            d = discrepancy(rows[:, at], S.row[at])
            weights = guided_weights(d, up["gap"], int(self.hp.official_bug_n4))
            S.log("gap", up["gap"])
            S.log("distance", d)
        S.log("weights", weights)
        S.row.copy_(mean(rows, weights.to(rows)))

    def _classifier(self, C: Client) -> Tensor:
        """W_i of Eq. 1, [C, F]."""
        if self.hp.lambda_from != "prev_round":
            return C.tmp.W
        return C.slot.W.view_as(C.tmp.W) if C.visits else C.tmp.W_g
