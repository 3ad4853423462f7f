"""pFedHN: hFedF as its limit."""

import pytest
import torch
from torch import Tensor

from fedshift.federation.batches import generator
from fedshift.federation.loop import Federation
from fedshift.testing.toys import finish, method, small, spec
from tests.methods import plain, plain_hypernet


def h_of(federation: Federation) -> Tensor:
    return finish(federation).server.slot.h


def test_with_one_client_and_adam_it_is_hfedf() -> None:
    run = spec(local={"lr": 0.05}, federation={"rounds": 3})
    shared = {"lr": 0.01, "weight_decay": 0.001}
    one = small(run, method("pfedhn", optimizer="adam", clip=None, **shared), clients=1)
    other = small(run, method("hfedf", gradalign=False, ema=1.0, **shared), clients=1)
    assert h_of(one).equal(h_of(other))
    assert one.server.row.equal(other.server.row)


# Three rounds of pFedHN, one of three unequal clients at rest, against the same rounds written out: one clipped step of SGD with momentum after each client.
@pytest.mark.parametrize("clip", [50.0, 0.05])
@plain.doubles()
def test_three_rounds(clip: float) -> None:
    run = spec(local=plain_hypernet.LOCAL, federation=plain.PARTIAL)
    f = plain.federation(run, method("pfedhn", lr=0.05, clip=clip))
    W, B = f.layout.W, f.layout.B
    h, row, momentum = f.state.slots["h"].clone(), f.state.row.clone(), torch.zeros(())
    for t in range(plain.PARTIAL["rounds"]):
        chosen, order = plain.active(f, t), generator(run.seed, "order", t)
        for i in (chosen[j] for j in torch.randperm(len(chosen), generator=order)):
            leaf = h.clone().requires_grad_()
            phi = plain_hypernet.generated(leaf, i, 3, 1, f.layout.P)
            received = row.clone()
            received[W] = phi.detach()
            after = plain_hypernet.trained(f, received, i, t)
            g = torch.autograd.grad(phi, leaf, (received - after)[W])[0]
            g = g * (clip / (g.norm() + 1e-6)).clamp(max=1)
            momentum = 0.9 * momentum + g + 1e-3 * h
            h = h - 0.05 * momentum
            row[B] += (after[B] - row[B]) / 3
    finish(f)
    assert (f.state.slots["h"] - h).abs().max() < 1e-9
    assert (f.state.row[B] - row[B]).abs().max() < 1e-9
