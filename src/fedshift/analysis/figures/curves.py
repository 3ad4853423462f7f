"""Learning curves: accuracy or loss over rounds, bytes, seconds or local steps, a line per method."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.costs import sent
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series
from fedshift.analysis.figures._marks import around, axis_label, note, with_seed
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.printed.beside import AVERAGE, printed
from fedshift.analysis.quantities.select import curves
from fedshift.common.errors import FedshiftError, unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import quantity
from fedshift.experiments.schema import Experiment
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace

Point = dict[str, Any]
ROUNDS = "rounds"
GREY = "#57606a"  # of lines that are not highlighted
ALONG = {
    ROUNDS: "round",
    "bytes": "sent and received by all clients (MB)",
    "seconds": "seconds, a run's shared evenly by its rounds",
    "steps": "local steps of a client (mean)",
}


@dataclass(frozen=True)
class Params:
    """metrics: as tables name them, `[all, loss.all]`; a row of panels for each that has a value.
    rows: which rows are drawn, as a pattern: `fedrd*`.
    highlight: of many rows those in colour, as patterns, with a name each; the others are thin, grey and
        behind them, without published levels. None: all in colour.
    x: `rounds`, or what they took: `bytes` (without methods that send nothing), `seconds`, `steps` of local
        training.
    """

    metrics: tuple[str, ...] = ("id", "ood")
    x: Literal["rounds", "bytes", "seconds", "steps"] = "rounds"
    rows: str = "*"
    highlight: tuple[str, ...] = ()


class Curves(Figure):
    """Rows: the metrics, once per value of the further axes; panels: held-out domains, a row's own, and
    their average.

    Dashed: the published value, where it is of the same experiment. From three seeds on a band of one
        standard deviation; of two, thin lines.
    """

    name = "curves"
    Params = Params

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """The metrics and the rows exist."""
        patterns = [("rows", self.params.rows), *(("highlight", name) for name in self.params.highlight)]
        trained = experiment.methods  # an adapted row has no rounds
        for param, pattern in patterns:
            if not fnmatch.filter(trained, pattern):
                raise unknown(f"{where}.{param}", "trained row of this experiment", pattern, trained)
        for metric in self.params.metrics:
            quantity(metric, f"{where}.metrics")

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no run is finished."""
        frame = curves(collected, self.params.metrics)
        drawn = fnmatch.filter(collected.experiment.methods, self.params.rows)
        grey = [name for name in drawn if not self._highlighted(name)]
        frame = frame[frame["method"].isin(drawn)].reset_index(drop=True)
        if frame.empty:
            what = "holds no finished run"
            raise FedshiftError(collected.path, what, "Train the experiment, then collect it again.")
        frame["round"] *= self._each(collected, frame)
        frame = frame.dropna(subset=["round"]).reset_index(drop=True)
        if frame.empty:
            what = f"its runs have no {self.params.x} to draw against"
            raise FedshiftError(collected.path, what, "Say `x: rounds`.")
        rounds = float(frame["round"].min()), float(frame["round"].max())
        limits = rounds if rounds[0] < rounds[1] else None
        x = Axis(ALONG[self.params.x], limits=limits, whole=self.params.x == ROUNDS)
        rows, published = [], False
        for point, part in _points(collected, frame):
            part, targets = _with_average(
                part, collected, self.params.metrics, _targets(collected, frame, point)
            )
            for metric in (metric for metric in self.params.metrics if frame[metric].notna().any()):
                panels = []
                y = Axis(axis_label(metric))
                for target in targets:
                    own = part if target is None else part[part["target"] == target]
                    place = point if target is None else {**point, "target": target}
                    series = [*_lines(workspace, collected, own, place, metric, grey)]
                    published |= any(line.style == "level" for line in series)
                    panels.append(Panel(series, x, y, _title(target)))
                heading = ", ".join(
                    str(value) if axis == "data.dataset" else f"{axis} = {value}"
                    for axis, value in point.items()
                )
                rows.append(Row(panels, heading))
        one_seed = with_seed(frame)["seed"].nunique() == 1
        notes = [
            note(rows),
            "one seed" * one_seed,
            "dashed: published" * published,
            f"grey: {len(grey)} others" * bool(grey),
        ]
        about = "; ".join(filter(None, notes))
        labels = sorted(collected.experiment.rows, key=lambda name: name in grey)
        columns = max(len(row.panels) for row in rows)
        for row in rows:  # data sets differ in domains
            row.panels.extend(Panel([], x, row.panels[0].y) for _ in range(columns - len(row.panels)))
        size = (3.6, 2.7) if columns == 1 else (1.9, 2.1)
        names: Literal["ends", "beside"] = "ends" if self.params.x == ROUNDS else "beside"  # ends lie apart
        colours = dict.fromkeys(grey, GREY)
        return Panels("Learning curves", rows, labels, about, size, colours, names)

    def _highlighted(self, name: str) -> bool:
        patterns = self.params.highlight or ("*",)
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    def _each(self, collected: Collected, frame: pd.DataFrame) -> pd.Series[float]:
        """What a round took along x, for each row of `frame`: the mean over seeds, so that these have a
        common x.
        """
        if self.params.x == ROUNDS:
            return pd.Series(1, frame.index)
        runs = collected.runs[collected.runs["state"] == "finished"]
        rounds = runs["rounds"]
        total = {
            "bytes": sent(runs, "up") + sent(runs, "down"),
            "seconds": runs["seconds"],
            "steps": rounds * [*map(_steps, runs["spec"], runs["clients"], runs["bn"] != "none")],
        }[self.params.x]
        by = [key for key in collected.keys if key != "seed"]
        each = runs[by].assign(each=(total / rounds).astype(float)).groupby(by, dropna=False)["each"].mean()
        each = each.where(each > 0)  # of who sends nothing all rounds would stand at one place
        return frame[by].merge(each.reset_index(), on=by, how="left").set_axis(frame.index)["each"]


