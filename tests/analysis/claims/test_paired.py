"""Paired differences: which runs are pairs, and what their sums are."""

import itertools
import math
from typing import Any

import pandas as pd
import pytest

from fedshift.analysis.claims.judge import estimate, paired


def test_pairs_are_named_by_the_axes_that_vary() -> None:
    pairs = pd.DataFrame({"d": 1, "target": ["a", "b"], "seed": 0, "difference": [10.0, 20.0]})
    assert estimate(pairs, "fedavg").pairs == {"a": 10, "b": 20}
    assert estimate(pairs[:1], "fedavg").pairs == {"1, a": 10}
    assert estimate(pairs.assign(d=[1, 2]), "fedavg").pairs == {"1, a": 10, "2, b": 20}


def runs(values: list[float], **axes: list[Any]) -> pd.DataFrame:
    """One row for each combination of axes, the last fastest."""
    points = itertools.product(*axes.values())
    rows = [dict(zip(axes, point, strict=True)) for point in points]
    return pd.DataFrame(rows).assign(value=values)


def test_a_sum_has_the_signs_of_its_factors_and_its_constant() -> None:
    left, right = runs([5.0, 7.0], seed=[0, 1]), runs([2.0, 1.0], seed=[0, 1])
    pairs = paired([(1.0, left), (-1.0, right)], constant=-0.5)
    assert pairs["difference"].tolist() == [2.5, 5.5]
    assert paired([(0.5, left), (2.0, right)])["difference"].tolist() == [6.5, 5.5]
    assert paired([(1.0, left)], constant=1.0)["difference"].tolist() == [6.0, 8.0]


def test_pairs_share_the_axes_on_which_they_share_values() -> None:
    """Targets a and b against b and c: b alone is a pair. Methods at other values of d are averaged over it."""
    left = runs([1.0, 2.0], target=["a", "b"], seed=[0])
    right = runs([10.0, 20.0], target=["b", "c"], seed=[0])
    pairs = paired([(1.0, left), (-1.0, right)])
    assert pairs.to_dict("records") == [{"target": "b", "seed": 0, "difference": -8.0}]
    many, few = runs([3.0, 5.0, 4.0], d=[1, 2, 3], seed=[0]), runs([1.0], d=[4], seed=[0])
    pairs = paired([(1.0, many), (-1.0, few)])
    assert pairs.to_dict("records") == [{"seed": 0, "difference": 3.0}]
    elsewhere = runs([1.0, 3.0], epochs=[1, 5], seed=[0])  # an axis that the left side has not
    assert paired([(1.0, left), (-1.0, elsewhere)])["difference"].tolist() == [-0.5]


def test_a_missing_run_makes_its_average_missing_and_another_seed_no_pair() -> None:
    left = runs([1.0, math.nan, 3.0, 4.0], seed=[0, 1], epochs=[1, 5])
    right = runs([1.0, 1.0], seed=[1, 2])
    pairs = paired([(1.0, left), (-1.0, right)])
    assert pairs.to_dict("records") == [{"seed": 1, "difference": 2.5}]
    both = paired([(1.0, left), (-1.0, runs([1.0, 1.0], seed=[0, 1]))])
    assert both["difference"].isna().tolist() == [True, False]


def test_nothing_collected_is_no_seed() -> None:
    nothing = pd.DataFrame({"seed": [], "value": []})
    pairs = paired([(1.0, runs([1.0], seed=[0])), (-1.0, nothing)])
    against = estimate(pairs, "other")
    assert (against.seeds, against.planned) == (0, 0)
    assert math.isnan(against.mean) and math.isnan(against.low)


NOISE = (0.1 + 0.2) - 0.3


@pytest.mark.parametrize("by_seed", [(3.0, 3.0), (NOISE, NOISE), (0.0, 0.0, 0.0)])
def test_seeds_that_are_alike_have_an_interval_only_of_what_is_counted(by_seed: tuple[float, ...]) -> None:
    pairs = pd.DataFrame({"seed": range(len(by_seed)), "difference": by_seed})
    measured, counted = estimate(pairs, "x"), estimate(pairs, "x", exact=True)
    assert math.isnan(measured.low) and math.isnan(measured.high)
    assert counted.low == counted.high == counted.mean == by_seed[0]
