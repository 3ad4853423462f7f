"""hFedF's hypernetwork (Table 8) and its clients written out: what the replays of hFedF and pFedHN share. Gradients are autograd's."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.loop import Federation
from tests.methods.plain import batches, leaves, logits, named, trainable

LOCAL = {"batch": 5, "lr": 0.01, "epochs": 2, "batch_rule": "keep_last", "weight_decay": 1e-3, "optimizer": "adam"}  # fmt: skip


class Adam:
    """Algorithm 1 of Kingma and Ba, with weight decay added to the gradient."""

    def __init__(self, lr: float, decay: float) -> None:
        self.lr, self.decay, self.step = lr, decay, 0
        self.m: Tensor | float = 0.0
        self.v: Tensor | float = 0.0

    def __call__(self, w: Tensor, g: Tensor) -> Tensor:
        g, self.step = g + self.decay * w, self.step + 1
        self.m, self.v = 0.9 * self.m + 0.1 * g, 0.999 * self.v + 0.001 * g * g
        m, v = self.m / (1 - 0.9**self.step), self.v / (1 - 0.999**self.step)
        return w - self.lr * m / (v.sqrt() + 1e-8)


def generated(h: Tensor, i: int, N: int, e: int, P: int) -> Tensor:
    """phi_i: embeddings, four layers of 50, LeakyReLU between them, and the heads as one matrix [50, P]."""
    shapes = [(N, e), (50, e), (50,), *[(50, 50), (50,)] * 3, (50, P), (P,)]
    nu, *layers, head, bias = (
        part.view(shape)
        for part, shape in zip(h.split([math.prod(one) for one in shapes]), shapes, strict=True)
    )
    x = nu[i]
    for n, (weight, offset) in enumerate(zip(layers[::2], layers[1::2], strict=True)):
        x = weight @ (torch.where(x > 0, x, 0.01 * x) if n else x) + offset
    return x @ head + bias


def trained(f: Federation, row: Tensor, k: int, t: int) -> Tensor:
    """Algorithm 2 with a new Adam, from `row` [P + Q]."""
    model = named(f, row)
    steps = {name: Adam(0.01, 1e-3) for name in trainable(model)}
    for _, x, y in batches(f, k, t):
        leaves(model)
        loss = F.cross_entropy(logits(model, x, train=True), y)
        g = torch.autograd.grad(loss, [model[name] for name in steps])
        for (name, step), one in zip(steps.items(), g, strict=True):
            model[name] = step(model[name].detach(), one)
    after = row.clone()
    for name, value in f.layout.named(after).items():
        value.copy_(model[name])
    return after
