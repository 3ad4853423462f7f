"""Convolution or linear layer, batch normalisation, ReLU: the blocks that FDSE decomposes.

`decomposes` of any module names two of its children, a layer and the batch normalisation after it ("" where
there is none), that a method may replace by one block.
"""

from __future__ import annotations

from torch import nn


class ConvBlock(nn.Sequential):
    """Conv (with bias), BN, ReLU: [B, inputs, h, w] to [B, outputs, h', w']."""

    decomposes = ("conv", "bn")

    conv: nn.Conv2d
    bn: nn.BatchNorm2d

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding)
        self.bn = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)


class LinearBlock(nn.Sequential):
    """Linear (with bias), BN, ReLU: [B, inputs] to [B, outputs]."""

    decomposes = ("fc", "bn")

    fc: nn.Linear
    bn: nn.BatchNorm1d

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.bn = nn.BatchNorm1d(outputs)
        self.relu = nn.ReLU(inplace=True)
