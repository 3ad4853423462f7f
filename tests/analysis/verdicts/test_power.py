"""What seeds can see: against tables and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedshift.analysis.verdicts.power import detectable, needed


@pytest.mark.parametrize(("effect", "seeds"), [(0.5, 34), (0.8, 15), (1.0, 10)])
def test_needed_seeds_are_those_of_the_textbook(effect: float, seeds: int) -> None:
    """Cohen's table for a paired t test, two-sided 5%, power 0.8."""
    assert needed(effect, 1.0) == seeds
    assert detectable(1.0, seeds) <= effect < detectable(1.0, seeds - 1)


def test_power_by_simulation() -> None:
    """Of 4,000 triples at the detectable distance, 80% have an interval above 0."""
    drawn = np.random.default_rng(0).normal(detectable(1.0, 3), 1.0, (4000, 3))
    low = drawn.mean(1) - 4.302653 * drawn.std(1, ddof=1) / math.sqrt(3)
    assert (low > 0).mean() == pytest.approx(0.8, abs=0.02)


def test_power_of_nothing_known() -> None:
    assert math.isnan(detectable(math.nan, 1)) and math.isnan(needed(1.0, math.nan))
    assert needed(0.0, 1.0) == math.inf
    assert needed(1.0, 0.0) == 2
