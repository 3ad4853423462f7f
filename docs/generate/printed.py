"""What papers print: docs/coverage.md (their numbers), docs/figures.md, docs/claims.md, and docs/results.md, the
scorecard of the tables that are kept in docs/results.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fedshift.analysis import scorecard
from fedshift.analysis.claims.comparison import WORDS, statement
from fedshift.analysis.claims.join import Joined, join
from fedshift.analysis.claims.words import listed
from fedshift.analysis.coverage import Number, numbers
from fedshift.analysis.page import piped
from fedshift.analysis.published import by_uid
from fedshift.common.registry import get, own, title
from fedshift.experiments.load import available, load
from fedshift.experiments.paper_claims import paper_claims
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[2]
WORKSPACE = Workspace(ROOT)
FILES = {"table": "results/{}/table.md", "source": "results/{}/source.json", "runs": "results/{}/runs.md"}


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return piped([heads, *rows], ["---"] * len(heads))


@functools.cache
def every_number() -> list[Number]:
    """All printed numbers with their cells."""
    return numbers(WORKSPACE)


@functools.cache
def kept() -> scorecard.Scorecard:
    """Of the kept tables."""
    return scorecard.scorecard(WORKSPACE, ROOT / "docs" / "results", ROOT / "docs", FILES, every_number())


def coverage() -> str:
    """A line for each printed table with how many of its numbers have a cell and why the others have none,
    then the sum.
    """
    tables: dict[tuple[str, str], list[Number]] = {}
    for number in every_number():
        tables.setdefault((number.paper, number.table), []).append(number)
    heads = ("paper", "table", "printed", "cell", "alike", "without a cell, or not alike: why")
    rows = [_counts(*of, members) for of, members in (tables | {("all", ""): every_number()}).items()]
    return _table(heads, rows)


def _counts(paper: str, table: str, members: list[Number]) -> tuple[str, ...]:
    cells = [number for number in members if number.places]
    differs = {number.uid: number.places[0].differs or _slip(number) for number in cells}
    alike = [number for number in cells if not differs[number.uid]]
    why = Counter(number.reason for number in members if number.reason)
    why.update(text for number in cells for text in differs[number.uid])
    reasons = "; ".join(f"{count}: {text}" for text, count in why.most_common())
    return paper, table, str(len(members)), str(len(cells)), str(len(alike)), reasons


def _slip(number: Number) -> list[str]:
    """Why a printed number is compared with none, where it is a slip."""
    printed = by_uid(WORKSPACE).get(number.uid)
    slip = printed and printed.remark and math.isnan(printed.judged)
    return ["a slip whose right value nobody knows"] if slip else []


def figure_kinds() -> str:
    """The kinds of figures, with their parameters."""

    def parameters(kind: str) -> str:
        return ", ".join(f"`{field.name}`" for field in dataclasses.fields(get("figures", kind).Params))

    rows = [(f"`{name}`", title("figures", name), parameters(name)) for name in own("figures")]
    return _table(("kind", "shows", "parameters"), rows)


def printed_figures() -> str:
    """The experiments that draw the papers' printed figures, and by which kinds."""
    rows = []
    for one in (load(WORKSPACE, name) for name in available(WORKSPACE) if "/figure" in name):
        kinds = [kind if isinstance(kind, str) else next(iter(kind)) for kind in one.figures or ["curves"]]
        rows.append(
            (f"[{one.name}](../experiments/{one.name}.yaml)", one.title, ", ".join(dict.fromkeys(kinds)))
        )
    return _table(("file", "shows", "figures"), rows)


@functools.cache
def _joined() -> list[Joined]:
    return join(WORKSPACE, every_number())


def places() -> str:
    """By paper, how many comparisons experiments judge."""
    return _counted(("judged", "not judged"), lambda one: "judged" if one.places else "not judged")


def on_print() -> str:
    """By paper, which comparisons the papers' own numbers bear out."""
    return _counted(WORDS, lambda one: one.on_print.word)


def _counted(words: Sequence[str], of: Callable[[Joined], str]) -> str:
    """A line for each paper, then the sum."""
    rows = []
    for paper in (*dict.fromkeys(one.paper for one in _joined()), "all"):
        counts = Counter(of(one) for one in _joined() if paper in (one.paper, "all"))
        rows.append((paper, str(counts.total()), *(str(counts[word]) for word in words)))
    return _table(("paper", "comparisons", *words), rows)


def without_place() -> str:
    """The comparisons that are not judged, by reason."""
    claims: dict[tuple[str, str], list[str]] = {}
    for one in _joined():
        if one.reason:
            claims.setdefault((one.paper, one.reason), []).append(one.claim)
    rows = [(paper, str(len(names)), why, ", ".join(names)) for (paper, why), names in claims.items()]
    return _table(("paper", "comparisons", "why", "which"), rows)


def _against() -> list[Joined]:
    return [one for one in _joined() if one.on_print.word != "not printed" and not one.on_print.holds]


def against() -> str:
    """The comparisons that the papers' own numbers speak against."""
    rows = []
    for one in _against():
        row = paper_claims(WORKSPACE)[one.claim]
        said = f"{row['left']} {row['relation']} {row['right']}, {row['metric']}".replace("|", ", ")
        if one.places:  # as an experiment declares it
            home, comparison = one.places[0]
            said = statement(comparison, home)
        words = one.text.partition(" [published")[0].replace("|", ", ")
        difference = f"{one.on_print.difference:+.2f}"
        rows.append((one.claim, row["dataset"], said, difference, one.on_print.word, words))
    return _table(("comparison", "data set", "says", "printed difference", "on print", "in words"), rows)


def sentences() -> str:
    """The sentences that a comparison speaks against, with how many of their comparisons hold on print."""
    spoken = {one.claim.rpartition(".")[0] for one in _against()}
    rows = []
    for name, group in listed(WORKSPACE).items():
        if name in spoken:
            members = [one.on_print for one in _joined() if one.claim.rpartition(".")[0] == name]
            printed = [one for one in members if one.word != "not printed"]
            counts = map(str, (len(members), len(printed), sum(one.holds for one in printed)))
            rows.append((name, group["quantifier"], *counts))
    return _table(("sentence", "says it of", "comparisons", "printed", "hold on print"), rows)
