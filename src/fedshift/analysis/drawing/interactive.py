"""Interactive: panels as plotly charts, for the report's page."""

from __future__ import annotations

import base64
import io
import math
import textwrap
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import plotly.graph_objects as go
from PIL import Image
from plotly.subplots import make_subplots

from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Picture, Row
from fedshift.analysis.drawing.traces import SYMBOLS, escape, traces

INCH = 100  # pixels
UNNAMED = ("thin", "ring", "around")  # single seeds and rings: the legend shows the means
LEAST = 270  # pixels of a row
BESIDE, COLUMN = 90, 150  # pixels of what stands beside the panels, and of a panel on a narrow screen
ALONE = 1.6  # columns that a panel takes which has no other beside it
LETTER, LINE = 6, 15  # pixels of a letter and of a line of text
NAMED = 50  # pixels beside a radar, for the names of directions
KEY = 45  # pixels of a legend's symbol and of the gap behind its text


def draw(panels: Panels) -> dict[str, go.Figure]:
    """A chart for the rows of each heading (the key). A click on a label hides its series in all panels of a
    chart.
    """
    groups = groupby(panels.rows, key=lambda row: row.heading)
    return {heading: _chart(panels, [*rows]) for heading, rows in groups}


def width(panels: Panels) -> int:
    """Pixels below which a chart would crowd: the page scrolls it there."""
    longest = max(len(text) for row in panels.rows for text in ["", *(row.panels[0].y.ticks or {}).values()])
    return BESIDE + round(COLUMN * max(ALONE, len(panels.rows[0].panels))) + LETTER * longest


def styled(figure: go.Figure, height: int) -> go.Figure:
    """A chart in the page's look; returns it."""
    axis = {
        "gridcolor": "#eaeef2",
        "linecolor": "#8c959f",
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 3,
        "automargin": True,
        "title_font": {"size": 12},  # what LETTER counts
    }
    figure.update_xaxes(**axis).update_yaxes(**axis)
    figure.update_annotations(font_size=13)
    return figure.update_layout(
        template="none",
        height=height,
        paper_bgcolor="rgba(0,0,0,0)",  # the page's, in the dark too
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12, "color": "#1b1f24"},
        margin={"l": 60, "r": 10, "t": 58, "b": 60},
        hovermode="closest",
        hoverlabel={"namelength": -1},
        legend={"groupclick": "togglegroup", "tracegroupgap": 0},
    )


def _fitted(text: str, panels: int) -> str:
    """Text in lines no wider than a panel on a narrow screen, of so many side by side."""
    letters = int(COLUMN * max(1, ALONE - panels + 1) / LETTER)
    return "<br>".join(escape(part) for line in text.split("\n") for part in textwrap.wrap(line, letters))


def _lines(texts: Iterable[str]) -> int:
    """Lines of the longest text, at least 1."""
    return max((text.count("<br>") + 1 for text in texts), default=1)


def _legend_below(figure: go.Figure, panels: Panels, labels: Iterable[str], others: int) -> None:
    """Put the legend below the chart, where a narrow screen has room. others: lines of text above it."""
    keys = sum(KEY + LETTER * len(label) for label in labels)
    rows = math.ceil(keys / (width(panels) - BESIDE))
    below = 30 + LINE * others + (LINE + 5) * rows
    figure.update_layout(height=figure.layout.height + below - figure.layout.margin.b, margin_b=below)
    figure.update_layout(legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"})


def _chart(panels: Panels, rows: list[Row]) -> go.Figure:
    """Rows of panels as one plotly figure with shared axes."""
    columns = len(rows[0].panels)
    polar = panels.polar
    titles = [_fitted(panel.title.removeprefix("held out: "), columns) for panel in rows[0].panels]
    specs: Any = {"specs": [[{"type": "polar"}] * columns] * len(rows)} if polar else {}
    figure = make_subplots(
        len(rows),
        columns,
        shared_xaxes=not polar,
        shared_yaxes=not polar,
        horizontal_spacing=0.3 / columns if polar else min(0.03, 0.12 / columns),
        vertical_spacing=0.12 / len(rows),
        column_titles=titles,
        **specs,
    )
    styled(figure, 80 + len(rows) * max(LEAST, round(INCH * panels.size[1])))
    more = LINE * (_lines(titles) - 1)
    figure.update_layout(barmode="overlay", height=figure.layout.height + more, margin_t=58 + more)
    labels: set[str] = set()
    if polar:
        figure.update_annotations(yshift=24)
        figure.update_layout(margin_l=NAMED, margin_r=NAMED)
        for column, panel in enumerate(rows[0].panels, 1):
            _radar(figure, panels, panel, labels, {"row": 1, "col": column})
        unit = rows[0].panels[0].y.label.replace("\n", " ")
        figure.add_annotation(text=unit, x=0, y=-0.16, xref="paper", yref="paper", showarrow=False)
        _legend_below(figure, panels, labels, 3)
        return figure
    for place, row in enumerate(rows, 1):
        figure.update_yaxes(title_text=row.panels[0].y.label.replace("\n", "<br>"), row=place, col=1)
        for column, panel in enumerate(row.panels, 1):
            _panel(figure, panels, panel, labels, {"row": place, "col": column})
    below = {place: _fitted(panel.x.label, columns) for place, panel in enumerate(rows[-1].panels, 1)}
    for column, text in below.items():
        if rows[-1].panels[column - 1].picture is None:
            figure.update_xaxes(title_text=text, title_standoff=4, row=len(rows), col=column)
    if labels:
        _legend_below(figure, panels, labels, _lines(below.values()))
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
        line = {"color": "#24292f" if name == "x" else "#afb8c1", "width": 1}
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
        for trace in traces(panels, panel, series, ends):
            named = trace.name is not None and series.label not in labels and series.style not in UNNAMED
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
        turns = [escape(names[x]) for x in series.x]
        trace = go.Scatterpolar(
            theta=[*turns, *turns[:1]],
            r=[round(y, 2) for y in (*series.y, *series.y[:1])],
            mode="lines+markers",
            line={"color": colour, "width": 1.8},
            marker={"symbol": SYMBOLS[panels.place(series.label) % len(SYMBOLS)], "size": 6},
            name=escape(series.label),
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
    """plotly's options of an axis."""
    options: dict[str, Any] = {"type": axis.scale, "autorange": axis.limits is None}
    options["rangemode"] = "tozero" if axis.from_zero else "normal"
    if axis.ticks is not None:
        options |= {"tickvals": [*axis.ticks], "ticktext": [*map(escape, axis.ticks.values())]}
    if axis.limits is not None:
        options |= {
            "range": [math.log10(end) for end in axis.limits] if axis.scale == "log" else [*axis.limits]
        }
    return options
