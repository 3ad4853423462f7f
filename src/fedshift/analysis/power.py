"""Power: which difference a number of seeds would see, and how many seeds a difference needs.

The interval of a mean over n seeds lies clear of a bound at distance d from the true mean with the
probability that a noncentral t of n - 1 degrees of freedom, with parameter d sqrt(n) / s, exceeds Student's
quantile; s is the standard deviation over seeds.
"""

from __future__ import annotations

import functools
import math

POWER = 0.8
MOST = 1000  # seeds beyond which nobody will go


def detectable(deviation: float, seeds: int, level: float = 0.05) -> float:
    """The distance from the bound (in the unit of `deviation`) that so many seeds see with probability POWER;
    NaN below two.
    """
    return deviation * _multiple(seeds, level) if seeds > 1 else math.nan


def needed(distance: float, deviation: float, level: float = 0.05) -> float:
    """The fewest seeds that see a distance with probability POWER; infinity where they are more than MOST,
    NaN for no deviation known.
    """
    if math.isnan(deviation) or math.isnan(distance):
        return math.nan
    low, high = 2, MOST
    if detectable(deviation, MOST, level) > distance:
        return math.inf
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if detectable(deviation, middle, level) <= distance else (middle + 1, high)
    return low


@functools.cache
def _multiple(seeds: int, level: float) -> float:
    """The detectable distance for a deviation of 1."""
    from scipy.optimize import brentq
    from scipy.stats import nct, t

    quantile = float(t.ppf(1 - level / 2, seeds - 1))
    parameter = brentq(lambda shift: float(nct.sf(quantile, seeds - 1, shift)) - POWER, 0, 10 * quantile)
    return float(parameter) / math.sqrt(seeds)
