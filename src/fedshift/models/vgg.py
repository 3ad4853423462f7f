"""VGG-11 with batch normalisation and one linear layer.

Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition" (ICLR 2015):
9,229,575 parameters at 7 classes, 152.8 M multiply-adds for an image of 32 px. The eight convolutions are
torchvision's `vgg11_bn`; its linear layers of 4,096, made for maps of 7 x 7, give way to global average
pooling. A guess at one of the networks of hFedF's Figure 14, which our copy does not show.
"""

import itertools
from types import MappingProxyType
from typing import Any

from torch import nn

from fedshift.models.base import Model
from fedshift.models.layers.blocks import GlobalAverage

CUTS = (0, 4, 8, 15, 22, 29)  # of torchvision's `features`: after each max pooling


class VGG(Model):
    """Five stages of 3x3 convolutions, each ended by max pooling: 64, 128, 256, 512 and 512 channels."""

    name = "vgg"
    min_px = 32
    kaiming = "fan_out"
    indicator = "stages.stage1.0.weight"
    weights = MappingProxyType({"imagenet": "vgg11_bn-6002323d.pth"})
    pieces = MappingProxyType({f"stages.stage{i}": "features" for i in (1, 2, 3, 4, 5)})

    def __init__(self, classes: int, input_px: int, **params: Any) -> None:
        from torchvision.models.vgg import cfgs, make_layers  # takes a second, and plans build no network

        super().__init__(classes, input_px, **params)
        features = make_layers(cfgs["A"], batch_norm=True)
        cuts = enumerate(itertools.pairwise(CUTS), 1)
        self.stages = nn.ModuleDict({f"stage{i}": features[start:stop] for i, (start, stop) in cuts})
        self.neck = GlobalAverage()
        self.feature_dim = 512
        self.head = nn.Linear(self.feature_dim, classes)

    def initialise(self, module: nn.Module) -> None:
        """As in torchvision: N(0, 0.01) and zero bias for the head."""
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0, 0.01)
            nn.init.zeros_(module.bias)
        else:
            super().initialise(module)
