"""Claims: what a paper says of one method beside others, judged on paired differences between the runs of
both (fedshift.analysis.claims.paired).

A claim is confirmed where every interval lies on its side of 0, refuted where one lies on the other side (at
5% over all of them together, by Bonferroni), else undecided: one seed has no interval over seeds and decides
nothing; nor do seeds that are all alike, except of what is counted or declared.

A side may be a sum: the mean over an axis, a gain, a constant. Its cells may be of other experiments, and at
values of their own on the axes (fedshift.analysis.claims.comparison). "Less than the best of several" needs
one of them.

"~" says that two are equal within a margin: that of the paper in reference/published.yaml, in points, by
which printed numbers are judged, too; of costs a tenth of what is printed; or the one that the experiment
declares. It is confirmed where each difference is smaller, refuted where one is larger. Beside "the best of
several" it is confirmed where the left side is worse than none of these by the margin and better than at
least one of them by less, refuted where it is worse than one of them, or better than all of them, by more.

">=" says that a method is not worse (non-inferior): it is confirmed where it is worse by less than this
margin, refuted where it is worse by more.

Rounds up to a value: a finished run that never gets there counts as if it did one round after the longest run
of its experiment: worse than any that does; two such runs are equal. The mean then says which is sooner, not
by how much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd

from fedshift.analysis.claims.comparison import Comparison, Sum, comparisons
from fedshift.analysis.claims.levels import UNKNOWN, Levels, levels
from fedshift.analysis.claims.names import pair_names, side_names, statement
from fedshift.analysis.claims.on_print import NOT_PRINTED, Printed, on_print
from fedshift.analysis.claims.paired import LEVEL, Difference, estimate, paired
from fedshift.analysis.claims.values import LATE, VALUE, Values, values_of
from fedshift.analysis.collection.collected import Collected
from fedshift.storage.workspace import Workspace

Outcome = Literal["confirmed", "refuted", "undecided"]
Terms = list[tuple[float, pd.DataFrame]]


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
    row, differs = comparison.claim, tuple(comparison.differs)
    where = f"experiments/{home}.yaml: claims.{row['id']}"
    differences = []
    for pair, name, names in zip(
        comparison.pairs, pair_names(comparison, home), side_names(comparison, home), strict=True
    ):
        left, right = (_terms(values, side, where) for side in pair)
        minus = [(-factor, frame) for factor, frame in right]
        pairs = paired([*left, *minus], pair[0].constant - pair[1].constant)
        gap = estimate(pairs, name, comparison.bounds, comparison.exact)
        late = sum(int(frame[LATE].sum()) for _, frame in (*left, *right))
        lacking = () if gap.seeds else _lacking(names, (left, right))
        differences.append(replace(gap, late=late, lacking=lacking))
    said, p = on_print(workspace, row, comparison), levels(comparison, differences)
    return Verdict(
        row["id"],
        statement(comparison, home),
        row["text"],
        math.nan if differs else said.difference,
        said.difference if differs else math.nan,
        differs,
        differences,
        "confirmed" if p.confirmed <= LEVEL else "refuted" if p.refuted <= LEVEL else "undecided",
        said,
        p,
    )


def _terms(values: Values, side: Sum, where: str) -> Terms:
    """The terms of a side: of each the factor, and the values of its runs."""
    return [(factor, values.of(cell, where)) for factor, cell in side.terms]


def _lacking(names: tuple[str, str], sides: tuple[Terms, Terms]) -> tuple[str, ...]:
    """The sides of a pair, by their names, of which no seed has all its runs."""
    return tuple(
        name for name, terms in zip(names, sides, strict=True) if terms and not _has_whole_seed(terms)
    )


def _has_whole_seed(terms: Terms) -> bool:
    if any(frame[VALUE].isna().all() for _, frame in terms):  # most often: nothing was trained
        return False
    pairs = paired(terms)
    return bool(pairs["difference"].notna().groupby(pairs["seed"]).all().any())
