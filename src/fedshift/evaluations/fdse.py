"""FDSE-Adaption: adapt the erasers to the held-out domain (Wang et al., CVPR 2025, Algorithm 3).

The personal halves of the blocks descend the consistency term alone, which needs no labels. BN_DSE is in
training mode; everything else is frozen and in evaluation mode. The global statistics are those of BN_DFE.
The running statistics start there and continue over all epochs.

The paper has "several epochs", and no step size or batch size. The term is that of Eq. 4-7, whatever its form
was in training, with the run's own beta.
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
    """`epochs`: passes over the images.
    `lr`: step size.
    `batch`: images per batch, at least 2 for statistics.
    """

    epochs: int = 5
    lr: float = 0.01
    batch: BatchSize = 50


@equation("FDSE", "Alg. 3, line 7")
def descend(w: Tensor, g: Tensor, lr: float) -> Tensor:
    """A step of plain gradient descent, w - lr g, without weight decay or clipping."""
    return w - lr * g


class FDSEAdaption(Adaptation):
    """Trains the tensors with the role "dse"."""

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
