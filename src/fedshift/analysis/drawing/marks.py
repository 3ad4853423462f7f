"""Marks: how a series looks in files, by its style and its label's place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from fedshift.analysis.drawing.panels import LABELLED, Axis, Panel, Panels, Series

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
    "around": {"linestyle": "", "marker": "o", "markerfacecolor": "none", "markersize": 10},
}
MARKERS = [
    "o",
    "s",
    "^",
    "v",
    "P",
    "X",
    "*",
    "<",
    ">",
    "p",
]  # by the label's place, so that dots and lines differ in grey
SPARSE = 6  # marks on a line, which name it
HATCHES = ["", "////", "....", "xxxx", "\\\\\\\\", "----", "++++"]  # of bars, the same
BELOW = 1.9  # the place of bars, below the lines and marks of a panel
BARS: dict[str, dict[str, Any]] = {"bar": {"linewidth": 2.2}, "thin": {"linewidth": 0.7}}


def angle(place: float, axis: Axis) -> float:
    """Of a place on a radar's x, in radians from its first direction."""
    return 2 * math.pi * place / len(axis.ticks or [0])


def draw_series(axes: Axes, panels: Panels, panel: Panel, series: Series) -> None:
    """Draw a series with what lies around it; what lies beyond the limits of x is cut there, with an
    arrow.
    """
    colour, spread = panels.colour(series.label), series.spread
    if series.style == "level":
        for value in series.y:
            axes.axhline(value, color=colour, linestyle="--", linewidth=0.9)
        return
    place = panels.place(series.label)
    marker = MARKERS[panels.place(series.label) % len(MARKERS)]
    name = series.label if series.style in LABELLED else f"_{series.mark}"
    if series.style == "filled":
        look: dict[str, Any] = {"hatch": HATCHES[place % len(HATCHES)], "edgecolor": "white", "linewidth": 0}
        axes.bar(series.places, series.y, series.width, color=colour, label=name, **look)
    elif panel.polar:
        turns = [*(angle(x, panel.x) for x in series.x)]
        look = {"marker": marker, "clip_on": False, **DRAWN["marked"]}  # the best lies on the rim
        axes.plot([*turns, *turns[:1]], [*series.y, *series.y[:1]], color=colour, label=name, **look)
    else:
        marker = marker if panels.marked(series) else ""
        look = {"marker": marker, **DRAWN[series.style]}
        if series.style == "line":
            step = max(1, math.ceil(len(series.x) / SPARSE))
            look |= {"markersize": 3.5, "markevery": (place % step, step)}
        dark = series.style == "ring" and any(other.style == "filled" for other in panel.series)
        points = _cut(axes, panel, series.places, series.y), series.y
        axes.plot(*points, color=DARK if dark else colour, label=name, **look)
    if spread is None:
        return
    if spread.kind == "band":
        axes.fill_between(series.places, spread.low, spread.high, color=colour, alpha=0.13, linewidth=0)
        return
    for x, y, *ends in zip(series.places, series.y, spread.low, spread.high, strict=True):
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
        if colour and (x < low or x > high):
            marker, end = ("<", low) if x < low else (">", high)
            axes.plot(end, y, marker, color=colour, markersize=4, clip_on=False, label="_beyond")
    return np.clip(xs, low, high)
