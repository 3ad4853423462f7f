"""MixStyle: the styles of two images are mixed in the first stages (Zhou et al., ICLR 2021), averaged by
FedAvg.

It acts in training only; statistics are constants for the gradient. Each stage flips its own coin in every
forward pass. It follows stages 1-3, as in `resnet18_ms_l123` of StableFDG's code and in MixStyle's own script
for PACS. For Office-Home, MixStyle's script has stages 1 and 2 (`stages: [stage1, stage2]`).
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from fedshift.common.equations import equation
from fedshift.federation.client import Client
from fedshift.methods._centralizable import Centralizable
from fedshift.models.base import Model
from fedshift.models.layers.blocks import check_stages
from fedshift.models.layers.style import adain, mixed, shares, style


@dataclass(frozen=True)
class Params:
    """p: probability of each coin; beta: both parameters of the Beta distribution; stages: after which;
    centralized: StableFDG, Table 4a.
    """

    p: Annotated[float, Field(ge=0, le=1)] = 0.5
    beta: Annotated[float, Field(gt=0)] = 0.1
    stages: tuple[str, ...] = ("stage1", "stage2", "stage3")
    centralized: bool = False


@equation("MixStyle", "mixed style")
def mixstyle(x: Tensor, share: Tensor, partner: Tensor) -> Tensor:
    """Give x [B, C, h, w] the style share t_i + (1 - share) t_partner(i); share [B], partner [B] a
    permutation.

    t: mean and sqrt(unbiased variance + 1e-6) over space, without gradient.
    """
    own = style(x.detach())
    return adain(x, own, mixed(own, share, partner))


class MixStyle(Centralizable):
    """FedAvg whose clients mix styles."""

    name = "mixstyle"
    Params = Params

    def model(self, model: Model) -> Model:
        """Check the stages. Raises FedshiftError for a stage that the network does not have."""
        check_stages(model, self.hp.stages, "stages")
        return model

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        def mix(z: Tensor) -> Tensor:
            if torch.rand((), generator=C.rng) >= self.hp.p:
                return z
            share = shares(len(z), self.hp.beta, z.device)
            return mixstyle(z, share, torch.randperm(len(z), device=z.device))

        return C.criterion(C.model(x, dict.fromkeys(self.hp.stages, mix)).logits, y)
