"""AlexNet with batch normalisation, the network of FedBN and FDSE.

FDSE (CVPR 2025), Table A5: 12,971,079 parameters at 7 classes, 49.517 MiB of state at 10, 879.0 M
multiply-adds for an image of 256 px. Not torchvision's AlexNet, which is 4,096 wide, with dropout and
without batch normalisation.
"""

from typing import Any

from torch import nn

from fedshift.models.base import Model
from fedshift.models.layers.blocks import AdaptiveAverage, ConvBlock, LinearBlock


class AlexNetBN(Model):
    """Five convolution stages, average pooling to 6 x 6, two linear blocks of 1,024."""

    name = "alexnet_bn"
    min_px = 63  # the third pooling needs a map of 3 x 3
    indicator = "stages.stage1.conv.weight"

    def __init__(self, classes: int, input_px: int, **params: Any) -> None:
        super().__init__(classes, input_px, **params)
        self.stages = nn.ModuleDict(
            {
                "stage1": ConvBlock(3, 64, 11, stride=4, padding=2).append(nn.MaxPool2d(3, 2)),
                "stage2": ConvBlock(64, 192, 5, padding=2).append(nn.MaxPool2d(3, 2)),
                "stage3": ConvBlock(192, 384, 3, padding=1),
                "stage4": ConvBlock(384, 256, 3, padding=1),
                "stage5": ConvBlock(256, 256, 3, padding=1).append(nn.MaxPool2d(3, 2)),
            }
        )
        self.feature_dim = 1024
        self.neck = nn.Sequential(
            AdaptiveAverage(6), nn.Flatten(), LinearBlock(256 * 36, 1024), LinearBlock(1024, self.feature_dim)
        )
        self.head = nn.Linear(self.feature_dim, classes)
