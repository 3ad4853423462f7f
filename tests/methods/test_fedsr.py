"""FedSR: its regularisers against the reference, its head, its limits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.client import Client
from fedshift.methods import fedsr
from fedshift.methods.fedsr import SAMPLES, StochasticHead, conditional_mutual_information, l2_regulariser
from fedshift.testing.toys import finish, method, small, spec
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


def test_a_reference_equal_to_the_encoder_costs_nothing() -> None:
    mu, sigma = torch.randn(5, 4), torch.rand(5, 4) + 0.1
    one = torch.ones(())
    assert conditional_mutual_information(mu, sigma, mu, sigma, one).item() == pytest.approx(0, abs=1e-6)
    assert conditional_mutual_information(mu, sigma, mu + 1, sigma, one).item() > 0
    assert conditional_mutual_information(mu, sigma, mu, sigma, one * 2).item() > 0


def head(sigma: float = -100.0) -> StochasticHead:
    """A head whose raw sigma is a constant (softplus(-100) is 0)."""
    made = StochasticHead(6, 4, 3)
    torch.nn.init.zeros_(made.encoder.weight[4:])
    torch.nn.init.constant_(made.encoder.bias[4:], sigma)
    return made


def test_in_evaluation_probabilities_of_twenty_samples_are_averaged() -> None:
    made, x = head(1.0), torch.randn(5, 6)
    made.eval()
    logits = made(x)
    assert logits.exp().sum(1).tolist() == pytest.approx([1.0] * 5, abs=1e-5)
    assert made(x).equal(logits)  # the same noise whenever it is asked
    mu, sigma = made.encode(x)
    noise = torch.randn((SAMPLES, 1, 4), generator=torch.Generator().manual_seed(0))
    each = torch.stack([made.classify(mu + sigma * one).softmax(1) for one in noise])
    assert logits.exp().flatten().tolist() == pytest.approx(each.mean(0).flatten().tolist(), abs=1e-6)
    assert not each[0].allclose(each[1])
    certain = head().eval()
    assert certain(x).exp().allclose(certain.classify(certain.encode(x)[0]).softmax(1), atol=1e-6)


def test_without_noise_and_regularisers_it_is_fedavg_with_one_more_layer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = spec(federation={"rounds": 2}, local={"clip": 1.0})
    chosen = method("fedsr", l2r=0.0, cmi=0.0)
    monkeypatch.setattr(fedsr, "conditional_mutual_information", lambda *args: torch.zeros(()))
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
    ours = finish(small(run, chosen))
    plain = type("Plain", (fedsr.FedSR,), {"loss": fedsr.Method.loss, "param_groups": None})(chosen.hp)
    theirs = finish(small(run, plain))
    shared = ours.state.shared.at
    assert ours.state.row[shared].allclose(theirs.state.row[shared], atol=1e-6)


@pytest.mark.parametrize(
    ("hp", "moves"), [({"l2r": 1.0, "cmi": 0.0}, "encoder"), ({"l2r": 0.0, "cmi": 1.0}, "reference")]
)
def test_each_regulariser_has_a_gradient(
    hp: dict[str, float], moves: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gradients: dict[bool, Tensor] = {}
    for on in (True, False):
        federation = small(
            spec(federation={"rounds": 1}), method("fedsr", **(hp if on else {"l2r": 0.0, "cmi": 0.0}))
        )
        first: list[Tensor] = []

        def spy(self: object, C: Client, g: Tensor, first: list[Tensor] = first) -> None:
            first.append(g.clone())

        with monkeypatch.context() as patch:
            patch.setattr(fedsr.FedSR, "grad", spy)
            finish(federation)
        padded = torch.cat([first[0], torch.zeros(federation.layout.Q)])
        gradients[on] = padded[federation.layout.under(f"head.{moves}").at]
    assert gradients[True].isfinite().all()
    assert not gradients[True].equal(gradients[False])
    assert gradients[True].norm() > 0


def test_references_stay_on_their_client_and_are_no_part_of_the_evaluated_model() -> None:
    federation = finish(small(spec(federation={"rounds": 2}), method("fedsr")))
    own = federation.state.own
    assert own.shape == (3, federation.layout.under("head.reference").size) == (3, 2 * 2 * 512 + 1)
    assert not own[0].equal(own[1])
    assert federation.evaluator.reported == ("global", "post_agg")
    assert {row["model"] for row in federation.records.rows if row["metric"] == "accuracy"} == {"global"}


def test_references_are_not_clipped_and_have_momentum() -> None:
    chosen = method("fedsr")
    federation = small(spec(local={"clip": 1e-9}, federation={"rounds": 1}), chosen)
    before = federation.state.row.clone()
    finish(federation)
    layout = federation.layout
    moved = (federation.state.row - before)[layout.under("head.encoder").at].abs().max()
    assert moved < 1e-6
    start = before[layout.under("head.reference").at]
    assert (federation.state.own[0] - start).abs().max() > 1e-4
    assert federation.worker.optimizer("model", 0, federation.worker.network("model"))._tail is not None


def test_the_representation_replaces_the_last_layer() -> None:
    federation = small(spec(), method("fedsr", z=8))
    sizes = {entry.name: entry.shape for entry in federation.layout.entries if entry.name.startswith("head")}
    assert sizes["head.encoder.weight"] == (16, 64)
    assert sizes["head.classify.weight"] == (2, 8)
    assert sizes["head.reference.scale"] == ()
