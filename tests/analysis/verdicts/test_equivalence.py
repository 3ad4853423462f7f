"""The rule that judges a number of ours beside a printed one: by hand, against scipy, and on numbers of known truth."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks import verdicts as simulation
from fedshift.analysis.verdicts.equivalence import LEVEL, Summary, corrected, judge, probabilities, welch
from tests.conftest import ROOT

THREE = Summary(
    60, 1.0, 3
)  # standard error 1 / sqrt(3) = 0.577 against a constant; t at 5% of 2 degrees: 2.920


@pytest.mark.parametrize(
    ("ours", "printed", "word", "interval"),
    [
        (Summary(60.2, 1.0, 3), Summary(60), "inside", (0.2 - 1.686, 0.2 + 1.686)),
        (Summary(61.0, 1.0, 3), Summary(60), "undecided", (1.0 - 1.686, 1.0 + 1.686)),
        (Summary(64.0, 1.0, 3), Summary(60), "outside", (4.0 - 1.686, 4.0 + 1.686)),
        (Summary(56.0, 1.0, 3), Summary(60), "outside", (-4.0 - 1.686, -4.0 + 1.686)),
        # Equal deviations and seeds: error sqrt(2/5) = 0.632, 8 degrees of freedom, t 1.860.
        (Summary(60.5, 1.0, 5), Summary(60, 1.0, 5), "inside", (0.5 - 1.176, 0.5 + 1.176)),
        (Summary(61.0, 1.0, 5), Summary(60, 1.0, 5), "undecided", (1.0 - 1.176, 1.0 + 1.176)),
        (Summary(63.5, 1.0, 5), Summary(60, 1.0, 5), "outside", (3.5 - 1.176, 3.5 + 1.176)),
    ],
)
def test_one_number_by_hand(
    ours: Summary, printed: Summary, word: str, interval: tuple[float, float]
) -> None:
    """A margin of 2: inside where the 90% interval lies within it, outside where it lies beyond."""
    (found,) = judge([(ours, printed)], 2.0)
    assert found.word == word
    assert (found.low, found.high) == pytest.approx(interval, abs=2e-3)
    assert (found.p <= LEVEL) == (word != "undecided")
    assert math.isnan(found.needed) == (word != "undecided")


def test_one_seed_decides_nothing_and_says_what_would() -> None:
    (found,) = judge([(Summary(60, n=1), Summary(60, 1.0, 5))], 2.0)
    assert found.word == "undecided" and math.isnan(found.p)
    # A test of 5 + 4 - 2 degrees of freedom or so sees 2.7 of its errors: sqrt(1/4 + 1/5) = 0.67 is the first below 2 / 2.7.
    assert found.needed == 4
    (unknown,) = judge([(Summary(60, n=1), Summary(60))], 2.0)
    assert unknown.word == "undecided" and math.isnan(unknown.needed)


def test_seeds_that_are_all_alike_decide_nothing() -> None:
    """Three accuracies of the same 29 test images may well be equal; that is no proof that all are."""
    (found,) = judge([(Summary(60, 1e-14, 3), Summary(60))], 2.0)
    assert found.word == "undecided" and math.isnan(found.p)


def test_a_difference_of_the_margin_needs_more_seeds_than_anybody_has() -> None:
    (found,) = judge([(Summary(62, 1.0, 3), Summary(60))], 2.0)
    assert found.word == "undecided" and found.needed == math.inf


def test_what_seeds_detect_and_what_a_decision_needs() -> None:
    """The noncentral t with the shift that is told exceeds the quantile with probability 0.8."""
    (found,) = judge([(Summary(60.5, 1.0, 3), Summary(60))], 2.0)
    quantile = stats.t.ppf(1 - LEVEL, 2)
    assert stats.nct.sf(quantile, 2, found.detectable * math.sqrt(3)) == pytest.approx(0.8, abs=1e-6)
    seeds = int(found.needed)
    power = [
        stats.nct.sf(stats.t.ppf(1 - LEVEL, n - 1), n - 1, 1.5 * math.sqrt(n)) for n in (seeds - 1, seeds)
    ]
    assert power[0] < 0.8 <= power[1]


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_constant_is_judged_by_the_tests_of_one_sample(n: int) -> None:
    values = np.random.default_rng(n).normal(61, 1, n)
    ours = (values.mean() - 60, (values.std(ddof=1), 0), (n, 2))
    inside, outside = probabilities(*ours, margin=2)
    below, above = (
        stats.ttest_1samp(values, 60 + m, alternative=a).pvalue for m, a in ((2, "less"), (-2, "greater"))
    )
    assert inside == pytest.approx(max(below, above))
    size = values.mean() - 60 if values.mean() > 60 else 60 - values.mean()
    freedom, error = n - 1, values.std(ddof=1) / math.sqrt(n)
    assert outside == pytest.approx(
        min(1, stats.t.sf((size - 2) / error, freedom) + stats.t.sf((size + 2) / error, freedom))
    )


def test_two_samples_are_judged_by_welchs_tests() -> None:
    rng = np.random.default_rng(0)
    ours, printed = rng.normal(61, 1, 3), rng.normal(60, 2, 5)
    inside, _ = probabilities(
        ours.mean() - printed.mean(), (ours.std(ddof=1), printed.std(ddof=1)), (3, 5), margin=2
    )
    below = stats.ttest_ind(ours - 2, printed, equal_var=False, alternative="less")
    above = stats.ttest_ind(ours + 2, printed, equal_var=False, alternative="greater")
    assert inside == pytest.approx(max(below.pvalue, above.pvalue))
    sides = [Summary(side.mean(), side.std(ddof=1), len(side)) for side in (ours, printed)]
    error, freedom = welch(sides[0].deviation, 3, sides[1])
    assert freedom == pytest.approx(below.df)
    assert (ours.mean() - printed.mean() - 2) / error == pytest.approx(below.statistic)


def test_without_a_margin_outside_is_students_two_sided_test() -> None:
    values = np.array([60.5, 61.0, 62.5])
    _, outside = probabilities(values.mean() - 60, (values.std(ddof=1), 0), (3, 2), margin=0)
    assert outside == pytest.approx(stats.ttest_1samp(values, 60).pvalue)


def test_a_number_among_many_needs_more_than_alone() -> None:
    """p 0.018 alone; of ten of which nine lie far from it, ten times that."""
    alone, far = (Summary(60.2, 0.8, 3), Summary(60)), (Summary(61.9, 5.0, 3), Summary(60))
    (one,), (first, *_) = judge([alone], 2.0), judge([alone, *[far] * 9], 2.0)
    assert (one.word, first.word) == ("inside", "undecided")
    assert first.p == pytest.approx(10 * one.p)
    assert [found.word for found in judge([alone] * 10, 2.0)] == ["inside"] * 10


def test_what_is_not_tested_is_not_in_the_correction() -> None:
    alone, untested = (Summary(60.2, 0.8, 3), Summary(60)), (Summary(60, n=1), Summary(60))
    assert judge([alone, *[untested] * 9], 2.0)[0] == judge([alone], 2.0)[0]


def test_tables_are_corrected_apart() -> None:
    p = np.array([[0.01, 0.04, 0.5, 0.9], [0.04, 0.04, 0.04, 0.04]])
    assert corrected(p) == pytest.approx(np.array([[0.04, 0.08, 2 / 3, 0.9], [0.04] * 4]))


@pytest.mark.parametrize("kind", [*simulation.KINDS][:2])
@pytest.mark.parametrize("seeds", simulation.SEEDS[:2])
def test_error_rates_are_those_declared(kind: str, seeds: int) -> None:
    """Of 300 tables no more have a wrong verdict of one kind than 5% of them bring, but once in a thousand times."""
    most, rng = stats.binom.ppf(0.999, 300, LEVEL), np.random.default_rng(seeds)
    for off in (0, 1, 2):
        rates = simulation.simulate(rng, 300, seeds, kind, off)
        assert 300 * rates.tables_inside <= most and 300 * rates.tables_outside <= most
        assert (rates.inside > 0.2) == (off == 0) and (rates.outside > 0.2) == (off == 2)


@pytest.mark.parametrize("kind", [*simulation.KINDS][:2])
def test_of_a_table_that_is_half_true_5_percent_of_the_verdicts_are_wrong_at_most(kind: str) -> None:
    rates = simulation.simulate(np.random.default_rng(0), 300, 5, kind, simulation.OFF[-1])
    assert rates.inside > 0.2 and rates.wrong_inside < LEVEL and rates.wrong_outside < LEVEL


def test_holm_is_bonferroni_for_the_smallest_and_never_less_strict_than_ours() -> None:
    p = np.random.default_rng(0).uniform(size=(50, 7))
    assert simulation.holm(p).min(-1) == pytest.approx(np.minimum(7 * p.min(-1), 1))
    assert (simulation.holm(p) >= corrected(p)).all()
    assert simulation.holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])


def test_the_page_shows_the_kept_rates() -> None:
    page, rates = ROOT / "docs" / "verdicts.md", pd.read_csv(simulation.CSV, dtype={"off": str})
    assert simulation.table(rates) in page.read_text()
    assert simulation.against_holm(rates) in page.read_text()


def test_the_simulation_judges_as_tables_are_judged() -> None:
    """The arrays of the simulation and the numbers of a table go the same way."""
    rng = np.random.default_rng(0)
    ours, printed = rng.normal(60, 1, (20, 3)), rng.normal(60, 1, (20, 5))
    pairs = [
        (Summary(one.mean(), one.std(ddof=1), 3), Summary(other.mean(), other.std(ddof=1), 5))
        for one, other in zip(ours, printed, strict=True)
    ]
    words = [found.word for found in judge(pairs, 2.0)]
    inside, outside = simulation.verdicts(ours[None], printed[None], 2.0)
    assert words == np.where(inside[0], "inside", np.where(outside[0], "outside", "undecided")).tolist()
