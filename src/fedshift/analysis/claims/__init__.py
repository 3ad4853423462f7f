"""Claims: what a paper says of one method beside others, judged on paired differences between the runs of
both (fedshift.analysis.claims.paired).

A claim is confirmed where every interval lies on its side of 0, refuted where one lies on the other side (at
5% over all of them together, by Bonferroni), else undecided: one seed has no interval over seeds and decides
nothing.

A side may be a sum: the mean over an axis, a gain, a constant. Its cells may be of other experiments, and at
values of their own on the axes (fedshift.analysis.claims.comparison). "Less than the best of several" needs
one of them.

"~" says that a method is as good as the best on its right, within a margin: that of the paper in
reference/published.yaml, in points, by which printed numbers are judged, too; of costs a tenth of what is
printed; or the one that the experiment declares. It is confirmed where the method is worse than none of these
by the margin and better than at least one of them by less, refuted where it is worse than one of them, or
better than all of them, by more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from fedshift.analysis.claims.comparison import Comparison, Sum, comparisons
from fedshift.analysis.claims.levels import UNKNOWN, Levels, levels
from fedshift.analysis.claims.names import pair_names, statement
from fedshift.analysis.claims.on_print import NOT_PRINTED, Printed, on_print, printed_difference
from fedshift.analysis.claims.paired import LEVEL, Difference, estimate, paired
from fedshift.analysis.claims.values import Values, values_of
from fedshift.analysis.collection.collected import Collected
from fedshift.storage.workspace import Workspace

Outcome = Literal["confirmed", "refuted", "undecided"]
SIGN = {">": 1, ">=": 1, "<": -1, "<=": -1}


@dataclass(frozen=True)
class Verdict:
    """A row of reference/claims.csv, the difference that the paper prints (NaN where it prints none), ours,
    and what follows.

    orientation: the printed difference where the paper's experiment is another (`printed` is NaN then), and
        `differs` says why; on_print: the claim on the paper's own numbers; levels: its p values.
    """

    claim: str
    statement: str
    text: str
    printed: float
    orientation: float
    differs: tuple[str, ...]
    differences: list[Difference]
    verdict: Outcome
    on_print: Printed = NOT_PRINTED
    levels: Levels = UNKNOWN


def verdicts(workspace: Workspace, collected: Collected) -> list[Verdict]:
    """A verdict per claim that the experiment tests (fedshift.analysis.claims.comparison).

    What a claim compares with in another experiment is read where that was collected; else the claim has no
    seed. Raises FedshiftError for a declared claim that is not in the list, or whose methods the experiment
    does not train.
    """
    tested = comparisons(workspace, collected.experiment)
    values = values_of(workspace, collected, [cell for comparison in tested for cell in comparison.cells])
    return [_verdict(workspace, collected.experiment.name, values, comparison) for comparison in tested]


def _verdict(workspace: Workspace, home: str, values: Values, comparison: Comparison) -> Verdict:
    """Judge one claim on the selected rounds of its runs; home: the experiment that tests it."""
    row, relation = comparison.claim, comparison.claim["relation"]
    where = f"experiments/{home}.yaml: claims.{row['id']}"
    pairs = [
        (_paired(values, *pair, where), name)
        for pair, name in zip(comparison.pairs, pair_names(comparison, home), strict=True)
    ]
    bound = comparison.margin if relation == "~" else None
    differences = [estimate(*pair, margin=bound) for pair in pairs]
    joint = [estimate(*pair, level=LEVEL / len(pairs)) for pair in pairs]
    printed = printed_difference(row)
    differs = tuple(comparison.differs)
    return Verdict(
        row["id"],
        statement(comparison, home),
        row["text"],
        math.nan if differs else printed,
        printed if differs else math.nan,
        differs,
        differences,
        _judged(comparison, differences, joint),
        on_print(workspace, row, comparison),
        levels(comparison, differences),
    )


def _paired(values: Values, left: Sum, right: Sum, where: str) -> pd.DataFrame:
    terms = [(factor, values.of(cell, where)) for factor, cell in left.terms]
    terms += [(-factor, values.of(cell, where)) for factor, cell in right.terms]
    return paired(terms, left.constant - right.constant)


def _judged(comparison: Comparison, differences: list[Difference], joint: list[Difference]) -> Outcome:
    """The verdict of a comparison. Where all pairs must hold, intervals alone confirm, those at the joint
    level refute; where one is enough, the other way round.
    """
    if comparison.relation == "~":
        margin = comparison.margin
        confirmed = all(gap.low > -margin for gap in differences) and any(gap.high < margin for gap in joint)
        refuted = any(gap.high < -margin for gap in joint) or all(gap.low > margin for gap in joint)
    else:
        sign = SIGN[comparison.relation]
        enough, every = (joint, differences) if comparison.one_is_enough else (differences, joint)
        of_confirmed, of_refuted = (any, all) if comparison.one_is_enough else (all, any)
        confirmed = of_confirmed(min(sign * gap.low, sign * gap.high) > 0 for gap in enough)
        refuted = of_refuted(max(sign * gap.low, sign * gap.high) < 0 for gap in every)
    return "confirmed" if confirmed else "refuted" if refuted else "undecided"
