"""Frontier: accuracy against what it costs, with the line of the methods that none beats in both."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.costs import cost, sent
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series, Spread
from fedshift.analysis.figures._marks import axis_label, note, with_seed
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.quantities.aggregation import lower_is_better
from fedshift.analysis.quantities.seeds import Mean, over_seeds
from fedshift.analysis.quantities.select import selected
from fedshift.common.errors import FedshiftError, unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import COSTS, quantity
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

SENT = "sent"
UNITS = {
    SENT: "sent and received in a run (MB)",
    "seconds": "duration of a run (s)",
    "parameters": "parameters (millions)",
    "macs": "multiply-adds of an image (millions)",
    "macs_norm": "multiply-adds of an image with BN (millions)",
    "state_dict": "state of the network (MiB)",
    "up": "sent by a client in a round (MB)",
    "down": "got by a client in a round (MB)",
    "memory": "memory at its highest (MiB)",
}
FRONT = "not beaten in both"
ROOM = 0.03  # of an axis, for a dot


@dataclass(frozen=True)
class Params:
    """metric: as tables name it.
    costs: `sent` (MB of all clients, both ways) or a cost of tables without its `cost.`; a panel for each
        in which runs differ.
    """

    metric: str = "ood"
    costs: tuple[str, ...] = (SENT, "seconds", "parameters")


class Frontier(Figure):
    """A dot per method: the mean over its seeds that have all their runs, of each over all further axes.

    A bar is one standard deviation to each side where there are three seeds; where no method has three, it
    goes from the lower to the higher of two.
    """

    name = "frontier"
    Params = Params

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """Metric and costs exist."""
        quantity(self.params.metric, f"{where}.metric")
        for name in self.params.costs:
            if name not in (SENT, *COSTS):
                raise unknown(f"{where}.costs", "cost", name, (SENT, *COSTS))

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no seed has the metric in all its runs."""
        metric, runs = self.params.metric, collected.runs
        chosen = selected(collected, quantities=[metric])[[*collected.keys, metric]]
        frame = runs[collected.keys].merge(chosen, on=collected.keys, how="left").set_axis(runs.index)
        for name in self.params.costs:
            frame[name] = sent(runs, "up") + sent(runs, "down") if name == SENT else cost(runs, name)
        if "target" in frame:  # a mean over held-out domains is of these alone
            several = frame.groupby("method")["target"].transform("nunique") > 1
            frame = frame[~several | (frame["target"] != NONE)]
        groups = with_seed(frame).groupby(["method", "seed"])[[metric, *self.params.costs]]
        whole = groups.count().eq(groups.size(), axis=0)
        seeds = groups.mean().where(whole).dropna(subset=[metric])
        over = over_seeds(seeds.reset_index(), "method", metric, collected.protocol.ddof)
        if over is None:
            what = f"holds no seed with a value of {metric} in all its runs"
            raise FedshiftError(collected.path, what, "Train the experiment, then collect it again.")
        means = seeds.groupby("method").mean().reindex(collected.experiment.rows)
        y = Axis(axis_label(metric))
        panels = [
            Panel([*_series(part, over, metric)], Axis(UNITS[name], limits=_from_zero(part[name].max())), y)
            for name in self.params.costs
            if (part := means[[name, metric]].dropna())[name].round(9).nunique() > 1
        ]
        if not panels:
            what = f"its finished runs do not differ in {', '.join(self.params.costs)}"
            raise FedshiftError(collected.path, what, "Name another cost.")
        labels = [*collected.experiment.rows, FRONT]
        barred = any(one.spread for panel in panels for one in panel.series)
        about = {
            note(
                [], {axis: collected.order[axis] for axis in collected.keys if axis not in ("method", "seed")}
            ): True,
            "bar: from the lower to the higher of two seeds": barred and over.kind == "range",
            "bar: ± one standard deviation over seeds": barred and over.kind == "std",
            "methods at one place stand side by side": any(
                one.shift for panel in panels for one in panel.series
            ),
        }
        words, colours = (
            "; ".join(text for text, holds in about.items() if text and holds),
            {FRONT: "#8c959f"},
        )
        return Panels(
            "Accuracy against cost", [Row(panels)], labels, words, (2.7, 2.7), colours, names="beside"
        )


def _series(means: pd.DataFrame, over: Mean, metric: str) -> Iterator[Series]:
    """Front first, so that dots lie on it.

    means: cost and metric of each method, in the order of dots; over: the metric over seeds, by method.
    """
    cost = means.columns[0]
    worth = -means[metric] if lower_is_better(metric) else means[metric]
    front = means.assign(worth=worth).sort_values([cost, "worth"], ascending=[True, False])
    front = front[front["worth"] > front["worth"].cummax().shift(fill_value=float("-inf"))][[cost, metric]]
    yield Series(FRONT, "front", [*front[cost]], [*front[metric]], "line")
    dots = []
    corners = {*map(tuple, front.to_numpy())}  # who lies there is not moved aside
    for method in sorted(means.index, key=lambda method: tuple(means.loc[method]) not in corners):
        x, y = map(float, means.loc[method])
        low, high = float(over.low[method]), float(over.high[method])
        alone = over.kind == "alone" or math.isnan(low)
        spread = None if alone else Spread([low], [high], "bar")
        dots.append(Series(method, "mean", [x], [y], "dot", spread))
    yield from _side_by_side(dots)


def _from_zero(highest: float) -> tuple[float, float]:
    """Ends of an axis of costs: from 0, so that lengths are costs, with room for dots at both."""
    return -ROOM * highest, (1 + 3 * ROOM) * highest


def _side_by_side(dots: Sequence[Series]) -> Iterator[Series]:
    """The dots, each that would lie on an earlier one moved aside, right and left in turn."""
    xs, ys = zip(*map(_middle, dots), strict=True)
    width, height = ROOM * max(xs), ROOM * (max(ys) - min(ys))
    placed: list[tuple[int, Series]] = []
    for dot in dots:
        taken = {step for step, other in placed if _meet(dot, other, width, height)}
        step = next(step for step in _steps() if step not in taken)
        placed.append((step, dot))
        yield replace(dot, shift=step * width)


def _steps() -> Iterator[int]:
    """0, 1, -1, 2, -2, .."""
    yield 0
    for step in itertools.count(1):
        yield from (step, -step)


def _middle(dot: Series) -> tuple[float, float]:
    return dot.x[0], dot.y[0]


def _meet(one: Series, other: Series, width: float, height: float) -> bool:
    """Whether two dots or their bars cover each other; width, height: of a dot, in the axes' units."""
    (low, high), (bottom, top) = (
        (dot.spread.low[0], dot.spread.high[0]) if dot.spread else (dot.y[0], dot.y[0])
        for dot in (one, other)
    )
    return abs(one.x[0] - other.x[0]) < width and low - height < top and bottom - height < high
