"""Static: the figures of an experiment as SVG, PDF and PNG, with their values as CSV."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.panels import LABELLED, Axis, Panel, Panels, Row, Series, table
from fedshift.analysis.layout.page import csv
from fedshift.experiments.figures import figures
from fedshift.files import atomic_path, write_text
from fedshift.workspace import Workspace

TITLE_LETTERS = 10  # in an inch of bold title
NOTE_LETTERS = 15  # in an inch of the line below
DASHES: Any = ["-", (0, (8, 1.5)), (0, (1, 1))]  # by lap of the palette; published levels have shorter ones
FAINT = 0.45
DARK = "#24292f"  # what lies on filled bars
DRAWN: dict[str, dict[str, Any]] = {
    "line": {"linewidth": 1.3},
    "marked": {"linewidth": 1.3, "markersize": 3.5},
    "thin": {"linewidth": 0.6, "alpha": FAINT},
    "dot": {"linestyle": "", "markersize": 4.5},
    "ring": {
        "linestyle": "",
        "marker": "o",
        "markerfacecolor": "white",
        "markersize": 3.5,
        "markeredgewidth": 0.8,
    },
    "square": {"linestyle": "", "marker": "s", "markersize": 5},
    "diamond": {"linestyle": "", "marker": "D", "markerfacecolor": "none", "markersize": 6},
}
MARKERS = ["o", "s", "^", "v", "P", "X", "*"]  # of dots, by the label's place, so that they differ in grey
HATCHES = ["", "////", "....", "xxxx", "\\\\\\\\", "----", "++++"]  # of bars, the same
BELOW = 1.9  # the place of bars, below the lines and marks of a panel
BARS: dict[str, dict[str, Any]] = {"bar": {"linewidth": 2.2}, "dashed": {"linewidth": 0.9, "linestyle": "--"}}
STYLE: Any = {
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8c959f",
    "axes.grid": True,
    "grid.color": "#eaeef2",
    "axes.axisbelow": True,
    "xtick.color": "#57606a",
    "ytick.color": "#57606a",
    "svg.hashsalt": "fedshift",
    "svg.fonttype": "none",
    "savefig.dpi": 160,
}


def write(workspace: Workspace, collected: Collected) -> list[Path]:
    """Draw the figures that the experiment lists: results/figures/<experiment>/<figure>.{svg,pdf,png,csv};
    their paths.

    The CSV file holds the plotted values (fedshift.analysis.drawing.panels.table). The same results give the
    same files.
    """
    experiment, paths = collected.experiment, []
    folder = workspace.figures(experiment.name)
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in figures(experiment).items():
        panels = kind.panels(workspace, collected)
        metadata = {
            "svg": {"Date": None, "Title": experiment.title, "Description": panels.text},
            "pdf": {"CreationDate": None, "Title": experiment.title, "Subject": panels.text},
            "png": {"Software": None, "Title": experiment.title, "Description": panels.text},
        }
        with matplotlib.rc_context(STYLE):
            figure = draw(panels, experiment.title)
            for suffix, about in metadata.items():
                paths.append(folder / f"{name}.{suffix}")
                with atomic_path(paths[-1]) as temporary:
                    figure.savefig(temporary, format=suffix, metadata=about)
        paths.append(folder / f"{name}.csv")
        write_text(paths[-1], csv(table(panels)))
    return paths


def draw(panels: Panels, title: str) -> Figure:
    """The figure under a title; lines are named at the right of each row, what its last panel lacks in a
    legend.
    """
    (width, height), columns = panels.size, len(panels.rows[0].panels)
    figure = Figure(figsize=(1.6 + width * columns, 0.9 + height * len(panels.rows)), layout="constrained")
    shared: Any = {"subplot_kw": {"projection": "polar"}} if panels.polar else {"sharex": "col"}
    shared |= {} if panels.polar else {"sharey": "row"}
    grid = figure.subplots(len(panels.rows), columns, squeeze=False, **shared)
    for row, line in zip(panels.rows, grid, strict=True):
        for panel, axes in zip(row.panels, line, strict=True):
            _panel(axes, panels, panel)
        _from_zero(row, line)
        heading = textwrap.fill(row.heading, round(NOTE_LETTERS * height))
        words = "\n".join(filter(None, [heading, row.panels[0].y.label]))
        line[0].set_ylabel(words, labelpad=34 if panels.polar else None)  # beside the names of directions
        if panels.names == "ends":
            _label(line[-1])
            _legend(line)
    if panels.names == "beside":
        _beside(figure, panels)
    for panel, axes in zip(panels.rows[0].panels, grid[0], strict=True):
        axes.set_title(panel.title)
    last, letters = panels.rows[-1].panels, round(NOTE_LETTERS * figure.get_figwidth())
    together = {panel.x.label for panel in last if panel.picture is None}
    if len(together) > 1:
        together = set()
        for panel, axes in zip(last, grid[-1], strict=True):
            axes.set_xlabel(panel.x.label)
    below = [*filter(None, together), *([f"({panels.note})"] if panels.note else [])]
    fits = len("    ".join(below)) <= letters
    note = "    ".join(below) if fits else "\n".join(textwrap.fill(text, letters) for text in below)
    figure.supxlabel(note, fontsize=8.5)
    wrapped = textwrap.fill(title, round(TITLE_LETTERS * figure.get_figwidth()))
    figure.suptitle(wrapped, fontsize=11, fontweight="bold")
    return figure


def _from_zero(row: Row, line: Any) -> None:
    """Begin axes at 0 once all panels of a row are drawn: a limit that is set ends the search for the other
    one.
    """
    for panel, axes in zip(row.panels, line, strict=True):
        if panel.x.from_zero:
            axes.set_xlim(left=0)
    if row.panels[0].y.from_zero:
        line[0].set_ylim(bottom=0)


def _panel(axes: Axes, panels: Panels, panel: Panel) -> None:
    """Set up both axes, then draw what is in the panel."""
    if panel.picture is not None:
        height, width, _ = panel.picture.pixels.shape
        axes.imshow(panel.picture.pixels, extent=(0, 1, 0, 1), aspect="auto", interpolation="nearest")
        axes.set(xticks=[], yticks=[], box_aspect=height / width)
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        return
    for name, axis in (("x", panel.x), ("y", panel.y)):
        _axis(axes, name, axis)
    for name, value in panel.rules:
        if name == "x":
            axes.axvline(value, color="#24292f", linewidth=0.8)
        else:
            axes.axhline(value, color="#d0d7de", linewidth=0.8)
    for series in panel.series:
        _series(axes, panels, panel, series)
    if panel.inside:
        axes.text(0.97, 0.04, panel.inside, transform=axes.transAxes, ha="right", fontsize=8)
    for place, text, label in panel.notes:
        axes.annotate(
            text,
            (1.01, place),
            xycoords=("axes fraction", "data"),
            va="center",
            color=panels.colour(label),
            fontsize=8,
        )


def _axis(axes: Axes, name: str, axis: Axis) -> None:
    """Scale, limits and ticks of an axis; names of places have no grid lines."""
    if axes.name == "polar":
        return _polar_axis(axes, name, axis)
    drawn = axes.xaxis if name == "x" else axes.yaxis
    if axis.scale == "log":
        axes.set(**{f"{name}scale": "log"})
        drawn.set_minor_locator(NullLocator())
    if axis.ticks is not None:
        drawn.set_major_locator(FixedLocator([*axis.ticks]))
        drawn.set_ticklabels([*axis.ticks.values()])
        if name == "y":
            axes.grid(axis="y", visible=False)
    elif axis.whole:
        drawn.set_major_locator(MaxNLocator(5, integer=True))
    if axis.limits is not None:
        axes.set(**{f"{name}lim": axis.limits})


def _polar_axis(axes: Any, name: str, axis: Axis) -> None:
    """Directions of a radar, from the top clockwise, with their names; the ends of its radius."""
    if name == "x" and axis.ticks:
        axes.set(theta_zero_location="N", theta_direction=-1)
        axes.set_xticks([_angle(place, axis) for place in axis.ticks], [*axis.ticks.values()])
    elif name == "y" and axis.limits is not None:
        axes.set_ylim(*axis.limits)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.set_rlabel_position(180 / 7)
        axes.tick_params(axis="y", labelsize=6.5)


def _angle(place: float, axis: Axis) -> float:
    return 2 * math.pi * place / len(axis.ticks or [0])


def _series(axes: Axes, panels: Panels, panel: Panel, series: Series) -> None:
    """Draw a series with what lies around it; what lies beyond the limits of x is cut there, with an
    arrow.
    """
    colour, spread = panels.colour(series.label), series.spread
    if series.style == "level":
        for value in series.y:
            axes.axhline(value, color=colour, linestyle="--", linewidth=0.9)
        return
    place, lap = panels.place(series.label), panels.lap(series.label)
    name = series.label if series.style in LABELLED else f"_{series.mark}"
    if series.style == "filled":
        look: dict[str, Any] = {"hatch": HATCHES[place % len(HATCHES)], "edgecolor": "white", "linewidth": 0}
        axes.bar(series.x, series.y, series.width, color=colour, label=name, **look)
    elif panel.polar:
        turns = [*(_angle(x, panel.x) for x in series.x)]
        look = {"linestyle": DASHES[lap], "marker": MARKERS[place % len(MARKERS)], **DRAWN["marked"]}
        axes.plot([*turns, *turns[:1]], [*series.y, *series.y[:1]], color=colour, label=name, **look)
    else:
        marker = MARKERS[place % len(MARKERS)] if series.style in ("marked", "dot") else ""
        look = {"linestyle": DASHES[lap], "marker": marker, **DRAWN[series.style]}
        dark = series.style == "ring" and any(other.style == "filled" for other in panel.series)
        points = _cut(axes, panel, series.x, series.y), series.y
        axes.plot(*points, color=DARK if dark else colour, label=name, **look)
    if spread is None:
        return
    if spread.kind == "band":
        axes.fill_between(
            np.asarray(series.x), spread.low, spread.high, color=colour, alpha=0.13, linewidth=0
        )
        return
    for x, y, *ends in zip(series.x, series.y, spread.low, spread.high, strict=True):
        xs, ys = (_cut(axes, panel, ends, [y, y], colour), [y, y]) if spread.of == "x" else ([x, x], ends)
        on_bar = series.style == "filled"
        around: dict[str, Any] = {"color": DARK if on_bar else colour, "zorder": 3 if on_bar else BELOW}
        axes.plot(xs, ys, label="_interval", **around, **BARS[spread.kind])


def _cut(axes: Axes, panel: Panel, xs: Any, ys: Any, colour: str = "") -> Any:
    """Positions on x within its limits; an arrow of this colour at each that was beyond."""
    if panel.x.limits is None:
        return xs
    low, high = panel.x.limits
    for x, y in zip(xs, ys, strict=True):
        if colour and not low <= x <= high:
            marker, end = ("<", low) if x < low else (">", high)
            axes.plot(end, y, marker, color=colour, markersize=4, clip_on=False, label="_beyond")
    return np.clip(xs, low, high)


def _named(axes: Axes) -> list[Line2D]:
    return [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]


def _beside(figure: Figure, panels: Panels) -> None:
    """A legend at the right of all panels, each label once, in the order of the panels' labels."""
    known: dict[str, Any] = {}
    for axes in figure.axes:
        handles, names = axes.get_legend_handles_labels()
        for handle, name in zip(handles, names, strict=True):
            known.setdefault(name, handle)
    names = [label for label in panels.labels if label in known]
    handles = [known[name] for name in names]
    figure.legend(handles, names, loc="outside right center", fontsize=8, frameon=False)


