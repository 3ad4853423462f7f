"""Parameters, bytes, multiply-adds and map sizes of every network, as published or counted in its paper."""

import re
from typing import NamedTuple

import pytest
import torch

from fedshift.common import registry
from fedshift.common.errors import FedshiftError
from fedshift.common.yaml_file import read
from fedshift.federation.cost import macs_per_image
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


# Network -> paper, table of reference/architectures.yaml, and the printed layers with which our stages end.
PRINTED = {"alexnet_bn": ("FDSE", "A5", (1, 2, 3, 4, 5)), "hfedf_cnn": ("hFedF", "7", (2, 5, 6, 7))}


def meta(name: str, classes: int, px: int):
    with torch.device("meta"):
        return registry.get("models", name)(classes, px)


def maps(model, px):
    """Channels and side of the map after each stage."""
    model.eval()  # batch normalisation does not train on one pixel
    x = torch.zeros(1, 3, px, px, device="meta")
    shapes = [tuple(model.body(x, stop=stage).shape) for stage in model.stages]
    assert all(images == 1 and height == width for images, _, height, width in shapes)
    return [(channels, side) for _, channels, _, side in shapes]


@pytest.mark.parametrize(("name", "classes", "px"), [("hfedf_cnn", 65, 32), ("alexnet_bn", 7, 256)])
def test_printed_networks_have_the_counts_of_their_printed_layers(name, classes, px):
    paper, table, stages = PRINTED[name]
    model, expected = meta(name, classes, px), counts(paper, table, classes, px)
    assert sum(p.numel() for p in model.parameters()) == expected.parameters
    assert macs_per_image(model, px) == expected.macs
    assert maps(model, px) == [expected.maps[layer - 1] for layer in stages]


VIT = 64 * 3_072 * 64 + 6 * 65 * 64 * (1_536 + 512 + 128 + 128) + 64 * 7
DIGITS_DG = 576 * (3 * 1_024 // 64 + 256 + 64 + 16) * 64 + 256 * 7
LENET = 75 * 6 * 28**2 + 150 * 16 * 10**2 + 400 * 120 + 120 * 84 + 84 * 7


@pytest.mark.parametrize(
    ("name", "px", "parameters", "macs", "shapes"),
    [
        ("digits_cnn", 32, 61_514 - 3 * 65, 3_391_936, [(16, 16), (32, 8), (64, 4), (64, 4)]),
        ("resnet18", 224, 11_180_103, 1_813_564_928, [(64, 56), (64, 56), (128, 28), (256, 14), (512, 7)]),
        ("resnet50", 224, 23_522_375, 4_087_150_592, [(64, 56), (256, 56), (512, 28), (1_024, 14), (2_048, 7)]),
        ("vit_small", 256, 1_096_327, VIT, None),
        ("digits_dg_cnn", 32, 115_146 - 3 * 257, DIGITS_DG, [(64, 16), (64, 8), (64, 4), (64, 2)]),
        ("lenet", 32, 61_751, LENET, [(6, 14), (16, 5)]),
        ("mobilenet", 32, 2_232_839, 6_121_088, [(16, 16), (24, 8), (32, 4), (96, 2), (1_280, 1)]),
        ("densenet", 32, 6_961_031, 57_826_304, [(64, 8), (128, 4), (256, 2), (512, 1), (1_024, 1)]),
        ("vgg", 32, 9_229_575, 152_768_000, [(64, 16), (128, 8), (256, 4), (512, 2), (512, 1)]),
    ],
)  # fmt: skip
def test_parameters_multiply_adds_and_maps(name, px, parameters, macs, shapes):
    """Of 7 classes; multiply-adds are those of convolutions and linear layers."""
    model = meta(name, 7, px)
    assert (sum(p.numel() for p in model.parameters()), macs_per_image(model, px)) == (parameters, macs)
    assert shapes is None or maps(model, px) == shapes


def test_vit_is_made_of_whole_patches():
    with pytest.raises(FedshiftError, match="100 px are no whole number of patches"):
        meta("vit_small", 7, 100)


def test_vit_cuts_patches_in_rows():
    """Patch (i, j) is token 1 + i w + j, and lies in it pixel by pixel, colours last; shown by a linear layer that reads one number."""
    stem = registry.get("models", "vit_small")(7, 96).stages["stem"]
    x = torch.randn(1, 3, 96, 96)
    stem.norm1, stem.norm2 = torch.nn.Identity(), torch.nn.Identity()
    for parameter in stem.parameters():
        parameter.data.zero_()
    stem.fc.weight.data[0, (5 * 32 + 7) * 3 + 2] = 1
    expected = x[0, 2, 5::32, 7::32].flatten()
    assert torch.equal(stem(x)[0, 0, 1:, 0], expected) and stem(x)[0, 0, 0, 0] == 0
