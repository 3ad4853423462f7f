"""Seeds: the mean over seeds, and what may be drawn around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd

Kind = Literal["std", "range", "alone"]
ENOUGH = 3  # seeds from which a standard deviation is drawn


@dataclass(frozen=True)
class Mean:
    """A mean over seeds by position on the x axis, and the ends around it: of one standard deviation (`std`),
    or the lower and the higher of two seeds (`range`), or of one seed itself (`alone`); NaN where fewer seeds
    have a value than the kind needs.
    """

    mean: pd.Series[float]
    low: pd.Series[float]
    high: pd.Series[float]
    kind: Kind


def over_seeds(values: pd.DataFrame, by: str, metric: str, ddof: int) -> Mean | None:
    """The mean of `metric` at each value of the column `by`; `values` has a row for each of these and seed.
    None where there is no value.

    ddof: of the standard deviation, the protocol's.
    """
    groups = values.groupby(by)[metric]
    mean = groups.mean().dropna()
    if mean.empty:
        return None
    seeds = groups.count().reindex(mean.index)
    if seeds.max() < ENOUGH:
        kind: Kind = "range" if seeds.max() > 1 else "alone"
        low, high = (side.reindex(mean.index) for side in (groups.min(), groups.max()))
        return Mean(mean, low.where(seeds == seeds.max()), high.where(seeds == seeds.max()), kind)
    spread = groups.std(ddof=ddof).reindex(mean.index).where(seeds >= ENOUGH)
    return Mean(mean, mean - spread, mean + spread, "std")
