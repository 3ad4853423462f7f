"""Interactive: panels as plotly charts, for the report's page."""

from __future__ import annotations

import base64
import io
from itertools import groupby
from math import log10
from typing import Any

import plotly.graph_objects as go
from PIL import Image
from plotly.colors import hex_to_rgb
from plotly.subplots import make_subplots

from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Picture, Row, Series

DASHES = ["solid", "longdash", "dot"]  # by lap of the palette; published levels have shorter ones
SYMBOLS = ["circle", "square", "triangle-up", "triangle-down", "cross", "x", "star"]  # by the label's place
HATCHES = ["", "/", ".", "x", "\\", "-", "+"]  # of bars, the same
SIZES = {"marked": 6, "dot": 11, "ring": 7, "square": 9, "diamond": 10, "around": 18}
DARK = "#24292f"  # what lies on filled bars
INCH = 100  # pixels
LEAST = 270  # pixels of a row


def draw(panels: Panels) -> dict[str, go.Figure]:
    """A chart for the rows of each heading (the key). A click on a label hides its series in all panels of a
    chart.
    """
    groups = groupby(panels.rows, key=lambda row: row.heading)
    return {heading: _chart(panels, [*rows]) for heading, rows in groups}


def width(panels: Panels) -> int:
    """Pixels below which a chart would crowd: the page scrolls it there."""
    longest = max(len(text) for row in panels.rows for text in ["", *(row.panels[0].y.ticks or {}).values()])
    return 240 + 150 * len(panels.rows[0].panels) + 6 * longest


def styled(figure: go.Figure, height: int) -> go.Figure:
    """A chart in the page's look; returns it."""
    axis = {
        "gridcolor": "#eaeef2",
        "linecolor": "#8c959f",
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 3,
        "automargin": True,
    }
    figure.update_xaxes(**axis).update_yaxes(**axis)
    figure.update_annotations(font_size=13)
    return figure.update_layout(
        template="none",
        height=height,
        font={"family": "system-ui, sans-serif", "size": 12, "color": "#1b1f24"},
        margin={"l": 60, "r": 10, "t": 58, "b": 60},
        hovermode="closest",
        hoverlabel={"namelength": -1},
        legend={"groupclick": "togglegroup", "tracegroupgap": 0},
        barmode="overlay",
    )


def _chart(panels: Panels, rows: list[Row]) -> go.Figure:
    """Rows of panels as one plotly figure with shared axes."""
    columns = len(rows[0].panels)
    polar = panels.polar
    specs: Any = {"specs": [[{"type": "polar"}] * columns] * len(rows)} if polar else {}
    figure = make_subplots(
        len(rows),
        columns,
        shared_xaxes=not polar,
        shared_yaxes=not polar,
        horizontal_spacing=0.3 / columns if polar else min(0.03, 0.12 / columns),
        vertical_spacing=0.12 / len(rows),
        column_titles=[
            panel.title.removeprefix("held out: ").replace("\n", "<br>") for panel in rows[0].panels
        ],
        **specs,
    )
    styled(figure, 80 + len(rows) * max(LEAST, round(INCH * panels.size[1])))
    labels: set[str] = set()
    if polar:
        figure.update_annotations(yshift=24)
        for column, panel in enumerate(rows[0].panels, 1):
            _radar(figure, panels, panel, labels, {"row": 1, "col": column})
        unit = rows[0].panels[0].y.label.replace("\n", " ")
        figure.add_annotation(text=unit, x=0, y=-0.16, xref="paper", yref="paper", showarrow=False)
        return figure
    for place, row in enumerate(rows, 1):
        figure.update_yaxes(title_text=row.panels[0].y.label.replace("\n", "<br>"), row=place, col=1)
        for column, panel in enumerate(row.panels, 1):
            _panel(figure, panels, panel, labels, {"row": place, "col": column})
    for column, panel in enumerate(rows[-1].panels, 1):
        if panel.picture is not None:
            continue
        figure.update_xaxes(title_text=panel.x.label, title_standoff=4, row=len(rows), col=column)
    return figure


