"""MixStyle against stored draws, its limits, and where it acts."""

import pytest
import torch
from torch import Tensor
from torch.distributions import Beta

from fedshift.federation.batches import generator, key
from fedshift.methods.mixstyle import mixstyle
from fedshift.testing.toys import method, spec
from tests.methods import plain
from tests.reference import Reference


@pytest.mark.parity
def test_stored_draws() -> None:
    ref = Reference("mixstyle_dsu.npz")
    share = ref.given("lmda").flatten()
    ref.equals("mixstyle", mixstyle(ref.given("x"), share, ref.given("perm")))


# Three rounds of MixStyle, one of three unequal clients at rest, against the same rounds written out; what is drawn, in the same order.
LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2}


def mixed(x: Tensor) -> Tensor:
    """The styles are constants for the gradient."""
    beta = torch.full((1,), 0.3)
    share, other = Beta(beta, beta).sample((len(x),))[:, :, None, None], torch.randperm(len(x))
    mu = x.detach().mean((2, 3), keepdim=True)
    sigma = (x.detach().var((2, 3), keepdim=True) + 1e-6).sqrt()
    new_mu, new_sigma = (share * one + (1 - share) * one[other] for one in (mu, sigma))
    return (x - mu) / sigma * new_sigma + new_mu


@plain.doubles()
def test_three_rounds() -> None:
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("mixstyle", beta=0.3, p=0.6))

    def turn(G: plain.Tensors, k: int, t: int) -> plain.Tensors:
        torch.manual_seed(key(0, "dropout", t, k))
        coins = generator(0, "method", t, k)

        def after(s: int, x: Tensor) -> Tensor:
            return mixed(x) if s < 4 and float(torch.rand((), generator=coins)) < 0.6 else x

        objective = lambda P, x, y: plain.cross_entropy(plain.logits(P, x, True, after), y)  # noqa: E731
        return plain.trained(f, G, k, t, objective)

    assert plain.differs(f, plain.averaged(f, turn)) < 1e-8
