"""StableFDG against its reference vectors."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.registry import get
from fedshift.methods.stablefdg.attention import Highlighter, partners
from fedshift.methods.stablefdg.styles import explored, information, oversampled
from fedshift.models.layers.blocks import GlobalAverage, channels
from fedshift.models.layers.style import Style, adain, style
from tests.reference import Reference


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parity
def test_style_information() -> None:
    ref = Reference("stablefdg.json")
    x = ref.given("style.feat")
    biased, official = style(x, "biased"), style(x, "official")
    ref.equals("style.mu", biased.mu)
    ref.equals("style.sigma_biased_eq1", biased.sigma)
    ref.equals("style.sigma_unbiased_eps_official", official.sigma)
    phi = information(biased, "biased")
    for name, row in zip(("mu_n", "sigma_n", "Sigma_mu_eq2", "Sigma_sigma_eq2"), phi, strict=True):
        ref.equals(f"style.{name}", row)
    ref.equals("style.official_style_sqrt_mu", information(official, "official")[2].sqrt())


@pytest.mark.parity
def test_exploration() -> None:
    ref = Reference("stablefdg.json")
    x, source = ref.given("style.feat"), torch.tensor([0, 1, 2, 0, 1, 2])
    own = style(x, "biased")
    target = explored(own, source, ref.given("exploration.alpha"))
    ref.equals("exploration.mu_new", target.mu[3:])
    ref.equals("exploration.sigma_new", target.sigma[3:])
    ref.equals("exploration.x_new", adain(x[source], own.of(source), target)[3:])
    same = adain(x[source], own.of(source), explored(own, source, 0.0))
    ref.equals("exploration.alpha0_is_identity", bool((same - x[source]).abs().max() < 1e-12))


@pytest.mark.parity
def test_oversampling_counts() -> None:
    ref = Reference("stablefdg.json")
    for case in ref.keys("oversampling_counts"):
        counts, size = case.split(" size")[0], int(case.split(" size")[1].split()[0])
        counts = [int(count) for count in counts.split(",")]
        labels = torch.arange(3).repeat_interleave(torch.tensor(counts))
        got = labels[oversampled(labels, size, rng())].bincount(minlength=3).tolist()
        given = [ref.given(f"oversampling_counts.{case}.{name}") for name in "abc"]
        totals = (sorted(map(sum, zip(counts, one, strict=True))) for one in (got, given))
        assert next(totals) == next(totals)  # which of equal classes gets the last ones is drawn
        assert sum(got) == size


@pytest.mark.parity
def test_length_of_the_style_vector() -> None:
    ref = Reference("stablefdg.json")
    width = channels(get("models", "resnet18")(7, 32))["stage1"]
    styles = Style(*torch.ones(2, 3, width))
    assert sum(one.shape[1] for one in styles) == ref.given("style_vector_len.mu_sigma_resnet18_layer1")
    assert information(styles, "biased").numel() == ref.given("style_vector_len.full_phi")


@pytest.mark.parity
def test_attention_is_the_released_modules() -> None:
    ref = Reference("stablefdg_attention.npz")
    z, labels = ref.given("z"), ref.given("labels")
    weight, bias = ref.given("qkv_weight"), ref.given("qkv_bias")
    other, alone = partners(labels, torch.arange(len(labels)))
    assert not alone.any()

    def made(similarity: Any) -> Highlighter:
        neck = Highlighter(GlobalAverage(), 4, 3, similarity).double()
        for place, convolution in enumerate((neck.query, neck.key)):
            convolution.weight.data = weight[3 * place : 3 * place + 3]
            convolution.bias.data = bias[3 * place : 3 * place + 3]
        return neck

    both: Callable[[Tensor], Tensor] = lambda q: (q[other] + q) / 2  # noqa: E731
    cosine, dot = made("cosine"), made("dot")
    ref.equals("official_train", cosine(z, both))
    ref.equals("official_eval", cosine(z))
    ref.equals("eq8_cosine_train", cosine(z, both)[:, 4:])
    ref.equals("eq8_dot_train", dot(z, both)[:, 4:])
    ref.equals("eq6_dot_train", dot(z, lambda q: q[other])[:, 4:])
    ref.equals("selfattn_dot_eval", dot(z)[:, 4:])


@pytest.mark.parity
def test_released_style_insertion_keeps_content_and_shifts_the_last_16() -> None:
    """Its random numbers are not stored: content of all rows, and whose style the last 16 have."""
    ref = Reference("stablefdg_style_insert_official.npz")
    x, y = ref.given("x"), ref.given("y")
    own, new = style(x), style(y)
    assert (adain(x, own, new) - y).abs().max() < 2e-4
    mean, deviation = ref.given("style_mean").chunk(2), ref.given("style_std").chunk(2)
    for got, centre, spread in zip(new, mean, deviation, strict=True):
        noise = (got[16:] - centre) / spread
        inside = got[16:] > 1e-2  # sigma was cut at 0
        assert noise[inside].abs().max() < 5
        assert noise[inside].std().item() == pytest.approx(1, abs=0.15)