def _panel(figure: go.Figure, panels: Panels, panel: Panel, labels: set[str], cell: dict[str, int]) -> None:
    """Draw a panel in its cell; a label is shown in the legend by the first of its series, and added to
    `labels`.
    """
    if panel.picture is not None:
        _picture(figure, panel.picture, cell)
        return
    figure.update_xaxes(**_axis(panel.x), **cell).update_yaxes(**_axis(panel.y), **cell)
    for name, value in panel.rules:
        line = {"color": "#24292f" if name == "x" else "#d0d7de", "width": 1}
        getattr(figure, "add_vline" if name == "x" else "add_hline")(value, line=line, **cell)
    for place, text, label in panel.notes:
        figure.add_annotation(
            x=1,
            xref="x domain",
            xanchor="right",
            y=place,
            text=text,
            showarrow=False,
            font={"color": panels.colour(label), "size": 11},
            yanchor="bottom",
            **cell,
        )
    if panel.inside:
        corner: Any = {"x": 1, "xref": "x domain", "xanchor": "right"}
        corner |= {"y": 0, "yref": "y domain", "yanchor": "bottom"}
        figure.add_annotation(text=panel.inside, showarrow=False, font={"size": 11}, **corner, **cell)
    places = [x for series in panel.series if series.style != "level" for x in series.x]
    ends = panel.x.limits or (min(places, default=0.0), max(places, default=1.0))
    for series in panel.series:
        for trace in _traces(panels, panel, series, ends):
            named = trace.name is not None and series.label not in labels
            figure.add_trace(trace.update(showlegend=named), **cell)
            labels.update([series.label] * named)


def _radar(figure: go.Figure, panels: Panels, panel: Panel, labels: set[str], cell: dict[str, int]) -> None:
    """Draw a radar in its cell; a label is shown in the legend once, and added to `labels`."""
    names = panel.x.ticks or {}
    angular = {"rotation": 90, "direction": "clockwise", "gridcolor": "#eaeef2", "linecolor": "#8c959f"}
    radial: dict[str, Any] = {"range": panel.y.limits, "nticks": 4, "gridcolor": "#eaeef2"}
    radial |= {"angle": 90 - 180 / max(len(names), 1), "tickfont": {"size": 10}, "tickangle": 0}
    figure.update_polars(angularaxis=angular, radialaxis=radial, bgcolor="white", **cell)
    for series in panel.series:
        colour = panels.colour(series.label)
        turns = [names[x] for x in series.x]
        trace = go.Scatterpolar(
            theta=[*turns, *turns[:1]],
            r=[round(y, 2) for y in (*series.y, *series.y[:1])],
            mode="lines+markers",
            line={"color": colour, "dash": DASHES[panels.lap(series.label)], "width": 1.8},
            marker={"symbol": SYMBOLS[panels.marker(series.label) % len(SYMBOLS)], "size": 6},
            name=series.label,
            legendgroup=series.label,
            showlegend=series.label not in labels,
            hovertemplate=f"{series.mark}: %{{r:.2f}}, %{{theta}}",
        )
        figure.add_trace(trace, **cell)
        labels.add(series.label)


def _picture(figure: go.Figure, picture: Picture, cell: dict[str, int]) -> None:
    """Draw an image in its cell, without ticks, as wide as it is high."""
    buffer, (height, width, _) = io.BytesIO(), picture.pixels.shape
    Image.fromarray(picture.pixels).save(buffer, "PNG")
    source = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    figure.add_trace(go.Image(source=source, hoverinfo="skip"), **cell)
    bare = {"showticklabels": False, "ticks": "", "showgrid": False, "showline": False, "constrain": "domain"}
    figure.update_xaxes(**bare, range=[-0.5, width - 0.5], **cell)
    figure.update_yaxes(**bare, range=[height - 0.5, -0.5], **cell)


