"""Three rounds of FedIIR, one of three unequal clients at rest, against the same rounds written out: autograd's second derivative."""

from __future__ import annotations

import torch
from torch import Tensor

from fedshift.federation.loop import Federation
from fedshift.testing.toys import finish, method, spec
from tests.methods.plain import (
    PARTIAL,
    SIZES,
    Tensors,
    active,
    average,
    copied,
    cross_entropy,
    doubles,
    equal,
    far,
    feature,
    federation,
    head,
    leaves,
    named,
    pixels,
    trained,
)

LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2}
PEN, EMA = 0.3, 0.6


def gradient(loss: Tensor, P: Tensors) -> Tensor:
    """Of the head's weight and bias."""
    both = torch.autograd.grad(loss, [P["head.weight"], P["head.bias"]], create_graph=True)
    return torch.cat([one.flatten() for one in both])


def measured(f: Federation, G: Tensors, k: int) -> Tensor:
    """Of all training images of client k, with the received model in eval mode."""
    P = copied(G)
    leaves(P)
    x, y = f.worker.samples.take(f.clients[k].train)
    return gradient(cross_entropy(head(P, feature(P, pixels(x), False)), y), P).detach()


@doubles()
def test_three_rounds() -> None:
    f = federation(spec(local=LOCAL, federation=PARTIAL), method("fediir", pen=PEN, ema=EMA))
    G, mean = named(f, f.state.row), torch.zeros(2 * 64 + 2)
    for t in range(PARTIAL["rounds"]):
        chosen = active(f, t)
        total = sum(SIZES[k] for k in chosen)
        new = sum(SIZES[k] / total * measured(f, G, k) for k in chosen)
        mean = EMA * mean + (1 - EMA) * new

        def loss(P: Tensors, x: Tensor, y: Tensor, goal: Tensor = mean) -> Tensor:
            task = cross_entropy(head(P, feature(P, x, True)), y)
            return task + PEN * (gradient(task, P) - goal).square().sum()

        G = average([trained(f, G, k, t, loss) for k in chosen], equal(chosen))
    finish(f)
    assert (f.state.slots["G"] - mean).abs().max() < 1e-9
    assert far(named(f, f.state.row), G) < 1e-9
