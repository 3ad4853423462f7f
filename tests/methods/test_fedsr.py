"""FedSR: its regularisers against the reference and at zero, its head in evaluation. Its rounds: test_fedsr_replay.py."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from fedshift.methods.fedsr import SAMPLES, StochasticHead, conditional_mutual_information, l2_regulariser
from tests.reference import Reference


@pytest.mark.parity
def test_regularisers() -> None:
    ref = Reference("fedsr.json")
    mu, sigma, eps, y = (ref.given(name) for name in ("z_mu", "z_sigma", "eps", "y"))
    z = mu + sigma * eps
    ref.equals("L2R_norm_mean", l2_regulariser(z))
    ref.equals("L2R_alt_squared", l2_regulariser(z, squared=True))
    r_mu, raw = ref.given("r_mu"), ref.given("r_sigma_raw")
    scale = torch.tensor(ref.given("C"), dtype=torch.float64)
    y = y.long()
    cmi = conditional_mutual_information(mu, sigma, r_mu[y], F.softplus(raw)[y], scale)
    ref.equals("CMI_official", cmi)


def test_a_representation_of_zero_has_no_norm_and_a_gradient_of_zero() -> None:
    """The gradient of the mean norm is z / (B ||z||): here (3, 4) / 5 / 2."""
    z = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    l2_regulariser(z).backward()
    assert l2_regulariser(z).item() == pytest.approx(2.5, abs=1e-15)
    assert z.grad is not None
    assert z.grad.flatten().tolist() == pytest.approx([0, 0, 0.3, 0.4], abs=1e-15)


def test_in_evaluation_probabilities_of_twenty_samples_are_averaged() -> None:
    """With the same noise whenever it is asked."""
    made, x = StochasticHead(6, 4, 3).eval(), torch.randn(5, 6)
    logits = made(x)
    assert made(x).equal(logits)
    mu, sigma = made.encode(x)
    noise = torch.randn((SAMPLES, 1, 4), generator=torch.Generator().manual_seed(0))
    each = torch.stack([made.classify(mu + sigma * one).softmax(1) for one in noise])
    assert logits.exp().flatten().tolist() == pytest.approx(each.mean(0).flatten().tolist(), abs=1e-6)
