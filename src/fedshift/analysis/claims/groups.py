"""Groups of claims (reference/claims_groups.csv): what a paper says of many comparisons at once, by the
verdicts on the single comparisons.

A group needs, of its comparisons,

- "all": all;
- "most": more than half;
- "almost all": as many as hold among the paper's own printed numbers, where it prints both sides of all of
  them; else all but one.

It is confirmed where so many are, refuted where so many are refuted that they can no longer be reached, else
undecided. A comparison that the experiment does not test counts as undecided: a group may need more than one
experiment.
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass

from fedshift.analysis.claims import Outcome, Verdict
from fedshift.storage.workspace import Workspace


@dataclass(frozen=True)
class Group:
    """A row of reference/claims_groups.csv: its comparisons by verdict (`untested`: not in this experiment),
    and what follows.
    """

    claim: str
    quantifier: str
    comparisons: int
    needed: int
    confirmed: int
    refuted: int
    undecided: int
    untested: int
    verdict: Outcome
    text: str


def groups(workspace: Workspace, verdicts: list[Verdict]) -> list[Group]:
    """The groups of which the experiment tests a comparison."""
    members: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        members.setdefault(verdict.claim.rpartition(".")[0], []).append(verdict)
    known = listed(workspace)
    return [_group(known[name], tested) for name, tested in members.items()]


def needed(row: dict[str, str]) -> int:
    """How many comparisons of a group must hold."""
    comparisons, printed, hold = (
        int(row[key]) for key in ("comparisons", "with_published_numbers", "hold_in_published_numbers")
    )
    if row["quantifier"] == "all":
        return comparisons
    if row["quantifier"] == "most":
        return comparisons // 2 + 1
    return hold if printed == comparisons else comparisons - 1


def lines(judged: list[Group]) -> list[tuple[str, ...]]:
    """One line of text per group, for pages."""
    return [
        (
            group.claim,
            f"{group.quantifier}: {group.needed} of {group.comparisons}"
            if group.needed < group.comparisons
            else f"{group.quantifier} {group.comparisons}",
            group.verdict,
            str(group.confirmed),
            str(group.refuted),
            str(group.undecided),
            str(group.untested),
            group.text,
        )
        for group in judged
    ]


def _group(row: dict[str, str], verdicts: list[Verdict]) -> Group:
    """A group's verdict from those of its comparisons: counts against the paper's word."""
    counts = {
        kind: sum(comparison.verdict == kind for comparison in verdicts)
        for kind in ("confirmed", "refuted", "undecided")
    }
    comparisons, wanted = int(row["comparisons"]), needed(row)
    out_of_reach = comparisons - counts["refuted"] < wanted
    verdict: Outcome = (
        "confirmed" if counts["confirmed"] >= wanted else "refuted" if out_of_reach else "undecided"
    )
    return Group(
        row["claim"], row["quantifier"], comparisons, wanted, **counts, untested=comparisons - len(verdicts),
        verdict=verdict, text=row["text"],
    )  # fmt: skip


@functools.cache
def listed(workspace: Workspace) -> dict[str, dict[str, str]]:
    """Group -> its row of reference/claims_groups.csv, in the order of the file."""
    with (workspace.reference / "claims_groups.csv").open(newline="") as file:
        return {row["claim"]: row for row in csv.DictReader(file)}
