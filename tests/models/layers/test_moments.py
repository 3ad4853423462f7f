"""Moments by the kernels of batch normalisation equal plain reductions, forwards and backwards."""

from __future__ import annotations

import pytest
import torch

from fedshift.methods.fdse.consistency import BatchMoments

SHAPES = [(6, 5, 4, 3), (6, 5), (2, 3, 7)]


@pytest.mark.parametrize("shape", SHAPES)
def test_equal_to_plain_reductions(shape):
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    axes = [0, *range(2, x.dim())]
    mean, variance = BatchMoments.apply(x)
    torch.testing.assert_close(mean, x.mean(axes), rtol=0, atol=1e-14)
    torch.testing.assert_close(variance, x.var(axes, correction=0), rtol=0, atol=1e-14)
    assert torch.autograd.gradcheck(BatchMoments.apply, (x,))


@pytest.mark.parametrize("shape", SHAPES)
def test_bf16_and_channels_last(shape):
    """Statistics in fp32; the gradient in the precision and the layout of the map."""
    exact = torch.randn(shape, generator=torch.Generator().manual_seed(0)).bfloat16()
    if len(shape) == 4:
        exact = exact.to(memory_format=torch.channels_last)
    x = exact.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        mean, variance = BatchMoments.apply(x)
    assert mean.dtype == variance.dtype == torch.float32
    axes = [0, *range(2, x.dim())]
    torch.testing.assert_close(mean, exact.float().mean(axes), rtol=0, atol=1e-6)
    torch.testing.assert_close(variance, exact.float().var(axes, correction=0), rtol=1e-5, atol=1e-6)
    (mean.sum() + variance.sum()).backward()
    assert x.grad.dtype == torch.bfloat16 and x.grad.stride() == x.stride()
    expected = (1 + 2 * (exact.float() - mean.view(-1, *[1] * (len(shape) - 2)))) / (exact.numel() / shape[1])
    torch.testing.assert_close(x.grad.float(), expected.detach(), rtol=0.02, atol=2e-3)
