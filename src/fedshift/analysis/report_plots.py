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
from fedshift.analysis.figures import AVERAGE, COLOURS, PANELS, printed, with_average
from fedshift.analysis.select import curves

DASHES = ["solid", "dash", "dot"]
SYMBOLS = ["circle", "diamond", "square"]
# As many classes as a partition plot tells apart; above that colours repeat and the pointer names them.
CLASS_COLOURS = [*COLOURS[:6], "#8c959f", "#6f42c1", "#b08800", "#005f5f"]


def learning_curves(root: Path, collected: Collected) -> dict[str, go.Figure]:
    """One figure per value of the further axes (its name is the key): held-out domains side by side, one line per method.

    A line is the mean over seeds, its band one standard deviation; dotted lines are published values.
    """
    frame, targets = with_average(curves(collected), collected)
    if frame.empty:
        return {}
    return {
        name: _curves(root, collected, part, targets, point) for name, point, part in _parts(collected, frame)
    }


def _parts(collected: Collected, frame: pd.DataFrame) -> list[tuple[str, dict[str, Any], pd.DataFrame]]:
    """Rows of one value of the axes beyond target and seed, under a name."""
    further = [key for key in collected.keys if key not in ("method", "target", "seed")]
    if not further:
        return [("", {}, frame)]
    points = [
        (dict(zip(further, values, strict=True)), part)
        for values, part in frame.groupby(further, sort=False, dropna=False)
    ]
    return [
        (", ".join(f"{axis} = {value}" for axis, value in point.items()), point, part)
        for point, part in points
    ]


def _curves(
    root: Path, collected: Collected, frame: pd.DataFrame, targets: list[Any], point: dict[str, Any]
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
            values = {
                **point,
                **({} if target is None else {"target": "mean" if target == AVERAGE else target}),
            }
            for method in collected.experiment.methods:
                paper = printed(root, collected, method, values, metric)
                own = here[here["method"] == method]
                traces = _line(
                    collected, method, own, metric, paper.value if paper else None, method not in named
                )
                figure.add_traces(traces, rows=row, cols=column)
                named |= {method} if traces else set()
    figure.update_xaxes(title_text="round", row=len(metrics), title_standoff=4)
    return _plain(figure, 80 + 270 * len(metrics))


def _line(
    collected: Collected, method: str, own: pd.DataFrame, metric: str, paper: float | None, legend: bool
) -> list[go.Scatter]:
    groups = own.groupby("round")[metric]
    mean = groups.mean().dropna()
    if mean.empty:
        return []
    spread = groups.std(ddof=collected.protocol.ddof).reindex(mean.index).fillna(0)
    look = _look(collected, method)
    line: dict[str, Any] = {
        "legendgroup": method, "mode": "lines", "line": {"color": look["color"], "dash": look["dash"], "width": 1.8},
    }  # fmt: skip
    quiet = {"legendgroup": method, "mode": "lines", "showlegend": False, "hoverinfo": "skip"}
    edge = [*(mean + spread).clip(upper=100), *(mean - spread).clip(lower=0)[::-1]]
    around = [*mean.index, *mean.index[::-1]]
    traces = [
        go.Scatter(
            x=mean.index, y=mean.round(2), name=method, showlegend=legend, hovertemplate="%{y:.1f}", **line
        )
    ]
    if spread.any():
        shade = f"rgba{(*hex_to_rgb(look['color']), 0.13)}"
        traces.append(
            go.Scatter(
                x=around,
                y=[round(y, 2) for y in edge],
                fill="toself",
                fillcolor=shade,
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
    """Accuracy of every method against what a run of it sends, and against its seconds; `costs` as report_facts makes it."""
    panels = {"sent": "MB sent and received, a run", "seconds": "seconds, a run"}
    metric = "ood" if costs["ood"].notna().any() else "id"
    figure = make_subplots(1, 2, shared_yaxes=True, horizontal_spacing=0.03)
    for column, (cost, title) in enumerate(panels.items(), 1):
        figure.update_xaxes(title_text=title, rangemode="tozero", row=1, col=column)
        for row in costs.to_dict("records"):
            look = _look(collected, row["method"])
            marker = {"color": look["color"], "symbol": look["symbol"], "size": 11}
            dot = go.Scatter(
                x=[row[cost]], y=[row[metric]], name=row["method"], legendgroup=row["method"],
                showlegend=column == 1, mode="markers", marker=marker, hovertemplate="%{x:,.1f}: %{y:.1f} %",
            )  # fmt: skip
            figure.add_trace(dot, row=1, col=column)
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
