"""Ranks: which rows of a table are best and second best in a column."""

from __future__ import annotations

import pandas as pd

from fedshift.experiments.quantity import quantity
from fedshift.registry import get

BEST, SECOND = 1, 2


def ranks(cells: pd.DataFrame) -> pd.Series[int]:
    """BEST, SECOND or 0 for each of `fedshift.analysis.tables.cells`, by its mean among the rows of its
    column.

    Only means over as many seeds as planned, and over as many values as their neighbours', are ranked; equal
    ones, to nine digits, share a rank. A column of fewer than two such means has no ranks.
    """
    axes = list(cells.columns[1 : list(cells.columns).index("mean")])
    whole = (cells["seeds"] > 0) & (cells["seeds"] == cells["planned"]) & (cells["fewer"] == "")
    lower = cells["metric"].map(lambda name: get("metrics", quantity(str(name)).metric).better == "lower")
    values = cells["mean"].where(~lower.astype(bool), -cells["mean"]).round(9)[whole]
    groups = values.groupby([cells.loc[whole, axis].astype(str) for axis in axes])
    order = groups.rank(method="dense", ascending=False).where(groups.transform("size") > 1)
    return order.where(order <= SECOND).reindex(cells.index).fillna(0).astype(int)
