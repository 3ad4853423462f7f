"""Scorecard: the state of every published number and comparison, counted by paper and table, on one page.

It reads table.csv and claims.csv of each experiment's tables. A number or a comparison without a row there
has no run to compare, and is listed as such. A number that a paper repeats in another table counts once.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedshift.analysis import published
from fedshift.analysis.claims.comparison import Joined, join
from fedshift.analysis.claims.words import compared, sentences
from fedshift.analysis.coverage import Number
from fedshift.analysis.page import piped, template
from fedshift.analysis.published import COPIED, judged_by
from fedshift.analysis.tables import long
from fedshift.analysis.verdicts import COUNTED, OUTCOMES, POINTS, WORDS
from fedshift.common.files import write_text
from fedshift.experiments.paper_claims import table_of
from fedshift.storage.workspace import Workspace

NO_RUN = "no run"
NUMBERS, SIZES, CLAIMS = "Published numbers", "Counted: sizes and layers", "Comparisons"
SECTIONS = {NUMBERS: WORDS, SIZES: WORDS, CLAIMS: OUTCOMES[:3]}  # title -> the words of what has runs
PUBLISHED, DISTANCE = "published ", "distance from the published number "  # beginnings of findings
FILES = {"table": "tables/{}/table.md", "runs": "report/{}/index.html"}  # next to results/scorecard.*
Links = Callable[[str], dict[str, str]]
# Published numbers or comparisons: paper and table ("FDSE 1"), word, experiments.
Members = list[tuple[str, str, list[str]]]


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
    """What is counted, and what runs have shown.

    `lines`: title of each of SECTIONS -> its lines, the last of which is the sum.
    `findings`: the results of everything that has runs.
    `outdated`: experiment -> comparisons in its files whose text has changed in the reference. They are not
        counted.
    """

    lines: dict[str, list[Line]]
    findings: list[Finding]
    outdated: dict[str, list[str]]

    @property
    def opening(self) -> str:
        """The sums in a few sentences."""
        measured, sizes, claims = (self.lines[title][-1] for title in SECTIONS)
        if not measured.run and not claims.run:
            total = f"{measured.total:,} published numbers and {claims.total:,} comparisons"
            return f"None of {total} has a run yet."
        return (
            f"Re-run so far: {measured.run} of {measured.total:,} distinct published numbers: "
            f"{in_words(measured.counts, WORDS) or 'none'}. Counted, not trained: {sizes.counts[WORDS[0]]} "
            f"of {sizes.total} sizes and layers are as published. Of {claims.total} comparisons that the "
            f"papers claim {in_words(claims.counts, claims.counts) or 'none'}."
        )

    def by_paper(self, title: str) -> dict[str, Counter[str]]:
        """Paper -> the number of each word in a section."""
        sums: dict[str, Counter[str]] = {}
        for line in self.lines[title][:-1]:
            sums.setdefault(line.of.partition(" ")[0], Counter()).update(line.counts)
        return sums


def in_words(counts: Mapping[Any, int], words: Iterable[str]) -> str:
    """ "1 consistent, 29 too few seeds"."""
    return ", ".join(f"{counts[word]} {word}" for word in words if counts[word])


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
    frames = [long(tables / name / "table").assign(experiment=name) for name in names]
    frames = [frame.dropna(subset="verdict") for frame in frames if "verdict" in frame]
    cells = pd.concat(frames) if frames else pd.DataFrame(columns=["experiment", "uid", "verdict"])
    judged, outdated = _judged(tables, names, {one.claim: one.text for one in joined})
    words = dict.fromkeys((one.claim for one in joined), NO_RUN)
    for claim, rows in judged.items():  # a claim on another experiment than the paper's has no run to compare
        if rows["differs"].isna().all() and rows["verdict"].iloc[0] != OUTCOMES[-1]:
            words[claim] = str(rows["verdict"].iloc[0])
    members = _numbers(workspace, known, cells)
    for one in joined:
        homes = [name for name, _ in one.places]
        members[CLAIMS].append((f"{one.paper} {one.item}", words[one.claim], homes))
    lines = {title: _lines(of, [*SECTIONS[title], NO_RUN], links) for title, of in members.items()}
    findings = [*_of_tables(cells, links), *_of_claims(workspace, judged, words, joined, links)]
    order = _order(one.paper for one in joined)
    return Scorecard(lines, sorted(findings, key=lambda one: (order(one.of), one.what)), outdated)


def _numbers(workspace: Workspace, every: Sequence[Number], cells: pd.DataFrame) -> dict[str, Members]:
    """The published numbers, by section."""
    verdicts = dict(zip(zip(cells["experiment"], cells["uid"], strict=True), cells["verdict"], strict=True))
    rows = {row["row_uid"]: row for row in published.rows(workspace)}
    members: dict[str, Members] = {title: [] for title in SECTIONS}
    for number in every:
        if (row := rows[number.uid])["same_as"] or row["metric_id"].startswith(COPIED):
            continue
        homes = [place.experiment for place in number.places]
        found = (verdicts[home, number.uid] for home in homes if (home, number.uid) in verdicts)
        title = SIZES if judged_by(row["metric_id"]) == "exact" else NUMBERS
        members[title].append((f"{number.paper} {number.table}", next(found, NO_RUN), homes))
    return members


def _judged(
    tables: Path, names: Sequence[str], known: Mapping[str, str]
) -> tuple[dict[str, pd.DataFrame], dict[str, list[str]]]:
    """Comparison -> its rows of claims.csv; experiment -> comparisons whose text differs from `known`.

    Of several experiments, the one with the paper's own settings counts, then the one with most seeds.
    """
    found: dict[str, list[pd.DataFrame]] = {}
    outdated: dict[str, list[str]] = {}
    for name in names:
        if (path := tables / name / "claims.csv").is_file():
            for claim, rows in pd.read_csv(path).assign(experiment=name).groupby("claim", sort=False):
                if known.get(str(claim)) == rows["text"].iloc[0]:
                    found.setdefault(str(claim), []).append(rows)
                else:
                    outdated.setdefault(name, []).append(str(claim))

    def rank(rows: pd.DataFrame) -> tuple[bool, int]:
        return bool(rows["differs"].isna().all()), int(rows["seeds"].max())

    return {claim: max(of, key=rank) for claim, of in found.items()}, outdated


def _order(papers: Iterable[str]) -> Callable[[str], tuple[int, list[tuple[bool, int, str]]]]:
    """The sort key of "<paper> <item>": its paper's place, then the item: 2, 10, 10a, A9, A10, Fig 3."""
    places = {paper: place for place, paper in enumerate(dict.fromkeys(papers))}

    def key(of: str) -> tuple[int, list[tuple[bool, int, str]]]:
        parts = [part for part in re.split(r"(\d+)", of) if part]
        numbered = [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]
        return places[of.partition(" ")[0]], numbered

    return key


