"""Differences: every method minus a reference method, on each held-out domain."""

from dataclasses import dataclass

import pandas as pd

from fedshift.analysis.collected import Collected
from fedshift.analysis.figures import base
from fedshift.analysis.figures.base import Axes, Axis, Figure, Metric, Plot, Row
from fedshift.analysis.page import in_percent
from fedshift.analysis.quantities import selected
from fedshift.common.errors import FedshiftError
from fedshift.experiments.axes import NONE
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

LINE, BLANK, WIDTH = 0.21, 0.7, 3.6  # inches: a method, around all, a panel
MEAN = "mean"


@dataclass(frozen=True)
class Params:
    """`to`: the row that the others are compared with.
    `metric`: as in tables.
    """

    to: Row = "fedavg"
    metric: Metric = "ood"


class Differences(Figure):
    """One line per method, the largest mean on top; one panel per value of the other axes.

    Other axes are those except target and seed. A dot is the mean over seeds of the difference on one
    held-out domain, paired by seed. Its thin line is one standard deviation on each side with three or more
    seeds, or the range of two. A grey bar from 0 is the mean over domains, if no domain is missing.
    """

    name = "differences"
    Params = Params

    def check(self, experiment: Experiment, axes: Axes, where: str) -> None:
        """Also check that there is an axis of held-out domains."""
        super().check(experiment, axes, where)
        if "target" not in axes:
            what = "plots held-out domains, and 'target' is not an axis"
            raise FedshiftError(where, what, "Add it to `axes`.")

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        frame, panels = self._differences(collected)
        frame = frame.rename(columns={"method": "name", "target": "label"})
        means = frame.groupby(["name", "label"])["y"].mean().groupby("name").mean()
        methods = [*means.sort_values(ascending=False, kind="stable").index]
        domains = [name for name in collected.order["target"] if (frame["label"] == name).any()]

        columns = ["panel", "label", "name", "seed", "y"]
        dots = base.over_seeds(frame[columns], collected.protocol.ddof)
        thin = "thin line: ± one standard deviation over seeds"
        if (dots["seeds"] < base.ENOUGH).all():
            thin, two = "thin line: the lower to the higher of two seeds", dots["seeds"] == 2
            dots = dots.assign(low=dots["least"].where(two), high=dots["most"].where(two))
        whole = dots.groupby(["panel", "name"])["y"].agg(y="mean", domains="count").reset_index()
        whole = whole[whole["domains"] == whole["panel"].map(dots.groupby("panel")["label"].nunique())]
        ends = {"low": whole["y"].clip(upper=0), "high": whole["y"].clip(lower=0)}
        whole = whole.assign(label=MEAN, style="square", **ends)
        plotted = base.in_order(pd.concat([whole, dots]), panel=panels, label=[MEAN, *domains], name=methods)

        metric = f" in {self.params.metric}" if self.params.metric != "ood" else ""
        return Plot(
            f"Differences from {self.params.to}{metric}",
            plotted.assign(x=plotted["y"], y=plotted["name"]),
            Axis(f"{base.in_words(self.params.metric)}\nminus that of {self.params.to}{self._unit}"),
            Axis(names=methods),
            [*domains, MEAN],
            base.notes("grey: mean over held-out domains", dots["low"].notna().any() and thin),
            size=(WIDTH, BLANK + LINE * len(methods)),
            colours={MEAN: base.GREY},
            rules={"x": [0.0]},
        )

    @property
    def _unit(self) -> str:
        return " (points)" if in_percent(self.params.metric) else ""

    def _differences(self, collected: Collected) -> tuple[pd.DataFrame, list[str]]:
        """One row per run that has its counterpart: keys, panel, difference as `y`; and all panels."""
        metric = self.params.metric
        frame = base.with_seed(selected(collected, quantities=[metric]))
        frame = frame[frame["target"] != NONE].dropna(subset=[metric])
        by = sorted({*collected.keys, "seed"} - {"method"})
        own = frame["method"] == self.params.to
        pairs = frame[~own].merge(frame.loc[own, [*by, metric]], on=by, suffixes=("", " to"))
        if pairs.empty:
            what = f"has no run of another method next to one of {self.params.to}"
            raise base.nothing_finished(collected, what)
        places, panels = base.headings(collected, pairs)
        return pairs.assign(y=pairs[metric] - pairs[f"{metric} to"], panel=places), panels
