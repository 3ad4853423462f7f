"""FedBN-Adaption: the running statistics of the target domain (Wang et al., CVPR 2025, Algorithm 2).

Deviation: only batch normalisation is in training mode, so that Dropout draws nothing. The released code passes five times over the
images, the paper once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from fedshift.adaptation.base import Adaptation, Batches
from fedshift.errors import FedshiftError
from fedshift.federation.layout import Layout
from fedshift.federation.network import Network


@dataclass(frozen=True)
class Params:
    """epochs: passes over the images; batch: images at once."""

    epochs: int = 1
    batch: int = 50


class FedBNAdaption(Adaptation):
    """Moves running means and variances of every batch normalisation, and nothing else."""

    name = "fedbn"
    Params = Params

    @torch.no_grad()
    def adapt(self, network: Network, layout: Layout, batches: Batches) -> None:
        norms = [module for module in network.model.eval().modules() if isinstance(module, _BatchNorm)]
        if not norms:
            what = f"{network.model.name} has no batch normalisation to adapt"
            raise FedshiftError("adaptation fedbn", what, "Test it as it is.")
        for norm in norms:
            norm.train()
        for _ in range(self.hp.epochs):
            for x in batches(self.hp.batch):
                network.model(x)
