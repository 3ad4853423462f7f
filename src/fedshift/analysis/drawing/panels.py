"""Panels: what a figure shows, as plain data. `static` draws them, `table` lists their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.analysis.collection.collected import Collected
from fedshift.common.errors import FedshiftError
from fedshift.experiments.figures import figures
from fedshift.storage.workspace import Workspace

# line: solid, with some marks; marked: with a mark at each value; thin: a faint line; level: dashed, across
# the whole panel (nothing else is dashed); filled: a bar from 0; the others: a mark at each value.
# A panel's lines, dots and bars are labelled.
Style = Literal["line", "marked", "thin", "level", "filled", "dot", "ring", "square", "diamond", "around"]
LABELLED: tuple[Style, ...] = ("line", "marked", "filled", "dot")
COLUMNS = ["row", "panel", "label", "mark", "x", "y", "low", "high", "x_axis", "y_axis"]
# Okabe and Ito's palette without its yellow, which is faint on white; marks tell apart what exceeds it.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]


@dataclass(frozen=True)
class Axis:
    """An axis of a panel.

    label: what it measures, with the unit
    scale: linear or log
    ticks: position -> text, where positions stand for names or are few; none: the drawer's own
    limits: first and last value; what lies beyond is cut there, with an arrow
    whole: ticks at whole numbers only; with `ticks`, marks up to a half beside one belong to it
    from_zero: begins at 0
    """

    label: str = ""
    scale: Literal["linear", "log"] = "linear"
    ticks: Mapping[float, str] | None = None
    limits: tuple[float, float] | None = None
    whole: bool = False
    from_zero: bool = False


@dataclass(frozen=True)
class Spread:
    """What lies around a series: the ends of an interval at each of its values.

    low, high: [n], in the unit of `of`
    kind: band (an area), bar, or thin (a thin bar)
    of: the axis along which it lies
    """

    low: Sequence[float]
    high: Sequence[float]
    kind: Literal["band", "bar", "thin"] = "band"
    of: Literal["x", "y"] = "y"


@dataclass(frozen=True)
class Series:
    """Values of one kind under one label.

    label: an entry of `Panels.labels`, which gives the colour
    mark: what the values are: "mean", "seed 0", "published"
    x, y: [n], positions on the axes; x of a level is not read
    style: how they are drawn
    spread: the interval around them, if any
    width: of filled bars, in the unit of x
    shift: how far to the right of its values it is drawn, in the unit of x, so that none hides another
    """

    label: str
    mark: str
    x: Sequence[float]
    y: Sequence[float]
    style: Style = "line"
    spread: Spread | None = None
    width: float = 0.0
    shift: float = 0.0

    @property
    def places(self) -> list[float]:
        """[n], where its values are drawn on x."""
        return [x + self.shift for x in self.x]


@dataclass(frozen=True)
class Picture:
    """An image, which fills its panel.

    pixels: [h, w, 3] uint8, from the top
    values: (label, mark, x, y), the numbers that belong to it, as CSV lists them
    """

    pixels: NDArray[np.uint8]
    values: list[tuple[str, str, float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Panel:
    """A pair of axes and what is drawn in it.

    title: above it
    picture: an image in place of axes and series
    notes: (y, text, label), texts at its right edge in the label's colour
    rules: (axis, value), thin lines across it
    polar: a radar: the ticks of x are its directions, y is the distance from the middle
    inside: a few words in its lower right corner
    """

    series: list[Series]
    x: Axis
    y: Axis
    title: str = ""
    notes: list[tuple[float, str, str]] = field(default_factory=list)
    rules: list[tuple[Literal["x", "y"], float]] = field(default_factory=list)
    polar: bool = False
    inside: str = ""
    picture: Picture | None = None


@dataclass(frozen=True)
class Row:
    """Panels side by side, with one scale of y; `heading`: the values of further axes that they are of ("d =
    2").
    """

    panels: list[Panel]
    heading: str = ""


@dataclass(frozen=True)
class Panels:
    """A whole figure. All rows have equally many panels.

    title: of the figure's kind ("Learning curves")
    labels: all labels, in the order of the legend
    note: what bands and marks are
    size: width and height of a panel, inches
    colours: of labels that do not take theirs from the palette
    names: where labels are named: at the right ends of lines, or in a legend beside all panels
    """

    title: str
    rows: list[Row]
    labels: list[str]
    note: str = ""
    size: tuple[float, float] = (3.6, 2.7)
    colours: Mapping[str, str] = field(default_factory=dict)
    names: Literal["ends", "beside"] = "ends"

    @property
    def polar(self) -> bool:
        """Whether its panels are radars: all of them, or none."""
        return self.rows[0].panels[0].polar

    @property
    def text(self) -> str:
        """The figure in words, for who does not see it."""
        panels = [panel for row in self.rows for panel in row.panels]
        drawn = {series.label for panel in panels for series in panel.series}
        parts = {
            "y": [panel.y.label.replace("\n", " ") for panel in panels],
            "x": [panel.x.label for panel in panels],
            "panels": [
                ", ".join(filter(None, [row.heading, panel.title]))
                for row in self.rows
                for panel in row.panels
            ],
            "lines": [label for label in self.labels if label in drawn],
        }
        listed = {name: "; ".join(dict.fromkeys(filter(None, values))) for name, values in parts.items()}
        return ". ".join([self.title, *(f"{name}: {values}" for name, values in listed.items() if values)])

    def colour(self, label: str) -> str:
        """The colour of a label, "#rrggbb"."""
        return self.colours.get(label) or COLOURS[self.labels.index(label) % len(COLOURS)]

    def place(self, label: str) -> int:
        """The place of a label in the order of the legend, which chooses mark and hatch: a colour that comes
        again has other ones.
        """
        return self.labels.index(label)

    def marked(self, series: Series) -> bool:
        """Whether marks of its label stand on a series: not on guides, which have colours of their own."""
        return series.style in ("marked", "dot") or (
            series.style == "line" and series.label not in self.colours
        )


def table(panels: Panels) -> pd.DataFrame:
    """Every plotted value, a row each, with the columns COLUMNS.

    row, panel: heading of the row and title of the panel; label, mark: as in the legend, and what the value
        is ("mean", "published");
    x, y: the value, or the text at its place; low, high: of the interval around it, NaN without; x_axis,
        y_axis: what is measured, with units.
    """
    return pd.DataFrame(_values(panels), columns=COLUMNS)


def _values(panels: Panels) -> Iterator[list[Any]]:
    """The plotted points, a line each: place, x, y, ends of the band, axes."""
    for row in panels.rows:
        for panel in row.panels:
            axes = [axis.label.replace("\n", " ") for axis in (panel.x, panel.y)]
            for label, mark, x, y in panel.picture.values if panel.picture else ():
                yield [row.heading, panel.title, label, mark, x, y, None, None, *axes]
            for series in panel.series:
                place = [row.heading, panel.title, series.label, series.mark]
                for index, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
                    spread = series.spread
                    ends = [spread.low[index], spread.high[index]] if spread else [None, None]
                    level = series.style == "level"
                    yield [*place, None if level else _text(panel.x, x), _text(panel.y, y), *ends, *axes]


def _text(axis: Axis, value: float) -> float | str:
    """The text at a place, where places stand for names: marks may lie beside it."""
    if axis.ticks is None:
        return value
    return axis.ticks.get(float(round(value)) if axis.whole else value, value)


def panels_of(
    workspace: Workspace, collected: Collected
) -> tuple[dict[str, Panels], dict[str, FedshiftError]]:
    """The figures that an experiment lists, by the name of their files; and why others cannot be drawn of
    these results.
    """
    possible, impossible = {}, {}
    for name, kind in figures(collected.experiment).items():
        try:
            possible[name] = kind.panels(workspace, collected)
        except FedshiftError as error:
            impossible[name] = error
    return possible, impossible
