"""Power: which difference so many seeds detect, and how many seeds a difference needs.

A one-sided t test detects the distance of a true mean from a bound with the probability that a noncentral t,
with that distance in standard errors as its parameter, exceeds Student's quantile.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable

POWER = 0.8
MOST = 1000  # seeds beyond which nobody will go


def detectable(deviation: float, seeds: int, level: float = 0.05) -> float:
    """The distance from the bound (in the unit of `deviation`, the standard deviation over seeds) that the
    two-sided interval of the mean over so many seeds sees with probability POWER; NaN below two.
    """
    return deviation * standard_errors(seeds - 1, level / 2) / math.sqrt(seeds) if seeds > 1 else math.nan


def needed(distance: float, deviation: float, level: float = 0.05) -> float:
    """The fewest seeds that see a distance with probability POWER; infinity where they are more than MOST,
    NaN for no deviation known.
    """
    if math.isnan(deviation) or math.isnan(distance):
        return math.nan
    return fewest(lambda seeds: detectable(deviation, seeds, level), distance)


def fewest(sees: Callable[[int], float], distance: float) -> float:
    """The fewest seeds, two at least, whose `sees` is no more than a distance; infinity where MOST see less.

    sees: the distance that so many seeds detect, falling.
    """
    if sees(MOST) > distance:
        return math.inf
    return 2 + bisect.bisect_left(range(2, MOST), True, key=lambda seeds: sees(seeds) <= distance)


@functools.cache
def standard_errors(freedom: int, level: float) -> float:
    """The distance from the bound, in standard errors, that a one-sided t test of this level sees with
    probability POWER.
    """
    from scipy.optimize import brentq
    from scipy.stats import nct, t

    quantile = float(t.ppf(1 - level, freedom))
    return float(brentq(lambda shift: float(nct.sf(quantile, freedom, shift)) - POWER, 0, 10 * quantile))
