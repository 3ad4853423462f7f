"""Scorecard: what has come of every printed number, of every comparison that the papers claim, and of every
sentence that claims some, counted by paper and table, on one page.

It reads verdicts.csv and claims.csv, which tables write; what has none is not run. A printed number without
a cell is not comparable: docs/coverage.md says why. A sentence is judged by the comparisons of
all experiments (fedshift.analysis.claims.groups).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedshift.analysis.claims.groups import JUDGED, NONE, Member, together
from fedshift.analysis.claims.join import join
from fedshift.analysis.claims.levels import UNKNOWN
from fedshift.analysis.claims.on_print import WORDS as ON_PRINT
from fedshift.analysis.layout.page import piped, template
from fedshift.analysis.report.counted import Line, Linked, lines, listed
from fedshift.analysis.report.findings import Finding, of_claims, of_numbers, of_sentences, place
from fedshift.analysis.report.written import member, written
from fedshift.analysis.verdicts.coverage import Number, numbers
from fedshift.analysis.verdicts.judge import WORDS, incomparable
from fedshift.common.files import write_text
from fedshift.storage.workspace import Workspace

CLAIMED = (*JUDGED, *NONE)
BY_PRINT = "Comparisons on the papers' own numbers"
FOUND = "What the runs say"
OUTDATED = (
    "Not counted, because these tables were made by other code or of another reference; to make them anew:"
)
# Beside results/scorecard.*: what a line links to.
FILES = {"table": "tables/{}/table.md", "runs": "report/{}/index.html"}


@dataclass(frozen=True)
class Scorecard:
    """Lines of printed numbers, of comparisons (`claims`), of sentences, and of comparisons on the papers'
    own numbers; of each the last is the sum. findings: of what has runs, each with the link to its table;
    outdated: as fedshift.analysis.report.written has it.
    """

    numbers: list[Line]
    claims: list[Line]
    sentences: list[Line]
    on_print: list[Line]
    findings: list[tuple[Finding, str]]
    outdated: dict[str, list[str]]

    @property
    def opening(self) -> str:
        """The sums in a sentence, which says so where nothing was run."""
        of, claims, said = self.numbers[-1], self.claims[-1], self.sentences[-1]
        run = sum(of.counts[word] for word in WORDS[:3])
        none = "No printed number has runs here yet. " if not run else ""
        counts = (
            f"Of {of.total:,} printed numbers {listed(of)}. Of {claims.total:,} comparisons that the papers "
            f"claim {listed(claims)}. Of the {said.total:,} sentences that claim them {listed(said)}."
        )
        return none + counts

    @property
    def anew(self) -> list[tuple[str, str]]:
        """The commands that make tables anew which are out of date, each with what of them is not counted."""
        return [(f"fedshift table {name}", ", ".join(ids)) for name, ids in self.outdated.items()]


def write(workspace: Workspace, known: list[Number] | None = None) -> Path:
    """Write results/scorecard.html and .md of the tables that are there; return the first. known: as
    `scorecard` has it.
    """
    path = workspace.scorecard
    card = scorecard(workspace, workspace.results / "tables", workspace.results, FILES, known)
    write_text(
        path,
        template("scorecard.html.j2").render(
            card=card, words=WORDS, claimed=CLAIMED, on_print=ON_PRINT, outdated=OUTDATED
        ),
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

    every = known or numbers(workspace)
    joined = join(workspace, every)
    found = written(
        workspace, tables, {number.uid for number in every}, {one.claim: one.text for one in joined}
    )
    verdicts = {row["uid"]: row["verdict"] for rows in found.numbers.values() for row in rows}
    printed = [
        (
            (number.paper, number.table),
            verdicts.get(number.uid, "not comparable" if incomparable(workspace, number) else "not run"),
            [place.experiment for place in number.places],
        )
        for number in every
    ]
    judged = {claim: member(rows) for claim, rows in found.claims.items()}
    members = {
        one.claim: judged.get(one.claim, Member("not run", UNKNOWN))
        if one.places
        else Member("not tested", UNKNOWN)
        for one in joined
    }
    homes = {one.claim: [name for name, _ in one.places] for one in joined}
    items = {one.claim: (one.paper, one.item) for one in joined}
    claims = [(of, members[claim].word, homes[claim]) for claim, of in items.items()]
    on_print = [((one.paper, one.item), str(one.on_print.word), list[str]()) for one in joined]
    groups = together(workspace, members)
    sentences = [
        (
            (group.paper, group.items),
            group.verdict,
            [name for claim in homes if claim.rpartition(".")[0] == group.claim for name in homes[claim]],
        )
        for group in groups
    ]
    words = {claim: one.word for claim, one in members.items()}
    findings = [
        *of_numbers(found.numbers),
        *of_claims(found.claims, words, items),
        *of_sentences(groups),
    ]
    papers = list(dict.fromkeys([number.paper for number in every] + [one.paper for one in joined]))
    findings.sort(key=lambda finding: (papers.index(finding.paper), place(finding.item), finding.claim))
    return Scorecard(
        lines(printed, WORDS, links),
        lines(claims, CLAIMED, links),
        lines(sentences, CLAIMED, links),
        lines(on_print, ON_PRINT, links),
        [(finding, links(finding.experiment)[1].get("table", "")) for finding in findings],
        found.outdated,
    )


def markdown(card: Scorecard) -> str:
    """The page below its title."""
    parts = [card.opening]
    if card.outdated:
        parts += [OUTDATED, "\n".join(f"- `{command}`: {what}" for command, what in card.anew)]
    if card.findings:
        parts += [f"## {FOUND}", "\n".join(_bullet(*found) for found in card.findings)]
    for title, of, words in (
        ("Printed numbers", card.numbers, WORDS),
        ("Comparisons", card.claims, CLAIMED),
        ("Sentences", card.sentences, CLAIMED),
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
            for line in of
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
