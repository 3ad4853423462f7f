"""Three rounds of FedIIR, one of three unequal clients at rest, against the same rounds written out: autograd's second derivative."""

from __future__ import annotations

import torch
from torch import Tensor

from fedshift.federation.loop import Federation
from fedshift.testing.toys import finish, method, spec
from tests.methods import plain

LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2}
PEN, EMA = 0.3, 0.6


def gradient(loss: Tensor, P: plain.Tensors) -> Tensor:
    """Of the head's weight and bias."""
    both = torch.autograd.grad(loss, [P["head.weight"], P["head.bias"]], create_graph=True)
    return torch.cat([one.flatten() for one in both])


def measured(f: Federation, G: plain.Tensors, k: int) -> Tensor:
    """Of all training images of client k, with the received model in eval mode."""
    P = plain.copied(G)
    plain.leaves(P)
    x, y = f.worker.samples.take(f.clients[k].train)
    return gradient(
        plain.cross_entropy(plain.head(P, plain.feature(P, plain.pixels(x), False)), y), P
    ).detach()


@plain.doubles()
def test_three_rounds() -> None:
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("fediir", pen=PEN, ema=EMA))
    G, mean = plain.named(f, f.state.row), torch.zeros(2 * 64 + 2)
    for t in range(plain.PARTIAL["rounds"]):
        chosen = plain.active(f, t)
        total = sum(plain.SIZES[k] for k in chosen)
        new = sum(plain.SIZES[k] / total * measured(f, G, k) for k in chosen)
        mean = EMA * mean + (1 - EMA) * new

        def loss(P: plain.Tensors, x: Tensor, y: Tensor, goal: Tensor = mean) -> Tensor:
            task = plain.cross_entropy(plain.head(P, plain.feature(P, x, True)), y)
            return task + PEN * (gradient(task, P) - goal).square().sum()

        G = plain.average([plain.trained(f, G, k, t, loss) for k in chosen], plain.equal(chosen))
    finish(f)
    assert (f.state.slots["G"] - mean).abs().max() < 1e-9
    assert plain.far(plain.named(f, f.state.row), G) < 1e-9
