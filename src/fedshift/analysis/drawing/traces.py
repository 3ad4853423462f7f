"""Traces: how a series looks on the page, by its style and its label's place."""

from __future__ import annotations

import functools
import html
import itertools
import math
from collections.abc import Iterator
from typing import Any

import plotly.graph_objects as go
from plotly.colors import hex_to_rgb

from fedshift.analysis.drawing.panels import Panel, Panels, Series, Spread

SYMBOLS = [
    "circle", "square", "triangle-up", "triangle-down", "cross", "x", "star",
    "triangle-left", "triangle-right", "pentagon",
]  # by the label's place  # fmt: skip
HATCHES = ["", "/", ".", "x", "\\", "-", "+"]  # of bars, the same
SPARSE = 6  # marks on a line, which name it
SHAPES = {"square": "square", "diamond": "diamond", "around": "circle", "ring": "circle"}
SIZES = {"marked": 6, "dot": 11, "ring": 7, "square": 9, "diamond": 10, "around": 18}
escape = functools.partial(html.escape, quote=False)  # plotly's texts are a kind of HTML
DARK = "#24292f"  # what lies on filled bars


def traces(panels: Panels, panel: Panel, series: Series, ends: tuple[float, float]) -> list[Any]:
    """A series and what lies around it. ends: first and last position on x, between which a level is
    drawn.
    """
    colour = panels.colour(series.label)
    place = panels.place(series.label)
    value = "%{x:.4~g}" if panel.y.ticks else "%{y:.4~g}"
    common = {
        "name": escape(series.label), "legendgroup": series.label, "hovertemplate": f"{series.mark}: {value}",
    }  # fmt: skip
    if series.style == "level":
        line = {"color": colour, "dash": "dash", "width": 1}
        return [go.Scatter(x=ends, y=[y, y], mode="lines", line=line, **common) for y in series.y]
    if series.style == "filled":
        pattern = {"shape": HATCHES[place % len(HATCHES)], "fgcolor": "white", "size": 6}
        pattern["fillmode"] = "overlay"  # else the stripes are in the bar's colour, on nothing
        bar = go.Bar(
            x=series.places,
            y=[_short(y) for y in series.y],
            width=series.width,
            marker={"color": colour, "pattern": pattern, "line": {"width": 0}},
            **common,
        )
        return [bar, *_around(series, DARK, panel)]
    lines = {"line", "thin", "marked"}
    mode = "+".join(
        ["lines"] * (series.style in lines)
        + ["markers"] * (panels.marked(series) or series.style not in lines)
    )
    dark = series.style == "ring" and any(other.style == "filled" for other in panel.series)
    colour = DARK if dark else colour
    hollow = "-open" * (series.style in ("ring", "diamond", "around"))
    usual = SYMBOLS[place % len(SYMBOLS)]
    symbol = SHAPES.get(series.style, usual)
    trace = go.Scatter(
        x=series.places,
        y=[_short(y) for y in series.y],
        mode=mode,
        opacity=0.45 if series.style == "thin" else None,
        line={"color": colour, "width": 0.8 if series.style == "thin" else 1.8},
        marker={
            "color": colour,
            "symbol": symbol + hollow,
            "size": SIZES.get(series.style, 6),
            "maxdisplayed": SPARSE if series.style == "line" else 0,
        },
        **common,
    )
    return [*_around(series, colour, panel), trace]


def _short(value: float) -> float:
    """Four digits: a hundredth of a percentage point, and as much of what is small."""
    return float(f"{value:.4g}")


def _around(series: Series, colour: str, panel: Panel) -> list[go.Scatter]:
    """The band or the bars of a series; bars along x that exceed its limits end there, with an arrow."""
    spread, quiet = series.spread, {"legendgroup": series.label, "hoverinfo": "skip"}
    if spread is None or not any(high > low for low, high in zip(spread.low, spread.high, strict=True)):
        return []
    if spread.kind == "band":
        fill = f"rgba{(*hex_to_rgb(colour), 0.13)}"
        return [
            go.Scatter(
                x=places,
                y=edge,
                mode="lines",
                fill="toself",
                fillcolor=fill,
                line={"width": 0},
                **quiet,
            )
            for places, edge in _areas(series, spread)
        ]
    first, last = panel.x.limits or (float("-inf"), float("inf"))
    xs: list[float | None] = []
    ys: list[float | None] = []
    symbols: list[str] = []
    for x, y, low, high in zip(series.places, series.y, spread.low, spread.high, strict=True):
        along = [max(low, first), min(high, last)] if spread.of == "x" else [x, x]
        xs += [*along, None]
        ys += [*([y, y] if spread.of == "x" else [low, high]), None]
        beyond = spread.of == "x" and low < first, spread.of == "x" and high > last
        symbols += [
            "triangle-left" * beyond[0] or "line-ns",
            "triangle-right" * beyond[1] or "line-ns",
            "line-ns",
        ]
    line = {"color": colour, "width": 1 if spread.kind == "thin" else 2.5}
    marker = {"color": colour, "symbol": symbols, "size": 8}
    return [go.Scatter(x=xs, y=ys, mode="lines+markers", line=line, marker=marker, **quiet)]


def _areas(series: Series, spread: Spread) -> Iterator[tuple[list[float], list[float]]]:
    """The outline of each piece of a band, which ends where a value has no spread."""
    points = zip(series.places, spread.low, spread.high, strict=True)
    for bare, piece in itertools.groupby(points, lambda point: math.isnan(point[1])):
        if not bare:
            places, low, high = zip(*piece, strict=True)
            yield [*places, *places[::-1]], [*map(_short, (*high, *low[::-1]))]
