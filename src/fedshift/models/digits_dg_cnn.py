"""The CNN of Digits-DG: four convolution stages without batch normalisation.

Zhou et al., "Deep Domain-Adversarial Image Generation for Domain Generalisation" (AAAI 2020); StableFDG's
code has its four stages: 115,146 parameters at 10 classes, 14.16 M multiply-adds for an image of 32 px.
"""

from typing import Any

from torch import nn

from fedshift.models.base import Model
from fedshift.models.layers.blocks import AdaptiveAverage


class DigitsDGCNN(Model):
    """Four 3x3 convolutions of 64, each with ReLU and max pooling; maps are pooled to 2 x 2."""

    name = "digits_dg_cnn"
    min_px = 16
    kaiming = "fan_in"  # as in Dassl, which Zhou et al. and StableFDG train with
    indicator = "stages.stage1.0.weight"

    def __init__(self, classes: int, input_px: int, **params: Any) -> None:
        super().__init__(classes, input_px, **params)
        self.stages = nn.ModuleDict()
        for i, inputs in enumerate((3, 64, 64, 64), 1):
            conv = nn.Conv2d(inputs, 64, 3, padding=1)
            self.stages[f"stage{i}"] = nn.Sequential(conv, nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.neck = nn.Sequential(AdaptiveAverage(2), nn.Flatten())
        self.feature_dim = 256
        self.head = nn.Linear(self.feature_dim, classes)
