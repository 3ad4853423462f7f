"""Interactive figures of a report: learning curves, who holds what, accuracy against cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.colors import hex_to_rgb
from plotly.subplots import make_subplots

from fedshift.analysis.collect import Collected
from fedshift.analysis.figures import COLOURS
from fedshift.analysis.panels import (
    AVERAGE,
    PANELS,
    Kind,
    Line,
    Point,
    legend,
    method_line,
    points,
    printed,
    with_average,
)
from fedshift.analysis.select import curves

DASHES = ["solid", "dash", "dot"]
SYMBOLS = ["circle", "diamond", "square"]
# As many classes as a partition plot tells apart; above that colours repeat and the pointer names them.
CLASS_COLOURS = [*COLOURS[:6], "#8c959f", "#6f42c1", "#b08800", "#005f5f"]


def learning_curves(root: Path, collected: Collected) -> tuple[dict[str, go.Figure], str]:
    """One figure per value of the further axes (its name is the key): held-out domains side by side, one line per method.

    And what the bands of these figures are. Dotted lines are published values, where they are of the same experiment.
    """
    frame, targets = with_average(curves(collected), collected)
    if frame.empty:
        return {}, ""
    kinds: set[Kind] = set()
    figures = {
        ", ".join(f"{axis} = {value}" for axis, value in point.items()): _curves(root, collected, part, targets, point, kinds)
        for point, part in points(collected, frame)
    }  # fmt: skip
    return figures, legend(kinds)


def _curves(
    root: Path, collected: Collected, frame: pd.DataFrame, targets: list[Any], point: Point, kinds: set[Kind]
) -> go.Figure:
    metrics = [metric for metric in PANELS if frame[metric].notna().any()]
    titles = [{None: "", AVERAGE: "average"}.get(target, str(target)) for target in targets]
    figure = make_subplots(
        len(metrics), len(targets), shared_xaxes=True, shared_yaxes=True, horizontal_spacing=0.012,
        vertical_spacing=0.06, column_titles=titles,
    )  # fmt: skip
    named: set[str] = set()
    for row, metric in enumerate(metrics, 1):
        figure.update_yaxes(title_text=f"{PANELS[metric]} (%)", row=row, col=1)
        for column, target in enumerate(targets, 1):
            here = frame if target is None else frame[frame["target"] == target]
            for method in collected.experiment.methods:
                drawn = method_line(here[here["method"] == method], metric, collected.protocol.ddof)
                if drawn is None:
                    continue
                paper = printed(root, collected, method, point, target, metric)
                traces = _line(collected, method, drawn, paper, method not in named)
                figure.add_traces(traces, rows=row, cols=column)
                named.add(method)
                kinds.add(drawn.kind)
    figure.update_xaxes(title_text="round", row=len(metrics), title_standoff=4)
    return _plain(figure, 80 + 270 * len(metrics))


def _line(
    collected: Collected, method: str, drawn: Line, paper: float | None, legend: bool
) -> list[go.Scatter]:
    mean, look = drawn.mean, _look(collected, method)
    own: dict[str, Any] = {
        "legendgroup": method, "mode": "lines", "line": {"color": look["color"], "dash": look["dash"], "width": 1.8},
    }  # fmt: skip
    quiet = {"legendgroup": method, "mode": "lines", "showlegend": False, "hoverinfo": "skip"}
    traces = [
        go.Scatter(
            x=mean.index, y=mean.round(2), name=method, showlegend=legend, hovertemplate="%{y:.1f}", **own
        )
    ]
    if (drawn.high > drawn.low).any():
        edge = [*drawn.high.clip(upper=100), *drawn.low.clip(lower=0)[::-1]]
        traces.append(
            go.Scatter(
                x=[*mean.index, *mean.index[::-1]],
                y=[round(y, 2) for y in edge],
                fill="toself",
                fillcolor=f"rgba{(*hex_to_rgb(look['color']), 0.13)}",
                line={"width": 0},
                **quiet,
            )
        )
    if paper is not None:
        last = mean.index.max()
        dotted = {"color": look["color"], "dash": "dot", "width": 1}
        told = {"hoverinfo": None, "hovertemplate": "published: %{y}", "name": method}
        traces.append(go.Scatter(x=[0, last], y=[paper, paper], line=dotted, **{**quiet, **told}))
    return traces


def partitions(tables: Mapping[str, pd.DataFrame]) -> go.Figure:
    """Images per client and class, one panel per partition (its name is the key); the held-out domain stands last."""
    figure = make_subplots(
        1, len(tables), shared_yaxes=True, horizontal_spacing=0.012,
        subplot_titles=[f"held out: {name}" if name else "" for name in tables],
    )  # fmt: skip
    classes = list(dict.fromkeys(label for table in tables.values() for label in table["class"]))
    for column, table in enumerate(tables.values(), 1):
        counts = table.groupby(["holder", "class"], sort=False)["n"].sum().unstack(fill_value=0)
        for index, label in enumerate(classes):
            if label in counts:
                bars = go.Bar(
                    x=counts.index, y=counts[label], name=label, legendgroup=label, showlegend=column == 1,
                    marker={"color": CLASS_COLOURS[index % len(CLASS_COLOURS)], "line": {"width": 0}},
                    hovertemplate="%{y:,} images",
                )  # fmt: skip
                figure.add_trace(bars, row=1, col=column)
    figure.update_layout(barmode="stack", bargap=0.25)
    figure.update_yaxes(title_text="images", row=1, col=1)
    figure.update_xaxes(tickangle=-40)
    return _plain(figure, 420)


def against_costs(collected: Collected, costs: pd.DataFrame) -> go.Figure:
    """Accuracy of every method against what a run of it sends, where anything travels, and against its seconds; `costs` of report_facts."""
    panels = {"sent": "MB sent and received, a run", "seconds": "seconds, a run"}
    metric = "ood" if costs["ood"].notna().any() else "id"
    figure = make_subplots(1, 2, shared_yaxes=True, horizontal_spacing=0.03)
    named: set[str] = set()
    for column, (cost, title) in enumerate(panels.items(), 1):
        figure.update_xaxes(title_text=title, rangemode="tozero", row=1, col=column)
        for row in costs[costs[cost].notna()].to_dict("records"):
            look = _look(collected, row["method"])
            marker = {"color": look["color"], "symbol": look["symbol"], "size": 11}
            dot = go.Scatter(
                x=[row[cost]], y=[row[metric]], name=row["method"], legendgroup=row["method"],
                showlegend=row["method"] not in named, mode="markers", marker=marker, hovertemplate="%{x:,.1f}: %{y:.1f} %",
            )  # fmt: skip
            figure.add_trace(dot, row=1, col=column)
            named.add(row["method"])
    figure.update_yaxes(title_text=f"{PANELS[metric]} accuracy (%)", row=1, col=1)
    return _plain(figure, 380)


def _look(collected: Collected, method: str) -> dict[str, str]:
    index = collected.experiment.rows.index(method)
    lap = index // len(COLOURS) % len(DASHES)
    return {"color": COLOURS[index % len(COLOURS)], "dash": DASHES[lap], "symbol": SYMBOLS[lap]}


def _plain(figure: go.Figure, height: int) -> go.Figure:
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
        template="none", height=height, font={"family": "system-ui, sans-serif", "size": 12, "color": "#1b1f24"},
        margin={"l": 60, "r": 10, "t": 58, "b": 60}, hovermode="closest", hoverlabel={"namelength": -1},
        legend={"groupclick": "togglegroup", "tracegroupgap": 0},
    )  # fmt: skip
