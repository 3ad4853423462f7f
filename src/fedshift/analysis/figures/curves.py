"""Learning curves: accuracy or loss over rounds, bytes, seconds or local steps, a line per method."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedshift.analysis.collected import Collected
from fedshift.analysis.columns import sent
from fedshift.analysis.comparable import AVERAGE
from fedshift.analysis.figures._queries import (
    axis_label,
    headings,
    in_order,
    marks,
    note,
    nothing_finished,
    panel_of,
    published,
    with_seed,
)
from fedshift.analysis.figures.base import Axis, Figure, Plot
from fedshift.analysis.quantities import curves
from fedshift.common.errors import FedshiftError, unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import quantity
from fedshift.experiments.schema import Experiment
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace

PLOTTED = ["row", "panel", "label", "y_axis", "x", "seed", "y"]
ROUNDS = "rounds"
GREY = "#8c959f"  # of lines that are not highlighted
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
    """Rows: the metrics, once per value of the other axes; panels: held-out domains, a row's own, and their
    average.

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

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        """Raises FedshiftError where no run is finished."""
        metrics = [*self.params.metrics]
        drawn = fnmatch.filter(collected.experiment.methods, self.params.rows)
        patterns = self.params.highlight or ("*",)
        grey = [name for name in drawn if not any(fnmatch.fnmatchcase(name, one) for one in patterns)]
        labels = [*grey, *(name for name in drawn if name not in grey)]
        frame = with_seed(curves(collected, metrics))
        frame = frame[frame["method"].isin(drawn)].reset_index(drop=True)
        if frame.empty:
            raise nothing_finished(collected, "holds no finished run")
        frame["x"] = frame["round"] * _each(collected, frame, self.params.x)
        frame = frame.dropna(subset="x")
        if frame.empty:
            what = f"its runs have no {self.params.x} to draw against"
            raise FedshiftError(collected.path, what, "Say `x: rounds`.")
        frame["row"], rows = headings(collected, frame)
        targets = collected.order.get("target", [])
        if targets:
            frame = pd.concat([frame, _average(collected, frame, metrics)], ignore_index=True)
            frame["panel"] = frame["target"].map({**{t: panel_of(t) for t in targets}, AVERAGE: AVERAGE})
        frame["panel"] = frame["panel"].fillna("") if "panel" in frame else ""
        points = [key for key in collected.keys if key not in ("method", "seed")]
        lines = frame.rename(columns={"method": "label"}).melt(
            [*points, "row", "panel", "label", "x", "seed"], metrics, "metric", "y"
        )
        lines = lines.assign(y_axis=lines["metric"].map(axis_label)).dropna(subset="y")
        if lines.empty:
            raise nothing_finished(collected, f"no finished run has a value of {', '.join(metrics)}")
        means = marks(lines[PLOTTED], collected.protocol.ddof, "line")
        means = means[~means["label"].isin(grey) | (means["mark"] == "mean")]
        means.loc[means["label"].isin(grey), ["style", "low", "high"]] = "thin", None, None
        levels = lines[~lines["label"].isin(grey)].drop_duplicates([*points, "label", "metric"])
        at = levels.rename(columns={"label": "method"})[["method", "metric", *points]]
        levels = levels.assign(y=published(workspace, collected, at), x=np.nan)
        levels = levels.dropna(subset="y").assign(mark="published", style="level")
        plotted = in_order(
            pd.concat([means, levels[[*PLOTTED[:4], "x", "y", "mark", "style"]]], ignore_index=True),
            row=rows, y_axis=[axis_label(metric) for metric in metrics],
            panel=["", *map(panel_of, targets), AVERAGE], label=labels,
        )  # fmt: skip
        notes = [
            note(plotted),
            "one seed" * (frame["seed"].nunique() == 1),
            f"grey: {len(grey)} others" * bool(grey),
        ]
        ends = float(frame["x"].min()), float(frame["x"].max())
        return Plot(
            "Learning curves",
            plotted,
            Axis(ALONG[self.params.x], limits=ends if ends[0] < ends[1] else None,
                 whole=self.params.x == ROUNDS),
            [Axis(label) for label in plotted["y_axis"].unique()],
            sorted(collected.experiment.rows, key=lambda name: name in grey),
            "; ".join(filter(None, notes)),
            size=(3.6, 2.7) if plotted.groupby("row")["panel"].nunique().max() == 1 else (1.9, 2.1),
            colours=dict.fromkeys(grey, GREY),
        )  # fmt: skip


def _average(collected: Collected, frame: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Curves of the mean over the held-out domains of a row of panels, where it has several: at what x and
    seeds all of these have.
    """
    runs = collected.runs[collected.runs["target"].isin({*frame["target"]} - {NONE})]
    planned = runs["target"].groupby(headings(collected, runs)[0]).nunique()
    by = [key for key in [*collected.keys, "row", "x"] if key != "target"]
    by += ["seed"] * ("seed" not in by)
    groups = frame[frame["target"].notna() & (frame["target"] != NONE)].groupby(by, dropna=False)
    means = groups[[*metrics]].mean().assign(count=groups.size()).reset_index()
    wanted = means["row"].map(planned)
    return means[(means["count"] == wanted) & (wanted > 1)].assign(target=AVERAGE)


def _each(collected: Collected, frame: pd.DataFrame, along: str) -> pd.Series[float]:
    """What a round took along x, for each row of `frame`: the mean over seeds, so that these have a
    common x.
    """
    if along == ROUNDS:
        return pd.Series(1, frame.index)
    runs = collected.runs[collected.runs["state"] == "finished"]
    rounds = runs["rounds"]
    total = {
        "bytes": sent(runs, "up") + sent(runs, "down"),
        "seconds": runs["seconds"],
        "steps": rounds * [*map(_steps, runs["spec"], runs["clients"], runs["bn"] != "none")],
    }[along]
    by = [key for key in collected.keys if key != "seed"]
    each = runs[by].assign(each=(total / rounds).astype(float)).groupby(by, dropna=False)["each"].mean()
    each = each.where(each > 0)  # of methods that send nothing all rounds would have one x
    return frame[by].merge(each.reset_index(), on=by, how="left").set_axis(frame.index)["each"]


def _steps(text: str, clients: Sequence[Mapping[str, Any]], batch_norm: bool) -> float:
    """Local steps of a round, mean over clients; the number of a client's batches is not random."""
    from fedshift.federation.batches import schedule  # torch

    local = RunSpec.model_validate_json(text).local
    return fmean(len(schedule(client["train"], local, 0, 0, 0, batch_norm).cuts) for client in clients)
