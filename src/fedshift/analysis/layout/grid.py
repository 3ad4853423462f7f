"""Grid: the long table of cells laid out as methods by columns, numbers as text."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pandas as pd

from fedshift.analysis.collection.sources import MARK
from fedshift.analysis.layout.footnotes import CLIENTS, FEWER, REMARK
from fedshift.analysis.layout.headings import form, heading, in_percent
from fedshift.experiments.schema import METRIC

T = TypeVar("T")
MISSING = "missing"
PLAIN = ("target", "data.dataset")  # axes whose values need no word before them


@dataclass(frozen=True)
class Entry:
    """The texts of one cell: ours, the published value, ours minus it with its interval, and the verdict; or
    the value of another experiment; "" where there is none.
    """

    ours: str
    paper: str = ""
    difference: str = ""
    verdict: str = ""
    orientation: str = ""


@dataclass(frozen=True)
class Grid(Generic[T]):
    """A block of a table: `columns` holds one tuple of headings per column, `rows` a method's entries in that
    order.
    """

    caption: str
    columns: list[tuple[str, ...]]
    rows: list[tuple[str, list[T]]]


def grids(cells: pd.DataFrame) -> list[Grid[Entry]]:
    """The cells in words."""
    return laid_out(cells, _entry, Entry(""))


def laid_out(
    cells: pd.DataFrame, entry: Callable[[Mapping[Hashable, Any], Callable[[float], str]], T], nothing: T
) -> list[Grid[T]]:
    """One grid per value of the first axis where columns have several axes, else one in all. What stands in a
    place is `entry` of the cell and of how its numbers are written (percentages with two decimals where the
    paper has two), `nothing` without a cell.
    """
    axes = list(cells.columns[1 : list(cells.columns).index("mean")])
    percent = cells.loc[cells["metric"].astype(str).map(in_percent), ["published", "orientation"]]
    digits = 2 if (percent.mul(10).round(6) % 1 > 0).any(axis=None) else 1
    parts = [("", cells)]
    if len(axes) >= 3:
        groups = cells.groupby(axes[0], observed=True)
        parts, axes = [(_heading(axes[0], value), part) for value, part in groups], axes[1:]
    return [_grid(caption, part, axes, digits, entry, nothing) for caption, part in parts]


def _grid(
    caption: str,
    cells: pd.DataFrame,
    axes: list[str],
    digits: int,
    entry: Callable[[Mapping[Hashable, Any], Callable[[float], str]], T],
    nothing: T,
) -> Grid[T]:
    """One caption's cells as rows of methods and columns of axis values and metrics."""
    columns = list(cells[axes].drop_duplicates().sort_values(axes).itertuples(index=False, name=None))
    entries: dict[object, dict[tuple[Any, ...], T]] = {}
    for row in cells.sort_values("method", kind="stable").to_dict("records"):
        place = tuple(row[axis] for axis in axes)
        entries.setdefault(row["method"], {})[place] = entry(row, form(row["metric"], digits))
    rows = [
        (str(method), [own.get(column, nothing) for column in columns]) for method, own in entries.items()
    ]
    headings = [tuple(map(_heading, axes, column)) for column in columns]
    return Grid(caption, headings, rows)


def _heading(axis: str, value: object) -> str:
    """The heading of an axis value: targets and data sets without the axis before them."""
    if axis == METRIC:
        return heading(str(value))
    return str(value) if axis in PLAIN else f"{axis} = {value}"


def _entry(cell: Mapping[Hashable, Any], text: Callable[[float], str]) -> Entry:
    """A cell in words: ours, the paper's, their difference, and what is for orientation only."""
    ours = _spread(cell["mean"], cell["std"], text) or MISSING
    if cell["text"]:
        return Entry(f"{cell['text']}: {ours}", cell["published_text"], verdict=cell["verdict"])
    if 0 < cell["seeds"] < cell["planned"]:
        ours += f" ({cell['seeds']:.0f}/{cell['planned']:.0f})"
    if ours != MISSING:
        ours += (FEWER if cell["fewer"] else "") + (MARK if cell["archived"] else "")
    ours += CLIENTS if cell["clients"] else ""
    difference = "" if pd.isna(cell["difference"]) else _signed(text(cell["difference"]))
    if not pd.isna(cell["low"]):
        difference += f" [{_signed(text(cell['low']))}, {_signed(text(cell['high']))}]"
    paper, orientation = (
        _spread(cell[name], cell[f"{name}_std"], text, REMARK if cell["remark"] else "")
        for name in ("published", "orientation")
    )
    return Entry(ours, paper, difference, cell["verdict"], orientation)


def _signed(text: str) -> str:
    """With its sign, and none of a zero's: "+0.3", "+0.0"."""
    return text if float(text) < 0 else f"+{text.removeprefix('-')}"


def _spread(mean: float, std: float, text: Callable[[float], str], mark: str = "") -> str:
    if pd.isna(mean):
        return ""
    return f"{text(mean)}{mark}" + ("" if pd.isna(std) else f" ± {text(std)}")
