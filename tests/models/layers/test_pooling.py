"""Average pooling by matrix product equals PyTorch's, forwards and backwards."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedshift.models.layers.blocks import AdaptiveAverage


@pytest.mark.parametrize(
    ("height", "width", "side"), [(8, 8, 3), (7, 7, 6), (15, 13, 6), (2, 2, 3), (1, 1, 6)]
)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_equals_adaptive_average_pooling(height, width, side, memory_format):
    torch.manual_seed(0)
    x = torch.randn(4, 5, height, width).to(memory_format=memory_format).requires_grad_()
    ours, theirs = AdaptiveAverage(side)(x), nn.AdaptiveAvgPool2d(side)(x)
    torch.testing.assert_close(ours, theirs)
    weights = torch.randn_like(ours)
    torch.testing.assert_close(
        torch.autograd.grad((ours * weights).sum(), x), torch.autograd.grad((theirs * weights).sum(), x)
    )


def test_equal_sizes_pass_unchanged():
    x = torch.randn(2, 3, 6, 6)
    assert AdaptiveAverage(6)(x) is x


def test_first_use_in_inference_mode_does_not_spoil_training():
    pool = AdaptiveAverage(4)
    with torch.inference_mode():
        pool(torch.randn(1, 1, 9, 9))
    x = torch.randn(1, 1, 9, 9, requires_grad=True)
    pool(x).sum().backward()
    assert x.grad is not None


def test_bfloat16():
    x = torch.rand(2, 3, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        y = AdaptiveAverage(3)(x.bfloat16())
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), nn.AdaptiveAvgPool2d(3)(x), rtol=1e-2, atol=1e-2)
