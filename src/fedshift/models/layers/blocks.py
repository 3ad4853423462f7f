"""Convolution or linear layer, batch normalisation, ReLU: the blocks that FDSE decomposes.

`decomposes` of any module names two of its children that a method may replace by one block: a layer and the
batch normalisation after it ("" if there is none). `insert` puts layers between the stages of a network,
whose names do not change.
"""

import functools
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from fedshift.common.errors import FedshiftError
from fedshift.models.base import Model


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


class GlobalAverage(nn.Module):
    """The mean over space: [B, c, h, w] to [B, c]."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


class AdaptiveAverage(nn.Module):
    """nn.AdaptiveAvgPool2d(side): [B, c, h, w] to [B, c, side, side].

    PyTorch's kernel adds gradients atomically on CUDA. Here the pixels, [B, h w, c], are multiplied by the
    matrix of averages, [side^2, h w]; in channels_last nothing is copied.
    """

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        if (height, width) == (self.side, self.side):
            return x
        average = _averages(height, width, self.side, x.device, x.dtype).expand(batch, -1, -1)
        pooled = average @ x.flatten(2).transpose(1, 2)
        return pooled.transpose(1, 2).view(batch, channels, self.side, self.side)

    def extra_repr(self) -> str:
        return f"side={self.side}"


@functools.cache
def _averages(height: int, width: int, side: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Matrix [side^2, height width] whose rows average the pixels of each output; cached on its device."""
    with torch.inference_mode(False):
        return torch.kron(_bins(height, side), _bins(width, side)).to(device, dtype)


def _bins(size: int, bins: int) -> Tensor:
    """Matrix [bins, size]: row i averages the pixels from floor(i size / bins) to ceil((i + 1) size /
    bins).
    """
    matrix = torch.zeros(bins, size, device="cpu")
    for i in range(bins):
        start, stop = i * size // bins, -(-(i + 1) * size // bins)
        matrix[i, start:stop] = 1 / (stop - start)
    return matrix


def check_stages(model: Model, stages: Iterable[str], key: str) -> None:
    """Raise FedshiftError, naming the method's parameter `key`, for a stage that the network does not
    have.
    """
    for stage in stages:
        if stage not in model.stages:
            what, cure = f"'{stage}' is no stage of {model.name}", f"Valid: {', '.join(model.stages)}."
            raise FedshiftError(f"method.params.{key}", what, cure)


@torch.no_grad()
def channels(model: Model) -> dict[str, int]:
    """The channels of the map after every stage."""
    widths: dict[str, int] = {}

    def note(stage: str, x: Tensor) -> Tensor:
        widths[stage] = x.shape[1]
        return x

    device = next(model.parameters()).device
    after = {stage: lambda x, stage=stage: note(stage, x) for stage in model.stages}
    model.eval()
    model.body(torch.zeros(1, 3, model.input_px, model.input_px, device=device), after)
    model.train()
    return widths


def insert(model: Model, layers: Mapping[str, nn.Module], suffix: str) -> Model:
    """Insert layers[stage] after that stage, as a new stage "<stage>_<suffix>"."""
    stages: dict[str, nn.Module] = {}
    for name, stage in model.stages.items():
        stages[name] = stage
        if name in layers:
            stages[f"{name}_{suffix}"] = layers[name]
    model.stages = nn.ModuleDict(stages)
    return model
