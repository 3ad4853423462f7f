"""Three rounds of hFedF, one of three unequal clients at rest, against Algorithm 1, 3 and 4 written out: a second copy for EMA, autograd through the whole hypernetwork."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fedshift.testing.toys import finish, method, spec
from tests.methods.plain import PARTIAL, active, by_size, doubles, federation
from tests.methods.plain_hypernet import LOCAL, Adam, generated, trained


@pytest.mark.parametrize(
    "hp",
    [
        {"ema": 0.75, "warmup": 1},
        {"ema": 0.6, "warmup": 0, "gradalign_sign": -1, "literal_sign": True},
        {"ema": 1.0, "gradalign": False, "embedding_dim": 3},
    ],
    ids=["default", "as_printed", "without"],
)
@doubles()
def test_three_rounds(hp: dict[str, Any]) -> None:
    run = spec(local=LOCAL, federation=PARTIAL)
    f = federation(run, method("hfedf", lr=0.01, weight_decay=1e-3, **hp))
    W, B, N, e = f.layout.W, f.layout.B, 3, hp.get("embedding_dim", 1)
    h, row, adam = f.state.slots["h"].clone(), f.state.row.clone(), Adam(0.01, 1e-3)
    smoothed = h
    for t in range(3):
        leaf, gradients, statistics = h.clone().requires_grad_(), [], []
        chosen = active(f, t)
        for i in chosen:
            phi = generated(leaf, i, N, e, f.layout.P)
            received = row.clone()
            received[W] = phi.detach()
            after = trained(f, received, i, t)
            gradients.append(torch.autograd.grad(phi, leaf, (received - after)[W])[0])
            statistics.append(after[B])
        g = torch.stack(gradients)
        cosines = torch.cosine_similarity(g, g.mean(0, keepdim=True))
        weights = torch.full((len(chosen),), 1 / len(chosen))
        if hp.get("gradalign", True):
            weights = torch.softmax(hp.get("gradalign_sign", 1) * cosines, 0)
        h = adam(h, (-1 if hp.get("literal_sign") else 1) * weights @ g)
        if t == hp.get("warmup", 10):
            smoothed = h
        if t > hp.get("warmup", 10):
            h = smoothed = hp["ema"] * h + (1 - hp["ema"]) * smoothed
        row[B] = sum(p * one for p, one in zip(by_size(chosen), statistics, strict=True))
    finish(f)
    assert (f.state.slots["h"] - h).abs().max() < 1e-7
    assert (f.state.row[B] - row[B]).abs().max() < 1e-7
