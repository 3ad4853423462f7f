"""Differences: how far each method lies above or below another one, on each held-out domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fedshift.analysis.collected import Collected
from fedshift.analysis.figures._queries import (
    headings,
    in_order,
    in_words,
    nothing_finished,
    over_seeds,
    with_seed,
)
from fedshift.analysis.figures.base import Axis, Figure, Plot
from fedshift.analysis.quantities import in_percent, selected
from fedshift.common.errors import FedshiftError, unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import quantity
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

LINE, BLANK, WIDTH = 0.21, 0.7, 3.6  # inches: a method, around all, a panel
THIN = {"std": "± one standard deviation over seeds", "range": "the lower to the higher of two seeds"}
MEAN, GREY = "mean", "#8c959f"


@dataclass(frozen=True)
class Params:
    """to: the row that the others are compared with.
    metric: as tables name it.
    """

    to: str = "fedavg"
    metric: str = "ood"


class Differences(Figure):
    """A line per method, the largest mean on top; a panel per value of the axes beyond target and seed.

    A dot is the mean over seeds of the difference on one held-out domain, paired by seed; its thin line is
    one standard deviation to each side where it has three seeds; where none has, it goes from the lower to
    the higher of two. A grey bar from 0 is the mean over domains, where none of them is missing.
    """

    name = "differences"
    Params = Params

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """Row and metric exist, and there is an axis of held-out domains."""
        if self.params.to not in experiment.rows:
            raise unknown(f"{where}.to", "row of this experiment", self.params.to, experiment.rows)
        quantity(self.params.metric, f"{where}.metric")
        if "target" not in axes:
            raise FedshiftError(where, "draws held-out domains, and 'target' is no axis", "Add it to `axes`.")

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        """Raises FedshiftError where no run has its counterpart."""
        frame = self._differences(collected)
        if frame.empty:
            raise nothing_finished(
                collected, f"holds no run of another method beside one of {self.params.to}"
            )
        frame["panel"], panels = headings(collected, frame)
        frame = frame.rename(columns={"method": "name", "target": "label"})
        means = frame.groupby(["name", "label"])["y"].mean().groupby("name").mean()
        methods = [*means.sort_values(ascending=False, kind="stable").index]
        domains = [name for name in collected.order["target"] if (frame["label"] == name).any()]

        dots = over_seeds(
            frame[["panel", "label", "name", "seed", "y"]], collected.protocol.ddof, along="name"
        )
        kind = "std" if (dots["kind"] == "std").any() else "range"
        dots.loc[dots["kind"] != kind, ["low", "high"]] = float("nan")
        whole = dots.groupby(["panel", "name"])["y"].agg(["mean", "count"]).reset_index()
        whole = whole[whole["count"] == whole["panel"].map(dots.groupby("panel")["label"].nunique())]
        ends = {"low": whole["mean"].clip(upper=0), "high": whole["mean"].clip(lower=0)}
        whole = whole.assign(y=whole["mean"], label=MEAN, style="square", **ends)
        plotted = in_order(pd.concat([whole, dots]), panel=panels, label=[MEAN, *domains], name=methods)

        thin = f"; thin line: {THIN[kind]}" if dots["low"].notna().any() else ""
        unit = " (points)" if in_percent(self.params.metric) else ""
        return Plot(
            f"Differences from {self.params.to}",
            plotted.assign(x=plotted["y"], y=plotted["name"]),
            Axis(f"{in_words(self.params.metric)}\nminus that of {self.params.to}{unit}"),
            Axis(names=methods),
            [*domains, MEAN],
            f"grey: mean over held-out domains{thin}",
            size=(WIDTH, BLANK + LINE * len(methods)),
            colours={MEAN: GREY},
            rules={"x": [0.0]},
        )

    def _differences(self, collected: Collected) -> pd.DataFrame:
        """A row per run whose counterpart is there, too: keys, and the difference as `y`."""
        metric = self.params.metric
        frame = with_seed(selected(collected, quantities=[metric]))
        frame = frame[frame["target"] != NONE].dropna(subset=[metric])
        by = sorted({*collected.keys, "seed"} - {"method"})
        own = frame["method"] == self.params.to
        pairs = frame[~own].merge(frame.loc[own, [*by, metric]], on=by, suffixes=("", " to"))
        return pairs.assign(y=pairs[metric] - pairs[f"{metric} to"])
