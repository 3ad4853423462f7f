"""LeNet-5 for colour images, with ReLU and max pooling.

LeCun et al., "Gradient-Based Learning Applied to Document Recognition" (1998): 61,751 parameters at 7
classes, 651,468 multiply-adds for an image of 32 px. A guess at one of the networks of hFedF's Figure 14,
which our copy does not show.
"""

from typing import Any

from torch import nn

from fedshift.models.base import Model
from fedshift.models.layers.blocks import AdaptiveAverage


class LeNet(Model):
    """Two 5x5 convolutions of 6 and 16, linear layers of 120 and 84; maps are pooled to 5 x 5."""

    name = "lenet"
    min_px = 16
    indicator = "stages.stage1.0.weight"

    def __init__(self, classes: int, input_px: int, **params: Any) -> None:
        super().__init__(classes, input_px, **params)
        self.stages = nn.ModuleDict()
        for i, conv in enumerate([nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)], 1):
            self.stages[f"stage{i}"] = nn.Sequential(conv, nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.feature_dim = 84
        self.neck = nn.Sequential(
            AdaptiveAverage(5),
            nn.Flatten(),
            nn.Linear(16 * 25, 120),
            nn.ReLU(inplace=True),
            nn.Linear(120, self.feature_dim),
            nn.ReLU(inplace=True),
        )
        self.head = nn.Linear(self.feature_dim, classes)
