"""FDSE's blocks: the released ones number by number, their parts by hand, and what they make of every network."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedshift.analysis.layers import normalised
from fedshift.common import registry
from fedshift.federation.cost import macs_per_image, state_dict_bytes
from fedshift.methods.fdse.block import Decomposition, DSEBlock, decompose
from fedshift.models.layers.blocks import ConvBlock, LinearBlock
from tests.reference import Reference

FIRST = Decomposition(padding="v1")
SECOND = Decomposition(activation="none", fc_identity=True, concat_bias="shared", padding="head")


NAMES = {
    "v1": {"dfe.conv": "Vshare", "dse.bn": "norm_V", "dse.conv": "Up", "dse.bias.bias": "Vbias", "dfe.bn": "bn"},
    "head": {"dfe.conv": "dfe_conv", "dse.bn": "dse_bn", "dse.conv": "dse_conv", "dfe.bias.bias": "dfe_bias", "dfe.bn": "dfe_bn"},
}  # fmt: skip


def block(outputs: int, how: Decomposition, linear: bool = False) -> DSEBlock:
    """The block that takes the place of a convolution (3 to `outputs`, kernel 3, stride 2) or of a linear layer (6 to `outputs`)."""
    torch.manual_seed(0)
    module = LinearBlock(6, outputs) if linear else ConvBlock(3, outputs, 3, stride=2, padding=1)
    assert decompose(module, how) == 1
    made = module.get_submodule("fc" if linear else "conv")
    assert isinstance(made, DSEBlock)
    return made


def network(name: str, classes: int, px: int, how: Decomposition | None = None) -> nn.Module:
    """A network on the meta device, decomposed if it is said how."""
    with torch.device("meta"):
        model: nn.Module = registry.get("models", name)(classes, px)
        if how is not None:
            decompose(model, how)
    return model


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parity
@pytest.mark.parametrize("release", ["v1", "head"])
@pytest.mark.parametrize("kind", ["conv", "lin"])
def test_released_blocks(release: str, kind: str) -> None:
    """Forward in training and evaluation, and the statistics that a batch leaves."""
    ref, case = Reference("fdse_block.npz"), f"{release}{kind}"
    second = Decomposition(activation="none", fc_identity=True, concat_bias="shared")
    made = block(4, FIRST if release == "v1" else second, linear=kind == "lin").double()

    def theirs(ours: str) -> str:
        prefix = next(prefix for prefix in NAMES[release] if ours.startswith(prefix))
        return NAMES[release][prefix] + ours.removeprefix(prefix)

    state = made.state_dict()
    before = {name: ref.given(f"{case}/sd0/{theirs(name)}") for name in state}
    made.load_state_dict({name: value.reshape(state[name].shape) for name, value in before.items()})
    x = ref.given(f"{case}/x")
    ref.equals(f"{case}/y_train", F.relu(made(x)))
    for name, value in made.state_dict().items():
        if "running" in name:
            ref.equals(f"{case}/sd1/{theirs(name)}", value)
    ref.equals(f"{case}/y_eval_after", F.relu(made.eval()(x)))


def test_keeps_the_input_of_the_last_normalisation_only_while_the_erasing_half_trains() -> None:
    made, x = block(4, Decomposition()), torch.randn(3, 3, 8, 8)
    made(x)
    torch.testing.assert_close(made.dfe.bn.running_mean, 0.1 * made.deskewed.mean((0, 2, 3)))
    made.eval()(x)
    assert made.deskewed is None
    made.dse.train()  # as in adaptation at test time: everything else in evaluation mode
    before = made.dfe.bn.running_mean.clone()
    made(x)
    assert made.deskewed is not None and made.deskewed.requires_grad
    assert made.dfe.bn.running_mean.equal(before)


@pytest.mark.parametrize("value", [{"G": 0}, {"dw": 2}, {"dw": -1}])
def test_impossible_sizes(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="G must be positive and dw positive and odd"):
        Decomposition(**value)


# ---- networks
@pytest.mark.parametrize(
    ("name", "classes", "px", "how", "blocks", "count"),
    [
        ("alexnet_bn", 10, 256, Decomposition(), 7, 6_509_034),
        ("alexnet_bn", 10, 256, FIRST, 7, 6_509_034),
        ("alexnet_bn", 10, 256, SECOND, 7, 6_508_010),
        ("alexnet_bn", 10, 256, Decomposition(concat_bias="none"), 7, 6_509_034 - 3_200),
        ("resnet50", 10, 224, Decomposition(), 16, 21_119_306),
        ("vit_small", 7, 256, Decomposition(), 6, 1_096_327 - 6 * (129 * 64) + 6 * (129 * 32 + 64 + 64 + 64 + 128)),
        ("digits_cnn", 10, 32, Decomposition(), 4, None),
    ],
)  # fmt: skip
def test_parameters(
    name: str, classes: int, px: int, how: Decomposition, blocks: int, count: int | None
) -> None:
    model = network(name, classes, px, how)
    assert sum(isinstance(module, DSEBlock) for module in model.modules()) == blocks
    if count is not None:
        assert parameters(model) == count
    assert parameters(model) < parameters(network(name, classes, px))


# ---- Table 4: AlexNet of 10 classes, 50 images of 256 px
@pytest.mark.parametrize(
    ("how", "conv_and_linear", "with_4", "with_5"),
    [
        (None, 4.395, 4.408, 4.411),
        (FIRST, 2.220, 2.239, 2.244),
        (Decomposition(fc_identity=True, activation="none", concat_bias="shared"), 2.212, 2.231, 2.236),
        (SECOND, 1.675, 1.692, 1.696),
        (Decomposition(), 2.212, 2.231, 2.236),
    ],
)
def test_multiply_adds(
    how: Decomposition | None, conv_and_linear: float, with_4: float, with_5: float
) -> None:
    """Published: 4.41 and 2.24 (x 1e10), which count 4 or 5 operations for each normalised number besides. To the last digit counted."""
    model = network("alexnet_bn", 10, 256, how)
    counted, passed = 50 * macs_per_image(model, 256), 50 * normalised(model, 256)
    assert counted / 1e10 == pytest.approx(conv_and_linear, abs=1e-3)
    assert (counted + 4 * passed) / 1e10 == pytest.approx(with_4, abs=1e-3)
    assert (counted + 5 * passed) / 1e10 == pytest.approx(with_5, abs=1e-3)


@pytest.mark.parametrize(
    ("classes", "how", "mib"),
    [(10, None, 49.517), (7, None, 49.505), (10, FIRST, 24.867), (10, Decomposition(), 24.867), (7, FIRST, 24.855), (10, SECOND, 24.863)],
)  # fmt: skip
def test_bytes_of_a_complete_state(classes: int, how: Decomposition | None, mib: float) -> None:
    """Published: 49.52 and 24.87 MiB."""
    assert state_dict_bytes(network("alexnet_bn", classes, 256, how)) / 2**20 == pytest.approx(mib, abs=5e-4)
