"""Sweep: a metric against the values of an axis, a line per method, data set or target."""

from __future__ import annotations

import fnmatch
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import Any, ClassVar, Literal

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.costs.run_values import setting
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series, Style
from fedshift.analysis.figures._marks import (
    BESIDE,
    SETTING,
    SPACE,
    around,
    aside,
    axis_label,
    axis_name,
    note,
    with_seed,
)  # fmt: skip
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.printed.beside import AVERAGE, printed
from fedshift.analysis.quantities.select import selected
from fedshift.common.errors import FedshiftError, unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import DEFAULT, quantity
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

PLACE = "place on x"  # no axis has a blank in its name


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
    style: ClassVar[Style] = "marked"  # of means; at names dots
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

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no finished run has a value."""
        frame = self._runs(collected)
        orders = self._orders(collected, frame)
        x_is_setting = self.params.x.startswith(SETTING)
        by = self.params.panels or ("" if self.params.lines == "method" or x_is_setting else "method")
        frame[PLACE], x = _places(
            pd.Series(frame[self.params.x]), self.params, orders[self.params.x], self.by_name
        )
        rows = []
        for metric in (metric for metric in self.params.metrics if frame[metric].notna().any()):
            y, panels = Axis(axis_label(metric), from_zero=self.style == "filled"), []
            for panel in orders[by] if by else [None]:
                part = frame if panel is None else frame[frame[by] == panel]
                series = [*self._series(workspace, collected, part, metric, x.whole)]
                panels.append(Panel(series, x, y, _titled(by, panel)))
            rows.append(Row(panels))
        if not rows:
            what = f"no finished run has a value of {', '.join(self.params.metrics)}"
            raise FedshiftError(collected.path, what, "Train the experiment, then collect it again.")
        labels = [str(value) for value in orders[self.params.lines]]
        labels += [row for row in self.params.levels if row not in labels]
        about = note(rows, {axis: orders[axis] for axis in self._averaged(collected)})
        title = f"{_measured(self.params.metrics)} against {x.label}"
        names: Literal["ends", "beside"] = "beside" if self.style == "filled" else "ends"
        return Panels(title, rows, labels, about, names=names)

    def _runs(self, collected: Collected) -> pd.DataFrame:
        """The planned runs that are drawn, with their metrics (NaN where a run is missing), the row of each,
        and x.
        """
        runs = collected.runs[[*collected.keys, "spec"]]
        chosen = selected(collected, quantities=self.params.metrics)
        frame = runs.merge(chosen, on=collected.keys, how="left").assign(row=runs["method"])
        frame = with_seed(frame)
        drawn = fnmatch.filter(collected.experiment.rows, self.params.rows)
        frame = frame[frame["row"].isin([*drawn, *self.params.levels])]
        if self.params.x.startswith(SETTING):
            key = self.params.x.removeprefix(SETTING)
            places = frame["spec"].map(lambda text: setting(text, key))
            frame = frame.assign(**{self.params.x: places.where(~frame["row"].isin(self.params.levels))})
            methods = frame["spec"].map(lambda text: json.loads(text)["method"]["name"])
            frame["method"] = frame["row"].where(frame["row"].isin(self.params.levels), methods)
        return frame

    def _orders(self, collected: Collected, frame: pd.DataFrame) -> dict[str, Sequence[Any]]:
        """The values of rows, axes and x in their order."""
        orders: dict[str, Sequence[Any]] = {"method": collected.experiment.rows, **collected.order}
        if self.params.x.startswith(SETTING):
            methods = [name for name in frame["method"].unique() if name not in self.params.levels]
            places = sorted(frame[self.params.x].dropna().unique())
            orders |= {"method": [*methods, *self.params.levels], self.params.x: places}
        else:
            drawn = [row for row in collected.experiment.rows if row in {*frame["row"]}]
            orders["method"] = drawn
        return orders

    def _averaged(self, collected: Collected) -> list[str]:
        used = {"method", "seed", self.params.x, self.params.lines, self.params.panels}
        return [axis for axis in collected.keys if axis not in used]

    def _series(
        self, workspace: Workspace, collected: Collected, frame: pd.DataFrame, metric: str, names: bool
    ) -> Iterator[Series]:
        """The lines of one panel, a row of `frame` for each of its planned runs. names: the values of x are
        names.
        """
        lines = [
            line
            for line in self._orders(collected, frame)[self.params.lines]
            if line not in self.params.levels or self.params.lines != "method"
        ]
        ddof = collected.protocol.ddof
        for index, value in enumerate(lines):
            own, label = frame[frame[self.params.lines] == value], str(value)
            shift = aside(index, len(lines)) if names else 0.0
            own = self._whole(collected, own)
            seeds = self._over_axes(own, metric, PLACE)
            style = self.style if self.style == "filled" or not names else "dot"
            width = SPACE * BESIDE / len(lines)
            line, drawn = around(label, seeds, PLACE, metric, ddof, style, shift, width)
            yield from drawn
            if line is None:
                continue
            numbers = {
                float(place): self._published(workspace, collected, own[own[PLACE] == place], metric)
                for place in line.mean.index
            }
            known = {place + shift: number for place, number in numbers.items() if number is not None}
            if known:
                yield Series(label, "published", [*known], [*known.values()], "diamond")
        for row in self.params.levels:
            seeds = self._over_axes(self._whole(collected, frame[frame["row"] == row]), metric, "row")
            if seeds[metric].dropna().empty:
                continue
            ends = sorted({float(frame[PLACE].min()), float(frame[PLACE].max())})
            seeds = pd.concat([seeds.assign(**{PLACE: end}) for end in ends])
            yield from around(row, seeds, PLACE, metric, ddof, "line")[1]

    def _whole(self, collected: Collected, runs: pd.DataFrame) -> pd.DataFrame:
        """Without runs that hold out nothing, where a mean over held-out domains is taken."""
        averaged = "target" in self._averaged(collected) and runs["target"].nunique() > 1
        return runs[runs["target"] != NONE] if averaged else runs

    def _over_axes(self, runs: pd.DataFrame, metric: str, by: str) -> pd.DataFrame:
        """The mean of each seed over the axes that are averaged, where none of its runs is missing."""
        groups = runs.groupby([by, "seed"])[metric]
        return groups.mean(skipna=False).dropna().reset_index()

    def _published(
        self, workspace: Workspace, collected: Collected, runs: pd.DataFrame, metric: str
    ) -> float | None:
        """The printed value of a point, whose runs these are; None where they vary along an axis that is no
        target.
        """
        columns = {axis: "row" if axis == "method" else axis for axis in collected.keys if axis != "seed"}
        values = {axis: runs[column].unique() for axis, column in columns.items()}
        if any(len(several) > 1 for axis, several in values.items() if axis != "target"):
            return None
        point = {axis: AVERAGE if len(several) > 1 else several[0] for axis, several in values.items()}
        return printed(workspace, collected, str(point.pop("method")), point, metric)


def _titled(by: str, value: Any) -> str:
    """What stands above the panel of a value: which domain is held out, or the axis with its value."""
    if value is None:
        return ""
    if by == "target":
        return f"held out: {value}"
    return str(value) if by in ("method", "data.dataset") else f"{by} = {value}"


def _measured(metrics: Sequence[str]) -> str:
    """Accuracy, where the metrics are of it alone; else what they are of."""
    return "Accuracy" if {quantity(name).metric for name in metrics} == {DEFAULT} else "Metrics"


def _places(
    column: pd.Series[Any], params: Any, order: Sequence[Any], by_name: bool
) -> tuple[pd.Series[Any], Axis]:
    """The positions of x, and its axis; names are numbered in the order of the file."""
    name = axis_name(params.x)
    if by_name or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in order):
        places = {value: float(place) for place, value in enumerate(order)}
        ticks = {place: _name(value) for value, place in places.items()}
        limits = (-0.5, len(order) - 0.5)
        return column.map(places), Axis(name, ticks=ticks, limits=limits, whole=True)
    log_scale = params.scale == "log" or (params.scale == "auto" and _geometric(order))
    ticks = {float(value): f"{value:g}" for value in sorted(order)}
    return column.astype(float), Axis(name, "log" if log_scale else "linear", ticks)


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
    return _unevenness([log(value) for value in values]) < _unevenness(values) - 1e-9


def _unevenness(values: Sequence[float]) -> float:
    gaps = [after - before for before, after in pairwise(sorted(values))]
    return statistics.pstdev(gaps) / statistics.fmean(gaps)
