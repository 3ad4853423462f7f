"""The client CNN of hFedF: two convolution stages, two inception stages, no batch normalisation.

"Non-linear Fusion in Federated Learning: A Hypernetwork Approach to Federated Domain Generalization" (arXiv
2402.06974, later retitled "Hypernetwork-Driven Model Fusion .."), Table 7: 928,199 parameters at 7 classes in
22 tensors, 22.01 M multiply-adds for an image of 32 px.

Of an inception block, the table gives the channels (32, 64, 16) and the widths (176 = 112 + 64, 288 = 112 +
176), which fit three branches and the input. The kernel of each branch is a guess, after the order of
Inception. So is the absence of 1x1 convolutions that reduce channels before.
"""

from typing import Any

import torch
from torch import Tensor, nn

from fedshift.models.base import Model
from fedshift.models.layers.blocks import AdaptiveAverage


class Inception(nn.Module):
    """Convolutions 1x1 (32), 3x3 (64), 5x5 (16), the max-pooled input, then ReLU: c to c + 112 channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 1)
        self.conv3 = nn.Conv2d(channels, 64, 3, padding=1)
        self.conv5 = nn.Conv2d(channels, 16, 5, padding=2)
        self.pool = nn.MaxPool2d(3, stride=1, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.conv1(x), self.conv3(x), self.conv5(x), self.pool(x)], 1).relu_()


class HFedFCNN(Model):
    """Feature: the 256 outputs of the first linear layer, which no activation follows (Table 7)."""

    name = "hfedf_cnn"
    min_px = 4
    indicator = "stages.stage1.0.weight"

    def __init__(self, classes: int, input_px: int, **params: Any) -> None:
        super().__init__(classes, input_px, **params)
        first = nn.Conv2d(3, 32, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(inplace=True)
        second = nn.Conv2d(32, 32, 1), nn.Conv2d(32, 64, 3, padding=1)
        self.stages = nn.ModuleDict(
            {
                "stage1": nn.Sequential(*first),
                "stage2": nn.Sequential(*second, nn.MaxPool2d(2), nn.ReLU(inplace=True)),
                "stage3": Inception(64),
                "stage4": Inception(176),
            }
        )
        self.feature_dim = 256
        self.neck = nn.Sequential(
            AdaptiveAverage(3), nn.Flatten(), nn.Dropout(0.2), nn.Linear(288 * 9, self.feature_dim)
        )
        self.head = nn.Linear(self.feature_dim, classes)
