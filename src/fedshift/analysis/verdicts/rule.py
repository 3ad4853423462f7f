"""The rule of all verdicts: a difference with its 95% interval.

One spread serves many differences: the standard deviation of one seed, pooled over the methods of a table.
With two or three seeds the spread of a single method says next to nothing (of two seeds, an interval may be
0.1 or 46 points wide by chance), while all methods of a table share data sets, splits and rounds. Where
methods spread unequally, the interval is right on average over a table, too wide for calm methods and too
narrow for restless ones (docs/verdicts.md has the simulation).

- A number beside a printed one: half-width t(f) sqrt(s^2 / n + s'^2 / n'), with s the pooled spread of ours
  over
  n seeds and s' that of the paper over its n'; a paper that prints none is taken to spread as ours, and the
  other way round where ours has one seed.
- One method beside another on the same seeds: rows and seeds explain each value, what is left is the spread
  (two-way analysis of variance); half-width t(f) s sqrt(2 / n). Of two rows this is Student's paired t.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

LEVEL = 0.05
ALIKE = 1e-9  # a standard deviation of no more is rounding
Word = Literal["consistent", "different", "too few seeds"]
WORDS: tuple[Word, ...] = ("consistent", "different", "too few seeds")
Outcome = Literal["as published", "against", "open", "not run"]  # of a comparison of methods
OUTCOMES: tuple[Outcome, ...] = ("as published", "against", "open", "not run")


class Spread(NamedTuple):
    """The standard deviation of one seed (NaN: unknown), and its degrees of freedom."""

    deviation: float
    freedom: float

    @property
    def known(self) -> bool:
        """Whether it tells anything: seeds that are all alike do not."""
        return self.freedom > 0 and self.deviation > ALIKE


UNKNOWN = Spread(math.nan, 0)


class Interval(NamedTuple):
    """A difference with its interval; low and high are NaN where no spread is known."""

    difference: float
    low: float = math.nan
    high: float = math.nan

    @property
    def half(self) -> float:
        """Half of its width."""
        return (self.high - self.low) / 2


def pooled(samples: Iterable[tuple[float, int]]) -> Spread:
    """The common spread of samples, of each its standard deviation (divided by n - 1) and n; those of one
    value, or without a deviation, say nothing.
    """
    told = [(deviation, n - 1) for deviation, n in samples if n > 1 and not math.isnan(deviation)]
    freedom = sum(of for _, of in told)
    if not freedom:
        return UNKNOWN
    return Spread(math.sqrt(sum(deviation**2 * of for deviation, of in told) / freedom), freedom)


def residual(values: pd.DataFrame) -> Spread:
    """The spread that rows (methods) and columns (seeds) leave unexplained; a row that lacks a seed is left
    out. Two rows and two seeds are the least.
    """
    table = values.dropna().to_numpy(float)
    rows, seeds = table.shape
    if rows < 2 or seeds < 2:
        return UNKNOWN
    freedom = (rows - 1) * (seeds - 1)
    left = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
    return Spread(math.sqrt(float((left**2).sum()) / freedom), freedom)


def beside_print(difference: float, n: int, ours: Spread, printed_n: int, printed: Spread) -> Interval:
    """Ours over n seeds less a printed mean over `printed_n`; a side without a spread has the other's."""
    if not ours.known and not printed.known:
        return Interval(difference)
    own, theirs = (ours if ours.known else printed), (printed if printed.known else ours)
    parts = own.deviation**2 / n, theirs.deviation**2 / printed_n
    freedom = own.freedom
    if own is not theirs:  # Welch 1947
        freedom = sum(parts) ** 2 / (parts[0] ** 2 / own.freedom + parts[1] ** 2 / theirs.freedom)
    return around(difference, math.sqrt(sum(parts)), freedom)


def around(difference: float, error: float, freedom: float, level: float = LEVEL) -> Interval:
    """A difference with the interval of its standard error."""
    half = quantile(freedom, level) * error
    return Interval(difference, difference - half, difference + half)


def quantile(freedom: float, level: float = LEVEL) -> float:
    """Student's, of both sides together."""
    from scipy.special import stdtrit  # scipy.stats takes seconds to import

    return float(stdtrit(freedom, 1 - level / 2))


def word(interval: Interval, margin: float) -> Word:
    """ "different" where 0 lies outside, else "consistent" where the interval is no wider than the margin on
    either side, else "too few seeds".
    """
    if interval.low > 0 or interval.high < 0:
        return "different"
    return "consistent" if interval.half <= margin else "too few seeds"


def simultaneous(rows: int, freedom: float, level: float = LEVEL) -> float:
    """The quantile for the differences of `rows` methods from one other, all at once (Dunnett 1955), of
    equally many seeds each; of 200,000 draws, so right to about 0.01.
    """
    rng = np.random.default_rng(0)
    draws = np.zeros(200_000)
    shared = rng.standard_normal(draws.shape)
    for _ in range(rows):
        np.maximum(draws, np.abs(rng.standard_normal(draws.shape) - shared), out=draws)
    scale = np.sqrt(2 * rng.chisquare(freedom, draws.shape) / freedom)
    return float(np.quantile(draws / scale, 1 - level))


def root_mean_square(values: Sequence[float]) -> float:
    """Of nothing NaN."""
    return math.sqrt(sum(value**2 for value in values) / len(values)) if values else math.nan
