"""MixStyle against stored draws, its limits, and where it acts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedshift.methods import mixstyle as module
from fedshift.methods.mixstyle import mixstyle
from fedshift.models.layers.style import style
from fedshift.testing.toys import finish, method, small, spec
from tests.reference import Reference

EXCEPTIONS: dict[str, dict[str, str]] = {}


def maps(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


@pytest.mark.parity
def test_stored_draws() -> None:
    ref = Reference("mixstyle_dsu.npz")
    share = ref.given("lmda").flatten()
    ref.equals("mixstyle", mixstyle(ref.given("x"), share, ref.given("perm")))


def test_share_one_is_the_identity_and_share_zero_the_partners_style() -> None:
    x, partner = maps(3, 4, 5, 5), torch.tensor([2, 0, 1])
    assert (mixstyle(x, torch.ones(3), partner) - x).abs().max() < 1e-12
    taken, given = style(mixstyle(x, torch.zeros(3), partner)), style(x)
    torch.testing.assert_close(taken.mu, given.mu[partner])
    torch.testing.assert_close(taken.sigma, given.sigma[partner], rtol=1e-5, atol=0)


def test_each_sample_has_its_own_share() -> None:
    x = maps(2, 1, 3, 3)
    own = style(x)
    mu = style(mixstyle(x, torch.tensor([0.25, 1.0]), torch.tensor([1, 0]))).mu[:, 0]
    assert mu[0].item() == pytest.approx((0.25 * own.mu[0] + 0.75 * own.mu[1]).item())
    assert mu[1].item() == pytest.approx(own.mu[1].item())


def test_styles_are_constants_for_the_gradient() -> None:
    x, share, partner = maps(2, 3, 4, 4).requires_grad_(), torch.tensor([0.3, 0.6]), torch.tensor([1, 0])
    (gradient,) = torch.autograd.grad(mixstyle(x, share, partner).sum(), x)
    own = style(x.detach())
    expected = (share[:, None] * own.sigma + (1 - share[:, None]) * own.sigma[partner]) / own.sigma
    torch.testing.assert_close(gradient, expected[:, :, None, None].expand_as(x))


def test_probability_zero_is_fedavg_bit_for_bit() -> None:
    run = spec(local={"momentum": 0.9})
    ours, fedavg = finish(small(run, method("mixstyle", p=0.0))), finish(small(run, method("fedavg")))
    assert ours.state.row.equal(fedavg.state.row)


def test_probability_one_mixes_after_every_stage_in_training_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []

    def spy(x: Tensor, share: Tensor, partner: Tensor) -> Tensor:
        assert share.shape == partner.shape == (len(x),)
        assert partner.sort().values.tolist() == list(range(len(x)))
        seen.append(tuple(x.shape[1:]))
        return mixstyle(x, share, partner)

    monkeypatch.setattr(module, "mixstyle", spy)
    federation = small(spec(federation={"rounds": 1}), method("mixstyle", p=1.0), clients=1)
    finish(federation)
    assert seen == [(16, 16, 16), (32, 8, 8), (64, 4, 4)] * 2  # two batches; evaluation is as without


def test_half_of_the_coins_succeed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(module, "mixstyle", lambda x, share, partner: seen.append(len(x)) or x)
    finish(small(spec(local={"epochs": 5}, federation={"rounds": 4}), method("mixstyle")))
    steps = 3 * 4 * 5 * 2
    assert abs(len(seen) - 3 * steps / 2) < 4 * (3 * steps / 4) ** 0.5


def test_centralized_is_one_client_with_all_data() -> None:
    federation = finish(small(spec(), method("mixstyle", centralized=True)))
    assert len(federation.clients) == 1
    assert len(federation.clients[0].train) == 36
    assert federation.method.optimizer_state == "persist"
