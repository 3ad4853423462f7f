"""Three rounds of DSU, one of three unequal clients at rest, against the same rounds written out; what is drawn, in the same order."""

from __future__ import annotations

import torch
from torch import Tensor

from fedshift.federation.batches import key
from fedshift.testing.toys import method, spec
from tests.methods import plain

LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2}


def layer(s: int, x: Tensor) -> Tensor:
    if float(torch.rand(())) >= 0.5:
        return x
    mu, sigma = x.mean((2, 3)), (x.var((2, 3)) + 1e-6).sqrt()
    noise = torch.randn(2, *mu.shape)
    new_mu = mu + noise[0] * (mu.var(0) + 1e-6).sqrt()
    new_sigma = sigma + noise[1] * (sigma.var(0) + 1e-6).sqrt()
    mu, sigma, new_mu, new_sigma = (one[:, :, None, None] for one in (mu, sigma, new_mu, new_sigma))
    return (x - mu) / sigma * new_sigma + new_mu


@plain.doubles()
def test_three_rounds() -> None:
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("dsu"))

    def turn(G: plain.Tensors, k: int, t: int) -> plain.Tensors:
        torch.manual_seed(key(0, "dropout", t, k))
        return plain.trained(
            f,
            G,
            k,
            t,
            lambda P, x, y: plain.cross_entropy(plain.head(P, plain.feature(P, x, True, layer)), y),
        )

    assert plain.differs(f, plain.averaged(f, turn)) < 1e-8
