"""How every network starts: the distribution of each weight and bias, as its paper's code draws it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from fedshift.common import registry
from fedshift.federation.layout import initial
from tests.models.test_forward import SIDES

torch.set_num_threads(1)
# Kaiming normal convolutions, by fan-out or fan-in; the others start as torch's own: U(-1 / sqrt(fan-in), 1 / sqrt(fan-in)).
KAIMING = {"resnet18": "out", "resnet50": "out", "vgg": "out", "mobilenet": "out", "densenet": "in", "digits_dg_cnn": "in"}  # fmt: skip
SMALL_HEAD = ("vgg", "mobilenet")  # N(0, 0.01)
NO_BIAS = {"vgg": (nn.Conv2d, nn.Linear), "mobilenet": (nn.Linear,), "densenet": (nn.Linear,), "digits_dg_cnn": (nn.Conv2d,)}  # fmt: skip


@pytest.mark.parametrize("name", SIDES)
def test_start(name: str) -> None:
    """Deviations within five standard errors of a normal one; a uniform one has its bound besides."""
    model, layout, row = initial(lambda: registry.get("models", name)(65, SIDES[name][0]), 0)
    start = layout.named(row)
    for prefix, module in model.named_modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm):
            assert start[f"{prefix}.weight"].eq(1).all() and start[f"{prefix}.bias"].eq(0).all()
        if not isinstance(module, nn.Conv2d | nn.Linear):
            continue
        w = start[f"{prefix}.weight"]
        pixels = math.prod(w.shape[2:])
        fan = {"out": w.shape[0] * pixels, "in": w.shape[1] * pixels}
        bound = math.inf
        if isinstance(module, nn.Conv2d) and name in KAIMING:
            deviation = math.sqrt(2 / fan[KAIMING[name]])
        elif isinstance(module, nn.Linear) and name in SMALL_HEAD:
            deviation = 0.01
        else:
            deviation, bound = 1 / math.sqrt(3 * fan["in"]), 1 / math.sqrt(fan["in"])
        assert w.square().mean().sqrt().item() == pytest.approx(deviation, rel=5 / math.sqrt(2 * w.numel()))
        assert w.abs().max() <= bound
        if bound == math.inf:
            assert w.abs().max() > 1.8 * deviation  # no uniform one of this deviation goes as far
        if module.bias is not None and isinstance(module, NO_BIAS.get(name, ())):
            assert start[f"{prefix}.bias"].eq(0).all()
        elif module.bias is not None:
            assert 0 < start[f"{prefix}.bias"].abs().max() <= 1 / math.sqrt(fan["in"])
    assert torch.isfinite(row).all()
