"""Intervals by hand and beside scipy, the three words, and how often they are wrong."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import dunnett, t, ttest_ind_from_stats, ttest_rel

from fedshift.analysis.verdicts import (
    UNKNOWN,
    Interval,
    Spread,
    around,
    beside_print,
    pooled,
    residual,
    simultaneous,
    word,
)  # fmt: skip


def half(interval: Interval) -> float:
    return (interval.high - interval.low) / 2


def test_a_pooled_spread_weighs_by_degrees_of_freedom() -> None:
    """Deviations 1 (3 seeds) and 2 (2 seeds): sqrt((2 * 1 + 1 * 4) / 3)."""
    spread = pooled([(1.0, 3), (2.0, 2), (5.0, 1), (math.nan, 4)])
    assert spread == pytest.approx((math.sqrt(2), 3)) and spread.known
    assert not pooled([(math.nan, 1)]).known and not pooled([(0.0, 3)]).known


def test_ours_beside_a_paper_without_a_spread_is_a_mean_of_as_many_seeds_beside_another() -> None:
    """s 1.5 of 6 degrees of freedom, 3 seeds each: 2.4469 * 1.5 * sqrt(2/3)."""
    found = beside_print(2.0, 3, Spread(1.5, 6), 3, UNKNOWN)
    assert half(found) == pytest.approx(2.446912 * 1.5 * math.sqrt(2 / 3))
    assert (found.low + found.high) / 2 == 2.0
    alone = beside_print(2.0, 1, UNKNOWN, 5, Spread(1.5, 4))
    assert half(alone) == pytest.approx(2.776445 * 1.5 * math.sqrt(1 + 1 / 5))
    assert math.isnan(beside_print(2.0, 1, UNKNOWN, 3, UNKNOWN).low)


def test_two_spreads_are_welchs_test() -> None:
    found = beside_print(2.0, 3, Spread(1.0, 2), 5, Spread(2.0, 4))
    welch = ttest_ind_from_stats(2.0, 1.0, 3, 0.0, 2.0, 5, equal_var=False)
    freedom = (1 / 3 + 4 / 5) ** 2 / ((1 / 3) ** 2 / 2 + (4 / 5) ** 2 / 4)
    error = 2.0 / welch.statistic
    assert half(found) == pytest.approx(t.ppf(0.975, freedom) * error)
    assert 2 * t.sf(2.0 / error, freedom) == pytest.approx(welch.pvalue)


def test_two_rows_are_students_paired_test() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((2, 4)) + 5 * rng.standard_normal(4)
    spread = residual(pd.DataFrame(values))
    found = around(float((values[0] - values[1]).mean()), spread.deviation * math.sqrt(2 / 4), spread.freedom)
    paired = ttest_rel(values[0], values[1]).confidence_interval()
    assert (found.low, found.high) == pytest.approx((paired.low, paired.high))


def test_a_row_that_lacks_a_seed_shares_no_spread() -> None:
    values = pd.DataFrame([[1.0, 2.0, 4.0], [1.0, 3.0, 3.0], [9.0, math.nan, -9.0]])
    assert residual(values) == residual(values[:2]) and residual(values).freedom == 2
    assert residual(values[1:]) == residual(values[:0]) == UNKNOWN


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        (Interval(1.0, -0.9, 2.9), "consistent"),
        (Interval(1.0, -2.0, 4.0), "too few seeds"),
        (Interval(1.0), "too few seeds"),
        (Interval(-5.0, -9.9, -0.1), "different"),  # however wide
    ],
)
def test_the_three_words(interval: Interval, said: str) -> None:
    assert word(interval, 2.0) == said


@pytest.mark.parametrize(("printed_n", "known"), [(3, False), (5, True)])
def test_a_true_number_is_called_different_once_in_twenty(printed_n: int, known: bool) -> None:
    rng, found = np.random.default_rng(0), []
    for _ in range(300):
        ours, theirs = rng.standard_normal((8, 3)), rng.standard_normal((8, printed_n))
        spreads = [pooled((float(of.std(ddof=1)), len(of)) for of in side) for side in (ours, theirs)]
        for gap in ours.mean(1) - theirs.mean(1):
            printed = spreads[1] if known else UNKNOWN
            found.append(word(beside_print(float(gap), 3, spreads[0], printed_n, printed), 3.0))
    assert found.count("different") / len(found) == pytest.approx(0.05, abs=0.012)


def test_all_differences_at_once_have_dunnetts_quantile() -> None:
    """Of 4 methods beside a control and 6 seeds each: scipy's one-way test has 25 degrees of freedom."""
    control, *others = np.random.default_rng(1).standard_normal((5, 6))
    gap = others[0].mean() - control.mean()
    width = dunnett(*others, control=control).confidence_interval().high[0] - gap
    error = pooled((float(of.std(ddof=1)), 6) for of in (control, *others)).deviation * math.sqrt(2 / 6)
    assert simultaneous(4, 25) == pytest.approx(width / error, abs=0.03)
