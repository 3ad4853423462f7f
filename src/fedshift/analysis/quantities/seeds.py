"""Seeds: the mean over seeds, and what may be drawn around it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import pandas as pd

Kind = Literal["std", "range", "alone"]
BANDS: dict[Kind, str] = {
    "std": "band: ± one standard deviation over seeds",
    "range": "band of two seeds: from the lower to the higher",
    "alone": "no band: one seed",
}
ENOUGH = 3  # seeds from which a standard deviation is drawn


@dataclass(frozen=True)
class Mean:
    """A mean over seeds by position on the x axis, and the band around it, of one of BANDS."""

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
        low, high = (side.reindex(mean.index) for side in (groups.min(), groups.max()))
        return Mean(mean, low, high, "range" if seeds.max() > 1 else "alone")
    spread = groups.std(ddof=ddof).reindex(mean.index).where(seeds >= ENOUGH, 0)
    return Mean(mean, mean - spread, mean + spread, "std")


def bands(kinds: Collection[Kind]) -> str:
    """What the bands of a figure are."""
    return "; ".join(text for kind, text in BANDS.items() if kind in kinds)
