"""Parameters, bytes, multiply-adds and map sizes of every network, as published or counted in its paper."""

from __future__ import annotations

import pytest
import torch

from fedshift.common import registry
from fedshift.common.errors import FedshiftError
from fedshift.federation.cost import macs_per_image, state_dict_bytes
from fedshift.methods.fdse.block import DSEBlock
from fedshift.testing.toys import method
from tests.models.printed import counts

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


@pytest.mark.parametrize(
    ("name", "classes", "px"),
    [
        ("hfedf_cnn", 7, 32),
        ("hfedf_cnn", 65, 32),
        ("hfedf_cnn", 5, 32),
        ("alexnet_bn", 7, 256),
        ("alexnet_bn", 10, 256),
        ("alexnet_bn", 7, 224),
    ],
)
def test_printed_networks_have_the_counts_of_their_printed_layers(name, classes, px):
    paper, table, stages = PRINTED[name]
    model, expected = meta(name, classes, px), counts(paper, table, classes, px)
    assert sum(p.numel() for p in model.parameters()) == expected.parameters
    assert macs_per_image(model, px) == expected.macs
    assert maps(model, px) == [expected.maps[layer - 1] for layer in stages]


@pytest.mark.parametrize(
    ("name", "classes", "px", "parameters"),
    [
        ("digits_cnn", 10, 32, 61_514),
        ("resnet18", 7, 224, 11_180_103),
        ("resnet18", 5, 224, 11_179_077),
        ("resnet18", 10, 224, 11_181_642),
        ("resnet18", 65, 224, 11_209_857),
        ("resnet50", 7, 224, 23_522_375),
        ("resnet50", 10, 224, 23_528_522),
        ("resnet50", 65, 224, 23_641_217),
        ("resnet50", 345, 224, 24_214_937),
        ("vit_small", 7, 256, 1_096_327),
        ("digits_dg_cnn", 10, 32, 115_146),
        ("lenet", 7, 32, 61_751),
        ("mobilenet", 7, 32, 2_232_839),
        ("densenet", 7, 32, 6_961_031),
        ("vgg", 7, 32, 9_229_575),
    ],
)
def test_parameters(name, classes, px, parameters):
    assert sum(p.numel() for p in meta(name, classes, px).parameters()) == parameters


@pytest.mark.parametrize(
    ("name", "px", "macs"),
    [
        ("digits_cnn", 32, 3_391_936),
        ("resnet18", 224, 1_813_564_928),
        ("resnet50", 224, 4_087_150_592),
        ("vit_small", 256, 64 * 3_072 * 64 + 6 * 65 * 64 * (1_536 + 512 + 128 + 128) + 64 * 7),
        ("digits_dg_cnn", 32, 576 * (3 * 1_024 // 64 + 256 + 64 + 16) * 64 + 256 * 7),
        ("lenet", 32, 75 * 6 * 28**2 + 150 * 16 * 10**2 + 400 * 120 + 120 * 84 + 84 * 7),
        ("mobilenet", 32, 6_121_088),
        ("densenet", 32, 57_826_304),
        ("vgg", 32, 152_768_000),
    ],
)
def test_multiply_adds_of_convolutions_and_linear_layers(name, px, macs):
    assert macs_per_image(meta(name, 7, px), px) == macs


def test_alexnet_state():
    state = meta("alexnet_bn", 10, 256).state_dict()
    assert round(sum(t.numel() * t.element_size() for t in state.values()) / 2**20, 3) == 49.517
    statistics = [t.numel() for key, t in state.items() if "running" in key]
    assert len(statistics) == 14 and sum(statistics) == 6_400


def test_hfedf_has_22_tensors():
    model = meta("hfedf_cnn", 7, 32)
    assert len(model.state_dict()) == len(list(model.parameters())) == 22


@pytest.mark.parametrize(
    ("name", "px", "shapes"),
    [
        ("digits_cnn", 32, [(16, 16), (32, 8), (64, 4), (64, 4)]),
        ("resnet18", 224, [(64, 56), (64, 56), (128, 28), (256, 14), (512, 7)]),
        ("resnet50", 224, [(64, 56), (256, 56), (512, 28), (1_024, 14), (2_048, 7)]),
        ("digits_dg_cnn", 32, [(64, 16), (64, 8), (64, 4), (64, 2)]),
        ("lenet", 32, [(6, 14), (16, 5)]),
        ("mobilenet", 32, [(16, 16), (24, 8), (32, 4), (96, 2), (1_280, 1)]),
        ("densenet", 32, [(64, 8), (128, 4), (256, 2), (512, 1), (1_024, 1)]),
        ("vgg", 32, [(64, 16), (128, 8), (256, 4), (512, 2), (512, 1)]),
    ],
)
def test_maps(name, px, shapes):
    assert maps(meta(name, 7, px), px) == shapes


@pytest.mark.parametrize(
    ("name", "classes", "px", "blocks", "parameters", "mib", "macs"),
    [
        ("resnet50", 10, 224, 16, 21_119_306, 80.82, 3_700_952_064),
        ("vit_small", 7, 256, 6, 1_073_479, 4.11, 68_518_720),
    ],
)
def test_fdse_decomposes_the_last_layer_of_each_block(name, classes, px, blocks, parameters, mib, macs):
    with torch.device("meta"):
        model = method("fdse").model(registry.get("models", name)(classes, px))
    assert sum(isinstance(module, DSEBlock) for module in model.modules()) == blocks
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert round(state_dict_bytes(model) / 2**20, 2) == mib
    assert macs_per_image(model, px) == macs


def test_vit_body_is_a_map_of_tokens():
    model, x = meta("vit_small", 7, 256), torch.zeros(2, 3, 256, 256, device="meta")
    assert [tuple(model.body(x, stop=stage).shape) for stage in model.stages] == [(2, 64, 65, 1)] * 7


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
