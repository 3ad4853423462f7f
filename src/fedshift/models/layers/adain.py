"""AdaIN's encoder and decoder (Huang & Belongie, ICCV 2017): VGG-19 up to relu4_1, and its mirror image.

The weights are files that nothing downloads: those of the PyTorch port (SOURCE), unless a run declares others by their SHA-256.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor, nn

from fedshift.errors import FedshiftError
from fedshift.files import sha256_file

FOLDER = "FEDSHIFT_WEIGHTS"  # environment: where the files lie, if not in torch's cache
SOURCE = "https://github.com/naoto0804/pytorch-AdaIN/releases/download/v0.0.0"
FILES = {"encoder": "vgg_normalised.pth", "decoder": "decoder.pth"}
# SHA-256 of the published files. Frozen, as every default: a digest does not hold it.
ENCODER = "804ca2835ecf7539f0cd2a7ac3c18ce81e6f8468969ae7117ac0c148d286bb4a"
DECODER = "379ca41d59f3a37eed3599bbbc2560c19da5c458870a5ffd3a9dd41aa88f9472"
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
    """Encoder and decoder with weights from the folder that FEDSHIFT_WEIGHTS names, or torch's cache; given: the files' SHA-256.

    Raises FedshiftError where a file is absent, is another one by its hash, or does not fit, naming it and the substitute that needs none.
    """

    def __init__(self, encoder_hash: str, decoder_hash: str) -> None:
        self._encoder, self._decoder = encoder(), decoder()
        _load(self._encoder, "encoder", encoder_hash)
        _load(self._decoder, "decoder", decoder_hash)

    def encode(self, x: Tensor) -> Tensor:
        features: Tensor = self._encoder(x)
        return features

    def decode(self, features: Tensor) -> Tensor:
        image: Tensor = self._decoder(features)
        return image


def _load(net: nn.Sequential, part: str, declared: str) -> None:
    folder = os.environ.get(FOLDER)
    path = (Path(folder) if folder else Path(torch.hub.get_dir()) / "checkpoints") / FILES[part]
    source, substitute = f"{SOURCE}/{path.name}", "set space: rgb, a substitute that needs none."
    if not path.is_file():
        cure = f"Download {source} into {path.parent}, or set {FOLDER} to the folder that has it, or {substitute}"
        raise FedshiftError(path, "no such weights", cure, retry=True)
    if (found := sha256_file(path)) != declared:
        cure = f"Download {source} again, or declare this one in the method's params ({part}: {found}), or {substitute}"
        raise FedshiftError(
            path, f"is another file: its SHA-256 is {found}, not {declared}", cure, retry=True
        )
    given = list(torch.load(path, map_location="cpu", weights_only=True).values())
    ours = list(net.state_dict().values())
    if len(given) < len(ours) or any(a.shape != b.shape for a, b in zip(given, ours, strict=False)):
        raise FedshiftError(
            path, "does not hold AdaIN's layers in their order", f"Take {source}, or {substitute}"
        )
    net.load_state_dict(dict(zip(net.state_dict(), given, strict=False)))
    net.requires_grad_(False).eval()
