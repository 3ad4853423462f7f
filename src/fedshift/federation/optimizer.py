"""An optimiser over one flat vector, clipping, and the clients' learning-rate schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from fedshift.spec.settings import Local


@dataclass(frozen=True)
class Rule:
    """An optimiser for a flat vector: its kind, its settings, and the norm limit of its gradient."""

    optimizer: Literal["sgd", "adam"]
    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = None

    @classmethod
    def of(cls, local: Local) -> Rule:
        """The rule of the clients' training."""
        return cls(local.optimizer, local.lr, local.momentum, local.weight_decay, local.clip)


class Optimizer:
    """SGD or Adam of torch over the flat vector w [P] with gradient g [P]; `memory` is its state.

    - tail: a second optimiser, which steps along, for the entries that follow w in the same row
    - on_device: the learning rate and the step count are tensors on the device, which a recorded step reads
      each time
    """

    def __init__(
        self, rule: Rule, w: Tensor, g: Tensor, memory: dict[str, Tensor], tail: Optimizer | None = None,
        on_device: bool = False,
    ) -> None:  # fmt: skip
        self._leaf = w.detach()
        self._leaf.grad = g
        settings: dict[str, Any] = {"lr": rule.lr, "weight_decay": rule.weight_decay, "fused": True}
        self._inner: torch.optim.Optimizer = (
            torch.optim.Adam([self._leaf], capturable=on_device, **settings)
            if rule.optimizer == "adam"
            else torch.optim.SGD([self._leaf], momentum=rule.momentum, **settings)
        )
        self._inner.state[self._leaf] = memory
        self._lr = rule.lr
        if on_device:  # fused kernels read fp32 on a GPU, fp64 on a CPU
            precise = torch.float32 if w.device.type == "cuda" else torch.float64
            self._inner.param_groups[0]["lr"] = torch.full((), rule.lr, dtype=precise, device=w.device)
        self._clip = rule.clip
        self._tail = tail
        self.g = g

    def clip(self) -> None:
        """Scale the gradient down to the norm limit if it exceeds it."""
        if self._clip is not None:
            self.g.mul_((self._clip / (self.g.norm() + 1e-6)).clamp(max=1.0))
        if self._tail is not None:
            self._tail.clip()

    def rate(self, lr: float) -> None:
        """Set the learning rate of the next steps."""
        group = self._inner.param_groups[0]
        if not isinstance(group["lr"], Tensor):
            group["lr"] = lr
        elif lr != self._lr:
            group["lr"].fill_(lr)
        self._lr = lr
        if self._tail is not None:
            self._tail.rate(lr)

    def step(self) -> None:
        """One step of the optimiser."""
        self._inner.step()
        if self._tail is not None:
            self._tail.step()


def learning_rate(local: Local, rounds: int, t: int, epoch: int) -> float:
    """The learning rate of epoch `epoch` in round `t`, both from 0 (docs/protocols.md, C5)."""
    schedule = local.schedule
    per_round = 1 if schedule.unit == "round" else local.epochs
    unit = t * per_round + (epoch if schedule.unit == "epoch" else 0)
    factor = 1.0
    if schedule.kind == "exponential":
        factor = schedule.gamma**unit
    elif schedule.kind == "step":
        factor = schedule.gamma ** (unit // schedule.step)
    elif schedule.kind == "cosine":
        factor = (1 + math.cos(math.pi * unit / max(1, rounds * per_round))) / 2
    return local.lr * factor
