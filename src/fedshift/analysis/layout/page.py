"""Page: the tables of an experiment as Markdown and CSV, and the templates of HTML pages."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence

import jinja2
import pandas as pd

from fedshift.analysis.layout.grid import Entry, Grid, grids
from fedshift.analysis.verdicts.rule import OUTCOMES, WORDS

# What a line of a table of verdicts, comparisons or sentences holds.
Line = tuple[str, ...]
Block = tuple[str, list[Grid[Entry]]]  # a table under its title
SENTENCE: Line = ("sentence", "says it of", *OUTCOMES, "not here", "in words")
VERDICT: Line = ("printed table", "compared", *WORDS, "rms distance", "median half-width")
CLAIM: Line = (
    "comparison",
    "says",
    "paper",
    "on print",
    "verdict",
    "ours: mean difference [95% interval], seeds",
    "in words",
)


def template(name: str) -> jinja2.Template:
    """A template of `templates/`; what it fills in is escaped."""
    return _environment().get_template(name)


@functools.cache
def _environment() -> jinja2.Environment:
    loader = jinja2.PackageLoader("fedshift.analysis")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {
        "headings": _headings, "verdict_headings": VERDICT, "claim_headings": CLAIM,
        "group_headings": SENTENCE,
        "number": number,
    }  # fmt: skip
    return environment


def csv(table: pd.DataFrame) -> str:
    """The rows of a table, numbers to four digits; without the column `clients` where nothing is in it."""
    if "clients" in table and table["clients"].eq("").all():
        table = table.drop(columns="clients")
    return str(table.to_csv(index=False, float_format="%.4f"))


def number(value: float) -> str:
    """Three digits or so, thousands set apart; a dash for what was not measured."""
    if value is None or value != value:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def blocks(tables: Iterable[tuple[str, pd.DataFrame]]) -> list[Block]:
    """Titles and cells, laid out for the pages."""
    return [(title, grids(cells)) for title, cells in tables]


def markdown(
    tables: Sequence[Block],
    notes: list[str],
    title: str = "",
    verdicts: Sequence[Line] = (),
    claims: Sequence[Line] = (),
    groups: Sequence[Line] = (),
) -> str:
    """Tables under their titles; a method that the paper prints has three further lines, the published
    values, the differences and the verdicts, or one, the values printed for another experiment.
    """
    parts = [f"# {title}"] if title else []
    for name, grids_of in tables:
        parts.append(f"## {name}")
        for block in grids_of:
            parts += [f"**{block.caption}**"] if block.caption else []
            parts.append(_lines(block))
    if verdicts:
        parts += ["## Verdicts", piped([VERDICT, *verdicts], ["-" * len(heading) for heading in VERDICT])]
    if claims:
        parts += ["## Comparisons", piped([CLAIM, *claims], ["-" * len(heading) for heading in CLAIM])]
        parts += ["## Sentences", piped([SENTENCE, *groups], ["-" * len(heading) for heading in SENTENCE])]
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in notes)]) + "\n"


def _headings(columns: list[tuple[str, ...]]) -> list[list[tuple[str, int]]]:
    """Per level of the columns' headings: each text with the number of columns that it spans."""
    levels = []
    for depth in range(1, len(columns[0]) + 1):
        groups = itertools.groupby(column[:depth] for column in columns)
        levels.append([(prefix[-1], len(list(group))) for prefix, group in groups])
    return levels


def _lines(block: Grid[Entry]) -> str:
    """A grid as Markdown: a line for ours, one for the paper's, one for the difference."""
    lines = [["method", *(" ".join(column) for column in block.columns)]]
    for method, entries in block.rows:
        lines.append([method, *(entry.ours for entry in entries)])
        if any(entry.paper for entry in entries):
            lines.append(["· paper", *(entry.paper for entry in entries)])
            lines.append(["· difference", *(entry.difference for entry in entries)])
        if any(entry.verdict for entry in entries):
            lines.append(["· verdict", *(entry.verdict for entry in entries)])
        if any(entry.orientation for entry in entries):
            lines.append(["· orientation", *(entry.orientation for entry in entries)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return piped([[line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in lines], rule)


def piped(lines: Sequence[Sequence[str]], rule: Sequence[str]) -> str:
    """Lines of text as a table of Markdown; the first has the headings, `rule` stands below it."""
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in [escaped[0], rule, *escaped[1:]])
