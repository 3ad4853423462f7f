"""Scorecard: the state of every published number and comparison, counted by paper and table, on one page.

It reads table.csv and claims.csv of each experiment's tables. A number or a comparison without a row there
has no run to compare, and is listed as such. A number that a paper repeats in another table counts once.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from fedshift.analysis import published
from fedshift.analysis.claims.comparison import Joined, join
from fedshift.analysis.claims.words import compared, sentences
from fedshift.analysis.coverage import Number
from fedshift.analysis.page import piped, template
from fedshift.analysis.published import COPIED, judged_by
from fedshift.analysis.verdicts import COUNTED, OUTCOMES, POINTS, WORDS
from fedshift.common.files import write_text
from fedshift.experiments.paper_claims import table_of
from fedshift.storage.workspace import Workspace

NO_RUN = "no run"
NUMBERS = (*WORDS, NO_RUN)
CLAIMED = (*OUTCOMES[:3], NO_RUN)
PUBLISHED, DISTANCE = "published ", "distance from the published number "  # beginnings of findings
FILES = {"table": "tables/{}/table.md", "runs": "report/{}/index.html"}  # next to results/scorecard.*
Links = Callable[[str], dict[str, str]]
# A published number or a comparison: its paper and table, its word, its experiments.
Member = tuple[str, str, str, list[str]]


class Line(NamedTuple):
    """A table of a paper: how many numbers or comparisons it has, and how many of them have each word.

    It also has the experiments that reproduce the table, each with its links (label -> path).
    """

    of: str
    total: int
    counts: dict[str, int]
    experiments: dict[str, dict[str, str]]

    @property
    def run(self) -> int:
        """The number of those with runs."""
        return self.total - self.counts[NO_RUN]


class Finding(NamedTuple):
    """The result of runs on a published table, a comparison or a sentence.

    `link`: to the table with the result.
    """

    of: str
    what: str
    word: str
    text: str
    link: str


@dataclass(frozen=True)
class Scorecard:
    """The lines of the scorecard; the last one of each list is the sum.

    `numbers`: measured numbers.
    `counted`: counted ones (layers, parameters, bytes).
    `claims`: comparisons.
    `findings`: the results of everything that has runs.
    `outdated`: experiment -> comparisons in its files whose text has changed in the reference. They are not
        counted.
    """

    numbers: list[Line]
    counted: list[Line]
    claims: list[Line]
    findings: list[Finding]
    outdated: dict[str, list[str]]

    @property
    def opening(self) -> str:
        """The sums in a few sentences."""

        def counts(line: Line, words: Sequence[str]) -> str:
            return ", ".join(f"{line.counts[word]} {word}" for word in words if line.counts[word]) or "none"

        measured, counted, claims = self.numbers[-1], self.counted[-1], self.claims[-1]
        if not measured.run and not claims.run:
            total = f"{measured.total:,} published numbers and {claims.total:,} comparisons"
            return f"None of {total} has a run yet."
        return (
            f"Re-run so far: {measured.run} of {measured.total:,} distinct published numbers: "
            f"{counts(measured, WORDS)}. Counted, not trained: {counted.counts[WORDS[0]]} of "
            f"{counted.total} sizes and layers are as published. "
            f"Of {claims.total} comparisons that the papers claim {counts(claims, CLAIMED)}."
        )

    @property
    def sections(self) -> list[tuple[str, list[Line], tuple[str, ...]]]:
        """The tables of the page: title, lines, words."""
        return [
            ("Published numbers", self.numbers, NUMBERS),
            ("Counted: sizes and layers", self.counted, NUMBERS),
            ("Comparisons", self.claims, CLAIMED),
        ]

    def by_paper(self, lines: list[Line]) -> dict[str, Counter[str]]:
        """Paper -> the number of each word."""
        sums: dict[str, Counter[str]] = {}
        for line in lines[:-1]:
            sums.setdefault(line.of.partition(" ")[0], Counter()).update(line.counts)
        return sums


def write(workspace: Workspace, known: Sequence[Number]) -> Path:
    """Write results/scorecard.html and .md of `known` numbers and existing tables; return the first."""
    path = workspace.scorecard
    card = scorecard(workspace, workspace.results / "tables", workspace.results, FILES, known)
    write_text(path, template("scorecard.html.j2").render(card=card))
    write_text(path.with_suffix(".md"), f"# Scorecard\n\n{markdown(card)}")
    return path


def scorecard(
    workspace: Workspace, tables: Path, page: Path, files: Mapping[str, str], known: Sequence[Number]
) -> Scorecard:
    """The scorecard of the files that experiments have written below the folder `tables`.

    `page`: the folder that links start from.
    `files`: label -> path below it, with {} for the experiment. Only files that exist are linked.
    `known`: the published numbers (fedshift.analysis.coverage.numbers).
    """

    def links(experiment: str) -> dict[str, str]:
        paths = {label: path.format(experiment) for label, path in files.items()}
        return {label: path for label, path in paths.items() if (page / path).is_file()}

    joined = join(workspace, known)
    names = sorted(path.parent.relative_to(tables).as_posix() for path in tables.rglob("table.csv"))
    cells: dict[str, pd.DataFrame] = {}  # experiment -> the cells with a verdict
    for name in names:
        path = tables / name / "table.csv"
        if path.stat().st_size:  # not of an experiment without tables
            frame = pd.read_csv(path, dtype={"verdict": str, "uid": str, "rule": str, "target": str})
            if "verdict" in frame and frame["verdict"].notna().any():
                cells[name] = frame[frame["verdict"].notna()]
    members = _numbers(workspace, known, cells)
    judged, outdated = _judged(tables, names, {one.claim: one.text for one in joined})
    words = dict.fromkeys((one.claim for one in joined), NO_RUN)
    for claim, rows in judged.items():  # a claim on another experiment than the paper's has no run to compare
        if rows["differs"].isna().all() and rows["verdict"].iloc[0] != OUTCOMES[-1]:
            words[claim] = str(rows["verdict"].iloc[0])
    claims = [(one.paper, one.item, words[one.claim], [name for name, _ in one.places]) for one in joined]
    findings = [*_of_tables(cells, links), *_of_claims(workspace, judged, words, joined, links)]
    papers = list(dict.fromkeys(one.paper for one in joined))
    return Scorecard(
        _lines(members[False], NUMBERS, links),
        _lines(members[True], NUMBERS, links),
        _lines(claims, CLAIMED, links),
        sorted(findings, key=lambda one: (papers.index(one.of.split(" ")[0]), _place(one.of), one.what)),
        outdated,
    )


def _numbers(
    workspace: Workspace, every: Sequence[Number], cells: Mapping[str, pd.DataFrame]
) -> dict[bool, list[Member]]:
    """The published numbers that appear, by whether they are counted (True) or measured by runs."""
    words = {name: dict(zip(frame["uid"], frame["verdict"], strict=True)) for name, frame in cells.items()}
    rows = {row["row_uid"]: row for row in published.rows(workspace)}
    members: dict[bool, list[Member]] = {True: [], False: []}
    for number in every:
        if (row := rows[number.uid])["same_as"] or row["metric_id"].startswith(COPIED):
            continue
        homes = [place.experiment for place in number.places]
        word = next((words[name][number.uid] for name in homes if number.uid in words.get(name, {})), NO_RUN)
        counted = judged_by(row["metric_id"]) == "exact"
        members[counted].append((number.paper, number.table, word, homes))
    return members


def _judged(
    tables: Path, names: Sequence[str], known: Mapping[str, str]
) -> tuple[dict[str, pd.DataFrame], dict[str, list[str]]]:
    """Comparison -> its rows of claims.csv; experiment -> comparisons whose text differs from `known`."""

    def rank(rows: pd.DataFrame) -> tuple[bool, int]:  # the paper's own settings first, then most seeds
        return bool(rows["differs"].isna().all()), int(rows["seeds"].max())

    judged: dict[str, pd.DataFrame] = {}
    outdated: dict[str, list[str]] = {}
    for name in names:
        path = tables / name / "claims.csv"
        frame = pd.read_csv(path).assign(experiment=name) if path.is_file() else pd.DataFrame({"claim": []})
        for key, rows in frame.groupby("claim", sort=False):
            claim = str(key)
            if known.get(claim) != rows["text"].iloc[0]:
                outdated.setdefault(name, []).append(claim)
            elif claim not in judged or rank(rows) > rank(judged[claim]):
                judged[claim] = rows
    return judged, outdated


def _lines(members: Sequence[Member], words: Sequence[str], links: Links) -> list[Line]:
    """One line for each paper and item, in the order of their numbers, then the sum."""
    papers = list(dict.fromkeys(paper for paper, *_ in members))
    groups: dict[str, list[Member]] = {}
    for member in sorted(members, key=lambda one: (papers.index(one[0]), _place(one[1]))):
        groups.setdefault(" ".join(member[:2]), []).append(member)
    lines = []
    for of, group in groups.items():
        counts = Counter(word for _, _, word, _ in group)
        homes = dict.fromkeys(name for *_, names in group for name in names)
        counted = {word: counts[word] for word in words}
        lines.append(Line(of, len(group), counted, {name: links(name) for name in homes}))
    total = {word: sum(line.counts[word] for line in lines) for word in words}
    return [*lines, Line("all", len(members), total, {})]


def _of_tables(cells: Mapping[str, pd.DataFrame], links: Links) -> Iterator[Finding]:
    """The findings on the numbers of published tables."""
    for name, frame in cells.items():
        of = frame["uid"].map(lambda uid: " ".join(table_of(uid)))
        for table, rows in frame.drop_duplicates("uid").groupby(of, sort=False):
            words = Counter(rows["verdict"])
            counts = ", ".join(f"{words[word]} {word}" for word in WORDS if words[word])
            said, points = [], rows[rows["rule"] == POINTS]
            if len(points):
                distances = points["difference"].abs()
                said.append(
                    f"{DISTANCE}{distances.median():.1f} points at the median, "
                    f"{distances.max():.1f} at most, {(distances**2).mean() ** 0.5:.1f} rms"
                )
                low, high = int(points["seeds"].min()), int(points["seeds"].max())
                said.append(f"{low} seed{'s' * (high > 1)}" if low == high else f"{low} to {high} seeds")
            if (rows["rule"] == COUNTED).any():
                said.append("counted, so without seeds")
            link = links(name).get("table", "")
            yield Finding(str(table), f"{len(rows)} numbers", counts, "; ".join(said), link)


def _of_claims(
    workspace: Workspace,
    judged: Mapping[str, pd.DataFrame],
    words: Mapping[str, str],
    joined: Sequence[Joined],
    links: Links,
) -> Iterator[Finding]:
    """The findings on comparisons with runs, then how many comparisons of each sentence are as published."""
    for one in joined:
        rows = judged.get(one.claim)
        if rows is None or not rows["seeds"].any():
            continue
        first, run = rows.iloc[0], rows[rows["seeds"] > 0]
        word = first["verdict"] + " (another experiment)" * bool(rows["differs"].notna().any())
        printed = f"{PUBLISHED}{first['printed']:+.1f}; " if pd.notna(first["printed"]) else ""
        text = printed + compared([*rows["seeds"]]) + "; ".join(run["words"])
        link = links(first["experiment"]).get("table", "")
        yield Finding(f"{one.paper} {one.item}", f"{one.claim} `{first['said']}`", word, text, link)
    found = sentences(workspace, words)
    for said in found[found["comparisons"] > 1].to_dict("records"):
        if counts := ", ".join(f"{said[word]} {word}" for word in OUTCOMES if said[word]):
            rest = f", {said['others']} without a run" if said["others"] else ""
            word = f"{said[OUTCOMES[0]]} of {said['comparisons']} as published"
            what = f"{said['claim']}, about {said['said']}"
            yield Finding(
                f"{said['paper']} {said['items']}", what, word, f"{counts}{rest}; {said['text']}", ""
            )


def _place(item: str) -> list[tuple[bool, int, str]]:
    """The sort key of an item: 2, 10, 10a, A9, A10, Fig 3."""
    parts = [part for part in re.split(r"(\d+)", item) if part]
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def markdown(card: Scorecard) -> str:
    """The page below its title."""
    parts = [card.opening]
    if card.outdated:
        made = [f"- `fedshift table {name}`: {', '.join(ids)}" for name, ids in card.outdated.items()]
        parts += [
            "Not counted, because their text in the reference has changed. To write these tables again:"
        ]
        parts += ["\n".join(made)]
    if card.findings:
        parts += ["## What the runs show"]
        named = [(f"[{one.of}]({one.link})" if one.link else one.of, one) for one in card.findings]
        parts += ["\n".join(f"- {of}, **{one.word}**, {one.what}: {one.text}" for of, one in named)]
    for title, lines, words in card.sections:
        rows = [["paper and table", "all", *words, "results and command"]]
        for line in lines:
            if line.run or line.of == "all":
                sources = [
                    ", ".join(
                        [*(f"[{label}]({path})" for label, path in of.items()), f"`fedshift run {name}`"]
                    )
                    for name, of in line.experiments.items()
                ]
                counts = (str(line.counts[word]) for word in words)
                rows.append([line.of, str(line.total), *counts, "; ".join(sources)])
        parts += [f"## {title}", piped(rows, ["---", *["---:"] * (len(words) + 1), "---"])]
        without: dict[str, list[str]] = {}
        for line in lines[:-1]:
            if not line.run:
                names = " ".join(f"`{name}`" for name in line.experiments) or "no experiment"
                paper, _, item = line.of.partition(" ")
                without.setdefault(paper, []).append(f"{item} ({line.total}) {names}")
        listed = [f"- {paper}: {'; '.join(items)}" for paper, items in without.items()]
        parts += ["\n".join(["Without a run, by `fedshift run NAME`:", "", *listed])] if listed else []
    return "\n\n".join(parts) + "\n"
