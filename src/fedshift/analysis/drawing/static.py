"""Static: the figures of an experiment as SVG, PDF and PNG, with their values as CSV."""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, StrMethodFormatter

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.legends import label_ends, legend, legends_beside
from fedshift.analysis.drawing.marks import angle, draw_series
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, panels_of, table
from fedshift.analysis.layout.page import csv
from fedshift.common.files import atomic_path, write_text
from fedshift.storage.workspace import Workspace

TITLE_LETTERS = 10  # in an inch of bold title
NOTE_LETTERS = 15  # in an inch of the line below
SUFFIXES = ("svg", "pdf", "png", "csv")
RULE = "#afb8c1"  # darker than the grid
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
    "pdf.fonttype": 42,  # text stays text, in fonts that all publishers take
    "savefig.dpi": 160,
    "text.parse_math": False,  # `$` is a letter in names of the user's
}


def write(
    workspace: Workspace, collected: Collected, say: Callable[[str], object] = warnings.warn
) -> list[Path]:
    """Plot the figures that the experiment lists: results/figures/<experiment>/<figure>.{svg,pdf,png,csv};
    their paths.

    The CSV file holds the plotted values (fedshift.analysis.drawing.panels.table). The same results give the
    same files. A figure that these results do not allow is left out, and `say` is told why.
    """
    experiment, paths = collected.experiment, []
    folder = workspace.figures(experiment.name)
    folder.mkdir(parents=True, exist_ok=True)
    possible, impossible = panels_of(workspace, collected)
    for name, error in impossible.items():
        for suffix in SUFFIXES:  # of results that are gone
            (folder / f"{name}.{suffix}").unlink(missing_ok=True)
        say(f"not drawn: {name}: {error}")
    for name, panels in possible.items():
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


def svg(panels: Panels) -> str:
    """The figure as SVG text, without a title: a page has headings."""
    file = io.StringIO()
    with matplotlib.rc_context(STYLE):
        draw(panels, None).savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    return file.getvalue()


def draw(panels: Panels, title: str | None) -> Figure:
    """The figure under its own title and the experiment's, or under none where `title` is None;
    lines are named at the right of each row, what its last panel lacks in a legend.
    """
    (width, height), columns = panels.size, len(panels.rows[0].panels)
    figure = Figure(figsize=(1.6 + width * columns, 0.9 + height * len(panels.rows)), layout="constrained")
    shared: Any = {"subplot_kw": {"projection": "polar"}} if panels.polar else {"sharex": "col"}
    shared |= {} if panels.polar else {"sharey": "row"}
    grid = figure.subplots(len(panels.rows), columns, squeeze=False, **shared)
    above: list[str] = []  # titles of the row above: those of a row stand where they are others
    for row, line in zip(panels.rows, grid, strict=True):
        titles = [panel.title for panel in row.panels]
        for panel, axes in zip(row.panels, line, strict=True):
            _panel(axes, panels, panel)
            axes.set_title(panel.title if titles != above else "")
        above = titles
        _from_zero(row, line)
        heading = textwrap.fill(row.heading, round(NOTE_LETTERS * height))
        words = "\n".join(filter(None, [heading, row.panels[0].y.label]))
        line[0].set_ylabel(words, labelpad=44 if panels.polar else None)  # beside the names of directions
        if panels.names == "ends":
            label_ends(line[-1])
            legend(line)
    if panels.names == "beside":
        legends_beside(figure, grid, panels)
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
    if title is not None:
        wrapped = textwrap.fill(f"{panels.title}. {title}", round(TITLE_LETTERS * figure.get_figwidth()))
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
            axes.axhline(value, color=RULE, linewidth=0.8)
    for series in panel.series:
        draw_series(axes, panels, panel, series)
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
        drawn.set_major_formatter(StrMethodFormatter("{x:g}"))
    if axis.ticks is not None:
        drawn.set_major_locator(FixedLocator([*axis.ticks]))
        drawn.set_ticklabels([*axis.ticks.values()])
        if name == "y" or axis.whole:
            axes.grid(axis=name, visible=False)  # type: ignore[arg-type]
    elif axis.whole:
        drawn.set_major_locator(MaxNLocator(5, integer=True))
    if axis.limits is not None:
        axes.set(**{f"{name}lim": axis.limits})


def _polar_axis(axes: Any, name: str, axis: Axis) -> None:
    """Directions of a radar, from the top clockwise, with their names; the ends of its radius."""
    if name == "x" and axis.ticks:
        axes.set(theta_zero_location="N", theta_direction=-1)
        axes.set_xticks([angle(place, axis) for place in axis.ticks], [*axis.ticks.values()])
        axes.tick_params(axis="x", pad=12)
    elif name == "y" and axis.limits is not None:
        axes.set_ylim(*axis.limits)
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axes.tick_params(axis="y", labelleft=False)
        white: Any = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        for value in axes.get_yticks():  # texts of ticks would lie below the lines that cross them
            if axis.limits[0] < value <= axis.limits[1]:
                look: Any = {"fontsize": 6.5, "color": "#57606a", "bbox": white, "zorder": 5}
                axes.text(math.pi / 7, value, f"{value:g}", ha="center", va="center", **look)
