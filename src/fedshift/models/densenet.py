"""DenseNet-121 in torchvision's layout.

Huang et al., "Densely Connected Convolutional Networks" (CVPR 2017): 6,961,031 parameters at 7 classes, 57.8
M multiply-adds for an image of 32 px. A guess at one of the networks of hFedF's Figure 14, which our copy
does not show.
"""

import re
from types import MappingProxyType
from typing import Any

from torch import nn

from fedshift.models.base import Model
from fedshift.models.layers.blocks import GlobalAverage

STAGES = ("stem", "stage1", "stage2", "stage3", "stage4")
CUTS = (0, 4, 6, 8, 10, 12)  # of torchvision's `features`


class DenseNet(Model):
    """A stem and four dense blocks, three with a transition that halves the map: 128 to 1,024 channels."""

    name = "densenet"
    min_px = 29
    kaiming = "fan_in"
    indicator = "stages.stage1.transition1.conv.weight"
    weights = MappingProxyType({"imagenet": "densenet121-a639ec97.pth"})
    pieces = MappingProxyType(dict.fromkeys([f"stages.{stage}" for stage in STAGES], "features"))

    def __init__(self, classes: int, input_px: int, **params: Any) -> None:
        from torchvision.models import densenet121  # takes a second, and plans build no network

        super().__init__(classes, input_px, **params)
        net = densenet121(weights=None, num_classes=classes)
        cuts = zip(STAGES, CUTS, CUTS[1:], strict=False)
        self.stages = nn.ModuleDict({name: net.features[start:stop] for name, start, stop in cuts})
        self.neck = nn.Sequential(nn.ReLU(), GlobalAverage())
        self.head = net.classifier
        self.feature_dim = net.classifier.in_features

    @classmethod
    def published(cls, entry: str) -> str | None:
        """The name in torchvision's older file, such as `denselayer1.norm.1` for `denselayer1.norm1`."""
        name = super().published(entry)
        return name and re.sub(r"(denselayer\d+\.(?:norm|conv))(\d)", r"\1.\2", name)

    def initialise(self, module: nn.Module) -> None:
        """As in torchvision: the bias of the head starts at 0."""
        super().initialise(module)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
