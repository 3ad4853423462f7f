"""Counts of a printed network, by hand from the words of reference/architectures.yaml: parameters, multiply-adds of one image, and the
map after each layer. No module of ours takes part."""

from __future__ import annotations

import re
from typing import NamedTuple

from fedshift.common.yaml_file import read
from tests.conftest import ROOT

WORD = re.compile(r"(\w+)(?:\((.*)\))?")


class Counts(NamedTuple):
    """parameters, macs; maps: channels and side after each layer that has a map."""

    parameters: int
    macs: int
    maps: list[tuple[int, int]]


def counts(paper: str, table: str, classes: int, px: int) -> Counts:
    """Of a printed network for images of px and so many classes, which its last linear layer has as outputs."""
    layers = read(ROOT / "reference" / "architectures.yaml")[paper][table]
    *_, (last,) = layers.values()
    layers = {**layers, [*layers][-1]: [re.sub(r"\d+\)$", f"{classes})", last)]}
    parameters = macs = 0
    maps, side = [(3, px)], px
    for words in layers.values():
        channels = maps[-1][0]
        for kind, numbers in map(_parsed, words):
            match kind, numbers:
                case "Conv2d", (inputs, channels, kernel, stride, padding):
                    side = (side + 2 * padding - kernel) // stride + 1
                    parameters += (inputs * kernel**2 + 1) * channels
                    macs += inputs * kernel**2 * channels * side**2
                case "Inception", (outputs, *widths):  # 1x1, 3x3, 5x5, and the pooled input
                    inputs, channels = outputs - sum(widths), outputs
                    weights = sum(
                        inputs * kernel**2 * width for kernel, width in zip((1, 3, 5), widths, strict=True)
                    )
                    parameters, macs = parameters + weights + sum(widths), macs + weights * side**2
                case "MaxPool2d", (kernel, stride):
                    side = (side - kernel) // stride + 1
                case "AdaptiveAvgPool2d", (side,):
                    pass
                case "Linear", (inputs, outputs):
                    parameters, macs = parameters + (inputs + 1) * outputs, macs + inputs * outputs
                case "BatchNorm", (features,):
                    parameters += 2 * features
                case (("ReLU" | "Flatten" | "Dropout"), _):
                    pass
                case _:
                    raise AssertionError(f"no count for {kind}{numbers}")
        maps.append((channels, side))
    return Counts(parameters, macs, maps[1:])


def _parsed(word: str) -> tuple[str, tuple[int, ...]]:
    kind, inner = WORD.fullmatch(word).groups()
    return kind, tuple(map(int, re.findall(r"(?<![\d.])\d+(?![\d.])", inner or "")))
