"""Forms of Eq. 6 in FDSE's released code; both reduce a layer to one mean and one variance over channels."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fedshift.common.equations import equation
from fedshift.methods.fdse.consistency import KEEP, Alignment

EPSILON = 1e-8


@equation("FDSE", "Eq. 6, first release", consistency="code_v1")
def consistency_v1(
    batch: Tensor, own_average: Tensor, own_variance: Tensor, global_average: Tensor, global_variance: Tensor
) -> Tensor:
    """Consistency of one layer of d >= 2 channels in the first release; a scalar, all arguments [d].

    It is mean((global average - m)^2) + (mean(global variance) - mean(v))^2. Here m = 0.9 own average + 0.1
    mean(f) and v = 0.9 own variance + 0.1 var(f), with mean and unbiased variance over channels.

    - batch: this batch's channel means f, the only part with a gradient
    - own_average, own_variance: the running statistics, which this batch has already updated
    """
    average = KEEP * own_average + (1 - KEEP) * batch.mean()
    variance = KEEP * own_variance + (1 - KEEP) * batch.var()
    return (global_average - average).square().mean() + (global_variance.mean() - variance.mean()).square()


@equation("FDSE", "Eq. 6, second release", consistency="code_head")
def consistency_head(
    batches: Sequence[Tensor], global_averages: Sequence[Tensor], global_variances: Sequence[Tensor],
    weights: Tensor, memory: tuple[Tensor, Tensor] | None,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:  # fmt: skip
    """Consistency of all layers in the second release: their weighted sum, and the memory for the next batch.

    The term of a layer is mean((A^2 - m^2) / (2 v)) + mean(log(v / (V + 1e-8)) + V / (v + 1e-8)) / 2, with
    its global averages A and variances V [d_l]. The sum is not bounded below.

    - batches: channel means [d_l] of each layer, d_l >= 2
    - weights: of the layers, [L]
    - memory: (m, v), two scalars, or None before the first batch

    Every layer of every batch updates the memory in turn to 0.9 old + 0.1 (mean, unbiased variance) of its
    channel means. The first update takes the new values alone.
    """
    total = torch.zeros_like(weights[0])
    layers = zip(batches, global_averages, global_variances, weights, strict=True)
    for batch, average, variance, weight in layers:
        m, v = batch.mean(), batch.var()
        if memory is not None:
            m, v = (KEEP * old + (1 - KEEP) * now for old, now in zip(memory, (m, v), strict=True))
        shift = ((average.square() - m.square()) / (2 * v)).mean()
        spread = (torch.log(v / (variance + EPSILON)) + variance / (v + EPSILON)).mean() / 2
        total = total + weight * (shift + spread)
        memory = m, v
    assert memory is not None
    return total, memory


class FirstRelease(Alignment):
    """L_con of the first release."""

    def term(self) -> Tensor:
        goals = (vector.split(self.sizes) for vector in self.goal)
        layers = [
            consistency_v1(batch, bn.running_mean, bn.running_var, average, variance)
            for (batch, _), bn, average, variance in zip(self._moments(), self.bns, *goals, strict=True)
        ]
        return (self.weights * torch.stack(layers)).sum()


class SecondRelease(Alignment):
    """L_con of the second release, which carries two numbers from batch to batch."""

    memory: tuple[Tensor, Tensor] | None = None

    def term(self) -> Tensor:
        averages, variances = (vector.split(self.sizes) for vector in self.goal)
        batches = [batch for batch, _ in self._moments()]
        term, memory = consistency_head(batches, averages, variances, self.weights, self.memory)
        if self.memory is None:
            self.memory = memory[0].detach().clone(), memory[1].detach().clone()
        else:
            for kept, now in zip(self.memory, memory, strict=True):
                kept.copy_(now.detach())
        return term
