"""Scorecard: what has come of every printed number and every claim, counted by paper and table, on one page.

It reads verdicts.csv and claims.csv, which tables write; what has none is not run. A printed number without
a cell is not comparable: docs/coverage.md says why.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedshift.analysis.claims.join import join
from fedshift.analysis.claims.lines import word_of
from fedshift.analysis.claims.on_print import WORDS as ON_PRINT
from fedshift.analysis.layout.page import piped, template
from fedshift.analysis.report.findings import Finding, of_claims, of_numbers, place
from fedshift.analysis.verdicts.coverage import Number, numbers
from fedshift.analysis.verdicts.judge import WORDS, incomparable
from fedshift.common.files import write_text
from fedshift.experiments.load import available
from fedshift.storage.workspace import Workspace

CLAIMED = ("confirmed", "refuted", "undecided", "not run", "not comparable", "not tested")
BY_PRINT = "Claims on the papers' own numbers"
FOUND = "What the runs say"
# Beside results/scorecard.*: what a line links to.
FILES = {"table": "tables/{}/table.html", "runs": "report/{}/index.html"}


Linked = tuple[str, dict[str, str]]  # an experiment, and what is there of it: label -> link
Links = Callable[[str], Linked]


@dataclass(frozen=True)
class Line:
    """A table of a paper, or what claims are of: how many numbers or claims, how many of each word, and the
    experiments that stand for it.
    """

    paper: str
    item: str
    total: int
    counts: dict[str, int]
    experiments: list[Linked]


@dataclass(frozen=True)
class Scorecard:
    """Lines of printed numbers, of claims, and of claims on the papers' own numbers; of each the last is the
    sum. findings: of what has runs, each with the link to its table.
    """

    numbers: list[Line]
    claims: list[Line]
    on_print: list[Line]
    findings: list[tuple[Finding, str]]

    @property
    def opening(self) -> str:
        """The sums in a sentence, which says so where nothing was run."""
        of, claims = self.numbers[-1], self.claims[-1]
        run = sum(of.counts[word] for word in WORDS[:3])
        none = "No printed number has runs here yet. " if not run else ""
        counts = (
            f"Of {of.total:,} printed numbers {_listed(of)}. Of {claims.total:,} claims {_listed(claims)}."
        )
        return none + counts


def write(workspace: Workspace) -> Path:
    """Write results/scorecard.html and .md of the tables that are there; return the first."""
    path = workspace.scorecard
    card = scorecard(workspace, workspace.results / "tables", workspace.results, FILES)
    write_text(
        path, template("scorecard.html.j2").render(card=card, words=WORDS, claimed=CLAIMED, on_print=ON_PRINT)
    )
    write_text(path.with_suffix(".md"), f"# Scorecard\n\n{markdown(card)}")
    return path


def scorecard(
    workspace: Workspace,
    tables: Path,
    page: Path,
    files: Mapping[str, str],
    known: list[Number] | None = None,
) -> Scorecard:
    """Of what experiments have written below the folder `tables`.

    page: the folder that links start from; files: label -> path below it with {} for the experiment, which is
    linked where it is there; known: fedshift.analysis.verdicts.coverage.numbers, where they are at hand.
    """

    def links(experiment: str) -> Linked:
        paths = {label: path.format(experiment) for label, path in files.items()}
        return experiment, {label: path for label, path in paths.items() if (page / path).is_file()}

    compared = _rows(workspace, tables, "verdicts.csv")
    verdicts = {row["uid"]: row["verdict"] for rows in compared.values() for row in rows}
    every = known or numbers(workspace)
    printed = [
        (
            (number.paper, number.table),
            verdicts.get(number.uid, "not comparable" if incomparable(workspace, number) else "not run"),
            [place.experiment for place in number.places],
        )
        for number in every
    ]
    judged = _judged(_rows(workspace, tables, "claims.csv"))
    words_of = {claim: _word(rows) for claim, rows in judged.items()}
    joined = join(workspace, every)
    claims = [
        (
            (one.paper, one.item),
            words_of.get(one.claim, "not run") if one.places else "not tested",
            [name for name, _ in one.places],
        )
        for one in joined
    ]
    on_print = [((one.paper, one.item), str(one.on_print.word), list[str]()) for one in joined]
    items = {one.claim: (one.paper, one.item) for one in joined}
    findings = [*of_numbers(compared), *of_claims(judged, words_of, items)]
    papers = list(dict.fromkeys([number.paper for number in every] + [one.paper for one in joined]))
    findings.sort(key=lambda finding: (papers.index(finding.paper), place(finding.item), finding.claim))
    return Scorecard(
        _lines(printed, WORDS, links),
        _lines(claims, CLAIMED, links),
        _lines(on_print, ON_PRINT, links),
        [(finding, links(finding.experiment)[1].get("table", "")) for finding in findings],
    )


def markdown(card: Scorecard) -> str:
    """The page below its title."""
    parts = [card.opening]
    if card.findings:
        parts += [f"## {FOUND}", "\n".join(_bullet(*found) for found in card.findings)]
    for title, lines, words in (
        ("Printed numbers", card.numbers, WORDS),
        ("Claims", card.claims, CLAIMED),
        (BY_PRINT, card.on_print, ON_PRINT),
    ):
        heads = ["paper", "table", "all", *words, "results and command"]
        rows = [
            [
                line.paper,
                line.item,
                str(line.total),
                *(str(line.counts[word]) for word in words),
                _source(line),
            ]
            for line in lines
        ]
        rule = ["---", "---", *["---:"] * (len(words) + 1), "---"]
        parts += [f"## {title}", piped([heads, *rows], rule)]
    return "\n\n".join(parts) + "\n"


def _bullet(finding: Finding, link: str) -> str:
    of = f"[{finding.of}]({link})" if link else finding.of
    parts = [
        of,
        f"**{finding.word}**",
        f"{finding.claim} `{finding.what}`" if finding.claim else finding.what,
    ]
    return f"- {', '.join(parts)}: {finding.text}"


def _source(line: Line) -> str:
    return "; ".join(
        ", ".join([*(f"[{label}]({path})" for label, path in links.items()), f"`fedshift run {name}`"])
        for name, links in line.experiments
    )


def _rows(workspace: Workspace, tables: Path, file: str) -> dict[str, list[dict[str, str]]]:
    """Experiment -> the rows of that file, of all that have one."""
    paths = {name: tables / name / file for name in available(workspace)}
    texts = {
        name: io.StringIO(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.is_file()
    }
    return {name: [*csv.DictReader(text)] for name, text in texts.items()}


def _judged(rows: dict[str, list[dict[str, str]]]) -> dict[str, list[dict[str, str]]]:
    """Claim -> its rows, each with its `experiment`: where several test it, the one of the paper's settings,
    then of most seeds.
    """
    judged: dict[str, list[dict[str, str]]] = {}
    for experiment, every in rows.items():
        own: dict[str, list[dict[str, str]]] = {}
        for row in every:
            own.setdefault(row["claim"], []).append({**row, "experiment": experiment})
        for claim, lines in own.items():
            if claim not in judged or _rank(lines) > _rank(judged[claim]):
                judged[claim] = lines
    return judged


def _rank(rows: list[dict[str, str]]) -> tuple[bool, int]:
    return not rows[0]["differs"], max(int(row["seeds"]) for row in rows)


def _word(rows: list[dict[str, str]]) -> str:
    comparable, _ = _rank(rows)
    seeds = [int(row["seeds"]) for row in rows]
    return word_of(rows[0]["verdict"], seeds) if comparable else "not comparable"


def _lines(
    members: list[tuple[tuple[str, str], str, list[str]]], words: Iterable[str], links: Links
) -> list[Line]:
    """One for each paper and item, by their numbers, then the sum; members: paper and item, word,
    experiments.
    """
    papers = list(dict.fromkeys(paper for (paper, _), _, _ in members))
    members = sorted(members, key=lambda member: (papers.index(member[0][0]), place(member[0][1])))
    groups: dict[tuple[str, str], list[tuple[str, list[str]]]] = {}
    for of, word, experiments in members:
        groups.setdefault(of, []).append((word, experiments))
    everything = [(word, list[str]()) for _, word, _ in members]
    lines = []
    for (paper, item), group in [*groups.items(), (("all", ""), everything)]:
        counts = Counter(word for word, _ in group)
        names = dict.fromkeys(name for _, experiments in group for name in experiments)
        lines.append(
            Line(paper, item, len(group), {word: counts[word] for word in words}, [*map(links, names)])
        )
    return lines


def _listed(line: Line) -> str:
    parts = [f"{n:,} {'is' if n == 1 else 'are'} {word}" for word, n in line.counts.items() if n]
    return ", ".join(parts)
