"""Charts that every report has, whatever figures its experiments list: who holds what, and accuracy against
cost.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.interactive import styled
from fedshift.analysis.drawing.panels import COLOURS, Axis, Panel, Panels, Row, Series
from fedshift.analysis.drawing.traces import escape

# As many classes as a partition's chart tells apart; above that colours repeat and the pointer names them.
CLASS_COLOURS = [*COLOURS[:6], "#8c959f", "#6f42c1", "#b08800", "#005f5f"]
COSTS = {"sent": "sent and received in a run (MB)", "seconds": "duration of a run (s)"}


def partitions(tables: Mapping[str, pd.DataFrame]) -> go.Figure:
    """Images per client and class, a panel per partition (its name is the key); the held-out domain stands
    last.
    """
    figure = make_subplots(
        1, len(tables), shared_yaxes=True, horizontal_spacing=0.012,
        subplot_titles=[f"held out: {escape(name)}" if name else "" for name in tables],
    )  # fmt: skip
    classes = list(dict.fromkeys(label for table in tables.values() for label in table["class"]))
    for column, table in enumerate(tables.values(), 1):
        counts = table.groupby(["holder", "class"], sort=False)["n"].sum().unstack(fill_value=0)
        for index, label in enumerate(classes):
            if label in counts:
                bars = go.Bar(
                    x=counts.index.map(escape), y=counts[label], name=escape(label), legendgroup=label,
                    showlegend=column == 1,
                    marker={"color": CLASS_COLOURS[index % len(CLASS_COLOURS)], "line": {"width": 0}},
                    hovertemplate="%{y:,} images",
                )  # fmt: skip
                figure.add_trace(bars, row=1, col=column)
    figure.update_yaxes(title_text="number of images", row=1, col=1)
    figure.update_xaxes(tickangle=-40)
    return styled(figure, 420).update_layout(barmode="stack", bargap=0.25)


def against_costs(collected: Collected, costs: pd.DataFrame) -> Panels:
    """Accuracy of every method against what a run of it sends, where anything travels, and against its
    seconds; `costs` of fedshift.analysis.report.facts.
    """
    metric, name = ("ood", "out-of-distribution") if costs["ood"].notna().any() else ("id", "in-distribution")
    y = Axis(f"{name}\naccuracy (%)")
    panels = [
        Panel(
            [
                Series(row["method"], "mean", [row[cost]], [row[metric]], "dot")
                for row in costs[costs[cost].notna()].to_dict("records")
            ],
            Axis(title, from_zero=True),
            y,
        )
        for cost, title in COSTS.items()
    ]
    return Panels("Accuracy against cost", [Row(panels)], collected.experiment.rows, size=(3.6, 3.0))
