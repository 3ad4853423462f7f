"""Draw: plots as SVG, PDF and PNG, with their values as CSV."""

import io
import math
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator, StrMethodFormatter

from fedshift.analysis.collected import Collected
from fedshift.analysis.figures.base import Axis, Look, Plot, is_text, plots, table
from fedshift.analysis.page import csv
from fedshift.common.files import atomic_path, write_text
from fedshift.storage.workspace import Workspace

SUFFIXES = ("svg", "pdf", "png", "csv")
METADATA = {  # of files: entries that would differ between writes, and the key of the description
    "svg": ("Date", "Description"),
    "pdf": ("CreationDate", "Subject"),
    "png": ("Software", "Description"),
}
TITLE_LETTERS, NOTE_LETTERS, TICK_LETTERS = 10, 15, 13  # in an inch
NAME_LETTERS = 60  # in a line of a name along y
SIDE_BY_SIDE = 0.72  # of the room between two names, for the marks of all labels
BAR = 0.9  # width of a bar, relative to its room
SPARSE = 6  # markers on a line, which name it
DARK, RULE, SMALL = "#24292f", "#afb8c1", "#57606a"
STYLE: Any = {
    "font.size": 8.5,
    "figure.titlesize": 11,
    "figure.titleweight": "bold",
    "figure.labelsize": 8.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.titlesize": 9.5,
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8c959f",
    "axes.grid": True,
    "grid.color": "#eaeef2",
    "axes.axisbelow": True,
    "xtick.color": SMALL,
    "ytick.color": SMALL,
    "svg.hashsalt": "fedshift",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # text stays text, in fonts that all publishers accept
    "savefig.dpi": 160,
    "text.parse_math": False,  # `$` is a letter in the user's names
}
LINE: dict[str, Any] = {"linewidth": 1.3, "markersize": 3.5}
POINTS: dict[str, Any] = {"linestyle": ""}
LOOKS: dict[str, dict[str, Any]] = {
    "line": LINE,
    "marked": LINE,
    "thin": {"linewidth": 0.6, "alpha": 0.45, "marker": ""},
    "dot": POINTS | {"markersize": 4.5},
    "ring": POINTS | {"marker": "o", "markerfacecolor": "white", "markersize": 3.5, "markeredgewidth": 0.8},
    "square": POINTS | {"marker": "s", "markersize": 5},
    "open": POINTS | {"marker": "s", "markersize": 5, "markerfacecolor": "white"},
    "diamond": POINTS | {"marker": "D", "markersize": 6, "markerfacecolor": "none"},
}
HATCHES = ["", "////", "....", "xxxx", "\\\\\\\\", "----", "++++"]  # of bars
UNNAMED = ("thin", "ring")  # styles that are not in the legend
INTERVALS = {"bar": 0.8, "dot": 1.1, "open": 0.7}  # widths of their lines; of others 2.2


def write(
    workspace: Workspace, collected: Collected, say: Callable[[str], object] = warnings.warn
) -> list[Path]:
    """Plot the figures that the experiment lists, as results/figures/<experiment>/<figure>.{svg,pdf,png,csv}.

    Returns their paths. The same results give the same files. A figure that cannot be plotted from these
    results is skipped, and `say` is called with the reason.
    """
    experiment, paths = collected.experiment, []
    folder = workspace.figures(experiment.name)
    folder.mkdir(parents=True, exist_ok=True)
    possible, impossible = plots(workspace, collected)
    for name, error in impossible.items():
        for suffix in SUFFIXES:  # of results that are gone
            (folder / f"{name}.{suffix}").unlink(missing_ok=True)
        say(f"not drawn: {name}: {error}")
    for name, plot in possible.items():
        with matplotlib.rc_context(STYLE):
            figure = draw(plot, experiment.title)
            for suffix, (varying, words) in METADATA.items():
                paths.append(folder / f"{name}.{suffix}")
                about = {varying: None, "Title": experiment.title, words: plot.text}
                with atomic_path(paths[-1]) as temporary:
                    figure.savefig(temporary, format=suffix, metadata=about)
        paths.append(folder / f"{name}.csv")
        write_text(paths[-1], csv(table(plot)))
    return paths


