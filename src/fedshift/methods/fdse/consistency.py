"""FDSE's consistency term (Eq. 4-7): it pulls the statistics of every block's output to the global ones."""

from typing import Any

import torch
from torch import Tensor

from fedshift.common.equations import equation
from fedshift.methods.fdse.block import DSEBlock
from fedshift.models.base import Model

KEEP = 0.9  # of the old value in running statistics: 1 - the momentum of BN_DFE


@equation("FDSE", "Eq. 4")
def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance [T] of each channel of x [B, T, ..] over all other axes, in fp32 or fp64."""
    average, variance = BatchMoments.apply(x)  # type: ignore[no-untyped-call]
    return average, variance


@equation("FDSE", "Eq. 5")
def running(before: Tensor, batch: Tensor) -> Tensor:
    """Running means or variances [D] after one more batch: gamma before + (1 - gamma) batch, gamma = 0.9.

    Only `batch` has a gradient, which is therefore scaled by 0.1.
    """
    return KEEP * before.detach() + (1 - KEEP) * batch


@equation("FDSE", "Eq. 6")
def consistency(
    average: Tensor, variance: Tensor, global_average: Tensor, global_variance: Tensor, channels: Tensor
) -> Tensor:
    """Distance of the statistics of each of L layers from the global ones, [L].

    It is (1/d) ||mean - global mean||^2 + ((sum variance - sum global variance) / d)^2. The statistics of all
    layers are in one vector [D]. channels [L, D] is 1/d where a channel belongs to a layer, else 0. For a
    single layer it is torch.full((1, d), 1 / d).
    """
    shift = (channels * (average - global_average).square()).sum(1)
    return shift + (channels * (variance - global_variance)).sum(1).square()


@equation("FDSE", "Eq. 7")
def depth_weights(depth: Tensor, beta: float) -> Tensor:
    """exp(beta l) / sum_j exp(beta j) for depths l [L], which may start at any number; integers give fp32."""
    return torch.softmax(beta * depth, 0)


class Alignment:
    """L_con of a network in training. The first statistics of BN_DFE are the goal and the first running
    values.
    """

    def __init__(self, model: Model, beta: float) -> None:
        self.blocks = [module for module in model.modules() if isinstance(module, DSEBlock)]
        self.sizes = [block.outputs for block in self.blocks]
        self.bns: list[Any] = [block.dfe.bn for block in self.blocks]
        goal = [torch.cat([getattr(bn, name) for bn in self.bns]) for name in ("running_mean", "running_var")]
        self.goal, self.own = goal, [values.clone() for values in goal]
        self.channels = torch.block_diag(*[goal[0].new_full((1, size), 1 / size) for size in self.sizes])
        self.weights = depth_weights(torch.arange(len(self.bns), device=goal[0].device), beta).to(goal[0])

    def term(self) -> Tensor:
        """Eq. 4-7 for the batch that the network has just seen; a scalar."""
        batch = zip(*self._moments(), strict=True)
        own = [running(before, torch.cat(now)) for before, now in zip(self.own, batch, strict=True)]
        for kept, now in zip(self.own, own, strict=True):
            kept.copy_(now.detach())
        layers = consistency(own[0], own[1], self.goal[0], self.goal[1], self.channels)
        return (self.weights * layers).sum()

    def _moments(self) -> list[tuple[Tensor, Tensor]]:
        return [moments(block.deskewed) for block in self.blocks if block.deskewed is not None]


class BatchMoments(torch.autograd.Function):
    """Mean and biased variance [T] of x [B, T, ..] over all axes but the channels, in fp32 at least.

    It calls the kernels of batch normalisation. A plain reduction of a channels_last map over (0, 2, 3) takes
    60 times as long on a CPU (PyTorch 2.11, [16, 64, 63, 63] in bf16).
    """

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
