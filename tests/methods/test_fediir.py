"""FedIIR: the head's gradient in its precisions, what travels, its limit."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.loop import Federation
from fedshift.methods.fediir import head_gradient
from fedshift.testing.toys import finish, method, small, spec
from tests.methods import plain


def test_the_head_gradient_keeps_double_precision() -> None:
    rng = torch.Generator().manual_seed(1)
    z, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, generator=rng) for shape in ((7, 4), (3, 4), (3,))
    )
    y = torch.randint(0, 2, (7,), generator=rng)  # nobody of the last class
    weight, bias = weight.requires_grad_(), bias.requires_grad_()
    logits = F.linear(z, weight, bias)
    both = torch.autograd.grad(F.cross_entropy(logits, y), (weight, bias))
    reference = torch.cat([g.flatten() for g in both])
    ours = head_gradient(z, logits.detach(), y)
    assert (ours - reference).abs().max() < 1e-14
    half = head_gradient(z.bfloat16(), logits.detach().bfloat16(), y)
    assert half.dtype == torch.float32
    assert half.tolist() == pytest.approx(reference.tolist(), abs=0.02)


def test_it_costs_one_gradient_each_way() -> None:
    federation = finish(small(spec(federation={"rounds": 1}), method("fediir")))
    cost = {row["metric"]: row["value"] for row in federation.records.rows if row["stage"] == "cost"}
    head = 2 * 64 + 2
    assert cost["bytes_down"] == 3 * 4 * (federation.layout.size + head)
    assert cost["bytes_up"] == 3 * 4 * (federation.layout.size + head + 1)


# Three rounds of FedIIR, one of three unequal clients at rest, against the same rounds written out: autograd's second derivative.
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
    return gradient(plain.cross_entropy(plain.logits(P, plain.pixels(x), False), y), P).detach()


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
            task = plain.cross_entropy(plain.logits(P, x, True), y)
            return task + PEN * (gradient(task, P) - goal).square().sum()

        G = plain.average([plain.trained(f, G, k, t, loss) for k in chosen], plain.equal(chosen))
    finish(f)
    assert (f.state.slots["G"] - mean).abs().max() < 1e-9
    assert plain.far(plain.named(f, f.state.row), G) < 1e-9
