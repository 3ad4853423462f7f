"""MOON: features stay near the global model's and leave those of the client's last model (Li, He and Song,
CVPR 2021).

A feature is the input of the last linear layer, as in FLGo, which FDSE uses; the paper adds a projection
head. The global and the last local model are frozen and in eval mode; FLGo does not set their mode. The term
begins with a client's second round, because in the first it has no last model.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.method import Client, Method, Slot, equation


@dataclass(frozen=True)
class Params:
    """mu: weight of the contrastive term; tau: its temperature."""

    mu: float = 1.0
    tau: Annotated[float, Field(gt=0)] = 0.5


@equation("MOON", "model-contrastive loss")
def contrast(z: Tensor, z_global: Tensor, z_last: Tensor, tau: float) -> Tensor:
    """Mean of -log(exp(a / tau) / (exp(a / tau) + exp(b / tau))), a scalar.

    a = cos(z, z_global), b = cos(z, z_last), features [B, F]. The cosine with a zero vector is 0.
    """
    nearer = F.cosine_similarity(z, z_global) - F.cosine_similarity(z, z_last)
    return F.softplus(-nearer / tau).mean()


class MOON(Method):
    """Local objective f_k(w) + mu contrast."""

    name = "moon"
    steady = "round"
    Params = Params
    slots = (Slot("last", "model", "client"),)

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        out = C.model(x)
        loss = C.criterion(out.logits, y)
        if not C.visits:
            return loss
        with torch.no_grad():
            z_global, z_last = (C.frozen(row)(x).feature.float() for row in (C.received, C.slot.last))
        return loss + self.hp.mu * contrast(out.feature.float(), z_global, z_last, self.hp.tau)

    def end(self, C: Client) -> None:
        C.slot.last.copy_(C.row)
