"""Comparisons and sentences in words: statements, claims.csv, lines of pages, and footnotes."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from fedshift.analysis.claims.comparison import Comparison, Sum
from fedshift.analysis.page import PLAIN
from fedshift.analysis.verdicts import OUTCOMES
from fedshift.common.files import read_rows
from fedshift.experiments.schema import SELECTED, Compared
from fedshift.storage.workspace import Workspace

if TYPE_CHECKING:
    from fedshift.analysis.claims.judge import Difference, Verdict  # which writes its sides in these words


def statement(comparison: Comparison, home: str) -> str:
    """A claim in a line, "hfedf > each of 5, ood, d 1"; home: the experiment that tests it, which goes
    without saying.
    """
    shared = _Shared(comparison, home)
    left, right = (list(dict.fromkeys(map(shared.side, of))) for of in zip(*comparison.pairs, strict=True))
    several = "the best of" if comparison.one_is_enough else "each of"
    sides = [
        of[0] if len(of) == 1 else f"{word} {len(of)}" for of, word in ((left, "each of"), (right, several))
    ]
    return ", ".join([f"{sides[0]} {comparison.relation} {sides[1]}", *shared.words])


def pair_names(comparison: Comparison, home: str) -> list[str]:
    """What each pair is called: its right side, and its left where there are several."""
    sides = side_names(comparison, home)
    several = len({left for left, _ in sides}) > 1
    return [f"{left} and {right}" if several else right for left, right in sides]


def side_names(comparison: Comparison, home: str) -> list[tuple[str, str]]:
    """What both sides of each pair are called."""
    shared = _Shared(comparison, home)
    return [(shared.side(left), shared.side(right)) for left, right in comparison.pairs]


class _Shared:
    """What all cells of a comparison have in common, and how what is left calls them."""

    def __init__(self, comparison: Comparison, home: str) -> None:
        cells = comparison.cells
        first = cells[0]
        self.home = home
        self.where = {
            axis: value
            for axis, value in first.where.items()
            if all(cell.where.get(axis) == value for cell in cells)
        }
        self.metric = first.metric if len({cell.metric for cell in cells}) == 1 else ""
        self.rounds = first.rounds if len({cell.rounds for cell in cells}) == 1 else ""
        values = [_value(axis, value) for axis, value in self.where.items()]
        rounds = [self.rounds] if self.rounds not in ("", SELECTED) else []
        self.words = [*filter(None, [self.metric]), *values, *rounds]

    def side(self, side: Sum) -> str:
        parts = [
            ("- " if factor < 0 else "+ " if place else "") + self._cell(cell)
            for place, (factor, cell) in enumerate(side.terms)
        ]
        return " ".join(parts) or f"{side.constant:g}"

    def _cell(self, cell: Compared) -> str:
        own = [_value(axis, value) for axis, value in cell.where.items() if axis not in self.where]
        own += [] if self.metric else [cell.metric]
        own += [] if self.rounds else [cell.rounds]
        own += [] if cell.experiment == self.home else [cell.experiment]
        word = "range of " * bool(cell.range) + "peak of " * bool(cell.peak)
        row = word + ", ".join([cell.row, *cell.range, *cell.peak])
        return f"{row} ({', '.join(own)})" if own else row


def _value(axis: str, value: object) -> str:
    """A value with its axis, where it does not speak for itself."""
    return str(value) if axis in PLAIN else f"{axis.rpartition('.')[2]} {value}"


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
