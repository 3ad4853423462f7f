"""MobileNetV2 in torchvision's layout.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (CVPR 2018): 2,232,839 parameters at
7 classes, 6.12 M multiply-adds for an image of 32 px. A guess at one of the networks of hFedF's Figure 14,
which our copy does not show.
"""

from types import MappingProxyType
from typing import Any

from torch import nn

from fedshift.models.base import Model
from fedshift.models.layers.blocks import GlobalAverage

STAGES = ("stem", "stage1", "stage2", "stage3", "stage4")
CUTS = (0, 2, 4, 7, 14, 19)  # of torchvision's `features`: a stage begins where the map is halved


class MobileNet(Model):
    """A stem and four stages of inverted residuals: 24, 32, 96 and 1,280 channels."""

    name = "mobilenet"
    kaiming = "fan_out"
    indicator = "stages.stage1.3.conv.2.weight"
    weights = MappingProxyType({"imagenet": "mobilenet_v2-b0353104.pth"})
    pieces = MappingProxyType(dict.fromkeys([f"stages.{stage}" for stage in STAGES], "features"))

    def __init__(self, classes: int, input_px: int, **params: Any) -> None:
        from torchvision.models import mobilenet_v2  # takes a second, and plans build no network

        super().__init__(classes, input_px, **params)
        net = mobilenet_v2(weights=None, num_classes=classes)
        cuts = zip(STAGES, CUTS, CUTS[1:], strict=False)
        self.stages = nn.ModuleDict({name: net.features[start:stop] for name, start, stop in cuts})
        dropout, self.head = net.classifier
        self.neck = nn.Sequential(GlobalAverage(), dropout)
        self.feature_dim = net.last_channel

    def initialise(self, module: nn.Module) -> None:
        """As in torchvision: N(0, 0.01) and zero bias for the head."""
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0, 0.01)
            nn.init.zeros_(module.bias)
        else:
            super().initialise(module)
