"""FDSE-Adaption against a plain PyTorch transcription of Algorithm 3, and what it must leave alone."""

import math

import torch
from torch import Tensor

from fedshift.common.registry import get
from fedshift.federation.layout import Layout, Network
from fedshift.methods.fdse.block import DSEBlock
from fedshift.testing.toys import method
from tests.evaluations.test_fedbn import adaptation, images, network

BETA = 0.7


def decomposed() -> tuple[Network, Layout]:
    """An FDSE network whose statistics are not those of the start."""
    net, layout = network(lambda: method("fdse").model(get("models", "digits_cnn")(4, 32)))
    rng = torch.Generator().manual_seed(5)
    statistics = layout.kind("bn_statistic").mask
    net.row[statistics] += torch.rand(int(statistics.sum()), generator=rng)
    return net, layout


def run(net: Network, layout: Layout, x: Tensor, **chosen: object) -> None:
    adapted = adaptation("fdse", "fdse", **chosen)
    adapted.method = method("fdse", beta=BETA)
    adapted.adapt(net, layout, lambda size: iter(x.split(size)))


def parts(layout: Layout) -> tuple[Tensor, Tensor, Tensor]:
    """Masks of P (personal), L (statistics of BN_DSE) and all else."""
    role, trainable = layout.role("dse").mask, layout.trainable.mask
    return role & trainable, role & ~trainable, ~role


def transcribed(net: Network, x: Tensor, epochs: int, lr: float, batch: int) -> dict[str, Tensor]:
    """Algorithm 3 by hand: hooks on BN_DFE, torch's SGD, statistics as plain lists."""
    model = method("fdse").model(get("models", "digits_cnn")(4, 32))
    model.load_state_dict({name: value.clone() for name, value in net.model.state_dict().items()})
    blocks = [module for module in model.eval().modules() if isinstance(module, DSEBlock)]
    inputs: dict[int, Tensor] = {}
    for i, block in enumerate(blocks):
        block.dse.train()
        block.dfe.bn.register_forward_pre_hook(lambda _, given, i=i: inputs.__setitem__(i, given[0]))
    sgd = torch.optim.SGD([p for block in blocks for p in block.dse.parameters()], lr=lr)
    goal = [(b.dfe.bn.running_mean.clone(), b.dfe.bn.running_var.clone()) for b in blocks]
    ema = list(goal)
    weights = [math.exp(BETA * i) for i in range(len(blocks))]
    for _ in range(epochs):
        for part in x.split(batch):
            model(part)
            loss = torch.zeros(())
            for i, (mean, var) in enumerate(ema):
                z = inputs[i].transpose(0, 1).flatten(1)
                now = 0.9 * mean.detach() + 0.1 * z.mean(1), 0.9 * var.detach() + 0.1 * z.var(1, correction=0)
                ema[i] = now
                shift = (now[0] - goal[i][0]).square().mean()
                spread = ((now[1].sum() - goal[i][1].sum()) / len(now[1])) ** 2
                loss = loss + weights[i] / sum(weights) * (shift + spread)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
    return model.state_dict()


def test_two_epochs_of_two_batches_are_algorithm_3() -> None:
    net, layout = decomposed()
    x, before = images(10), net.row.clone()
    expected = transcribed(net, x, epochs=2, lr=0.5, batch=6)
    run(net, layout, x, epochs=2, lr=0.5, batch=6)
    for entry in layout.entries:
        torch.testing.assert_close(entry.view(net.row), expected[entry.name], rtol=1e-4, atol=1e-5)
    personal, local, rest = parts(layout)
    assert (net.row != before)[personal].float().mean() > 0.9 and (net.row != before)[local].all()
    assert torch.equal(net.row[rest], before[rest])  # S: bit for bit
