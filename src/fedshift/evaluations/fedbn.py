"""FedBN-Adaption: the running statistics of the held-out domain (Wang et al., CVPR 2025, Algorithm 2).

Deviation: only batch normalisation is in training mode, so that Dropout is inactive. The released code passes
over the images five times, the paper once.
"""

from dataclasses import dataclass

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from fedshift.common.errors import FedshiftError
from fedshift.evaluations._adaptation import Adaptation, Batches, BatchSize
from fedshift.federation.layout import Layout, Network
from fedshift.models.base import Model


@dataclass(frozen=True)
class Params:
    """`epochs`: passes over the images.
    `batch`: images per batch, at least 2 for statistics.
    """

    epochs: int = 1
    batch: BatchSize = 50


class FedBNAdaption(Adaptation):
    """Updates running means and variances of every batch normalisation, and nothing else."""

    name = "fedbn"
    Params = Params

    @classmethod
    def check(cls, model: Model, where: object) -> None:
        if not _norms(model):
            what = f"{model.name} has no batch normalisation to adapt"
            raise FedshiftError(where, what, "Test it as it is.")

    @torch.no_grad()
    def adapt(self, network: Network, layout: Layout, batches: Batches) -> None:
        model = network.model.eval()
        self.check(model, "adaptation fedbn")
        for norm in _norms(model):
            norm.train()
        for _ in range(self.hp.epochs):
            for x in batches(self.hp.batch):
                model(x)


def _norms(model: Model) -> list[_BatchNorm]:
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]