def _lines(members: Members, words: Sequence[str], links: Links) -> list[Line]:
    """One line for each paper and item, in the order of their numbers, then the sum."""
    groups: dict[str, Members] = {}
    for member in members:
        groups.setdefault(member[0], []).append(member)
    lines = []
    for of in sorted(groups, key=_order(of.partition(" ")[0] for of in groups)):
        counts = Counter(word for _, word, _ in groups[of])
        homes = dict.fromkeys(home for *_, homes in groups[of] for home in homes)
        counted = {word: counts[word] for word in words}
        lines.append(Line(of, counts.total(), counted, {name: links(name) for name in homes}))
    total = {word: sum(line.counts[word] for line in lines) for word in words}
    return [*lines, Line("all", len(members), total, {})]


def _of_tables(cells: pd.DataFrame, links: Links) -> Iterator[Finding]:
    """The findings on the numbers of published tables."""
    cells = cells.drop_duplicates(["experiment", "uid"])
    tables = cells["uid"].map(lambda uid: " ".join(table_of(uid)))
    for (name, table), rows in cells.groupby(["experiment", tables], sort=False):
        counts = in_words(Counter(rows["verdict"]), WORDS)
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
        link = links(str(name)).get("table", "")
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
        if counts := in_words(said, OUTCOMES):
            rest = f", {said['others']} without a run" if said["others"] else ""
            word = f"{said[OUTCOMES[0]]} of {said['comparisons']} as published"
            what = f"{said['claim']}, about {said['said']}"
            yield Finding(
                f"{said['paper']} {said['items']}", what, word, f"{counts}{rest}; {said['text']}", ""
            )


def markdown(card: Scorecard) -> str:
    """The page below its title."""
    parts = [card.opening]
    if card.outdated:
        made = [f"- `fedshift table {name}`: {', '.join(ids)}" for name, ids in card.outdated.items()]
        parts += [
            "Not counted, because their text in the reference has changed. To write these tables again:",
            "\n".join(made),
        ]
    if card.findings:
        named = [(f"[{one.of}]({one.link})" if one.link else one.of, one) for one in card.findings]
        found = [f"- {of}, **{one.word}**, {one.what}: {one.text}" for of, one in named]
        parts += ["## What the runs show", "\n".join(found)]
    for title, lines in card.lines.items():
        words = [*lines[-1].counts]
        rows = [["paper and table", "all", *words, "results and command"]]
        without: dict[str, list[str]] = {}
        for line in lines:
            if line.run or line is lines[-1]:
                sources = [
                    "".join(f"[{label}]({path}), " for label, path in of.items()) + f"`fedshift run {name}`"
                    for name, of in line.experiments.items()
                ]
                counts = (str(line.counts[word]) for word in words)
                rows.append([line.of, str(line.total), *counts, "; ".join(sources)])
            else:
                names = " ".join(f"`{name}`" for name in line.experiments) or "no experiment"
                paper, _, item = line.of.partition(" ")
                without.setdefault(paper, []).append(f"{item} ({line.total}) {names}")
        parts += [f"## {title}", piped(rows, ["---", *["---:"] * (len(words) + 1), "---"])]
        listed = [f"- {paper}: {'; '.join(items)}" for paper, items in without.items()]
        parts += ["\n".join(["Without a run, by `fedshift run NAME`:", "", *listed])] if listed else []
    return "\n\n".join(parts) + "\n"
