"""Legends: what names the lines of a figure in files, at their ends, inside a panel or beside all panels."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedshift.analysis.drawing.panels import Panels


def _named(axes: Axes) -> list[Line2D]:
    return [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]


def legends_beside(figure: Figure, grid: Any, panels: Panels) -> None:
    """A legend at the right of all panels, each label once, in the order of the panels' labels; of rows
    without a label in common (a map by class, and by domain) one at each row.
    """
    rows = [_handles(line, panels) for line in grid]
    apart = len(rows) > 1 and sum(map(len, rows)) == len({name for row in rows for name in row})
    for line, row in zip(grid, rows, strict=True) if apart else ():
        beside: Any = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5)}
        line[-1].legend(row.values(), row, fontsize=8, frameon=False, **beside)
    if not apart:
        known = _handles([axes for line in grid for axes in line], panels)
        figure.legend(known.values(), known, loc="outside right center", fontsize=8, frameon=False)


def _handles(line: Any, panels: Panels) -> dict[str, Any]:
    """Label -> what stands for it in a legend, of these axes."""
    known: dict[str, Any] = {}
    for axes in line:
        handles, names = axes.get_legend_handles_labels()
        for handle, name in zip(handles, names, strict=True):
            known.setdefault(name, handle)
    return {label: known[label] for label in panels.labels if label in known}


def legend(row: Any) -> None:
    """Names, in the panel where they are first drawn, of lines that the row's last panel lacks."""
    known = {line.get_label() for line in _named(row[-1])}
    for axes in row[:-1]:
        lacking = [line for line in _named(axes) if line.get_label() not in known]
        known |= {line.get_label() for line in lacking}
        if lacking:
            axes.legend(handles=lacking, fontsize=7, frameon=False)


def label_ends(axes: Axes) -> None:
    """Name the lines at the right, each joined to where it ends, pushed apart where names would overlap."""
    lines = [line for line in _named(axes) if len(np.asarray(line.get_ydata()))]
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
            xy=(float(np.asarray(line.get_xdata())[-1]), end),
            xytext=(1.08, place - pushed),
            xycoords="data",
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
