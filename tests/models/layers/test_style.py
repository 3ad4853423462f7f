"""Styles of feature maps: identities, constants for the gradient, degenerate maps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedshift.models.layers.style import Style, adain, mixed, shares, style, widened


def maps(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("form", "sigma"), [("biased", 1.25**0.5), ("official", (5 / 3 + 1e-6) ** 0.5)])
def test_style_is_over_space_by_sample_and_channel(form: str, sigma: float) -> None:
    x = torch.tensor([1.0, 2, 3, 4], dtype=torch.float64).view(1, 1, 2, 2)
    x = torch.cat([torch.cat([x, 10 * x], 1), torch.cat([x + 5, x - 5], 1)])
    got = style(x, form)
    assert got.mu.tolist() == [[2.5, 25.0], [7.5, -2.5]]
    assert got.sigma[0, 0].item() == pytest.approx(sigma, abs=1e-12)
    assert got.sigma[:, 0].tolist() == pytest.approx([got.sigma[0, 0].item()] * 2)


def test_two_pixels_have_an_unbiased_variance() -> None:
    x = torch.tensor([1.0, 4.0], dtype=torch.float64).view(1, 1, 1, 2)
    assert style(x, "official").sigma.item() == pytest.approx((4.5 + 1e-6) ** 0.5, abs=1e-12)


@pytest.mark.parametrize("form", ["biased", "official"])
def test_adain_to_its_own_style_is_the_identity(form: str) -> None:
    x = maps(3, 4, 5, 5)
    own = style(x, form)
    assert (adain(x, own, own) - x).abs().max() < 1e-12


def test_adain_gives_the_target_style() -> None:
    x = maps(3, 4, 5, 5)
    target = Style(maps(3, 4), maps(3, 4).abs() + 0.5)
    got = style(adain(x, style(x, "biased"), target), "biased")
    torch.testing.assert_close(got.mu, target.mu)
    torch.testing.assert_close(got.sigma, target.sigma)


def test_mixed_weighs_by_sample() -> None:
    one = Style(torch.tensor([[0.0], [10.0]]), torch.tensor([[1.0], [3.0]]))
    got = mixed(one, torch.tensor([0.75, 1.0]), torch.tensor([1, 0]))
    assert got.mu.tolist() == [[2.5], [10.0]]
    assert got.sigma.tolist() == [[1.5], [3.0]]


def test_widened_by_the_spread_over_the_batch() -> None:
    own = Style(torch.tensor([[0.0, 1.0], [2.0, 1.0]]), torch.tensor([[1.0, 1.0], [1.0, 1.0]]))
    got = widened(own, torch.ones(2, 2, 2), 4.0)
    assert got.mu[:, 0].tolist() == pytest.approx([8**0.5, 2 + 8**0.5], abs=1e-5)
    assert got.mu[:, 1].tolist() == pytest.approx([1.002, 1.002], abs=1e-6)
    assert got.sigma.flatten().tolist() == pytest.approx([1.001] * 4, abs=1e-6)


def test_one_sample_and_one_pixel_stay_finite() -> None:
    x = maps(1, 3, 1, 1).requires_grad_()
    for form in ("biased", "official"):
        own = style(x, form)
        out = adain(x, own, widened(own, torch.ones(2, 1, 3)))
        (gradient,) = torch.autograd.grad(out.sum(), x)
        assert out.isfinite().all()
        assert gradient.isfinite().all()


def test_a_constant_map_stays_finite() -> None:
    x = torch.full((2, 1, 4, 4), 0.3).requires_grad_()
    own = style(x, "biased")
    out = adain(x, own, own.detach())
    (gradient,) = torch.autograd.grad(out.square().sum(), x)
    assert out.isfinite().all()
    assert gradient.isfinite().all()


def test_bf16_maps_have_fp32_styles_and_keep_their_format() -> None:
    x = maps(2, 8, 4, 4).bfloat16().contiguous(memory_format=torch.channels_last)
    own = style(x)
    assert own.mu.dtype == own.sigma.dtype == torch.float32
    out = adain(x, own, own)
    assert out.dtype == torch.bfloat16
    assert out.is_contiguous(memory_format=torch.channels_last)


def test_shares_are_beta_draws() -> None:
    torch.manual_seed(0)
    drawn = shares(20_000, 0.1, torch.device("cpu"))
    assert drawn.shape == (20_000,)
    assert drawn.mean().item() == pytest.approx(0.5, abs=0.02)
    assert drawn.var().item() == pytest.approx(0.25 / 1.2, abs=0.01)  # a b / ((a + b)^2 (a + b + 1))
