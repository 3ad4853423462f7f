"""FDSE-Adaption: the erasers learn the target domain (Wang et al., CVPR 2025, Algorithm 3).

The personal halves of the blocks descend the consistency term alone, which needs no labels: BN_DSE is in
training mode, all else is frozen and in evaluation mode. The global statistics are those of BN_DFE; the
running ones start there and go on over all epochs.

Not in the paper ("several epochs"): epochs, step size and batch. The term is that of Eq. 4-7 for every form
that training had, with the run's own beta.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedshift.common.equations import equation
from fedshift.common.errors import FedshiftError
from fedshift.evaluations._adaptation import Adaptation, Batches, BatchSize
from fedshift.federation.layout import Layout, Network
from fedshift.methods.fdse.block import DSEBlock
from fedshift.methods.fdse.consistency import Alignment
from fedshift.models.base import Model


@dataclass(frozen=True)
class Params:
    """epochs: passes over the images; lr: step size; batch: images at once, at least 2 for statistics."""

    epochs: int = 5
    lr: float = 0.01
    batch: BatchSize = 50


@equation("FDSE", "Alg. 3, line 7")
def descend(w: Tensor, g: Tensor, lr: float) -> Tensor:
    """w - lr g: plain gradient descent, without weight decay or clipping."""
    return w - lr * g


class FDSEAdaption(Adaptation):
    """Trains what has the role "dse"."""

    name = "fdse"
    Params = Params

    @classmethod
    def check(cls, model: Model, where: object) -> None:
        if not _blocks(model):
            cure = "Choose a run of the method fdse."
            raise FedshiftError(where, "the model has no DSE module to adapt", cure)

    def adapt(self, network: Network, layout: Layout, batches: Batches) -> None:
        model = network.model.eval().requires_grad_(False)
        self.check(model, "adaptation fdse")
        for block in _blocks(model):
            block.dse.train().requires_grad_(True)
        own = (layout.role("dse") & layout.trainable).to(network.w.device)
        alignment = Alignment(network.model, self.method.hp.beta)
        for _ in range(self.hp.epochs):
            for x in batches(self.hp.batch):
                model(x)
                network.backward(alignment.term())
                with torch.no_grad():
                    network.w[own.at] = descend(network.w[own.at], network.g[own.at], self.hp.lr)


def _blocks(model: Model) -> list[DSEBlock]:
    return [module for module in model.modules() if isinstance(module, DSEBlock)]
