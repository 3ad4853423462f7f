"""Sweep: a metric against the values of an axis, a line per method, data set or target."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import Any, Literal

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series, Spread, Style
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.printed.beside import AVERAGE, printed
from fedshift.analysis.quantities.aggregation import heading, in_percent
from fedshift.analysis.quantities.seeds import BANDS, over_seeds
from fedshift.analysis.quantities.select import selected
from fedshift.errors import FedshiftError, unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.quantity import quantity
from fedshift.experiments.schema import Experiment
from fedshift.workspace import Workspace

TITLES = {
    "id": "in-distribution",
    "ood": "out-of-distribution",
    "all": "ALL, clients by size",
    "avg": "AVG, mean of clients",
}
BESIDE = 0.6  # of the room between two names, for the marks of all lines side by side
PLACE = "place on x"  # no axis has a blank in its name


@dataclass(frozen=True)
class Params:
    """x: the axis to draw against.
    metrics: as tables name them; a row of panels for each; those without a value are left out.
    lines: the axis whose values are lines, or `method`.
    panels: the axis whose values are panels side by side, or `method`; "" for one panel (by `method` where
        lines are of another axis).
    scale: of x; `auto` is log where the values are evenly spaced there rather than linearly.
    """

    x: str = ""
    metrics: tuple[str, ...] = ("id", "ood")
    lines: str = "method"
    panels: str = ""
    scale: Literal["auto", "linear", "log"] = "auto"


class Sweep(Figure):
    """Means over the axes that are neither x, lines, panels nor seed, then over seeds, in the round that
    tables report.

    A seed that lacks a run at some value is left out there. From three seeds on a band of one standard
    deviation; of fewer, thin lines.
    Diamonds: the published value, where it is of the same experiment. Values of x that are names stand side
        by side, without lines.
    """

    name = "sweep"
    Params = Params

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """Axes and metrics exist, each axis is used once, and a log scale has positive values."""
        for key, valid in (("x", [*axes]), ("lines", ["method", *axes]), ("panels", ["", "method", *axes])):
            if (name := getattr(self.params, key)) not in valid:
                raise unknown(f"{where}.{key}", "axis", name, filter(None, valid))
        for metric in self.params.metrics:
            quantity(metric, f"{where}.metrics")
        used = [name for name in (self.params.x, self.params.lines, self.params.panels) if name]
        if len({*used}) < len(used):
            raise FedshiftError(where, "uses an axis twice", "Name different axes for x, lines and panels.")
        if "method" not in used and self.params.panels and len(experiment.rows) > 1:
            what = "draws several methods as one line"
            raise FedshiftError(where, what, "Say `lines: method` or `panels: method`.")
        if self.params.scale == "log" and not _positive(axes[self.params.x]):
            what = f"the axis '{self.params.x}' has values that no log scale shows"
            raise FedshiftError(f"{where}.scale", what, "Leave it out, or say linear.")

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no finished run has a value."""
        orders = _orders(collected)
        by = self.params.panels or ("method" if self.params.lines != "method" else "")
        frame = collected.runs[collected.keys].merge(
            selected(collected, quantities=self.params.metrics), on=collected.keys, how="left"
        )
        if "seed" not in frame:
            frame = frame.assign(seed=0)
        frame[PLACE], x = _places(pd.Series(frame[self.params.x]), self.params, orders[self.params.x])
        rows = []
        for metric in (metric for metric in self.params.metrics if frame[metric].notna().any()):
            y, panels = Axis(_title(metric)), []
            for panel in orders[by] if by else [None]:
                part = frame if panel is None else frame[frame[by] == panel]
                title = "" if panel is None else str(panel) if by == "method" else f"{by} = {panel}"
                panels.append(
                    Panel([*self._series(workspace, collected, part, metric, x.whole)], x, y, title)
                )
            rows.append(Row(panels))
        if not rows:
            what = f"no finished run has a value of {', '.join(self.params.metrics)}"
            raise FedshiftError(collected.path, what, "Train the experiment, then collect it again.")
        labels = [str(value) for value in orders[self.params.lines]]
        note = _note(rows, [axis for axis in self._averaged(collected) if len(orders[axis]) > 1])
        return Panels(f"Accuracy against {self.params.x}", rows, labels, note)

    def _averaged(self, collected: Collected) -> list[str]:
        used = {"method", "seed", self.params.x, self.params.lines, self.params.panels}
        return [axis for axis in collected.keys if axis not in used]

    def _series(
        self, workspace: Workspace, collected: Collected, frame: pd.DataFrame, metric: str, names: bool
    ) -> Iterator[Series]:
        """The lines of one panel, a row of `frame` for each of its planned runs. names: the values of x are
        names.
        """
        lines = _orders(collected)[self.params.lines]
        for index, value in enumerate(lines):
            own, label = frame[frame[self.params.lines] == value], str(value)
            beside = BESIDE * ((index + 0.5) / len(lines) - 0.5) if names else 0.0
            if "target" in self._averaged(collected) and own["target"].nunique() > 1:
                own = own[own["target"] != NONE]
            whole = own.groupby([PLACE, "seed"])[metric].apply(lambda values: values.mean(skipna=False))
            seeds = whole.dropna().reset_index()
            line = over_seeds(seeds, PLACE, metric, collected.protocol.ddof)
            if line is None:
                continue
            spread = None
            if line.kind == "std":
                spread = Spread([*line.low], [*line.high], "bar" if names else "band")
            elif line.kind == "range":
                style: Style = "ring" if names else "thin"
                for seed, part in seeds.groupby("seed"):
                    yield Series(label, f"seed {seed}", [*(part[PLACE] + beside)], [*part[metric]], style)
            places = [*map(float, line.mean.index)]
            yield Series(
                label,
                "mean",
                [place + beside for place in places],
                [*line.mean],
                "dot" if names else "marked",
                spread,
            )
            numbers = [
                self._published(workspace, collected, own[own[PLACE] == place], metric) for place in places
            ]
            known = [
                (place + beside, number)
                for place, number in zip(places, numbers, strict=True)
                if number is not None
            ]
            if known:
                xs, ys = zip(*known, strict=True)
                yield Series(label, "published", xs, ys, "diamond")

    def _published(
        self, workspace: Workspace, collected: Collected, runs: pd.DataFrame, metric: str
    ) -> float | None:
        """The printed value of a point, whose runs these are; None where they vary along an axis that is no
        target.
        """
        values = {axis: runs[axis].unique() for axis in collected.keys if axis != "seed"}
        if any(len(several) > 1 for axis, several in values.items() if axis != "target"):
            return None
        point = {axis: AVERAGE if len(several) > 1 else several[0] for axis, several in values.items()}
        return printed(workspace, collected, str(point.pop("method")), point, metric)


