"""Claims on the papers' own numbers: whether what is printed bears out what is said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

from fedshift.analysis.claims.comparison import Comparison, bounds, points
from fedshift.analysis.printed.published import Published, by_uid, scaled
from fedshift.experiments.column import column
from fedshift.experiments.load import load
from fedshift.experiments.paper_claims import Side, sides
from fedshift.storage.workspace import Workspace

EXACT = 1e-9  # a difference of no more is rounding of ours
OnPrint = Literal["holds", "fails", "within the spread", "within the rounding", "not printed"]
WORDS: tuple[OnPrint, ...] = ("holds", "fails", "within the spread", "within the rounding", "not printed")


class Printed(NamedTuple):
    """A claim on printed numbers, without a test: left less right, of several the best, in the unit of the
    metric that runs are judged by (NaN where one is not printed); whether that is on the claim's side of its
    bound; and the word.

    Numbers are those that fedshift.analysis.printed.published takes the printed for; of several on the right
    a slip whose right value nobody knows is left out. "within the spread": nearer to the bound than the
    standard deviation of the difference of one run of each side, by the printed spreads; "within the
    rounding": nearer than half of the last digits of all numbers together; "holds" and "fails": farther.
    """

    difference: float
    holds: bool
    word: OnPrint

    @property
    def printed(self) -> bool:
        """Whether the paper prints numbers for it."""
        return not math.isnan(self.difference)


class Value(NamedTuple):
    """A side: its value, its variance over single runs (NaN: not printed), and by how much rounding may have
    moved it.
    """

    value: float
    variance: float
    rounding: float


NOT_PRINTED = Printed(math.nan, False, "not printed")


def on_print(workspace: Workspace, row: Mapping[str, str], comparison: Comparison | None) -> Printed:
    """How a row of reference/claims.csv stands on what the paper prints; comparison: how an experiment judges
    it, None where none does. Raises FedshiftError for a paper that has no margin.
    """
    left, right = _sides(workspace, row, comparison)
    difference = round(left.value - right.value, 6)
    if math.isnan(difference):
        return NOT_PRINTED
    within = comparison.margin if comparison else points(workspace, row)
    limits = bounds(row["relation"], within)
    holds = {
        ">": difference > limits[0],
        ">=": difference >= limits[0],
        "<": difference < limits[0],
        "<=": difference <= limits[0],
        "~": limits[0] <= difference <= limits[-1],
    }[row["relation"]]
    distance = min(abs(difference - limit) for limit in limits)
    if distance <= math.sqrt(left.variance + right.variance):
        return Printed(difference, holds, "within the spread")
    if distance + EXACT < left.rounding + right.rounding:
        return Printed(difference, holds, "within the rounding")
    return Printed(difference, holds, "holds" if holds else "fails")


def _sides(
    workspace: Workspace, row: Mapping[str, str], comparison: Comparison | None
) -> tuple[Value, Value]:
    """The left side and the best on the right; as the list of claims has them where they are no printed
    results.
    """
    found = [_value(workspace, side, comparison) for side in sides(workspace, row)]
    if not found:
        listed = [_number(row[f"published_{side}"]) for side in ("left", "right")]
        return Value(listed[0], math.nan, 0.0), Value(listed[1], math.nan, 0.0)
    best = max if row["right"].startswith("max") else min
    known = [one for one in found[1:] if not math.isnan(one.value)]
    return found[0], best(known or found[1:], key=lambda one: one.value)


def _value(workspace: Workspace, side: Side, comparison: Comparison | None) -> Value:
    known = by_uid(workspace)
    terms = [
        (factor, _scaled(workspace, known[uid], comparison)) for factor, uid in side.terms if uid in known
    ]
    if len(terms) < len(side.terms):
        return Value(math.nan, math.nan, 0.0)
    return Value(
        side.constant + sum(factor * printed.judged for factor, printed in terms),
        sum((factor * printed.std) ** 2 for factor, printed in terms),
        sum(abs(factor) * printed.half for factor, printed in terms),
    )


def _scaled(workspace: Workspace, printed: Published, comparison: Comparison | None) -> Published:
    """A printed number in the unit of the comparison: where runs are compared by ratios, such a ratio."""
    if comparison is None or column((cell := comparison.cells[0]).metric).relative != "ratio":
        return printed
    experiment = load(workspace, cell.experiment)
    table = next(table for table in experiment.tables.values() if cell.metric in table.metrics)
    return scaled(workspace, experiment, table, dict(cell.where), cell.metric, printed)


def _number(printed: str) -> float:
    try:
        return float(printed)
    except ValueError:  # a few are words
        return math.nan
