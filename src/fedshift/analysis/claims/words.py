"""Comparisons and sentences in words: as a table (claims.csv), as lines of pages, and as footnotes."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from fedshift.analysis.claims.judge import Difference, Verdict
from fedshift.analysis.verdicts.rule import OUTCOMES
from fedshift.common.files import read_rows
from fedshift.storage.workspace import Workspace

RULE = (
    "Comparisons: differences in points, left less right, between runs at the same target, seed and other "
    "axes, averaged within each seed, with a 95% interval over seeds. *As published*: the interval lies on "
    "the side of 0 (of >= and ~: of the margin) on which the paper prints it, *against*: on the other, "
    "*open*: neither. A seed that lacks a run is left out, one seed has no interval. On print, without a "
    "test: whether the paper's own numbers are on the claimed side. The rule, with its error rates: "
    "docs/verdicts.md."
)


def table(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """One row per claim and method on its right side."""
    rows = [
        {
            "claim": verdict.claim,
            "said": verdict.statement,
            "printed": verdict.printed,
            "orientation": verdict.orientation,
            "on_print": verdict.on_print.word,
            "right": difference.right,
            "difference": difference.mean,
            "low": difference.low,
            "high": difference.high,
            "seeds": difference.seeds,
            "planned": difference.planned,
            "pairs": _listed(difference.pairs),
            "verdict": verdict.verdict,
            "differs": "; ".join(verdict.differs),
            "words": in_words(difference),
            "text": verdict.text,
        }
        for verdict in verdicts
        for difference in verdict.differences
    ]
    return pd.DataFrame(rows)


def lines(verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    """One line of text per claim, for pages."""
    return [
        (
            verdict.claim,
            verdict.statement,
            _printed(verdict),
            verdict.on_print.word,
            verdict.verdict,
            compared([difference.seeds for difference in verdict.differences])
            + "; ".join(dict.fromkeys(map(in_words, verdict.differences))),
            verdict.text,
        )
        for verdict in verdicts
    ]


def compared(seeds: Collection[int]) -> str:
    """How many pairs have runs, to stand before their differences; "" where all have, or none; seeds: of
    each.
    """
    run = sum(map(bool, seeds))
    return f"{run} of {len(seeds)} compared: " if 0 < run < len(seeds) else ""


def footnotes(verdicts: Sequence[Verdict]) -> list[str]:
    """How claims are judged, where there are some; why on another experiment than the paper's, each reason
    once.
    """
    reasons: dict[str, list[str]] = {}
    for verdict in verdicts:
        for reason in verdict.differs:
            reasons.setdefault(reason, []).append(verdict.claim)
    if not reasons:
        return [RULE] if verdicts else []
    named = (
        reason if len(claims) == len(verdicts) else f"{reason} ({', '.join(claims)})"
        for reason, claims in reasons.items()
    )
    why = "Comparisons are judged here on another experiment than the paper's, printed for orientation"
    return [RULE, f"{why}: {'; '.join(named)}."]


class Sentence(NamedTuple):
    """A row of reference/claims_groups.csv: what a paper says of many comparisons at once, and how many of
    them have each of OUTCOMES here; `others`: those that are not tested here, or not on the paper's
    experiment.
    """

    claim: str
    paper: str
    items: str
    quantifier: str
    comparisons: int
    text: str
    counts: dict[str, int]

    @property
    def others(self) -> int:
        return self.comparisons - sum(self.counts.values())

    @property
    def said(self) -> str:
        """ "all 6", "most of 4": of how many the paper says it."""
        return f"{self.quantifier} {'' if self.quantifier == 'all' else 'of '}{self.comparisons}"


def sentences(workspace: Workspace, outcomes: Mapping[str, str]) -> list[Sentence]:
    """The sentences that claim these comparisons (id -> word), in the order of the reference."""
    members: dict[str, list[str]] = {}
    for claim, word in outcomes.items():
        members.setdefault(claim.rpartition(".")[0], []).append(word)
    return [
        Sentence(
            name, row["paper"], row["items"], row["quantifier"], int(row["comparisons"]), row["text"],
            {word: Counter(members[name])[word] for word in OUTCOMES},
        )
        for name, row in listed(workspace).items()
        if name in members
    ]  # fmt: skip


def sentence_lines(workspace: Workspace, verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    """One line of text per sentence of which an experiment tests a comparison, for pages."""
    return [
        (
            one.claim,
            one.said,
            *(str(one.counts[word]) for word in OUTCOMES),
            str(one.others),
            one.text,
        )
        for one in sentences(workspace, {verdict.claim: verdict.verdict for verdict in verdicts})
    ]


@functools.cache
def listed(workspace: Workspace) -> dict[str, dict[str, str]]:
    """Sentence -> its row of reference/claims_groups.csv, in the order of the file."""
    return {row["claim"]: row for row in read_rows(workspace.reference / "claims_groups.csv")}


def in_words(difference: Difference) -> str:
    """A difference in words: mean, interval, seeds."""
    seeds, planned, pairs = difference.seeds, difference.planned, difference.pairs
    if not seeds:
        if not difference.lacking:
            return f"{difference.right}: no seed with all runs of both sides"
        return f"{' and '.join(difference.lacking)}: no seed with all its runs"
    mean = f"{difference.right} {difference.mean:+z.1f}"
    left_out = f" of {planned}: the others lack a run" if seeds < planned else ""
    late = difference.late
    left_out += f" ({late} {'run never gets' if late == 1 else 'runs never get'} there)" if late else ""
    if seeds == 1:
        parts = f" ({_listed(pairs)})" if any(pairs) else ""
        return f"{mean}{parts}, 1 seed{left_out}: no interval"
    if math.isnan(difference.low):
        return f"{mean}, {seeds} seeds{left_out}: the same in each, so no interval"
    return f"{mean} [{difference.low:+z.1f}, {difference.high:+z.1f}], {seeds} seeds{left_out}"


def _printed(verdict: Verdict) -> str:
    if not math.isnan(verdict.orientation):
        return f"orientation: {verdict.orientation:+.1f}"
    return "" if math.isnan(verdict.printed) else f"{verdict.printed:+.1f}"


def _listed(pairs: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:+.1f}" for name, value in pairs.items() if name)
