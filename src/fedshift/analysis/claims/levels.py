"""Levels: the smallest at which a comparison is confirmed, and refuted; p values of Student's t over seeds,
from its intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fedshift.analysis.claims.comparison import Comparison
from fedshift.analysis.claims.paired import LEVEL, Difference
from fedshift.analysis.verdicts.equivalence import ALIKE

SIGN = {">": 1, ">=": 1, "<": -1, "<=": -1}


class Levels(NamedTuple):
    """Two-sided p values, from 0 to 1; 1 where nothing is known."""

    confirmed: float
    refuted: float


UNKNOWN = Levels(1.0, 1.0)


def levels(comparison: Comparison, differences: Sequence[Difference]) -> Levels:
    """Of a comparison by the differences of its pairs, with their intervals at LEVEL.

    Where all pairs must hold, the largest p value counts; where one is enough, the smallest times how many
    there are (Bonferroni). "~" is confirmed where all pairs are within the margin, and refuted where one is
    beyond it; as good as the best of several ("max(..)"): where no pair is worse by the margin and one is
    better by less, and where one is worse, or all are better, by more.
    """

    def every(sign: int, bound: float) -> float:
        return max(_beyond(gap, sign, bound) for gap in differences)

    def some(sign: int, bound: float) -> float:
        return min(1.0, len(differences) * min(_beyond(gap, sign, bound) for gap in differences))

    low, high = comparison.bounds[0], comparison.bounds[-1]
    one, other = (some, every) if comparison.one_is_enough else (every, some)
    if comparison.relation == "~":
        return Levels(max(every(1, low), one(-1, high)), min(some(-1, low), other(1, high)))
    sign = SIGN[comparison.relation]
    return Levels(one(sign, low), other(-sign, low))


def _beyond(gap: Difference, sign: int, bound: float) -> float:
    """The smallest level whose interval lies above a bound (sign 1), or below it (-1); 1 without one."""
    if math.isnan(gap.low):
        return 1.0
    from scipy.stats import t

    distance, half, freedom = sign * (gap.mean - bound), (gap.high - gap.low) / 2, gap.seeds - 1
    if not half:
        return float(distance <= ALIKE)  # counted or declared
    return min(1.0, 2 * float(t.sf(distance / half * t.ppf(1 - LEVEL / 2, freedom), freedom)))
