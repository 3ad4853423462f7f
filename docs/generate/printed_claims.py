"""docs/claims.md: where every claim of the papers is judged, why some are not, and which the papers' own numbers
bear out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from printed_numbers import every_number

from fedshift.analysis.claims.comparison import KINDS
from fedshift.analysis.claims.join import Joined, join
from fedshift.analysis.claims.names import statement
from fedshift.analysis.claims.on_print import WORDS
from fedshift.analysis.layout.page import piped
from fedshift.experiments.paper_claims import paper_claims
from fedshift.workspace import Workspace

ROOT = Path(__file__).parents[2]
HEAD = """# Claims

Made by `make docs`: every comparison of `reference/claims.csv`, 443 in 127 groups. Most are derived from its columns: each side is a printed
number, and each printed number has one cell ([coverage.md](coverage.md)), which may be of another experiment than the other side's. The others
are declared in an experiment's `claims` (docs/add-an-experiment.md). Declared, not trained: no number here was measured. What has come of them
stands in [results.md](results.md), how they are judged in `fedshift.analysis.claims`.

## Where they are judged

By kind: rows of a table; rows of two experiments; values of an axis, or columns; gains of rows over others, or beside a number; what a curve
says of its rounds (a certain one, their mean, the fluctuation, how many up to a value); costs; what evaluations of weights and images give.

"""
PRINT = """## On the papers' own numbers

Whether the printed numbers bear the claim out. *within the spread*: nearer to 0 (of ~: to the margin) than the standard deviation of a
difference of single runs, by the printed spreads; *confirmed*, *contradicted*: farther, or without printed spreads. "~" is read as: within 1 of
the best, in the unit that the paper prints.

"""
AGAINST = """## What the papers' own numbers speak against

"""
WITHOUT = """## Without a place

"""


def claims() -> str:
    """The page."""
    joined = join(Workspace(ROOT), every_number())
    by_kind = _counted(
        joined, [*KINDS, "without"], lambda one: one.places[0][1].kind if one.places else "without"
    )
    on_print = _counted(joined, WORDS, lambda one: one.on_print.word)
    against = [
        (
            one.claim,
            _dataset(one),
            _said(one),
            f"{one.on_print.difference:+.2f}",
            one.on_print.word,
            _words(one),
        )
        for one in joined
        if one.on_print.word != "not printed" and not one.on_print.holds
    ]
    reasons = Counter((one.paper, one.reason) for one in joined if one.reason)
    without = [
        (paper, str(count), reason, ", ".join(_named(joined, paper, reason)))
        for (paper, reason), count in reasons.items()
    ]
    return (
        HEAD
        + by_kind
        + WITHOUT
        + _table(("paper", "claims", "why", "which"), without)
        + PRINT
        + on_print
        + AGAINST
        + _table(("claim", "data set", "says", "printed difference", "on print", "in words"), against)
    ).rstrip("\n") + "\n"


def _counted(joined: list[Joined], words: Iterable[str], of: Callable[[Joined], str]) -> str:
    """A line for each paper, then the sum."""
    words = [*words]
    papers = dict.fromkeys(one.paper for one in joined)
    rows = []
    for paper in (*papers, "all"):
        counts = Counter(of(one) for one in joined if paper in (one.paper, "all"))
        rows.append((paper, str(counts.total()), *(str(counts[word]) for word in words)))
    return _table(("paper", "claims", *words), rows)


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return piped([heads, *rows], ["---"] * len(heads)) + "\n\n"


def _said(one: Joined) -> str:
    """As an experiment has it, or in the words of the list."""
    if one.places:
        home, comparison = one.places[0]
        return statement(comparison, home)
    row = paper_claims(Workspace(ROOT))[one.claim]
    return f"{row['left']} {row['relation']} {row['right']}, {row['metric']}".replace("|", ", ")


def _dataset(one: Joined) -> str:
    return paper_claims(Workspace(ROOT))[one.claim]["dataset"]


def _words(one: Joined) -> str:
    return one.text.partition(" [published")[0].replace("|", ", ")


def _named(joined: list[Joined], paper: str, reason: str) -> list[str]:
    return [one.claim for one in joined if (one.paper, one.reason) == (paper, reason)]