def _steps(text: str, clients: Sequence[Mapping[str, Any]], batch_norm: bool) -> float:
    """Local steps of a round, mean over clients: of its batches how many there are is not drawn."""
    from fedshift.federation.batches import schedule  # torch

    local = RunSpec.model_validate_json(text).local
    return fmean(len(schedule(client["train"], local, 0, 0, 0, batch_norm).cuts) for client in clients)


def _title(target: str | None) -> str:
    return {None: "", AVERAGE: "average", NONE: "nothing held out"}.get(target, f"held out: {target}")


def _lines(
    workspace: Workspace,
    collected: Collected,
    frame: pd.DataFrame,
    point: Point,
    metric: str,
    grey: Sequence[str],
) -> Iterator[Series]:
    """The lines of one panel, each method's mean and what lies around it, with its published level; of the
    grey ones, which come first, the mean alone.
    """
    frame = with_seed(frame)
    for method in [*grey, *(name for name in collected.experiment.methods if name not in grey)]:
        own = frame[frame["method"] == method]
        line, drawn = around(method, own, "round", metric, collected.protocol.ddof, "line")
        if line is None:
            continue
        if method in grey:
            yield Series(method, "mean", [*map(float, line.mean.index)], [*line.mean], "thin")
            continue
        yield from drawn
        value = printed(workspace, collected, method, point, metric)
        if value is not None:
            yield Series(method, "published", [0.0], [value], "level")


def _targets(collected: Collected, frame: pd.DataFrame, point: Point) -> list[Any]:
    """The held-out domains of the runs at a point, finished or not, of which `frame` has a curve; None of
    runs without.
    """
    if "target" not in collected.keys:
        return [None]
    runs = collected.runs
    for axis, value in point.items():
        runs = runs[runs[axis].isna() if pd.isna(value) else runs[axis] == value]
    asked = {*runs["target"].dropna()} & {*frame["target"].dropna()}
    return [target for target in collected.order["target"] if target in asked] or [None]


def _with_average(
    part: pd.DataFrame, collected: Collected, metrics: Sequence[str], targets: list[Any]
) -> tuple[pd.DataFrame, list[Any]]:
    """Curves at a point with those of the average over its held-out domains appended (rounds and seeds that
    all of these have), and the panels to draw.
    """
    averaged = [target for target in targets if target not in (None, NONE)]
    if len(averaged) < 2:
        return part, targets
    by = [key for key in [*collected.keys, "round"] if key != "target"]
    groups = part[part["target"].isin(averaged)].groupby(by, dropna=False)[[*metrics]]
    average = groups.mean()[groups.size() == len(averaged)].reset_index()
    return pd.concat([part, average.assign(target=AVERAGE)]), [*targets, AVERAGE]


def _points(collected: Collected, frame: pd.DataFrame) -> Iterator[tuple[Point, pd.DataFrame]]:
    """The values of the axes beyond target and seed, in the order of the file, each with its curves."""
    further = [key for key in collected.keys if key not in ("method", "target", "seed")]
    if not further:
        yield {}, frame
        return
    groups = dict(list(frame.groupby(further, sort=False, dropna=False)))

    def place(values: tuple[Any, ...]) -> list[int]:
        orders = (collected.order[axis] for axis in further)
        return [
            order.index(value) if value in order else -1 for order, value in zip(orders, values, strict=True)
        ]

    for values in sorted(groups, key=place):
        yield dict(zip(further, values, strict=True)), groups[values]
