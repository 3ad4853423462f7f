"""FedRD: Eq. 1-4 against the reference and by hand."""

from __future__ import annotations

import pytest
import torch

from fedshift.methods import fedrd
from tests.reference import Reference


@pytest.mark.parity
@pytest.mark.parametrize("case", ["eq4_n3", "eq4_equal", "eq4_n2"])
def test_weights_follow_the_reference(case: str) -> None:
    ref = Reference("fedrd.json")
    d, gap = ref.given(f"{case}.d"), ref.given(f"{case}.gap")
    ref.equals(f"{case}.beta", fedrd.beta(d))
    ref.equals(f"{case}.gamma", fedrd.gamma_parts(gap) * gap.sigmoid().sum())
    ref.equals(f"{case}.weights", fedrd.guided_weights(d, gap))
    ref.equals(f"{case}.sum", fedrd.guided_weights(d, gap).sum())


@pytest.mark.parity
@pytest.mark.parametrize(
    ("case", "total", "uncounted"),
    [("official_with_3_models", "official_sum3", 0), ("official_with_4_models_incl_test_domain", "official_sum4", 1)],
)  # fmt: skip
def test_the_released_aggregation_with_and_without_the_fourth_model(
    case: str, total: str, uncounted: int
) -> None:
    ref = Reference("fedrd.json")
    weights = fedrd.guided_weights(ref.given("eq4_n3.d"), ref.given("eq4_n3.gap"), uncounted)
    for domain, weight in zip("pac", weights, strict=True):
        ref.equals(f"{case}.{domain}", weight)
    ref.equals(total, weights.sum())


@pytest.mark.parity
def test_lambda_follows_the_reference() -> None:
    ref = Reference("fedrd.json")
    distance = fedrd.classifier_distance(ref.given("lambda_Wglobal"), ref.given("lambda_Wlocal"))
    ref.equals("distance", distance)
    ref.equals("lam", distance.mean())


@pytest.mark.parity
def test_the_debiased_loss_follows_the_reference() -> None:
    ref = Reference("fedrd.json")
    logits, labels = ref.given("logits"), ref.given("labels").long()
    few = torch.zeros(3, dtype=torch.float64).index_fill(0, ref.given("few_shot").long(), 1)
    alpha = fedrd.class_weights(few, torch.tensor(ref.given("lam"), dtype=torch.float64))
    ref.equals("loss_eq2_sum", fedrd.debiased_cross_entropy(logits, labels, alpha, "sum"))
    ref.equals("loss_batch_mean", fedrd.debiased_cross_entropy(logits, labels, alpha, "batch_mean"))
    weighted = fedrd.debiased_cross_entropy(logits, labels, alpha, "weighted_mean")
    ref.equals("loss_official_torch_weighted_mean", weighted)
    plain = fedrd.class_weights(few, torch.tensor(0.0, dtype=torch.float64))
    for norm in ("weighted_mean", "batch_mean"):
        ref.equals("plain_ce_mean", fedrd.debiased_cross_entropy(logits, labels, plain, norm))


def test_weights_by_hand() -> None:
    """N = 2, d = (1, 3), no gap: halves of (3/4, 1/4) and (1/2, 1/2). A sum of 5/6 where a fourth model is counted at N = 3."""
    d, still = torch.tensor([1.0, 3.0]), torch.zeros(2)
    assert fedrd.guided_weights(d, still).tolist() == [0.625, 0.375]
    three = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.2, -0.1, 1.0])
    assert fedrd.guided_weights(*three).sum() == pytest.approx(1)
    assert fedrd.guided_weights(*three, 1).sum() == pytest.approx(5 / 6)
    assert fedrd.guided_weights(torch.zeros(3), torch.zeros(3)).tolist() == pytest.approx([1 / 3] * 3)
    assert fedrd.guided_weights(torch.tensor([7.0]), torch.tensor([-2.0])).tolist() == [1.0]


def test_a_near_client_and_one_that_gained_more_get_more_weight() -> None:
    near, far = fedrd.guided_weights(torch.tensor([1.0, 2.0]), torch.zeros(2))
    assert near > far
    gained, lost = fedrd.guided_weights(torch.ones(2), torch.tensor([0.5, -0.5]))
    assert gained > lost


@pytest.mark.parametrize("level", [-120.0, -1e4, 120.0])
def test_weights_are_finite_where_every_gap_is_far_from_zero(level: float) -> None:
    """sigmoid(-120) is 0 in fp32: parts go by exp(gap) there, and are equal where every gamma is 1."""
    d, gap = torch.ones(3), level + torch.tensor([0.0, 0.0, 1.0])
    weights = fedrd.guided_weights(d, gap)
    parts = torch.tensor([1.0, 1.0, 2.718281828]) if level < 0 else torch.ones(3)
    torch.testing.assert_close(weights, (1 / 3 + parts / parts.sum()) / 2, rtol=1e-4, atol=0)


def test_the_debiased_loss_by_hand() -> None:
    """Two samples of loss ln 2, one of a few-shot class with lambda = 2: weights 3 and 1."""
    ln2, logits, y = torch.tensor(2.0).log(), torch.zeros(2, 2), torch.tensor([0, 1])
    alpha = fedrd.class_weights(torch.tensor([0.0, 1.0]), torch.tensor(2.0))
    assert alpha.tolist() == [1.0, 3.0]
    loss = {norm: fedrd.debiased_cross_entropy(logits, y, alpha, norm) for norm in ("weighted_mean", "batch_mean", "sum")}  # fmt: skip
    assert loss["weighted_mean"].item() == pytest.approx(ln2.item())
    assert loss["batch_mean"].item() == pytest.approx(2 * ln2.item())
    assert loss["sum"].item() == pytest.approx(4 * ln2.item())
