"""ResNet-18 in torchvision's layout.

He et al., "Deep Residual Learning for Image Recognition" (CVPR 2016): 11,180,103 parameters at 7 classes.
torchvision's `conv1` and `bn1` are `stem.0` and `stem.1` here, `layer1` is `stage1`, `fc` is `head`.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torchvision.models import resnet18

from fedshift.models.base import Model
from fedshift.models.layers.pooling import GlobalAverage


class ResNet18(Model):
    """A stem and four residual stages of 64, 128, 256 and 512 channels."""

    name = "resnet18"
    indicator = "stages.stage1.1.conv2.weight"

    def __init__(self, classes: int, input_px: int, **params: Any) -> None:
        super().__init__(classes, input_px, **params)
        net = resnet18(weights=None, num_classes=classes)
        self.stages = nn.ModuleDict(
            {
                "stem": nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool),
                "stage1": net.layer1,
                "stage2": net.layer2,
                "stage3": net.layer3,
                "stage4": net.layer4,
            }
        )
        self.neck = GlobalAverage()
        self.feature_dim = net.fc.in_features
        self.head = net.fc

    def initialise(self, module: nn.Module) -> None:
        """Convolutions start as torchvision's do: Kaiming normal by fan-out (He et al. 2015)."""
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        else:
            super().initialise(module)
