"""DSU: the style of a feature map is sampled around its own value (Li et al., ICLR 2022), averaged by FedAvg.

The layer acts in training only; its statistics are part of the gradient. Each position flips its own coin in
every forward pass.

The official ResNet has six positions: before the stem's normalisation, after the stem's pooling, and after
each stage. For networks without a stem, a position follows each stage. `stages` is required if the stem is
not a chain that contains a normalisation (mobilenet, vit_small). StableFDG's code contains the layer but no
network that uses it; `stages: [stage1, stage2, stage3]` is where that code puts MixStyle.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fedshift.common.equations import equation
from fedshift.common.errors import FedshiftError
from fedshift.methods._centralizable import Centralizable
from fedshift.models.base import Model
from fedshift.models.layers.blocks import check_stages, insert
from fedshift.models.layers.style import adain, style, widened


@dataclass(frozen=True)
class Params:
    """p: probability of each coin; stages: positions after these stages, default all and before the stem's
    normalisation; centralized: one model on all data (StableFDG, Table 4a).
    """

    p: Annotated[float, Field(ge=0, le=1)] = 0.5
    stages: tuple[str, ...] | None = None
    centralized: bool = False


@equation("DSU", "uncertain style")
def dsu(x: Tensor, noise: Tensor) -> Tensor:
    """Replace the style (mu, sigma) of x [B, C, h, w] by (mu + e_mu Sigma_mu, sigma + e_sigma Sigma_sigma).

    noise [2, B, C] is (e_mu, e_sigma), standard normal. All variances, over space and over the batch, are
    unbiased + 1e-6; over one pixel or one sample they are 1e-6.
    """
    own = style(x)
    return adain(x, own, widened(own, noise))


class Uncertainty(nn.Module):
    """DSU as a layer without parameters: [B, C, h, w] to the same shape, active in training with probability
    p.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or torch.rand(()) >= self.p:
            return x
        return dsu(x, torch.randn(2, *x.shape[:2], device=x.device))


class DSU(Centralizable):
    """FedAvg whose clients' styles are uncertain."""

    name = "dsu"
    Params = Params

    def model(self, model: Model) -> Model:
        """Raises FedshiftError for an unknown stage, or a stem without normalisation."""
        check_stages(model, self.hp.stages or (), "stages")
        if self.hp.p == 0:
            return model
        if self.hp.stages is None and "stem" in model.stages:
            model.stages["stem"] = _before_normalisation(model, Uncertainty(self.hp.p))
        stages = self.hp.stages or tuple(model.stages)
        return insert(model, {stage: Uncertainty(self.hp.p) for stage in stages}, "dsu")


def _before_normalisation(model: Model, layer: nn.Module) -> nn.Module:
    """Insert `layer` before the batch normalisation of the stem, a chain of modules; names do not change."""
    stem = model.stages["stem"]
    if not isinstance(stem, nn.Sequential) or not any(isinstance(part, _BatchNorm) for part in stem):
        what = f"the stem of {model.name} has no batch normalisation to put the first layer before"
        cure = f"Name the stages that a layer follows: some of [{', '.join(model.stages)}]."
        raise FedshiftError("method.params.stages", what, cure)
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    for name, part in stem.named_children():
        if isinstance(part, _BatchNorm):
            parts["dsu"] = layer
        parts[name] = part
    return nn.Sequential(parts)