def _legend(row: Any) -> None:
    """Names, in the panel where they are first drawn, of lines that the row's last panel lacks."""
    known = {line.get_label() for line in _named(row[-1])}
    for axes in row[:-1]:
        lacking = [line for line in _named(axes) if line.get_label() not in known]
        known |= {line.get_label() for line in lacking}
        if lacking:
            axes.legend(handles=lacking, fontsize=7, frameon=False)


def _label(axes: Axes) -> None:
    """Name the lines at their right ends, pushed apart where they would overlap."""
    lines = _named(axes)
    ends = sorted(((float(np.asarray(line.get_ydata())[-1]), line) for line in lines), key=lambda end: end[0])
    low, high = axes.get_ylim()
    gap = 0.085 * (high - low)
    places: list[float] = []
    for end, _ in ends:
        places.append(max(end, places[-1] + gap) if places else end)
    pushed = (
        float(np.mean([place - end for place, (end, _) in zip(places, ends, strict=True)])) if places else 0.0
    )
    for place, (end, line) in zip(places, ends, strict=True):
        axes.annotate(
            str(line.get_label()),
            xy=(1, end),
            xytext=(1.08, place - pushed),
            xycoords=("axes fraction", "data"),
            textcoords=("axes fraction", "data"),
            color=line.get_color(),
            va="center",
            fontsize=8,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": line.get_color(),
                "linewidth": 0.6,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )
