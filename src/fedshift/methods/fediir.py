"""FedIIR: clients align the gradient of the classifier with its mean over all clients (Guo et al., ICML
2023).

Before local training every client measures the gradient of the cross entropy with respect to the head. It
uses the received model in eval mode, on unaugmented images. The server averages this gradient over rounds.
The mean here is over samples, the paper's over batches; the two differ by a last, smaller batch.

The head is linear, as in FedRD's comparison. Its gradient is written out, so that no second backward pass is
needed. The release's nonlinear classifier and its frozen batch normalisation in training are not implemented.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.method import Client, Method, Server, Slot, Visit, equation


@dataclass(frozen=True)
class Params:
    """pen: weight of the penalty; ema: share of the old mean gradient."""

    pen: float = 1e-3
    ema: Annotated[float, Field(ge=0, le=1)] = 0.95


@equation("FedIIR", "Eq. 6, inner gradient")
def head_gradient(feature: Tensor, logits: Tensor, y: Tensor) -> Tensor:
    """Gradient of the mean cross entropy with respect to (weight, bias) of a linear head, [C F + C].

    feature [B, F], logits [B, C], y [B]; at least fp32. Weight: (softmax - onehot)^T feature / B, flattened
    by class; bias: mean of softmax - onehot.
    """
    precise = torch.promote_types(logits.dtype, torch.float32)
    error = (logits.to(precise).softmax(1) - F.one_hot(y, logits.shape[1])) / len(y)
    return torch.cat([(error.T @ feature.to(precise)).flatten(), error.sum(0)])


@equation("FedIIR", "Eq. 6, penalty")
def alignment(gradient: Tensor, mean_gradient: Tensor) -> Tensor:
    """Squared distance between the batch's head gradient and the mean gradient, both [C F + C]; a scalar."""
    return (gradient - mean_gradient).square().sum()


@equation("FedIIR", "Sec. 4.2, moving average")
def moving_average(old: Tensor, new: Tensor, ema: float) -> Tensor:
    """ema old + (1 - ema) new, [C F + C] each; new: mean over the round's samples; the first old is 0."""
    return old.lerp(new, 1 - ema)


class FedIIR(Method):
    """CE + pen ||g - G||^2, with G <- ema G + (1 - ema) mean of g over all samples. Models are averaged
    uniformly.
    """

    name = "fediir"
    steady = "round"
    Params = Params
    slots = (Slot("G", lambda L, N: (L.floats(L.under("head")),), "server", travels="down"),)
    weights = "uniform"

    def setup(self, S: Server, visit: Visit) -> Mapping[str, Tensor]:
        """Before every round, its clients send the mean gradient of their heads."""
        sent = visit(S.active, self._mean_gradient)
        n = torch.stack(sent["n"])
        S.slot.G.copy_(moving_average(S.slot.G, (n / n.sum()) @ torch.stack(sent["g"]), self.hp.ema))
        return {}

    def _mean_gradient(self, C: Client) -> Mapping[str, Tensor]:
        def measure(x: Tensor, y: Tensor) -> Tensor:
            out = C.model(x)
            with torch.autocast(x.device.type, enabled=False):
                return head_gradient(out.feature, out.logits, y)

        return {"g": C.mean("train", measure), "n": C.w.new_tensor(float(C.n))}

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        out = C.model(x)
        with torch.autocast(x.device.type, enabled=False):
            gradient = head_gradient(out.feature, out.logits, y)
            return C.criterion(out.logits, y) + self.hp.pen * alignment(gradient, C.down.G)