def svg(plot: Plot) -> str:
    """The figure as SVG text, without a title, as pages have headings."""
    file = io.StringIO()
    with matplotlib.rc_context(STYLE):
        draw(plot, None).savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    return file.getvalue()


def draw(plot: Plot, title: str | None) -> Figure:
    """Plot a figure under its own title and the experiment's, with a legend to the right of all panels.

    `title`: None for a figure without titles.
    """
    (width, height), grid = plot.size, _grid(plot)
    columns = len(grid[0][1])
    figure = Figure(figsize=(1.6 + width * columns, 0.9 + height * len(grid)), layout="constrained")
    shared: Any = {"sharex": "none" if plot.heat else "col", "sharey": "row"}
    shared = {"subplot_kw": {"projection": "polar"}} if plot.polar else shared
    every: Any = figure.subplots(len(grid), columns, squeeze=False, **shared)
    above: list[str | None] = [None] * columns  # a row of the same titles does not repeat them
    for ((heading, label), panels), line in zip(grid, every, strict=True):
        y = next(axis for axis in plot.axes if axis.label == label)
        titled = any(panel not in (None, before) for panel, before in zip(panels, above, strict=True))
        above = panels if titled else above
        for panel, axes in zip(panels, line, strict=True):
            axes.set_visible(panel is not None)
            if panel is not None:
                _panel(axes, plot, (heading, label, panel), y)
                axes.set_title(panel if titled else "")
        words = "\n".join(filter(None, [textwrap.fill(heading, round(NOTE_LETTERS * height)), label]))
        first = next(axes for axes in line if axes.get_visible())
        first.set_ylabel(words, labelpad=44 if plot.polar else None)  # next to the names of directions
        if y.from_zero:  # after plotting the whole row: setting a limit stops the search for the other one
            first.set_ylim(bottom=0)
    _legends(figure, every, plot)
    letters = round(NOTE_LETTERS * figure.get_figwidth())
    below = [*filter(None, [plot.x.label * (not plot.pictures), f"({plot.note})" * bool(plot.note)])]
    one_line = "    ".join(below)
    fits = len(one_line) <= letters and "\n" not in one_line
    wrapped = "\n".join(textwrap.fill(text, letters) for text in below)
    figure.supxlabel(one_line if fits else wrapped)
    if title is not None:
        letters = round(TITLE_LETTERS * figure.get_figwidth())
        figure.suptitle(textwrap.fill(f"{plot.title}. {title}", letters))
    return figure


def _grid(plot: Plot) -> list[tuple[tuple[str, str], list[str | None]]]:
    """Rows of panels: heading and label of the y axis, and the panels by column, None for missing ones.

    A row whose panels are all in the widest row has its columns. Any other row has its own columns.
    """
    panels = plot.frame.groupby(["row", "y_axis"], sort=False)["panel"].unique()
    rows: Any = {key: [*own] for key, own in panels.items()} or {("", plot.axes[0].label): [""]}
    widest = max(rows.values(), key=len)
    return [
        (key, [panel if panel in own else None for panel in widest])
        if {*own} <= {*widest}
        else (key, [*own, *[None] * (len(widest) - len(own))])
        for key, own in rows.items()
    ]


def _heat(axes: Axes, plot: Plot, frame: pd.DataFrame) -> None:
    """Cells of all labels, coloured by value, up to the 95% quantile of absolute values of the whole plot."""
    columns = [*dict.fromkeys(frame["x"])]
    wide = frame.pivot(index="label", columns="x", values="y")
    cells = wide.reindex(index=[*plot.labels], columns=columns).to_numpy(float)
    most = float(np.nanquantile(plot.frame["y"].abs(), 0.95)) or 1.0
    axes.imshow(cells, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
    for (line, column), value in np.ndenumerate(cells):
        if not np.isnan(value):
            colour = "white" if abs(value) > 0.7 * most else DARK
            axes.text(column, line, f"{value:+.1f}", ha="center", va="center", fontsize=6.5, color=colour)
    axes.set_xticks(range(len(columns)), columns, rotation=30, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(plot.labels)), plot.labels)
    axes.tick_params(length=0)


