"""Ranks: which rows of a table are best and second best in a column."""

from __future__ import annotations

import pandas as pd

from fedshift.analysis.quantities.aggregation import lower_is_better
from fedshift.experiments.column import Column, column

BEST, SECOND = 1, 2


def ranks(cells: pd.DataFrame) -> pd.Series[int]:
    """BEST, SECOND or 0 for each of `fedshift.analysis.tables.cells`, by its mean among the rows of its
    column.

    Only means over as many seeds as planned, and over as many values as their neighbours', are ranked; equal
    ones, to nine digits, share a rank. A column of fewer than two such means has no ranks, nor has
    one of costs or settings, or of what is relative to another row: gains are that row's, not their own.
    """
    axes = list(cells.columns[1 : list(cells.columns).index("mean")])
    whole = (cells["seeds"] > 0) & (cells["seeds"] == cells["planned"]) & (cells["fewer"] == "")
    columns = {name: column(name) for name in cells["metric"].astype(str).unique()}
    signs = cells["metric"].astype(str).map({name: _sign(of) for name, of in columns.items()})
    values = (signs * cells["mean"]).round(9)[whole & (signs != 0)]
    groups = values.groupby([cells.loc[values.index, axis].astype(str) for axis in axes])
    order = groups.rank(method="dense", ascending=False).where(groups.transform("size") > 1)
    return order.where(order <= SECOND).reindex(cells.index).fillna(0).astype(int)


def _sign(of: Column) -> int:
    """1 where more is better, -1 where less is; 0 for what is neither."""
    if of.kind != "quantity" or of.relative:
        return 0
    return -1 if lower_is_better(of.name) else 1
