"""ConvMixer: patches, then depthwise and pointwise convolutions in turn (Trockman and Kolter 2022, arXiv 2201.09792).

"Patches Are All You Need?", layer for layer as its released code (github.com/locuslab/convmixer), but small: 54,634 parameters at
10 classes, 3,269,568 multiply-adds for an image of 32 px, about what `digits_cnn` costs. The paper's networks are wider and deeper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from fedshift.models.base import Model
from fedshift.models.layers.blocks import GlobalAverage

PATCH = 4  # pixels


class Block(nn.Module):
    """y = x + BN(GELU(depthwise(x))), then BN(GELU(pointwise(y))): [B, width, h, w] to the same."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, kernel, groups=width, padding="same")
        self.bn1 = nn.BatchNorm2d(width)
        self.pointwise = nn.Conv2d(width, width, 1)
        self.bn2 = nn.BatchNorm2d(width)
        self.gelu = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.bn1(self.gelu(self.depthwise(x)))
        return self.bn2(self.gelu(self.pointwise(x)))


class ConvMixer(Model):
    """A stem that embeds patches of 4 px, and one stage for each block; all maps are [B, width, h / 4, w / 4]."""

    @dataclass(frozen=True)
    class Params:
        """width: channels of every map (h in the paper); depth: blocks (d); kernel: side of the depthwise convolutions (k)."""

        width: int = 96
        depth: int = 4
        kernel: int = 5

        def __post_init__(self) -> None:
            if min(self.width, self.depth, self.kernel) < 1:
                raise ValueError("width, depth and kernel must be 1 or more")

    hp: Any  # Params
    name = "convmixer"
    min_px = PATCH
    indicator = "stages.stage1.pointwise.weight"

    def __init__(self, classes: int, input_px: int, **params: Any) -> None:
        super().__init__(classes, input_px, **params)
        width = self.hp.width
        embedding = nn.Sequential(nn.Conv2d(3, width, PATCH, PATCH), nn.GELU(), nn.BatchNorm2d(width))
        self.stages = nn.ModuleDict({"stem": embedding})
        self.stages.update({f"stage{i + 1}": Block(width, self.hp.kernel) for i in range(self.hp.depth)})
        self.neck = GlobalAverage()
        self.feature_dim = width
        self.head = nn.Linear(width, classes)
