"""AdaIN's encoder and decoder (Huang & Belongie, ICCV 2017): VGG-19 up to relu4_1, and its mirror image.

The weights are the public ones, vgg_normalised.pth and decoder.pth; nothing downloads them.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor, nn

from fedshift.errors import FedshiftError

FOLDER = "FEDSHIFT_WEIGHTS"
FILES = ("vgg_normalised.pth", "decoder.pth")
# Channels of every 3x3 convolution to relu4_1; "P" halves the map (the decoder doubles it there).
PLAN: tuple[int | str, ...] = (64, 64, "P", 128, 128, "P", 256, 256, 256, 256, "P", 512)


def convolution(inputs: int, outputs: int) -> nn.Sequential:
    """3x3 with mirrored borders."""
    return nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(inputs, outputs, 3))


def encoder() -> nn.Sequential:
    """[B, 3, h, w] in [0, 1] to [B, 512, h / 8, w / 8]; its first layer turns RGB into what VGG was trained on."""
    layers: list[nn.Module] = [nn.Conv2d(3, 3, 1)]
    channels = 3
    for step in PLAN:
        if isinstance(step, str):
            layers.append(nn.MaxPool2d(2, ceil_mode=True))
        else:
            layers += [convolution(channels, step), nn.ReLU()]
            channels = step
    return nn.Sequential(*layers)


def decoder() -> nn.Sequential:
    """[B, 512, h, w] to an image [B, 3, 8 h, 8 w]."""
    layers: list[nn.Module] = []
    widths = [3, *(step for step in PLAN if isinstance(step, int))][::-1]
    widths[0] = 512
    steps = iter(widths[1:])
    channels = 512
    for step in PLAN[::-1]:
        if isinstance(step, str):
            layers.append(nn.Upsample(scale_factor=2, mode="nearest"))
        else:
            outputs = next(steps)
            layers += [convolution(channels, outputs), nn.ReLU()]
            channels = outputs
    return nn.Sequential(*layers[:-1])  # no ReLU after the last


class Stylizer:
    """Encoder and decoder with the public weights, from the folder that FEDSHIFT_WEIGHTS names.

    Raises FedshiftError where a file is absent or does not fit, naming it and the substitute that needs none.
    """

    def __init__(self) -> None:
        folder = Path(os.environ.get(FOLDER, "weights"))
        self._encoder, self._decoder = encoder(), decoder()
        for net, file in zip((self._encoder, self._decoder), FILES, strict=True):
            _load(net, folder / file)

    def encode(self, x: Tensor) -> Tensor:
        features: Tensor = self._encoder(x)
        return features

    def decode(self, features: Tensor) -> Tensor:
        image: Tensor = self._decoder(features)
        return image


def _load(net: nn.Sequential, path: Path) -> None:
    cure = f"Put AdaIN's {path.name} into {path.parent} (or name its folder by {FOLDER}), or set space: rgb, a substitute that needs none."
    if not path.is_file():
        raise FedshiftError(path, "no such weights", cure)
    given = list(torch.load(path, map_location="cpu", weights_only=True).values())
    ours = list(net.state_dict().values())
    if len(given) < len(ours) or any(a.shape != b.shape for a, b in zip(given, ours, strict=False)):
        raise FedshiftError(path, "does not hold AdaIN's layers in their order", cure)
    net.load_state_dict(dict(zip(net.state_dict(), given, strict=False)))
    net.requires_grad_(False).eval()
