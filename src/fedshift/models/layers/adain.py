"""AdaIN's encoder and decoder (Huang & Belongie, ICCV 2017): VGG-19 up to relu4_1, and its mirror image.

The weights are those of the PyTorch port (SOURCE), unless a run declares others by their SHA-256.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedshift.common.errors import FedshiftError
from fedshift.storage.weights import WeightsFile

SOURCE = "https://github.com/naoto0804/pytorch-AdaIN/releases/download/v0.0.0"
SUBSTITUTE = "set space: rgb, a substitute that needs none."
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
    """[B, 3, h, w] in [0, 1] to [B, 512, h / 8, w / 8]; its first layer turns RGB into what VGG was trained
    on.
    """
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


def weights(encoder_hash: str, decoder_hash: str) -> dict[str, WeightsFile]:
    """The encoder's and the decoder's file with these SHA-256; only the published ones have an address."""
    published, declared = (ENCODER, DECODER), (encoder_hash, decoder_hash)
    instead = {
        part: f"{SUBSTITUTE} A file of your own is declared in the method's params ({part}: its SHA-256)."
        for part in FILES
    }
    return {
        part: WeightsFile("ccst", name, f"{SOURCE}/{name}" if sha256 == known else "", sha256, instead[part])
        for (part, name), known, sha256 in zip(FILES.items(), published, declared, strict=True)
    }


class Stylizer:
    """Encoder and decoder with weights from the folder that FEDSHIFT_WEIGHTS names, or torch's cache, from
    the files' SHA-256.

    Raises FedshiftError where a file is absent, is another file by its hash, or does not fit, naming it and
    the substitute that needs none.
    """

    def __init__(self, encoder_hash: str, decoder_hash: str) -> None:
        self._encoder, self._decoder = encoder(), decoder()
        files = weights(encoder_hash, decoder_hash)
        _load(self._encoder, files["encoder"])
        _load(self._decoder, files["decoder"])

    def encode(self, x: Tensor) -> Tensor:
        features: Tensor = self._encoder(x)
        return features

    def decode(self, features: Tensor) -> Tensor:
        image: Tensor = self._decoder(features)
        return image


def _load(net: nn.Sequential, file: WeightsFile) -> None:
    file.check()
    tensors = list(torch.load(file.path, map_location="cpu", weights_only=True).values())
    ours = list(net.state_dict().values())
    if len(tensors) < len(ours) or any(a.shape != b.shape for a, b in zip(tensors, ours, strict=False)):
        cure = f"Take {SOURCE}/{file.name}, or {SUBSTITUTE}"
        raise FedshiftError(file.path, "does not hold AdaIN's layers in their order", cure)
    net.load_state_dict(dict(zip(net.state_dict(), tensors, strict=False)))
    net.requires_grad_(False).eval()
