"""What papers print and what has come of it: docs/results.md, docs/figures.md, docs/results/coverage.csv and claims.csv."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from fedshift.analysis import scorecard
from fedshift.analysis.claims.comparison import Joined, join
from fedshift.analysis.coverage import Number, numbers
from fedshift.analysis.page import piped
from fedshift.analysis.published import by_uid
from fedshift.analysis.verdicts import OUTCOMES, WORDS
from fedshift.archive import store
from fedshift.common.registry import get, own, title
from fedshift.experiments.expand import planned
from fedshift.experiments.load import available, load
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[2]
WORKSPACE = Workspace(ROOT)
RESULTS = ROOT / "docs" / "results"
FILES = {"table": "results/{}/table.md"}


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]], right: Sequence[int] = ()) -> str:
    marks = ["---:" if column in right else "---" for column in range(len(heads))]
    return piped([heads, *rows], marks)


@functools.cache
def every_number() -> list[Number]:
    """All printed numbers with their cells."""
    return numbers(WORKSPACE)


@functools.cache
def every_claim() -> list[Joined]:
    """All claims with the experiments that test them."""
    return join(WORKSPACE, every_number())


@functools.cache
def kept() -> scorecard.Scorecard:
    """Of the kept tables."""
    return scorecard.scorecard(WORKSPACE, RESULTS, ROOT / "docs", FILES, every_number())


def papers() -> str:
    """A line for each paper: runs, numbers and comparisons with a verdict."""
    card = kept()
    sides = (card.by_paper(scorecard.NUMBERS), card.by_paper(scorecard.CLAIMS))
    rows = []
    for paper in dict.fromkeys(one.paper for one in every_claim()):
        runs, archived = _runs(paper)
        words = (
            _words(counts[paper], known) for counts, known in zip(sides, (WORDS, OUTCOMES[:3]), strict=True)
        )
        rows.append((f"[{paper}]({paper.lower()}.md)", f"{archived:,} of {runs:,}", *words))
    return _table(("paper", "runs archived", "numbers with a verdict", "comparisons with a verdict"), rows)


def _runs(paper: str) -> tuple[int, int]:
    """How many runs the paper's numbers and comparisons need, and how many of these are archived."""
    homes = {place.experiment for one in every_number() if one.paper == paper for place in one.places}
    homes |= {home for one in every_claim() if one.paper == paper for home, _ in one.places}
    experiments = [one for one in (load(WORKSPACE, home) for home in sorted(homes)) if one.train]
    runs = {cell.spec.run_name for one in experiments for cell in planned(WORKSPACE, one)}
    return len(runs), sum(bool(store.paths(WORKSPACE, run)) for run in runs)


def _words(counts: Counter[str], words: Sequence[str]) -> str:
    """`30 of 406: 1 different, 29 too few seeds`."""
    judged = sum(counts[word] for word in words)
    which = scorecard.in_words(counts, words)
    return f"{judged:,} of {counts.total():,}" + f": {which}" * bool(judged)


def judged_numbers() -> str:
    """A line for each published table with numbers that have a verdict."""
    rows = [
        (_linked(one), one.what.partition(" ")[0], one.word, one.text.removeprefix(scorecard.DISTANCE))
        for one in kept().findings
        if one.what.endswith(" numbers")
    ]
    return _table(("published table", "numbers", "verdicts", "distance from the paper"), rows, right=[1])


def judged_claims() -> str:
    """A line for each comparison with runs."""
    rows = []
    for one in kept().findings:
        claim, _, said = one.what.partition(" ")
        if one.link and said.startswith("`"):
            published, _, ours = one.text.partition("; ")
            if not published.startswith(scorecard.PUBLISHED):
                published, ours = "", one.text
            rows.append(
                (_linked(one), claim, said, published.removeprefix(scorecard.PUBLISHED), ours, one.word)
            )
    heads = ("where", "claim", "comparison", "published", "ours, with its 95% interval", "verdict")
    return _table(heads, rows)


def _linked(one: scorecard.Finding) -> str:
    """`hFedF Table 2`, with a link to ours."""
    paper, _, item = one.of.partition(" ")
    place = item if item.startswith("Fig") else f"Table {item}"
    return f"[{paper} {place}]({one.link})"


def tables() -> str:
    """The kept experiments."""
    rows = []
    for path in sorted(RESULTS.glob("**/table.md")):
        name = path.parent.relative_to(RESULTS).as_posix()
        place = f"results/{name}"
        files = ", ".join(
            f"[{file}]({place}/{file})"
            for file in ("table.csv", "claims.csv", "runs.csv", "source.json")
            if (path.parent / file).exists()
        )
        rows.append((f"[{name}]({place}/table.md)", load(WORKSPACE, name).title, files))
    return _table(("experiment", "content", "data"), rows)


def coverage() -> str:
    """A line for each printed table with how many of its numbers have a cell and why the others have none."""
    tables: dict[tuple[str, str], list[Number]] = {}
    for number in every_number():
        tables.setdefault((number.paper, number.table), []).append(number)
    heads = ("paper", "table", "numbers", "with a cell", "comparable", "why not")
    return _csv(heads, (_counts(*of, members) for of, members in tables.items()))


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
    return ["a misprint whose right value is unknown"] if slip else []


def claims() -> str:
    """A line for each comparison: whether the paper's own numbers bear it out, where it is tested, its verdict."""
    words = {one.what.partition(" ")[0]: one.word for one in kept().findings if one.link}
    heads = ("claim", "paper", "where", "text", "published difference", "by the paper's own numbers")
    rows = []
    for one in every_claim():
        difference = one.on_print.difference
        published = "" if math.isnan(difference) else f"{difference:+.2f}"
        tested = " ".join(dict.fromkeys(home for home, _ in one.places))
        verdict = words.get(one.claim, "no run" if one.places else one.reason)
        text = one.text.partition(" [published")[0]
        rows.append((one.claim, one.paper, one.item, text, published, one.on_print.word, tested, verdict))
    return _csv((*heads, "experiments", "verdict"), rows)


def _csv(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([heads, *rows])
    return text.getvalue()


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
    return _table(("experiment", "content", "kinds"), rows)
