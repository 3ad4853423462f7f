"""Claims: what a paper says of one method beside others, judged on paired differences between the runs of
both (fedshift.analysis.paired).

A claim is confirmed where every interval lies on its side of 0, refuted where one lies on the other side (at
5% over all of them together, by Bonferroni), else undecided: one seed has no interval over seeds and decides
nothing.

"~" says that a method is as good as the best on its right, within a margin: confirmed where it is worse than
none of these by the margin and better than at least one of them by less, refuted where it is worse than one
of them, or better than all of them, by more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from fedshift.analysis.claim_settings import changes
from fedshift.analysis.collected import Collected
from fedshift.analysis.paired import LEVEL, Difference, estimate, paired
from fedshift.analysis.select import selected
from fedshift.errors import unknown
from fedshift.experiments.paper_claims import compared, paper_claim
from fedshift.experiments.schema import Claim
from fedshift.workspace import Workspace

Outcome = Literal["confirmed", "refuted", "undecided"]
SIGN = {">": 1, ">=": 1, "<": -1, "<=": -1}


@dataclass(frozen=True)
class Verdict:
    """A row of reference/claims.csv, the difference that the paper prints (NaN where it prints none), ours,
    and what follows.

    orientation: the printed difference where the paper's experiment is another (`printed` is NaN then), and
        `differs` says why.
    """

    claim: str
    statement: str
    text: str
    printed: float
    orientation: float
    differs: tuple[str, ...]
    differences: list[Difference]
    verdict: Outcome


def verdicts(workspace: Workspace, collected: Collected) -> list[Verdict]:
    """A verdict per claim that the experiment tests. Raises FedshiftError for a claim that is not in the
    list, or whose methods the experiment does not train.
    """
    tested = collected.experiment.claims
    if not tested:
        return []
    keys = [*collected.keys]
    wanted = [claim.metric for claim in tested.values()]
    values = collected.runs[keys].merge(selected(collected, quantities=wanted), on=keys, how="left")
    return [_verdict(workspace, collected, values, name, claim) for name, claim in tested.items()]


def _verdict(
    workspace: Workspace, collected: Collected, values: pd.DataFrame, name: str, claim: Claim
) -> Verdict:
    """Judge one claim on the selected rounds of its runs."""
    where = f"experiments/{collected.experiment.name}.yaml: claims.{name}"
    row = paper_claim(workspace, name, where)
    relation, (left, *right) = row["relation"], compared(row, collected.experiment, claim, where)
    axes = [*dict.fromkeys([*collected.keys[1:], "seed"])]
    values = values.assign(seed=values.get("seed", 0))  # without that axis all runs are of one seed
    for axis, value in claim.where.items():
        if axis not in collected.keys[1:]:
            raise unknown(f"{where}.where", "axis", axis, collected.keys[1:])
        values = values[values[axis] == value]
    pairs = [(paired(values, axes, left, other, claim.metric), other) for other in right]
    bound = claim.margin if relation == "~" else None
    differences = [estimate(*pair, margin=bound) for pair in pairs]
    joint = [estimate(*pair, level=LEVEL / len(pairs)) for pair in pairs]
    differs = tuple(changes(workspace, collected.experiment, row, claim, [left, *right]))
    printed = _number(row["published_left"]) - _number(row["published_right"])
    several = f"{'the best' if relation == '~' else 'each'} of {len(right)}"
    return Verdict(
        name,
        f"{left} {relation} {several if len(right) > 1 else right[0]}, {claim.metric}",
        row["text"],
        math.nan if differs else printed,
        printed if differs else math.nan,
        differs,
        differences,
        _judged(relation, differences, joint, claim.margin),
    )


def _judged(relation: str, differences: list[Difference], joint: list[Difference], margin: float) -> Outcome:
    """The verdict of a relation: intervals alone confirm, those at the joint level refute."""
    if relation == "~":
        confirmed = all(gap.low > -margin for gap in differences) and any(
            gap.high < margin for gap in differences
        )
        refuted = any(gap.high < -margin for gap in joint) or all(gap.low > margin for gap in joint)
    else:
        sign = SIGN[relation]
        confirmed = all(min(sign * gap.low, sign * gap.high) > 0 for gap in differences)
        refuted = any(max(sign * gap.low, sign * gap.high) < 0 for gap in joint)
    return "confirmed" if confirmed else "refuted" if refuted else "undecided"


def _number(printed: str) -> float:
    try:
        return float(printed)
    except ValueError:  # a few are words
        return math.nan
