"""The clients' optimiser over one flat vector, its learning-rate schedule, and clipping."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedshift.spec import Local, Schedule


class Optimizer:
    """SGD or Adam of torch over the flat vector w [P] with gradient g [P]; `state` is its memory and may outlive it."""

    def __init__(self, local: Local, w: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        self._leaf = w.detach()
        self._leaf.grad = g
        self._inner = _inner(local, self._leaf)
        self._inner.state[self._leaf] = state
        self._clip = local.clip
        self.g = g

    def clip(self) -> None:
        """Scale the gradient to the norm limit where it exceeds it."""
        if self._clip is not None:
            self.g.mul_((self._clip / (self.g.norm() + 1e-6)).clamp(max=1.0))

    def step(self, lr: float) -> None:
        """One step of the optimiser with this learning rate."""
        self._inner.param_groups[0]["lr"] = lr
        self._inner.step()


def _inner(local: Local, leaf: Tensor) -> torch.optim.Optimizer:
    if local.optimizer == "adam":
        return torch.optim.Adam([leaf], lr=local.lr, weight_decay=local.weight_decay, fused=True)
    return torch.optim.SGD(
        [leaf], lr=local.lr, momentum=local.momentum, weight_decay=local.weight_decay, fused=True
    )


def learning_rate(local: Local, rounds: int, t: int, epoch: int) -> float:
    """The learning rate of local epoch `epoch` in round `t`, both from 0; it changes per round or per epoch (methods.md C5)."""
    schedule = local.schedule
    per_round = 1 if schedule.unit == "round" else local.epochs
    unit = t * per_round + (epoch if schedule.unit == "epoch" else 0)
    return local.lr * _factor(schedule, unit, max(1, rounds * per_round))


def _factor(schedule: Schedule, unit: int, units: int) -> float:
    if schedule.kind == "exponential":
        return schedule.gamma**unit
    if schedule.kind == "step":
        return float(schedule.gamma ** (unit // schedule.step))
    if schedule.kind == "cosine":
        return (1 + math.cos(math.pi * unit / units)) / 2
    return 1.0
