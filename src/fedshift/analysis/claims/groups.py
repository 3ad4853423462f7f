"""Sentences of papers (groups, reference/claims_groups.csv): what a paper says of many comparisons at once,
by the p values of the single comparisons (fedshift.analysis.claims.levels).

A sentence needs, of its comparisons,

- "all": all;
- "most": more than half;
- "almost all": as many as hold among the paper's own printed numbers, where it prints both sides of all of
  them; else all but one.

Of n comparisons, k are confirmed together at 5% where (n - k + 1) times the k-th smallest of their p values
is no larger; so with those that are refuted. (Benjamini and Heller 2008, Screening for partial conjunction
hypotheses, Biometrics 64, after Bonferroni: it holds however the comparisons depend on each other.) A
sentence is confirmed where as many are, together, as it needs, refuted where so many are that it can no
longer have them. One that needs all is confirmed where each is by itself, and refuted where one is at 5% / n.

A comparison that an experiment does not test has a p value of 1: its table judges a sentence by what it
holds, the scorecard (fedshift.analysis.report.scorecard) by the comparisons of all experiments.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fedshift.analysis.claims import Verdict
from fedshift.analysis.claims.levels import Levels
from fedshift.analysis.claims.lines import word_of
from fedshift.analysis.claims.paired import LEVEL
from fedshift.common.files import read_rows
from fedshift.storage.workspace import Workspace

JUDGED = ("confirmed", "refuted", "undecided")
NONE = ("not run", "not comparable", "not tested")  # the words of a sentence none of whose comparisons is


class Member(NamedTuple):
    """A comparison: its verdict as pages call it, and its p values (1 where it is not judged)."""

    word: str
    levels: Levels


@dataclass(frozen=True)
class Group:
    """A row of reference/claims_groups.csv: its comparisons by verdict (`untested`: those that have none of
    these here), and what follows, a word of JUDGED or NONE.
    """

    claim: str
    paper: str
    items: str
    quantifier: str
    comparisons: int
    needed: int
    confirmed: int
    refuted: int
    undecided: int
    not_run: int
    untested: int
    verdict: str
    text: str

    @property
    def needs(self) -> str:
        """In words: "most: 3 of 4", "all 6"."""
        if self.needed < self.comparisons:
            return f"{self.quantifier}: {self.needed} of {self.comparisons}"
        return f"{self.quantifier} {self.comparisons}"


def groups(workspace: Workspace, verdicts: Sequence[Verdict]) -> list[Group]:
    """The sentences of which an experiment tests a comparison, by what it tests."""
    tested = {
        verdict.claim: Member(
            word_of(verdict.verdict, [gap.seeds for gap in verdict.differences]), verdict.levels
        )
        for verdict in verdicts
    }
    return together(workspace, tested)


def together(workspace: Workspace, tested: Mapping[str, Member]) -> list[Group]:
    """The sentences of these comparisons (by id)."""
    members: dict[str, list[Member]] = {}
    for claim, one in tested.items():
        members.setdefault(claim.rpartition(".")[0], []).append(one)
    known = listed(workspace)
    return [_group(known[name], of) for name, of in members.items()]


def needed(row: Mapping[str, str]) -> int:
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
            group.needs,
            group.verdict,
            str(group.confirmed),
            str(group.refuted),
            str(group.undecided),
            str(group.not_run),
            str(group.untested),
            group.text,
        )
        for group in judged
    ]


def _group(row: Mapping[str, str], tested: list[Member]) -> Group:
    """A sentence's verdict from its comparisons."""
    comparisons, wanted = int(row["comparisons"]), needed(row)
    confirmed, refuted = zip(*(one.levels for one in tested), strict=True)
    words = Counter(one.word for one in tested)
    if _level(confirmed, wanted, comparisons) <= LEVEL:
        verdict = "confirmed"
    elif _level(refuted, comparisons - wanted + 1, comparisons) <= LEVEL:
        verdict = "refuted"
    elif any(words[word] for word in JUDGED):
        verdict = "undecided"
    else:
        verdict = next(word for word in NONE if words[word])
    counts = [words[word] for word in (*JUDGED, "not run")]
    return Group(
        row["claim"], row["paper"], row["items"], row["quantifier"], comparisons, wanted,
        counts[0], counts[1], counts[2], counts[3], comparisons - sum(counts), verdict, row["text"],
    )  # fmt: skip


def _level(levels: Sequence[float], least: int, comparisons: int) -> float:
    """The smallest level at which so many of the comparisons are found together; one without has 1."""
    if len(levels) < least:
        return 1.0
    return (comparisons - least + 1) * sorted(levels)[least - 1]


@functools.cache
def listed(workspace: Workspace) -> dict[str, dict[str, str]]:
    """Group -> its row of reference/claims_groups.csv, in the order of the file."""
    return {row["claim"]: row for row in read_rows(workspace.reference / "claims_groups.csv")}
