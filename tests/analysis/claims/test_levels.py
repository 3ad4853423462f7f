"""Levels at which a comparison is confirmed and refuted, beside scipy's t test."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from fedshift.analysis.claims.comparison import Comparison
from fedshift.analysis.claims.levels import UNKNOWN, Levels, levels
from fedshift.analysis.claims.paired import Difference, estimate

FIRST, SECOND = (1.0, 2.0, 1.5), (-0.5, 3.0, 1.0)
MARGIN = 2.0


def difference(*by_seed: float, exact: bool = False) -> Difference:
    pairs = pd.DataFrame({"seed": range(len(by_seed)), "difference": by_seed})
    return estimate(pairs, "x", exact=exact)


def of(relation: str, *gaps: tuple[float, ...], right: str = "max(x|y)") -> Levels:
    comparison = Comparison({"relation": relation, "right": right}, [], MARGIN, [])
    return levels(comparison, [difference(*gap) for gap in gaps])


def p(gap: tuple[float, ...], alternative: str, bound: float = 0.0) -> float:
    """Two-sided: of an interval."""
    return min(1.0, 2 * float(ttest_1samp(gap, bound, alternative=alternative).pvalue))


def test_every_pair_confirms_and_one_refutes() -> None:
    assert of(">", FIRST, SECOND) == pytest.approx((p(SECOND, "greater"), 1))
    refuted = tuple(-value for value in FIRST), SECOND
    assert of(">", *refuted) == pytest.approx((1, 2 * p(FIRST, "greater")))
    assert of("<", *refuted, right="x") == pytest.approx((p(SECOND, "less"), 2 * p(SECOND, "greater")))


def test_one_pair_confirms_where_one_is_enough() -> None:
    assert of("<", FIRST, SECOND) == pytest.approx((1, p(SECOND, "greater")))
    below = tuple(-value for value in FIRST)
    assert of("<", below, SECOND) == pytest.approx((2 * p(FIRST, "greater"), 1))


def test_as_good_as_the_best_within_the_margin() -> None:
    close, far = (0.1, 0.2, 0.0), (20.0, 21.0, 20.0)
    confirmed, refuted = of("~", close, far)
    assert confirmed == pytest.approx(max(p(close, "greater", -MARGIN), 2 * p(close, "less", MARGIN)))
    assert refuted == 1
    worse = (-9.0, -8.0, -10.0)
    assert of("~", close, worse) == pytest.approx(
        (p(worse, "greater", -MARGIN), 2 * p(worse, "less", -MARGIN))
    )
    better = (9.0, 8.0, 10.0)
    assert of("~", better, far)[1] == pytest.approx(p(better, "greater", MARGIN))


def test_near_each_of_several_within_the_margin() -> None:
    """HF-C26: one variant that is near does not make up for one that is far."""
    close, closer, far = (0.1, 0.2, 0.0), (0.05, 0.1, 0.0), (20.0, 21.0, 20.0)
    confirmed, refuted = of("~", close, closer, right="x")
    assert (confirmed, refuted) == (pytest.approx(p(close, "less", MARGIN)), 1)
    assert of("~", close, far, right="x") == pytest.approx((1, 2 * p(far, "greater", MARGIN)))


def test_not_worse_is_worse_by_less_than_the_margin() -> None:
    nearly = (-0.5, -0.6, -0.4)
    assert of(">=", nearly, right="x") == pytest.approx((p(nearly, "greater", -MARGIN), 1))
    above = tuple(-value for value in nearly)
    assert of("<=", above, right="x") == pytest.approx((p(above, "less", MARGIN), 1))
    worse = (-9.0, -8.0, -10.0)
    assert of(">=", nearly, worse) == pytest.approx((1, 2 * p(worse, "less", -MARGIN)))


@pytest.mark.parametrize("gap", [(3.0,), (), (3.0, 3.0), (0.0, 0.0), (-3.0, -3.0)])
def test_one_seed_and_seeds_that_are_alike_say_nothing(gap: tuple[float, ...]) -> None:
    assert of(">", gap) == UNKNOWN


@pytest.mark.parametrize(
    ("relation", "gap", "expected"),
    [
        (">", (3.0, 3.0), (0, 1)),
        (">", (1e-12, 1e-12), (1, 1)),  # rounding of ours
        (">", (-3.0, -3.0), (1, 0)),
        (">=", (0.0, 0.0), (0, 1)),
        ("~", (1.0, 1.0), (0, 1)),
    ],
)
def test_what_is_counted_says_all(relation: str, gap: tuple[float, ...], expected: Any) -> None:
    comparison = Comparison({"relation": relation, "right": "x"}, [], MARGIN, [])
    assert levels(comparison, [difference(*gap, exact=True)]) == expected
