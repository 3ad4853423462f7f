"""Findings: what the runs that there are say of printed numbers, of comparisons and of sentences, a line
each, from verdicts.csv and claims.csv.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedshift.analysis.claims.groups import Group
from fedshift.analysis.claims.lines import compared
from fedshift.analysis.verdicts.judge import WORDS

Row = Mapping[str, str]
MEASURED = WORDS[:3]  # the words of a number that was compared
EXACT = "exact"  # the rule of what no seed changes


@dataclass(frozen=True)
class Finding:
    """paper, item: what it is of; claim: its id, "" of a table's numbers; what: is compared; word: the
    verdict; text: in numbers; experiment: whose table says so, "" of a sentence, of which several may.
    """

    paper: str
    item: str
    claim: str
    what: str
    word: str
    text: str
    experiment: str

    @property
    def of(self) -> str:
        """As the papers name it: hFedF 2."""
        return f"{self.paper} {self.item}"


def place(item: str) -> list[tuple[bool, int, str]]:
    """Where an item stands among others: 2, 10, 10a, A9, A10, Fig 3."""
    parts = [part for part in re.split(r"(\d+)", item) if part]
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def of_numbers(rows: Mapping[str, Sequence[Row]]) -> list[Finding]:
    """One for each printed table of which a number was compared. rows: verdicts.csv by experiment."""
    findings = []
    for experiment, every in rows.items():
        for of in dict.fromkeys((row["paper"], row["printed_table"]) for row in every):
            own = [row for row in every if (row["paper"], row["printed_table"]) == of]
            if any(row["verdict"] in MEASURED for row in own):
                findings.append(_table(experiment, of, own))
    return findings


def _table(experiment: str, of: tuple[str, str], rows: Sequence[Row]) -> Finding:
    """What the compared numbers of a printed table say: verdicts, distances from print, seeds."""
    words = Counter(row["verdict"] for row in rows)
    counts = ", ".join(f"{words[word]} {word}" for word in MEASURED if words[word])
    points = [
        (float(row["difference"]), float(row["margin"]))
        for row in rows
        if row["verdict"] in MEASURED and row["rule"] == "points" and row["difference"]
    ]
    parts = []
    if points:
        low, high = min(points)[0], max(points)[0]
        mean = sum(difference for difference, _ in points) / len(points)
        parts.append(
            f"ours less the printed number: {low:+.1f} to {high:+.1f} points, {mean:+.1f} in the mean of "
            f"{len(points)} (margin {points[0][1]:.1f})"
        )
    tested = [row for row in rows if row["verdict"] in MEASURED and row["rule"] != EXACT]
    seeds = [int(row["seeds"]) for row in tested if int(row["seeds"])]
    if seeds:
        low, high = min(seeds), max(seeds)
        parts.append(f"{low} seed{'s' * (low > 1)}" if low == high else f"{low} to {high} seeds")
    if not tested:
        parts.append("declared or counted, so without a test")
    what = f"{sum(words[word] for word in MEASURED)} of {len(rows)} numbers compared"
    return Finding(*of, "", what, counts, "; ".join(parts), experiment)


def of_claims(
    rows: Mapping[str, Sequence[Row]], words: Mapping[str, str], items: Mapping[str, tuple[str, str]]
) -> list[Finding]:
    """One for each comparison that has runs, on the experiment that judges it. rows: its lines of claims.csv;
    words: its verdict; items: its paper and item.
    """
    findings = []
    for claim, own in rows.items():
        seeds = [int(row["seeds"]) for row in own]
        if any(seeds):
            text = compared(seeds) + "; ".join(row["words"] for row in own if int(row["seeds"]))
            printed = f"printed {float(own[0]['printed']):+.1f}; " if own[0]["printed"] else ""
            text_of, experiment = own[0]["said"], own[0]["experiment"]
            findings.append(Finding(*items[claim], claim, text_of, words[claim], printed + text, experiment))
    return findings


def of_sentences(groups: Sequence[Group]) -> list[Finding]:
    """One for each sentence of several comparisons of which one is judged."""
    findings = []
    for group in groups:
        judged = {"confirmed": group.confirmed, "refuted": group.refuted, "undecided": group.undecided}
        others = {"not run": group.not_run, "not comparable or not tested": group.untested}
        if group.comparisons > 1 and any(judged.values()):
            counts = ", ".join(f"{count} {word}" for word, count in {**judged, **others}.items() if count)
            text = f"{counts}; {group.text}"
            findings.append(
                Finding(group.paper, group.items, group.claim, group.needs, group.verdict, text, "")
            )
    return findings
