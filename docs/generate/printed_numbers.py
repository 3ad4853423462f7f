"""docs/coverage.md: how many of the papers' printed numbers have a cell, and why the others have none."""

from __future__ import annotations

import functools
import math
from collections import Counter
from pathlib import Path

from fedshift.analysis.coverage import Number, numbers
from fedshift.analysis.published import by_uid
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[2]
HEAD = [
    "# Coverage\n",
    "Made by `make docs`: every number of `reference/published.csv`, by paper and table. *cell*: one cell of one experiment stands beside",
    "it once its runs are there (`printed` of a table in `experiments/<paper>/`). *alike*: that cell's runs are declared as the paper's, so a",
    "difference is shown; else the number stands for orientation, or is a slip of the paper's. Declared, not trained: no number here was measured.\n",
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
    differs = {number.uid: number.places[0].differs or _slip(number) for number in cells}
    alike = [number for number in cells if not differs[number.uid]]
    why = Counter(number.reason for number in members if number.reason)
    why.update(text for number in cells for text in differs[number.uid])
    reasons = "; ".join(f"{count}: {text}" for text, count in why.most_common())
    return f"| {paper} | {table} | {len(members)} | {len(cells)} | {len(alike)} | {reasons} |"


def _slip(number: Number) -> list[str]:
    """Why a printed number is compared with none, where it is a slip."""
    printed = by_uid(Workspace(ROOT)).get(number.uid)
    return (
        ["a slip whose right value nobody knows"]
        if printed and printed.remark and math.isnan(printed.judged)
        else []
    )
