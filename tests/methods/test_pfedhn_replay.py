"""Three rounds of pFedHN, one of three unequal clients at rest, against the same rounds written out: one clipped step of SGD with momentum after each client."""

from __future__ import annotations

import pytest
import torch

from fedshift.federation.batches import generator
from fedshift.testing.toys import finish, method, spec
from tests.methods.plain import PARTIAL, active, doubles, federation
from tests.methods.plain_hypernet import LOCAL, generated, trained


@pytest.mark.parametrize("clip", [50.0, 0.05])
@doubles()
def test_three_rounds(clip: float) -> None:
    run = spec(local=LOCAL, federation=PARTIAL)
    f = federation(run, method("pfedhn", lr=0.05, clip=clip))
    W, B = f.layout.W, f.layout.B
    h, row, momentum = f.state.slots["h"].clone(), f.state.row.clone(), torch.zeros(())
    for t in range(PARTIAL["rounds"]):
        for i in (
            active(f, t)[j]
            for j in torch.randperm(len(active(f, t)), generator=generator(run.seed, "order", t))
        ):
            leaf = h.clone().requires_grad_()
            phi = generated(leaf, i, 3, 1, f.layout.P)
            received = row.clone()
            received[W] = phi.detach()
            after = trained(f, received, i, t)
            g = torch.autograd.grad(phi, leaf, (received - after)[W])[0]
            g = g * (clip / (g.norm() + 1e-6)).clamp(max=1)
            momentum = 0.9 * momentum + g + 1e-3 * h
            h = h - 0.05 * momentum
            row[B] += (after[B] - row[B]) / 3
    finish(f)
    assert (f.state.slots["h"] - h).abs().max() < 1e-9
    assert (f.state.row[B] - row[B]).abs().max() < 1e-9
