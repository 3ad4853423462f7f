"""Content of exported tables: what stands in each place, in the words of a format.

The best mean of a column is bold, the second underlined (fedshift.analysis.export.ranks). A cell whose number
of seeds is not the usual one says so, and marks are explained below the table. On demand the printed value
and the verdict on it stand below ours.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fedshift.analysis.collection.sources import MARK
from fedshift.analysis.export.ranks import BEST, SECOND, ranks
from fedshift.analysis.layout.footnotes import CLIENTS, FEWER, REMARK, footnotes
from fedshift.analysis.layout.grid import Grid, laid_out
from fedshift.experiments.column import column

PRINTED, VERDICT = "printed", "verdict"
BELOW = "\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}"  # before the name of a line that belongs to the method above


@dataclass(frozen=True)
class Style:
    """How a format writes text, a number of so many decimals with its deviation (or none), and emphasis."""

    text: Callable[[str], str]
    number: Callable[[str, str], str]
    bold: Callable[[str], str]
    underlined: Callable[[str], str]


def plain(mean: str, deviation: str) -> str:
    """A number as text."""
    return f"{mean} ± {deviation}" if deviation else mean


@dataclass(frozen=True)
class Exported:
    """A table in one style: its title, blocks of text, and notes on marks."""

    title: str
    blocks: list[Grid[tuple[str, ...]]]
    notes: list[str]
    below: tuple[str, ...]  # names of the lines below a method's own: none, or PRINTED and VERDICT


def exported(title: str, cells: pd.DataFrame, style: Style, remarks: list[str]) -> Exported:
    """A table of `fedshift.analysis.tables.cells`, with printed values where it has the column `verdict`,
    too. remarks: notes of the experiment.
    """
    usual, judged = _usual_seeds(cells), VERDICT in cells

    def entry(cell: Mapping[Hashable, Any], text: Callable[[float], str]) -> tuple[str, ...]:
        own = _own(cell, text, style, usual)
        if not judged:
            return (own,)
        shown = cell["published"] if pd.notna(cell["published"]) else cell["orientation"]
        mark = REMARK if cell["remark"] and pd.notna(shown) else ""
        spread = cell["published_std"] if pd.notna(cell["published"]) else cell["orientation_std"]
        if cell["published_text"]:
            return own, style.text(cell["published_text"]), style.text(cell[VERDICT])
        return own, _number(shown, spread, text, style) + style.text(mark), style.text(cell[VERDICT])

    empty = ("",) * (3 if judged else 1)
    blocks = laid_out(cells.assign(rank=ranks(cells)), entry, empty)
    notes = [*_counted(cells, usual), *footnotes([cells]), *remarks]
    return Exported(title, blocks, notes, (PRINTED, VERDICT) if judged else ())


def _usual_seeds(cells: pd.DataFrame) -> int:
    """The number of seeds that most finished cells have; 0 where none is."""
    finished = cells.loc[cells["seeds"] > 0, "seeds"]
    return 0 if finished.empty else int(finished.mode().iloc[0])


def _counted(cells: pd.DataFrame, usual: int) -> list[str]:
    """What numbers and emphasis mean; nothing of a table that declarations tell."""
    if all(column(str(name)).declared for name in cells["metric"].unique()):
        return []
    if not usual:
        return ["No cell has a number: the runs that it averages are not finished."]
    spread = "mean over 1 seed" if usual == 1 else f"mean ± standard deviation over {usual} seeds"
    return [f"{spread.capitalize()}, unless (n = ...) says otherwise; best bold, second underlined."]


def _own(cell: Mapping[Hashable, Any], text: Callable[[float], str], style: Style, usual: int) -> str:
    """Our number with its emphasis, the number of seeds where it is unusual, and marks."""
    if cell["text"]:
        return style.text(f"{cell['text']}: {text(cell['mean'])}")
    number = _number(cell["mean"], cell["std"], text, style)
    if not number:
        return style.text("–")
    number = {BEST: style.bold, SECOND: style.underlined}.get(cell["rank"], str)(number)
    seeds, planned = int(cell["seeds"]), int(cell["planned"])
    count = f" (n = {seeds} of {planned})" if seeds < planned else f" (n = {seeds})" * (seeds != usual)
    marks = {FEWER: "fewer", MARK: "archived", CLIENTS: "clients"}
    return number + style.text(count + "".join(mark for mark, column in marks.items() if cell[column]))


def _number(mean: float, deviation: float, text: Callable[[float], str], style: Style) -> str:
    if pd.isna(mean):
        return ""
    return style.number(text(mean), "" if pd.isna(deviation) else text(deviation))


def lines(
    method: str, entries: Sequence[tuple[str, ...]], below: Sequence[str]
) -> list[tuple[str, list[str]]]:
    """The method's line, and those below it that hold something."""
    every = [(name, [entry[k] for entry in entries]) for k, name in enumerate((method, *below))]
    return [every[0], *((BELOW + name, texts) for name, texts in every[1:] if any(texts))]
