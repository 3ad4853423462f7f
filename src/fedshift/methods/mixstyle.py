"""MixStyle: the styles of two images are mixed in the first stages (Zhou et al., ICLR 2021), averaged by
FedAvg.

Only in training; statistics are constants for the gradient. Each stage decides by its own coin in every
forward pass. Placement after stages 1-3, as `resnet18_ms_l123` of StableFDG's code,
and of MixStyle's on PACS; on Office-Home MixStyle's script has stages 1 and 2 (`stages: [stage1, stage2]`).
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
    """x [B, C, h, w] with the style share t_i + (1 - share) t_partner(i): share, partner (a permutation) [B].

    t: mean and sqrt(unbiased variance + 1e-6) over space, without gradient.
    """
    own = style(x.detach())
    return adain(x, own, mixed(own, share, partner))


class MixStyle(Centralizable):
    """FedAvg whose clients mix styles."""

    name = "mixstyle"
    Params = Params

    def model(self, model: Model) -> Model:
        """Raises FedshiftError for a stage that the network has not."""
        check_stages(model, self.hp.stages, "stages")
        return model

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        def mix(z: Tensor) -> Tensor:
            if torch.rand((), generator=C.rng) >= self.hp.p:
                return z
            share = shares(len(z), self.hp.beta, z.device)
            return mixstyle(z, share, torch.randperm(len(z), device=z.device))

        return C.criterion(C.model(x, dict.fromkeys(self.hp.stages, mix)).logits, y)