def _axis(axis: Axis) -> dict[str, Any]:
    # autorange is written out: beside an x with a range, a shared y would stay without its own
    options: dict[str, Any] = {"type": axis.scale, "autorange": axis.limits is None}
    options["rangemode"] = "tozero" if axis.from_zero else "normal"
    if axis.ticks is not None:
        options |= {"tickvals": [*axis.ticks], "ticktext": [*axis.ticks.values()]}
    if axis.limits is not None:
        options |= {"range": [log10(end) for end in axis.limits] if axis.scale == "log" else [*axis.limits]}
    return options


def _traces(panels: Panels, panel: Panel, series: Series, ends: tuple[float, float]) -> list[Any]:
    """A series and what lies around it. ends: first and last position on x, between which a level is
    drawn.
    """
    colour, lap = panels.colour(series.label), panels.lap(series.label)
    place = panels.place(series.label)
    value = "%{x:.4~g}" if panel.y.ticks else "%{y:.4~g}"
    common = {
        "name": series.label, "legendgroup": series.label, "hovertemplate": f"{series.mark}: {value}",
    }  # fmt: skip
    if series.style == "level":
        line = {"color": colour, "dash": "dash", "width": 1}
        return [go.Scatter(x=ends, y=[y, y], mode="lines", line=line, **common) for y in series.y]
    if series.style == "filled":
        pattern = {"shape": HATCHES[place % len(HATCHES)], "fgcolor": "white", "size": 6}
        pattern["fillmode"] = "overlay"  # else the stripes are in the bar's colour, on nothing
        bar = go.Bar(
            x=series.x,
            y=[_short(y) for y in series.y],
            width=series.width,
            marker={"color": colour, "pattern": pattern, "line": {"width": 0}},
            **common,
        )
        return [bar, *_around(series, DARK, panel)]
    mode = {"line": "lines", "thin": "lines", "marked": "lines+markers"}.get(series.style, "markers")
    dark = series.style == "ring" and any(other.style == "filled" for other in panel.series)
    colour = DARK if dark else colour
    hollow = "-open" * (series.style in ("ring", "diamond", "around"))
    usual = SYMBOLS[panels.marker(series.label) % len(SYMBOLS)]
    symbol = {"square": "square", "diamond": "diamond", "around": "circle"}.get(series.style, usual)
    trace = go.Scatter(
        x=series.x,
        y=[_short(y) for y in series.y],
        mode=mode,
        opacity=0.45 if series.style == "thin" else None,
        line={"color": colour, "dash": DASHES[lap], "width": 0.8 if series.style == "thin" else 1.8},
        marker={"color": colour, "symbol": symbol + hollow, "size": SIZES.get(series.style, 6)},
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
        edge = [_short(y) for y in (*spread.high, *reversed(spread.low))]
        fill = f"rgba{(*hex_to_rgb(colour), 0.13)}"
        return [
            go.Scatter(
                x=[*series.x, *reversed(series.x)],
                y=edge,
                mode="lines",
                fill="toself",
                fillcolor=fill,
                line={"width": 0},
                **quiet,
            )
        ]
    first, last = panel.x.limits or (float("-inf"), float("inf"))
    xs: list[float | None] = []
    ys: list[float | None] = []
    symbols: list[str] = []
    for x, y, low, high in zip(series.x, series.y, spread.low, spread.high, strict=True):
        along = [max(low, first), min(high, last)] if spread.of == "x" else [x, x]
        xs += [*along, None]
        ys += [*([y, y] if spread.of == "x" else [low, high]), None]
        beyond = spread.of == "x" and low < first, spread.of == "x" and high > last
        symbols += [
            "triangle-left" * beyond[0] or "line-ns",
            "triangle-right" * beyond[1] or "line-ns",
            "line-ns",
        ]
    dashed = spread.kind == "dashed"
    line = {"color": colour, "width": 1 if dashed else 2.5, "dash": "dash" if dashed else "solid"}
    marker = {"color": colour, "symbol": symbols, "size": 8}
    return [go.Scatter(x=xs, y=ys, mode="lines+markers", line=line, marker=marker, **quiet)]
