"""docs/coverage.md: how many of the papers' printed numbers have a cell, and why the others have none."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path

from fedshift.analysis.verdicts.coverage import Number, numbers
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[2]
HEAD = [
    "# Coverage\n",
    "Made by `make docs`: every number of `reference/published.csv`, by paper and table. *cell*: one cell of one experiment stands beside",
    "it once its runs are there (`printed` of a table in `experiments/<paper>/`). *alike*: that cell's runs are declared as the paper's, so a",
    "difference is shown; else the number stands for orientation. Declared, not trained: no number here was measured.\n",
    "| paper | table | printed | cell | alike | without a cell, or not alike: why |",
    "|---|---|---|---|---|---|",
]


@functools.cache
def every_number() -> list[Number]:
    """All printed numbers with their cells, read once for all pages."""
    return numbers(Workspace(ROOT))


def coverage() -> str:
    """A line for each printed table, then the sum."""
    tables: dict[tuple[str, str], list[Number]] = {}
    for number in (every := every_number()):
        tables.setdefault((number.paper, number.table), []).append(number)
    rows = [_row(*of, members) for of, members in tables.items()]
    return "\n".join([*HEAD, *rows, _row("all", "", every)]) + "\n"


def _row(paper: str, table: str, members: list[Number]) -> str:
    cells = [number for number in members if number.places]
    alike = [number for number in cells if not number.places[0].differs]
    why = Counter(number.reason for number in members if number.reason)
    why.update(text for number in cells for text in number.places[0].differs)
    reasons = "; ".join(f"{count}: {text}" for text, count in why.most_common())
    return f"| {paper} | {table} | {len(members)} | {len(cells)} | {len(alike)} | {reasons} |"