def _orders(collected: Collected) -> dict[str, Sequence[Any]]:
    return {"method": collected.experiment.rows, **collected.order}


def _note(rows: Sequence[Row], averaged: Sequence[str]) -> str:
    """What lies around the means, and what these are over."""
    series = [series for row in rows for panel in row.panels for series in panel.series]
    kinds = {line.spread.kind for line in series if line.spread}
    parts = {
        BANDS["std"]: "band" in kinds,
        BANDS["std"].replace("band", "bar"): "bar" in kinds,
        "thin lines: single seeds": any(line.style == "thin" for line in series),
        "rings: single seeds": any(line.style == "ring" for line in series),
        f"mean over {', '.join(averaged)}": bool(averaged),
        "diamond: published": any(line.mark == "published" for line in series),
    }
    return "; ".join(text for text, holds in parts.items() if holds)


def _places(column: pd.Series[Any], params: Params, order: Sequence[Any]) -> tuple[pd.Series[Any], Axis]:
    """The positions of x, and its axis; names are numbered in the order of the file."""
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in order):
        places = {value: float(place) for place, value in enumerate(order)}
        ticks = {place: str(value) for value, place in places.items()}
        limits = (-0.5, len(order) - 0.5)
        return column.map(places), Axis(params.x, ticks=ticks, limits=limits, whole=True)
    log_scale = params.scale == "log" or (params.scale == "auto" and _geometric(order))
    ticks = {float(value): f"{value:g}" for value in sorted(order)}
    return column.astype(float), Axis(params.x, "log" if log_scale else "linear", ticks)


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


def _title(metric: str) -> str:
    """What the y axis of a metric's panels says."""
    if metric in TITLES:
        return f"{TITLES[metric]}\naccuracy (%)"
    return heading(metric) + (" (%)" if in_percent(metric) else "")
