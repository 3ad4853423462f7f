"""CCST: every training image in the styles of other clients (Chen et al., WACV 2023).

A client's overall style is the mean and the standard deviation of each feature channel over all its training
images. An image is rendered by AdaIN (Huang & Belongie, ICCV 2017) in the styles of `styles` clients, random
without replacement. If its own client is among them, that copy is the image itself.

`space: vgg` uses AdaIN's public encoder (VGG-19 to relu4_1) and decoder, which must be given as files
(docs/datasets.md). `space: rgb` is a substitute that needs none: AdaIN on the three colour channels.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from fedshift.common.equations import equation
from fedshift.common.errors import FedshiftError
from fedshift.data.renderings import Rendering
from fedshift.data.scheme import generator, permutation
from fedshift.storage.weights import WeightsFile

SOURCE = "https://github.com/naoto0804/pytorch-AdaIN/releases/download/v0.0.0"
SUBSTITUTE = "set space: rgb, a substitute that needs none."
FILES = {"encoder": "vgg_normalised.pth", "decoder": "decoder.pth"}
# SHA-256 of the published files. Frozen, as every default: run ids do not cover them.
ENCODER = "804ca2835ecf7539f0cd2a7ac3c18ce81e6f8468969ae7117ac0c148d286bb4a"
DECODER = "379ca41d59f3a37eed3599bbbc2560c19da5c458870a5ffd3a9dd41aa88f9472"
# Channels of every 3x3 convolution to relu4_1; "P" halves the map (the decoder doubles it there).
PLAN: tuple[int | str, ...] = (64, 64, "P", 128, 128, "P", 256, 256, 256, 256, "P", 512)
BATCH = 64
EPSILON = 1e-5
Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class Params:
    """`styles`: K, the number of random styles for each image.
    `space`: of the features, VGG's or (a substitute) the colours themselves.
    `alpha`: share of the style.
    `encoder`, `decoder`: with `space: vgg`, the SHA-256 of their files.
    """

    styles: Annotated[int, Field(ge=1)] = 3
    space: Literal["vgg", "rgb"] = "vgg"
    alpha: float = 1.0
    encoder: Hash = ENCODER
    decoder: Hash = DECODER


@equation("CCST", "AdaIN, one image's statistics")
def image_statistics(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of every channel over space: [B, c, h, w], h w > 1, to two [B, c, 1, 1].

    The deviation is sqrt(unbiased variance + 1e-5).
    """
    mean = features.mean((2, 3), keepdim=True)
    return mean, (features.var((2, 3), keepdim=True) + EPSILON).sqrt()


@equation("CCST", "AdaIN")
def adain(content: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """Replace mean and deviation of content [B, c, h, w] by those of the style [B or 1, c, 1, 1]."""
    own_mean, own_deviation = image_statistics(content)
    return (content - own_mean) / own_deviation * deviation + mean


@equation("CCST", "overall style")
def overall_style(moments: list[tuple[int, Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Mean and sqrt(biased variance + 1e-5) of every channel over all pixels of all images, [c] each.

    moments: `batch_moments` of every batch's features: number of pixels, their sum [c] and the sum of their
        squares [c]; fp64, because large numbers are subtracted
    """
    count = sum(n for n, _, _ in moments)
    mean = torch.stack([first for _, first, _ in moments]).sum(0) / count
    squares = torch.stack([second for _, _, second in moments]).sum(0) / count
    return mean, (squares - mean.square() + EPSILON).sqrt()


def batch_moments(features: Tensor) -> tuple[int, Tensor, Tensor]:
    """Number of pixels, their sum and sum of squares by channel, in fp64, of features [B, c, h, w]."""
    flat = features.double().transpose(0, 1).flatten(1)
    return flat.shape[1], flat.sum(1), flat.square().sum(1)


class CCST(Rendering):
    """Renders the training images of all clients."""

    name = "ccst"
    Params = Params

    @property
    def copies(self) -> int:
        styles: int = self.params.styles
        return styles

    @property
    def weights(self) -> tuple[WeightsFile, ...]:
        hp = self.params
        return tuple(weights(hp.encoder, hp.decoder).values()) if hp.space == "vgg" else ()

    def render(
        self, pixels: NDArray[np.uint8], table: pd.DataFrame, seed: int
    ) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        net = Stylizer(self.params.encoder, self.params.decoder) if self.params.space == "vgg" else None
        encode: Callable[[Tensor], Tensor] = net.encode if net else lambda x: x
        decode: Callable[[Tensor], Tensor] = net.decode if net else lambda z: z
        training = table[table["split"] == "train"]
        clients = sorted(training["client"].unique().tolist())
        owners = {k: training.loc[training["client"] == k, "sample"].to_numpy() for k in clients}
        if self.params.styles > len(owners):
            what = f"{self.params.styles} styles of {len(owners)} clients"
            raise FedshiftError("ccst: styles", what, f"Set styles to {len(owners)} or less.")
        styles = {k: self._style(pixels, samples, encode) for k, samples in owners.items()}
        for k, samples in owners.items():
            for start in range(0, len(samples), BATCH):
                part = samples[start : start + BATCH]
                yield from self._batch(pixels, part, k, styles, seed, encode, decode)

    def _style(
        self, pixels: NDArray[np.uint8], samples: NDArray[np.int32], encode: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        parts = [samples[start : start + BATCH] for start in range(0, len(samples), BATCH)]
        mean, deviation = overall_style([batch_moments(encode(_unit(pixels, part))) for part in parts])
        return mean.float()[:, None, None], deviation.float()[:, None, None]

    def _batch(
        self,
        pixels: NDArray[np.uint8],
        part: NDArray[np.int32],
        k: int,
        styles: dict[int, tuple[Tensor, Tensor]],
        seed: int,
        encode: Callable[[Tensor], Tensor],
        decode: Callable[[Tensor], Tensor],
    ) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """The images of some of a client's samples, each in its random styles."""
        names = np.array(sorted(styles))
        drawn = np.stack(
            [
                names[permutation(generator(seed, "styles", int(sample)), len(names))][: self.params.styles]
                for sample in part
            ]
        )
        features = encode(_unit(pixels, part))
        for column in drawn.T:
            mean, deviation = (torch.stack([styles[int(s)][i] for s in column]) for i in range(2))
            styled = features.lerp(adain(features, mean, deviation), self.params.alpha)
            decoded = decode(styled)[..., : pixels.shape[1], : pixels.shape[2]]  # VGG's are a multiple of 8
            images = (decoded.clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1).numpy()
            for sample, style, image in zip(part, column, images, strict=True):
                yield int(sample), pixels[sample] if style == k else image


def _unit(pixels: NDArray[np.uint8], samples: NDArray[np.int32]) -> Tensor:
    """Images in [0, 1], [B, 3, px, px]."""
    return torch.from_numpy(pixels[samples]).permute(0, 3, 1, 2).float() / 255


def convolution(inputs: int, outputs: int) -> nn.Sequential:
    """3x3 convolution with mirrored borders."""
    return nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(inputs, outputs, 3))


def encoder() -> nn.Sequential:
    """Network from [B, 3, h, w] in [0, 1] to [B, 512, h / 8, w / 8]; the first layer maps RGB to VGG's
    input.
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
    """Network from [B, 512, h, w] to an image [B, 3, 8 h, 8 w]."""
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
    """The files of encoder and decoder with these SHA-256; only the published ones have an address."""
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
    """Encoder and decoder with weights from FEDSHIFT_WEIGHTS' folder or torch's cache, by SHA-256.

    Raises FedshiftError if a file is absent, has another hash, or does not fit. The message names it and the
    substitute that needs none.
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
