"""Parameters, bytes, multiply-adds and map sizes of every network, as published or counted in its paper."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fedshift import registry


def meta(name: str, classes: int, px: int):
    with torch.device("meta"):
        return registry.get("models", name)(classes, px)


@pytest.mark.parametrize(
    ("name", "classes", "px", "parameters"),
    [
        ("digits_cnn", 10, 32, 61_514),
        ("hfedf_cnn", 7, 32, 928_199),
        ("hfedf_cnn", 65, 32, 943_105),
        ("hfedf_cnn", 5, 32, 927_685),
        ("alexnet_bn", 7, 256, 12_971_079),
        ("alexnet_bn", 10, 256, 12_974_154),
        ("resnet18", 7, 224, 11_180_103),
        ("resnet18", 5, 224, 11_179_077),
        ("resnet18", 10, 224, 11_181_642),
        ("resnet18", 65, 224, 11_209_857),
    ],
)
def test_parameters(name, classes, px, parameters):
    assert sum(p.numel() for p in meta(name, classes, px).parameters()) == parameters


@pytest.mark.parametrize(
    ("name", "px", "macs"),
    [
        ("digits_cnn", 32, 3_391_936),
        ("hfedf_cnn", 32, 22_013_696),
        ("alexnet_bn", 224, 666_059_456),
        ("alexnet_bn", 256, 878_995_136),
        ("resnet18", 224, 1_813_564_928),
    ],
)
def test_multiply_adds_of_convolutions_and_linear_layers(name, px, macs):
    model = meta(name, 7, px)
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(2, 3, px, px, device="meta"))
    flops = counter.get_flop_counts()["Global"]
    counted = flops[torch.ops.aten.convolution] + flops[torch.ops.aten.addmm]
    assert counted == 2 * 2 * macs


def test_alexnet_state():
    state = meta("alexnet_bn", 10, 256).state_dict()
    assert round(sum(t.numel() * t.element_size() for t in state.values()) / 2**20, 3) == 49.517
    statistics = [t.numel() for key, t in state.items() if "running" in key]
    assert len(statistics) == 14 and sum(statistics) == 6_400


def test_hfedf_has_22_tensors_in_stages():
    model = meta("hfedf_cnn", 7, 32)
    assert len(model.state_dict()) == len(list(model.parameters())) == 22
    pieces = [*model.stages.values(), model.neck, model.head]
    counts = [sum(p.numel() for p in piece.parameters()) for piece in pieces]
    assert counts == [896, 1_056 + 18_496, 64_624, 177_520, 663_808, 256 * 7 + 7]


@pytest.mark.parametrize(
    ("name", "px", "shapes"),
    [
        ("digits_cnn", 32, [(16, 16), (32, 8), (64, 4), (64, 4)]),
        ("hfedf_cnn", 32, [(32, 16), (64, 8), (176, 8), (288, 8)]),
        ("alexnet_bn", 256, [(64, 31), (192, 15), (384, 15), (256, 15), (256, 7)]),
        ("alexnet_bn", 224, [(64, 27), (192, 13), (384, 13), (256, 13), (256, 6)]),
        ("resnet18", 224, [(64, 56), (64, 56), (128, 28), (256, 14), (512, 7)]),
    ],
)
def test_maps(name, px, shapes):
    model, x = meta(name, 7, px), torch.zeros(1, 3, px, px, device="meta")
    maps = [model.body(x, stop=stage).shape for stage in model.stages]
    assert [tuple(m) for m in maps] == [(1, channels, side, side) for channels, side in shapes]


def test_resnet18_is_torchvisions():
    from torchvision.models import resnet18

    torch.manual_seed(0)
    theirs = resnet18(weights=None, num_classes=7).eval()
    ours = registry.get("models", "resnet18")(7, 64).eval()
    ours.load_state_dict(dict(zip(ours.state_dict(), theirs.state_dict().values(), strict=True)))
    x = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(ours(x).logits, theirs(x), rtol=1e-5, atol=1e-5)
