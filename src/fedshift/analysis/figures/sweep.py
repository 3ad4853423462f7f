"""Sweep: a metric against the values of an axis, a line per method, data set or target."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fedshift.analysis.cells import setting
from fedshift.analysis.collected import Collected
from fedshift.analysis.figures import base
from fedshift.analysis.figures.base import Axes, Axis, AxisName, Figure, Metric, Plot, Row, Rows
from fedshift.analysis.quantities import selected
from fedshift.common.errors import FedshiftError, unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import DEFAULT, quantity
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

PLACE = ["y_axis", "panel", "label", "x"]


@dataclass(frozen=True)
class Params:
    """`x`: the axis to plot against, or `setting.<dotted key>`: the number there in the runs of each row.
    `metrics`: as in tables; one row of panels for each that has a value.
    `lines`: the axis whose values are lines or bars, or `method`. Against a setting it is the method that
        rows belong to.
    `panels`: the axis whose values are panels side by side, or `method`. "" is one panel (or `method`, if
        lines are another axis).
    `rows`: a pattern of the rows to plot: `lambda-*`.
    `levels`: rows without a place on x, each plotted as a level line to compare with.
    """

    x: str = ""
    metrics: tuple[Metric, ...] = ("id", "ood")
    lines: AxisName = "method"
    panels: AxisName = ""
    rows: Rows = "*"
    levels: tuple[Row, ...] = ()


class Sweep(Figure):
    """Means over the axes that are not x, lines, panels or seed, then over seeds.

    The values are of the round that tables report. A seed with a missing run at some value is left out there.
    With three or more seeds, a band shows one standard deviation; with fewer, thin lines show the seeds.
    Diamonds are published values of the same experiment. If the values of x are names, they are placed side
    by side, without lines.
    """

    name = "sweep"
    Params: ClassVar[type] = Params
    style: ClassVar[str] = "marked"  # of means; at names dots

    def check(self, experiment: Experiment, axes: Axes, where: str) -> None:
        """Also check that no axis is used twice, and that no line mixes methods."""
        super().check(experiment, axes, where)
        given = self.params
        if given.x not in axes and not self._of_setting:
            raise unknown(f"{where}.x", "axis", given.x, axes)
        used = [name for name in (given.x, given.lines, given.panels) if name]
        if len({*used}) < len(used):
            raise FedshiftError(where, "uses an axis twice", "Name different axes for x, lines and panels.")
        several = len(fnmatch.filter(experiment.rows, given.rows)) > 1
        if "method" not in used and given.panels and several and given.x in axes:
            what = "plots several methods as one line"
            raise FedshiftError(where, what, "Say `lines: method` or `panels: method`.")

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        given = self.params
        frame, orders = self._runs(collected)
        by = given.panels or ("" if given.lines == "method" or self._of_setting else "method")
        panels = {value: base.word(by, value) for value in orders[by]} if by else {}
        frame["panel"] = frame[by].map(panels).fillna("") if by else ""
        labels = {value: str(value) for value in orders[given.lines] if value not in given.levels}
        level = frame["row"].isin(given.levels)
        frame["label"] = frame[given.lines].map(labels).where(~level, frame["row"])
        frame["x"], x = self._axis(frame[given.x], orders[given.x])
        places = [*(x.names or x.ticks or ())]
        shown = {"method", "seed", given.x, given.lines, given.panels}
        averaged = [axis for axis in collected.keys if axis not in shown]
        if "target" in averaged:  # a mean over held-out domains excludes runs without one
            domains = frame.groupby(["panel", "label"], dropna=False)["target"].transform("nunique")
            frame = frame[(domains <= 1) | (frame["target"] != NONE)]
        lines, y_labels = base.by_metric(collected, base.in_order(frame, x=places), given.metrics)
        level = lines["row"].isin(given.levels)
        runs, ends = lines[~level], places[:: max(1, len(places) - 1)]
        style = "dot" if x.names and self.style == "marked" else self.style
        parts = [base.marks(collected, runs, PLACE, style)]
        if level.any():
            levels = pd.concat([lines[level].assign(x=end) for end in ends])
            parts.append(base.marks(collected, levels, PLACE, "line"))
        printed = runs.assign(method=runs["row"]).dropna(subset=collected.keys)
        printed = printed.merge(parts[0][PLACE].drop_duplicates())  # next to a mean of ours
        printed = base.published(workspace, collected, printed, PLACE)
        plotted = pd.concat([*parts, printed.assign(mark="published", style="diamond")], ignore_index=True)
        accuracy = {quantity(name).metric for name in given.metrics} == {DEFAULT}
        return Plot(
            f"{'Accuracy' if accuracy else 'Metrics'} against {x.label}",
            plotted,
            x,
            [Axis(label, from_zero=self.style == "bar") for label in y_labels],
            note=base.note(plotted, {axis: orders[axis] for axis in averaged}),
            order={
                "y_axis": y_labels,
                "panel": [*panels.values()],
                "label": [*labels.values(), *given.levels],
            },
        )

    @property
    def _of_setting(self) -> bool:
        return bool(self.params.x.startswith(base.SETTING))

    def _runs(self, collected: Collected) -> tuple[pd.DataFrame, dict[str, Sequence[Any]]]:
        """The planned runs with keys, metrics (NaN if missing), row and x; orders of methods, axes and x."""
        given = self.params
        frame = base.with_seed(collected.of_each_run(selected(collected, quantities=given.metrics)))
        frame = frame.assign(row=frame["method"], spec=collected.runs["spec"])
        drawn = fnmatch.filter(collected.experiment.rows, given.rows)
        frame = frame[frame["row"].isin([*drawn, *given.levels])].copy()
        if not self._of_setting:
            return frame, {**collected.order, "method": base.rows_of(frame, collected)}
        level, key = frame["row"].isin(given.levels), given.x.removeprefix(base.SETTING)
        frame[given.x] = frame["spec"].map(lambda text: setting(text, key)).where(~level)
        if frame[given.x].isna().all():
            where = f"{collected.experiment.file}: figures.{self.name}.x"
            raise FedshiftError(where, f"no row has a number '{key}'", "docs/settings.md lists all settings.")
        methods = frame["spec"].map(lambda text: json.loads(text)["method"]["name"])
        frame["method"] = frame["row"].where(level, methods)
        orders = {"method": [*frame["method"].unique()], given.x: sorted(frame[given.x].dropna().unique())}
        return frame, {**collected.order, **orders}

    def _axis(self, column: pd.Series[Any], order: Sequence[Any]) -> tuple[pd.Series[Any], Axis]:
        """The values along x, and its axis; names are in the order of the file."""
        name = base.axis_name(self.params.x)
        number = (isinstance(value, int | float) and not isinstance(value, bool) for value in order)
        if self.style == "bar" or not all(number):
            names = {value: f"{value:g}" if isinstance(value, float) else str(value) for value in order}
            return column.map(names, na_action="ignore"), Axis(name, names=[*names.values()])
        scale: Any = "log" if _geometric(order) else "linear"
        return column.astype(float), Axis(name, scale, ticks=sorted(map(float, order)))


def _geometric(values: Sequence[float]) -> bool:
    """Whether positive values, at least three, are more evenly spaced on a log scale than on a linear one."""
    if len(values) < 3 or min(values) <= 0:
        return False
    linear, log = np.diff(np.sort(values)), np.diff(np.log(np.sort(values)))
    return bool(log.std() / log.mean() < linear.std() / linear.mean() - 1e-9)
