"""Claims on the papers' own numbers: whether what is printed bears out what is said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

from fedshift.analysis.claims.comparison import Comparison
from fedshift.analysis.printed.published import by_uid
from fedshift.analysis.printed.spec import margin
from fedshift.experiments.claim import COST_MARGIN
from fedshift.experiments.column import column
from fedshift.experiments.sides import Side, sides
from fedshift.storage.workspace import Workspace

OnPrint = Literal["holds", "fails", "within the spread", "not printed"]
WORDS: tuple[OnPrint, ...] = ("holds", "fails", "within the spread", "not printed")


class Printed(NamedTuple):
    """A claim on printed numbers, without a test: left less right (NaN where one is not printed), whether
    that is on the claim's side of the bound (0; of "~": within the margin), and the word.

    "within the spread": nearer to the bound than the standard deviation of the difference of one run of each
    side, by the printed spreads; "holds" and "fails": farther, or without printed spreads.
    """

    difference: float
    holds: bool
    word: OnPrint


NOT_PRINTED = Printed(math.nan, False, "not printed")


def on_print(workspace: Workspace, row: Mapping[str, str], comparison: Comparison | None) -> Printed:
    """How a row of reference/claims.csv stands on what the paper prints; comparison: how an experiment judges
    it, None where none does. Raises FedshiftError where "~" needs the margin of a paper that has none.
    """
    difference = printed_difference(row)
    if math.isnan(difference):
        return NOT_PRINTED
    bound = _margin(workspace, row, comparison) if row["relation"] == "~" else 0.0
    holds = {
        ">": difference > 0,
        ">=": difference >= 0,
        "<": difference < 0,
        "<=": difference <= 0,
        "~": abs(difference) <= bound,
    }[row["relation"]]
    if abs(abs(difference) - bound) <= _spread(workspace, row):
        return Printed(difference, holds, "within the spread")
    return Printed(difference, holds, "holds" if holds else "fails")


def _margin(workspace: Workspace, row: Mapping[str, str], comparison: Comparison | None) -> float:
    """That of "~" in the unit of the printed numbers: of costs a share of the right side, else the
    comparison's; the paper's where there is no comparison.
    """
    if comparison is None:
        return margin(workspace, row["paper"]).points
    if column(comparison.cells[0].metric).kind == "cost":
        return COST_MARGIN * abs(_number(row["published_right"]))
    return comparison.margin


def printed_difference(row: Mapping[str, str]) -> float:
    """Left less right, of several the best; rounded as numbers are printed, NaN where one is not."""
    return round(_number(row["published_left"]) - _number(row["published_right"]), 6)


def _number(printed: str) -> float:
    try:
        return float(printed)
    except ValueError:  # a few are words
        return math.nan


def _spread(workspace: Workspace, row: Mapping[str, str]) -> float:
    """The standard deviation of the left side less the best on the right, of one run each; NaN where a spread
    is not printed.
    """
    both = sides(workspace, row)
    if not both:
        return math.nan
    left, *right = both
    best = max if row["right"].startswith("max") else min
    rival = best(right, key=lambda side: _value(workspace, side))
    known = by_uid(workspace)
    variances = [
        (factor * known[uid].std) ** 2 if uid in known else math.nan
        for side in (left, rival)
        for factor, uid in side.terms
    ]
    return math.sqrt(sum(variances))


def _value(workspace: Workspace, side: Side) -> float:
    known = by_uid(workspace)
    return side.constant + sum(
        factor * known[uid].value if uid in known else math.nan for factor, uid in side.terms
    )