def _panel(axes: Axes, plot: Plot, place: tuple[str, str, str], y: Axis) -> None:
    """Set up both axes of the panel at a place (row, label of the y axis, panel), then plot its series."""
    if plot.pictures or plot.heat:
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
    if place in plot.pictures:
        pixels = plot.pictures[place]
        axes.imshow(pixels, extent=(0, 1, 0, 1), aspect="auto", interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.set_box_aspect(pixels.shape[0] / pixels.shape[1])
        return
    frame = plot.frame[(plot.frame[["row", "y_axis", "panel"]] == [*place]).all(axis=1)].copy()
    if plot.heat:
        return _heat(axes, plot, frame)
    names = {}
    for name, axis in (("x", plot.x), ("y", y)):
        names[name] = [*(axis.names or frame.loc[is_text(frame[name]), name].unique())]
        if names[name]:
            frame[name] = frame[name].map({value: place for place, value in enumerate(names[name])})
        frame[name] = frame[name].astype(float)
        _axis(axes, name, axis, names[name], plot.size[0])
        if names[name]:
            _side_by_side(frame, name, plot.labels)
    for value in plot.rules.get("x", ()):
        axes.axvline(value, color=DARK, linewidth=0.8)
    for value in plot.rules.get("y", ()):
        axes.axhline(value, color=RULE, linewidth=0.8)
    bars = np.unique(frame.loc[frame["style"] == "bar", "x"].round(9))
    room = min([SIDE_BY_SIDE, *np.diff(bars)])
    looks = plot.looks
    for (label, _, _), series in frame.groupby(["label", "mark", "style"], sort=False):
        _series(axes, plot, series, looks[str(label)], names, BAR * room)
    axes.text(0.97, 0.04, plot.texts.get(place, ""), transform=axes.transAxes, ha="right", fontsize=8)
    if plot.x.from_zero:
        axes.set_xlim(left=0)


def _side_by_side(frame: pd.DataFrame, name: str, labels: Sequence[str]) -> None:
    """Move the marks of labels apart along an axis of names, where several have a value at one name."""
    dots = frame[frame["style"].isin(["dot", "bar"])]
    if dots.groupby(name)["label"].nunique().max() > 1:
        beside = [label for label in labels if (dots["label"] == label).any()]
        middles = (np.arange(len(beside)) + 0.5) / len(beside) - 0.5
        shifts = dict(zip(beside, SIDE_BY_SIDE * middles, strict=True))
        frame[name] += frame["label"].map(shifts).fillna(0.0)


def _series(
    axes: Axes, plot: Plot, series: pd.DataFrame, look: Look, names: Mapping[str, Sequence[str]], width: float
) -> None:
    """Plot the values of one label, mark and style with their intervals; `width`: of bars."""
    style, label = series[["style", "label"]].iloc[0]
    left, right = plot.x.limits or (-math.inf, math.inf)
    xs, ys, low, high = series[["x", "y", "low", "high"]].to_numpy(float).T
    xs = xs.clip(left, right)
    about: dict[str, Any] = {"color": look.colour, "label": "_" * (style in UNNAMED) + label}
    if style == "level":
        for value in ys:
            axes.axhline(value, color=look.colour, linestyle="--", linewidth=0.9)
        return
    if plot.polar:
        turns = 2 * math.pi * xs / len(names["x"])
        closed = (np.append(values, values[:1]) for values in (turns, ys))
        axes.plot(*closed, marker=look.marker, clip_on=False, **about, **LINE)
        return
    if style == "bar":
        hatch = HATCHES[look.place % len(HATCHES)]
        axes.bar(xs, ys, width, hatch=hatch, edgecolor="white", linewidth=0, **about)
    else:
        step = math.ceil(len(xs) / SPARSE) if style == "line" else 1
        about["marker"] = "" if style == "line" and label in plot.colours else look.marker
        if style == "ring" and axes.containers:
            about["color"] = DARK
        axes.plot(xs, ys, markevery=(look.place % step, step), **(about | LOOKS[style]))
    if np.isnan(low).all():
        return
    if style in ("line", "marked") and not names["x"]:
        axes.fill_between(xs, low, high, color=look.colour, alpha=0.13, linewidth=0)
        return
    colour, order = (DARK, 3) if style == "bar" else (look.colour, 1.9)
    line: Any = {"linewidth": INTERVALS.get(style, 2.2), "color": colour, "zorder": order}
    if not names["y"]:
        axes.vlines(xs, low, high, **line)
        return
    axes.hlines(ys, low.clip(left, right), high.clip(left, right), **line)
    for marker, limit, beyond in (("<", left, ys[low < left]), (">", right, ys[high > right])):
        if len(beyond):
            ends = [limit] * len(beyond)
            axes.plot(ends, beyond, marker, color=look.colour, markersize=4, clip_on=False)


def _axis(axes: Any, name: str, axis: Axis, names: Sequence[str], width: float) -> None:
    """Set scale, limits, ticks and names of an axis of a panel of this width, in inches."""
    drawn = axes.xaxis if name == "x" else axes.yaxis
    if axes.name == "polar":
        _polar_axis(axes, name, axis, names)
    elif names:
        axes.grid(axis=name, visible=False)
        axes.set(**{f"{name}lim": (-0.5, len(names) - 0.5) if name == "x" else (len(names) - 0.4, -0.6)})
        texts = names if name == "x" else [textwrap.fill(text, NAME_LETTERS) for text in names]
        letters = sum(max(map(len, text.split("\n"))) + 1 for text in texts)
        turned: Any = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
        crowded = name == "x" and letters > TICK_LETTERS * width
        drawn.set_ticks(range(len(names)), texts, **(turned if crowded else {}))
    else:
        if axis.scale == "log":
            axes.set(**{f"{name}scale": "log"})
            drawn.set_minor_locator(NullLocator())
            drawn.set_major_formatter(StrMethodFormatter("{x:g}"))
        if axis.ticks is not None:
            drawn.set_ticks(axis.ticks, [f"{tick:g}" for tick in axis.ticks])
        elif axis.whole:
            drawn.set_major_locator(MaxNLocator(5, integer=True))
        if axis.limits is not None:
            axes.set(**{f"{name}lim": axis.limits})


def _polar_axis(axes: Any, name: str, axis: Axis, names: Sequence[str]) -> None:
    """Set the directions of a radar, clockwise from the top, with their names, and the ends of its radius."""
    if names:
        axes.set(theta_zero_location="N", theta_direction=-1)
        axes.set_xticks([2 * math.pi * place / len(names) for place in range(len(names))], names)
        axes.tick_params(axis="x", pad=12)
    elif axis.limits is not None:
        axes.set_ylim(*axis.limits)
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axes.tick_params(axis="y", labelleft=False)
        white: Any = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        for value in axes.get_yticks():  # tick labels would be hidden by the lines that cross them
            if axis.limits[0] < value <= axis.limits[1]:
                about: Any = {"fontsize": 6.5, "color": SMALL, "bbox": white, "zorder": 5}
                axes.text(math.pi / 7, value, f"{value:g}", ha="center", va="center", **about)


def _legends(figure: Figure, grid: Any, plot: Plot) -> None:
    """Add a legend with each label once right of all panels, or of each row if no two rows share one."""
    rows = []
    for line in grid:
        found = [pair for axes in line for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
        first = {label: handle for handle, label in reversed(found)}
        rows.append({label: first[label] for label in plot.labels if label in first})
    known = {label: handle for row in rows for label, handle in row.items()}
    if len(rows) > 1 and sum(map(len, rows)) == len(known):
        for line, row in zip(grid, rows, strict=True):
            last = [axes for axes in line if axes.get_visible()][-1]
            last.legend(row.values(), row, loc="center left", bbox_to_anchor=(1.02, 0.5))
    elif known:
        shown = {label: known[label] for label in plot.labels if label in known}
        figure.legend(shown.values(), shown, loc="outside right center")
