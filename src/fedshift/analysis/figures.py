"""Figures: accuracy over rounds, per held-out domain, and claims, where the experiment tests some; as SVG and PNG."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedshift.analysis import claims
from fedshift.analysis.claims_figure import claims_figure
from fedshift.analysis.collect import Collected
from fedshift.analysis.panels import (
    AVERAGE,
    PANELS,
    Kind,
    Point,
    legend,
    method_line,
    points,
    printed,
    with_average,
)
from fedshift.analysis.select import curves
from fedshift.errors import FedshiftError
from fedshift.files import atomic_path
from fedshift.workspace import Workspace

TITLE_LETTERS = 10  # in an inch of bold title
# Okabe and Ito's palette without its yellow, which is faint on white; dashes tell apart what exceeds it.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
DASHES: Any = ["-", (0, (4, 1)), (0, (1, 1))]
STYLE: Any = {
    "font.size": 8.5, "axes.titlesize": 9.5, "axes.labelsize": 8.5, "axes.spines.top": False, "axes.spines.right": False,
    "axes.edgecolor": "#8c959f", "axes.grid": True, "grid.color": "#eaeef2", "axes.axisbelow": True, "xtick.color": "#57606a",
    "ytick.color": "#57606a", "svg.hashsalt": "fedshift", "svg.fonttype": "none", "savefig.dpi": 160,
}  # fmt: skip


def write(workspace: Workspace, collected: Collected) -> list[Path]:
    """Draw every figure of the experiment; the paths of the SVG and PNG files."""
    folder, experiment, paths = workspace.figures(collected.experiment.name), collected.experiment, []
    with matplotlib.rc_context(STYLE):
        figures: dict[str, Figure] = {
            name: learning_curves(workspace.root, collected) for name in experiment.figures
        }
        if experiment.claims:
            found = claims.verdicts(workspace.root, collected)
            figures["claims"] = claims_figure(experiment.title, found)
        for name, figure in figures.items():
            for suffix, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
                with atomic_path(folder / f"{name}.{suffix}") as temporary:
                    figure.savefig(temporary, format=suffix, metadata=metadata)
                paths.append(folder / f"{name}.{suffix}")
    return paths


def learning_curves(root: Path, collected: Collected) -> Figure:
    """Mean accuracy over rounds, a line per method, with a band over seeds: fedshift.analysis.panels says which.

    Rows: in- and out-of-distribution, once per value of the further axes; columns: held-out domains and their average. Dashed:
    the published value, where it is of the same experiment. Raises FedshiftError where no run is finished.
    """
    frame = curves(collected)
    if frame.empty:
        raise FedshiftError(
            collected.path, "holds no finished run", "Train the experiment, then collect it again."
        )
    frame, targets = with_average(frame, collected)
    rows = [
        (point, part, metric)
        for point, part in points(collected, frame)
        for metric in PANELS
        if frame[metric].notna().any()
    ]
    width, height = (3.6, 2.7) if len(targets) == 1 else (1.9, 2.1)
    figure = Figure(figsize=(1.6 + width * len(targets), 0.9 + height * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), len(targets), sharex=True, sharey="row", squeeze=False)
    kinds: set[Kind] = set()
    dashed = False
    for (point, part, metric), panels in zip(rows, grid, strict=True):
        for target, axes in zip(targets, panels, strict=True):
            here = part if target is None else part[part["target"] == target]
            kinds |= _panel(axes, collected, here, metric)
            dashed |= _printed(axes, root, collected, point, target, metric)
        named = ", ".join(f"{axis} = {value}" for axis, value in point.items())
        panels[0].set_ylabel("\n".join(filter(None, [named, PANELS[metric], "accuracy (%)"])))
        _label(panels[-1])
    for target, axes in zip(targets, grid[0], strict=True):
        axes.set_title({None: "", AVERAGE: "average"}.get(target, f"held out: {target}"))
    figure.supxlabel(f"round    ({legend(kinds)}{'; dashed: published' * dashed})", fontsize=8.5)
    title = textwrap.fill(collected.experiment.title, round(TITLE_LETTERS * figure.get_figwidth()))
    figure.suptitle(title, fontsize=11, fontweight="bold")
    return figure


def _panel(axes: Axes, collected: Collected, frame: pd.DataFrame, metric: str) -> set[Kind]:
    """Draw a line per method; which bands there are."""
    kinds: set[Kind] = set()
    for index, method in enumerate(collected.experiment.methods):
        drawn = method_line(frame[frame["method"] == method], metric, collected.protocol.ddof)
        if drawn is None:
            continue
        colour, dashes = COLOURS[index % len(COLOURS)], DASHES[index // len(COLOURS) % len(DASHES)]
        axes.plot(drawn.mean.index, drawn.mean, color=colour, linestyle=dashes, linewidth=1.3, label=method)
        if drawn.kind != "alone":
            axes.fill_between(drawn.mean.index, drawn.low, drawn.high, color=colour, alpha=0.13, linewidth=0)
        kinds.add(drawn.kind)
    axes.margins(x=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return kinds


def _printed(
    axes: Axes, root: Path, collected: Collected, point: Point, target: str | None, metric: str
) -> bool:
    """Draw the published value of each line; whether there was one."""
    lines = {str(drawn.get_label()): drawn for drawn in axes.get_lines()}
    found = {method: printed(root, collected, method, point, target, metric) for method in lines}
    for method, value in found.items():
        if value is not None:
            axes.axhline(value, color=lines[method].get_color(), linestyle="--", linewidth=0.9)
    return any(value is not None for value in found.values())


def _label(axes: Axes) -> None:
    """Names the lines at their right ends, pushed apart where they would overlap."""
    named = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    ends = sorted(((float(np.asarray(line.get_ydata())[-1]), line) for line in named), key=lambda end: end[0])
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
            str(line.get_label()), xy=(1, end), xytext=(1.08, place - pushed), xycoords=("axes fraction", "data"),
            textcoords=("axes fraction", "data"), color=line.get_color(), va="center", fontsize=8, annotation_clip=False,
            arrowprops={
                "arrowstyle": "-", "color": line.get_color(), "linewidth": 0.6, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)
            },
        )  # fmt: skip
