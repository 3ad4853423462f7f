"""Sweep: a metric against the values of an axis, a line per method, data set or target."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from fedshift.analysis.collected import Collected
from fedshift.analysis.columns import setting
from fedshift.analysis.comparable import AVERAGE
from fedshift.analysis.figures._queries import (
    SETTING,
    axis_label,
    axis_name,
    in_order,
    marks,
    note,
    nothing_finished,
    published,
    with_seed,
    word,
)
from fedshift.analysis.figures.base import Axis, Figure, Plot
from fedshift.analysis.quantities import selected
from fedshift.common.errors import FedshiftError, unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import DEFAULT, quantity
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace


@dataclass(frozen=True)
class Params:
    """x: the axis to draw against, or `setting.<dotted key>`: the number there in the runs of each row.
    metrics: as tables name them; a row of panels for each; those without a value are left out.
    lines: the axis whose values are lines, or `method`; against a setting the method that rows are of.
    rows: which rows are drawn, as a pattern: `lambda-*`.
    levels: rows without a place on x, each a level line: what the others are held against.
    panels: the axis whose values are panels side by side, or `method`; "" for one panel (by `method` where
        lines are of another axis).
    scale: of x; `auto` is log where the values are evenly spaced there rather than linearly.
    """

    x: str = ""
    metrics: tuple[str, ...] = ("id", "ood")
    lines: str = "method"
    panels: str = ""
    scale: Literal["auto", "linear", "log"] = "auto"
    rows: str = "*"
    levels: tuple[str, ...] = ()


class Sweep(Figure):
    """Means over the axes that are neither x, lines, panels nor seed, then over seeds, in the round that
    tables report.

    A seed that lacks a run at some value is left out there. From three seeds on a band of one standard
    deviation; of fewer, thin lines.
    Diamonds: the published value, where it is of the same experiment. Values of x that are names stand side
        by side, without lines.
    """

    name = "sweep"
    Params: ClassVar[type] = Params
    style: ClassVar[str] = "marked"  # of means; at names dots
    by_name: ClassVar[bool] = False  # whether values of x stand side by side even where they are numbers

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """Axes, rows and metrics exist, each axis is used once, and a log scale has positive values."""
        for key, valid in (("x", [*axes]), ("lines", ["method", *axes]), ("panels", ["", "method", *axes])):
            name = getattr(self.params, key)
            if name not in valid and not (key == "x" and name.startswith(SETTING)):
                raise unknown(f"{where}.{key}", "axis", name, filter(None, valid))
        for metric in self.params.metrics:
            quantity(metric, f"{where}.metrics")
        for row in self.params.levels:
            if row not in experiment.rows:
                raise unknown(f"{where}.levels", "row of this experiment", row, experiment.rows)
        if not fnmatch.filter(experiment.rows, self.params.rows):
            raise unknown(f"{where}.rows", "row of this experiment", self.params.rows, experiment.rows)
        used = [name for name in (self.params.x, self.params.lines, self.params.panels) if name]
        if len({*used}) < len(used):
            raise FedshiftError(where, "uses an axis twice", "Name different axes for x, lines and panels.")
        several = len(fnmatch.filter(experiment.rows, self.params.rows)) > 1
        if "method" not in used and self.params.panels and several and self.params.x in axes:
            what = "draws several methods as one line"
            raise FedshiftError(where, what, "Say `lines: method` or `panels: method`.")
        if self.params.scale == "log" and self.params.x in axes and not _positive(axes[self.params.x]):
            what = f"the axis '{self.params.x}' has values that no log scale shows"
            raise FedshiftError(f"{where}.scale", what, "Leave it out, or say linear.")

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        """Raises FedshiftError where no finished run has a value."""
        frame = self._runs(collected)
        orders = self._orders(collected, frame)
        metrics = [metric for metric in self.params.metrics if frame[metric].notna().any()]
        if not metrics:
            what = f"no finished run has a value of {', '.join(self.params.metrics)}"
            raise nothing_finished(collected, what)
        lines = [value for value in orders[self.params.lines] if value not in self.params.levels]
        level = frame["row"].isin(self.params.levels)
        by = self.params.panels or ("" if self.params.lines == "method" or self._of_setting else "method")
        panels = [word(by, value) for value in orders[by]] if by else [""]
        frame["panel"] = [word(by, value) for value in frame[by]] if by else ""
        frame["label"] = frame[self.params.lines].astype(object).where(~level, frame["row"])
        frame["x"], x = _axis(frame[self.params.x], self.params, orders[self.params.x], self.by_name)
        style = "dot" if x.names and self.style == "marked" else self.style
        runs = self._whole(collected, in_order(frame[~level], x=x.names or x.ticks or ()))
        ends = (x.names or x.ticks or ())[:: max(1, len(orders[self.params.x]) - 1)]
        levels = [self._whole(collected, frame[level]).assign(x=end) for end in ends]
        ddof = collected.protocol.ddof
        means = marks(_by_seed(runs, metrics), ddof, style)
        around = [marks(_by_seed(pd.concat(levels), metrics), ddof, "line")] if level.any() else []
        plotted = in_order(
            pd.concat(
                [means, *around, self._published(workspace, collected, runs, means)], ignore_index=True
            ),
            y_axis=[axis_label(metric) for metric in metrics],
            panel=panels,
            label=[*lines, *self.params.levels],
        )
        return Plot(
            f"{_measured(self.params.metrics)} against {x.label}",
            plotted.assign(label=plotted["label"].map(str)),
            x,
            [Axis(axis_label(metric), from_zero=self.style == "bar") for metric in metrics],
            [*map(str, dict.fromkeys([*lines, *self.params.levels]))],
            note(plotted, {axis: orders[axis] for axis in self._averaged(collected)}),
        )

    @property
    def _of_setting(self) -> bool:
        return bool(self.params.x.startswith(SETTING))

    def _runs(self, collected: Collected) -> pd.DataFrame:
        """The planned runs that are plotted, with their metrics (NaN where a run is missing), the row of
        each, and the values along x.
        """
        runs = collected.runs[[*collected.keys, "spec"]]
        chosen = selected(collected, quantities=self.params.metrics)
        frame = with_seed(runs.merge(chosen, on=collected.keys, how="left").assign(row=runs["method"]))
        drawn = fnmatch.filter(collected.experiment.rows, self.params.rows)
        frame = frame[frame["row"].isin([*drawn, *self.params.levels])].copy()
        if self._of_setting:
            key, level = self.params.x.removeprefix(SETTING), frame["row"].isin(self.params.levels)
            frame[self.params.x] = frame["spec"].map(lambda text: setting(text, key)).where(~level)
            methods = frame["spec"].map(lambda text: json.loads(text)["method"]["name"])
            frame["method"] = frame["row"].where(level, methods)
        return frame

    def _orders(self, collected: Collected, frame: pd.DataFrame) -> dict[str, Sequence[Any]]:
        """The values of rows, axes and x in their order."""
        if not self._of_setting:
            drawn = [row for row in collected.experiment.rows if row in {*frame["row"]}]
            return {**collected.order, "method": drawn}
        methods = [name for name in frame["method"].unique() if name not in self.params.levels]
        places = sorted(frame[self.params.x].dropna().unique())
        return {**collected.order, "method": methods, self.params.x: places}

    def _averaged(self, collected: Collected) -> list[str]:
        used = {"method", "seed", self.params.x, self.params.lines, self.params.panels}
        return [axis for axis in collected.keys if axis not in used]

    def _whole(self, collected: Collected, runs: pd.DataFrame) -> pd.DataFrame:
        """Without runs that hold out nothing, where a mean over held-out domains is taken."""
        if "target" not in self._averaged(collected):
            return runs
        several = runs.groupby(["panel", "label"], dropna=False)["target"].transform("nunique") > 1
        return runs[~several | (runs["target"] != NONE)]

    def _published(
        self, workspace: Workspace, collected: Collected, runs: pd.DataFrame, means: pd.DataFrame
    ) -> pd.DataFrame:
        """The published value of each mean, where its runs vary along no axis but held-out domains."""
        axes = {axis: "row" if axis == "method" else axis for axis in collected.keys if axis != "seed"}
        groups = runs.groupby(["panel", "label", "x"], dropna=False)
        points = pd.DataFrame({axis: groups[column].agg(_common) for axis, column in axes.items()}).dropna()
        metrics = {axis_label(metric): metric for metric in self.params.metrics}
        found = means[means["mark"] == "mean"].merge(points.reset_index(), on=["panel", "label", "x"])
        found["y"] = published(
            workspace, collected, found[[*axes]].assign(metric=found["y_axis"].map(metrics))
        )
        found = found[["panel", "label", "x", "y", "y_axis"]].dropna(subset="y")
        return found.assign(mark="published", style="diamond")


def _common(values: pd.Series[Any]) -> Any:
    """The value that runs have in common, AVERAGE of several held-out domains, else None."""
    several = AVERAGE if values.name == "target" else None
    return values.iloc[0] if values.nunique(dropna=False) == 1 else several


def _by_seed(runs: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """The mean of each seed over the axes that are averaged, where none of its runs is missing."""
    keys = ["panel", "label", "x", "seed"]
    values = runs.melt(keys, metrics, "metric", "y").astype({"y": float})
    seeds = values.groupby(["metric", *keys], sort=False)["y"].mean(skipna=False).reset_index()
    return seeds.assign(y_axis=seeds.pop("metric").map(axis_label))


def _measured(metrics: Sequence[str]) -> str:
    """Accuracy, where the metrics are of it alone; else what they are of."""
    return "Accuracy" if {quantity(name).metric for name in metrics} == {DEFAULT} else "Metrics"


def _axis(
    column: pd.Series[Any], params: Any, order: Sequence[Any], by_name: bool
) -> tuple[pd.Series[Any], Axis]:
    """The values along x, and its axis; names stand in the order of the file."""
    name = axis_name(params.x)
    if by_name or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in order):
        return column.map(_name, na_action="ignore"), Axis(name, names=[*map(_name, order)])
    log_scale = params.scale == "log" or (params.scale == "auto" and _geometric(order))
    ticks = sorted(map(float, order))
    return column.astype(float), Axis(name, "log" if log_scale else "linear", ticks=ticks)


def _name(value: Any) -> str:
    """A value as a tick."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _positive(values: Sequence[Any]) -> bool:
    return all(
        isinstance(value, int | float) and not isinstance(value, bool) and value > 0 for value in values
    )


def _geometric(values: Sequence[float]) -> bool:
    """Whether values are more evenly spaced on a log scale than on a linear one; two cannot say."""
    if len(values) < 3 or not _positive(values):
        return False
    linear, log = np.diff(np.sort(values)), np.diff(np.log(np.sort(values)))
    return bool(log.std() / log.mean() < linear.std() / linear.mean() - 1e-9)
