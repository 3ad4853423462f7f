"""Paired differences: how much better one method is than another, over runs that differ in the method alone.

A pair is the same target, seed and whatever other axes there are, under both methods. What a paper prints is
an average over its domains, which are fixed, then over seeds, which are sampled: so the differences of a seed
are averaged first, and the 95% interval is Student's t over seeds. A seed that lacks a run is left out: an
average over fewer domains is another quantity. One seed has no interval over seeds; what it has is an
interval over its pairs - how much the difference varies from domain to domain, not from seed to seed - which
is shown and judges nothing.

With two seeds or more, a difference also has its power (fedshift.analysis.verdicts.power): the distance from
its bound (0, or the margin) that so many seeds see with probability 0.8, and the seeds that would see ours.
Seeds that are all alike do not tell how much seeds differ: they have no interval either, except of what is
counted or declared.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import pandas as pd

from fedshift.analysis.claims.values import LATE, VALUE
from fedshift.analysis.verdicts.equivalence import ALIKE
from fedshift.analysis.verdicts.power import detectable, needed

LEVEL = 0.05
NO_AXES = (VALUE, LATE)


@dataclass(frozen=True)
class Difference:
    """The left method less a method on the right, in points of accuracy: mean over seeds, with its 95%
    interval (NaN below two seeds, and of seeds that are all alike).

    seeds: those that have all their pairs, of `planned`; pairs: the mean over these by the values of the
        other axes that vary ("photo");
    pairs_low, pairs_high: with one seed, the interval over its pairs (NaN with more seeds, or fewer pairs
    than two); detectable: the distance from the bound that so many seeds see; needed: the seeds that see ours
    (NaN where the interval is); late: runs that never get where the metric asks, and count as if they did one
    round after the longest; lacking: where there is no seed, the sides that have none of their own;
    by_seed: of each of `seeds` the mean over its pairs.
    """

    right: str
    mean: float
    low: float
    high: float
    seeds: int
    planned: int
    pairs: dict[str, float]
    pairs_low: float
    pairs_high: float
    detectable: float
    needed: float
    by_seed: tuple[float, ...]
    late: int = 0
    lacking: tuple[str, ...] = ()


def paired(terms: Sequence[tuple[float, pd.DataFrame]], constant: float = 0.0) -> pd.DataFrame:
    """The sum of factor times `value`, and a constant, as `difference`: one row per seed and values of the
    other axes at which all terms are planned.

    terms: of each the factor, and what `Values.of` gives. An axis on which they share no value, or that not
    all of them have, is none of the pairs': the values of a term are averaged over it.
    """
    frames = [frame for _, frame in terms]
    axes = [axis for axis in frames[0] if axis not in NO_AXES and all(axis in frame for frame in frames)]
    common = {axis: set.intersection(*(set(frame[axis]) for frame in frames)) for axis in axes}
    shared = [axis for axis in axes if axis == "seed" or common[axis]]
    columns = [factor * frame.groupby(shared)[VALUE].mean(skipna=False) for factor, frame in terms]
    both = pd.concat(dict(enumerate(columns)), axis=1, join="inner")
    return (both.sum(axis=1, skipna=False) + constant).rename("difference").reset_index()


def estimate(
    pairs: pd.DataFrame, right: str, bounds: Sequence[float] = (0.0,), exact: bool = False
) -> Difference:
    """The mean difference of `pairs` with its interval.

    pairs: columns `seed`, the other axes, and `difference` (NaN where a run of either method is missing);
    bounds: what it is judged by, of which the nearest counts for the power; exact: whether it is counted or
        declared, so that seeds which are alike have an interval, of no width.
    """
    by_seed = pairs.groupby("seed")["difference"].mean(skipna=False)
    whole = by_seed.dropna()
    mean, by_point = float(whole.mean()), _by_other_axes(pairs[pairs["seed"].isin(whole.index)])
    half, deviation = _half(whole), float(whole.std(ddof=1)) if len(whole) > 1 else math.nan
    if deviation <= ALIKE:
        half = deviation = 0.0 if exact else math.nan
    over_pairs = _half(pd.Series(by_point)) if len(whole) == 1 else math.nan
    interval, of_pairs = (mean - half, mean + half), (mean - over_pairs, mean + over_pairs)
    distance = min(abs(mean - bound) for bound in bounds)
    power = detectable(deviation, len(whole), LEVEL), needed(distance, deviation, LEVEL)
    counts = len(whole), len(by_seed)
    return Difference(right, mean, *interval, *counts, by_point, *of_pairs, *power, (*map(float, whole),))


def _half(values: pd.Series[float]) -> float:
    """Half of Student's interval for the mean of `values`; NaN below two."""
    if len(values) < 2:
        return math.nan
    from scipy.stats import t

    return float(t.ppf(1 - LEVEL / 2, len(values) - 1) * values.sem())


def _by_other_axes(pairs: pd.DataFrame) -> dict[str, float]:
    axes = [column for column in pairs if column not in ("seed", "difference")]
    axes = [axis for axis in axes if pairs[axis].nunique(dropna=False) > 1] or axes
    differences: dict[str, list[float]] = defaultdict(list)
    for pair in pairs.to_dict("records"):
        differences[", ".join(str(pair[axis]) for axis in axes)].append(pair["difference"])
    return {name: fmean(values) for name, values in differences.items()}
