"""Learning curves: accuracy or loss over rounds or bytes, a line per method."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from fedshift.analysis.cells import sent
from fedshift.analysis.collected import Collected
from fedshift.analysis.figures import base
from fedshift.analysis.figures.base import Axis, Figure, Metric, Plot, TrainedRows
from fedshift.analysis.published import AVERAGE
from fedshift.analysis.quantities import curves
from fedshift.common.errors import FedshiftError
from fedshift.experiments.axes import NONE
from fedshift.storage.workspace import Workspace

PANEL = ["row", "panel", "label", "y_axis"]
ROUNDS = "rounds"
ALONG = {ROUNDS: "round", "bytes": "sent and received by all clients (MB)"}


@dataclass(frozen=True)
class Params:
    """`metrics`: as in tables, `[all, loss.all]`; one row of panels for each that has a value.
    `rows`: a pattern of the rows to plot: `fedrd*`.
    `highlight`: patterns of the rows in colour, if there are many. The others are thin, grey, behind them and
        without published levels. Empty: all rows are in colour.
    `x`: `rounds`, or the `bytes` sent and received by then (without methods that send nothing).
    """

    metrics: tuple[Metric, ...] = ("id", "ood")
    x: Literal["rounds", "bytes"] = "rounds"
    rows: TrainedRows = "*"
    highlight: tuple[TrainedRows, ...] = ()


class Curves(Figure):
    """A row of panels per metric and value of the other axes; panels are held-out domains and their average.

    Dashed lines are published values of the same experiment. With three or more seeds, a band shows one
    standard deviation; with two, thin lines show the seeds.
    """

    name = "curves"
    Params = Params

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        metrics = [*self.params.metrics]
        drawn = fnmatch.filter(collected.experiment.methods, self.params.rows)
        patterns = self.params.highlight or ("*",)
        grey = [name for name in drawn if not any(fnmatch.fnmatchcase(name, one) for one in patterns)]
        frame = curves(collected, metrics)
        frame = frame[frame["method"].isin(drawn)].reset_index(drop=True)
        if frame.empty:
            raise base.nothing_finished(collected, "holds no finished run")
        frame["x"] = frame["round"] if self.params.x == ROUNDS else frame["round"] * _bytes(collected, frame)
        frame, order = base.placed(collected, frame.dropna(subset="x"))
        if frame.empty:
            what = "its runs sent no bytes to draw against"
            raise FedshiftError(collected.path, what, "Say `x: rounds`.")
        average = base.word("target", AVERAGE)
        if "target" in frame:
            frame = pd.concat([frame, _average(collected, frame, metrics).assign(panel=average)])
        lines, labels = base.by_metric(collected, frame, metrics)
        lines = lines.assign(label=lines["method"]).dropna(subset="y")
        means = base.marks(collected, lines, [*PANEL, "x"], "line")
        means = means[~means["label"].isin(grey) | (means["mark"] == "mean")]
        means.loc[means["label"].isin(grey), ["style", "low", "high"]] = "thin", None, None
        levels = base.published(workspace, collected, lines[~lines["label"].isin(grey)], PANEL)
        levels = levels.assign(x=np.nan, mark="published", style="level")
        plotted = pd.concat([means, levels], ignore_index=True)
        ends = float(frame["x"].min()), float(frame["x"].max())
        limits = ends if ends[0] < ends[1] else None
        alone = plotted.groupby("row")["panel"].nunique().max() == 1
        return Plot(
            "Learning curves",
            plotted,
            Axis(ALONG[self.params.x], limits=limits, whole=self.params.x == ROUNDS),
            [*map(Axis, labels)],
            sorted(collected.experiment.rows, key=lambda name: name in grey),
            base.notes(
                base.note(plotted),
                frame["seed"].nunique() == 1 and "one seed",
                grey and f"grey: {len(grey)} others",
            ),
            size=(3.6, 2.7) if alone else (1.9, 2.1),
            colours=dict.fromkeys(grey, base.GREY),
            order={
                "row": order["row"],
                "y_axis": labels,
                "panel": ["", *order["panel"], average],
                "label": sorted(drawn, key=lambda name: name not in grey),
            },
        )


def _average(collected: Collected, frame: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Curves of the mean over several held-out domains of a row of panels, at x and seeds that all have."""
    runs = collected.runs[collected.runs["target"].isin({*frame["target"]} - {NONE})]
    planned = runs["target"].groupby(base.placed(collected, runs)[0]["row"]).nunique()
    by = [key for key in dict.fromkeys([*collected.keys, "row", "x", "seed"]) if key != "target"]
    groups = frame[frame["target"].notna() & (frame["target"] != NONE)].groupby(by, dropna=False)
    means = groups[[*metrics]].mean().assign(count=groups.size()).reset_index()
    wanted = means["row"].map(planned)
    return means[(means["count"] == wanted) & (wanted > 1)].assign(target=AVERAGE)


def _bytes(collected: Collected, frame: pd.DataFrame) -> pd.Series[float]:
    """The MB of a round of each row of `frame`: the mean over seeds, so that they share the same x."""
    runs = collected.runs[collected.runs["state"] == "finished"]
    by = [key for key in collected.keys if key != "seed"]
    total = (sent(runs, "up") + sent(runs, "down")).astype(float)
    each = runs[by].assign(each=total / runs["rounds"]).groupby(by, dropna=False)["each"].mean()
    each = each.where(each > 0)  # for methods that send nothing, all rounds would have the same x
    return frame[by].merge(each.reset_index(), on=by, how="left").set_axis(frame.index)["each"]
