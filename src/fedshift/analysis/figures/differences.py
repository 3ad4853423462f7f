"""Differences: every method minus a reference method, on each held-out domain."""

from dataclasses import dataclass

import numpy as np
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
        frame, order = self._differences(collected)
        methods = order["method"]
        whole, thin = frame["target"] == MEAN, "thin line: ± one standard deviation over seeds"
        if not (frame["seeds"] >= base.ENOUGH).any():
            thin, two = "thin line: the lower to the higher of two seeds", frame["seeds"] == 2
            frame = frame.assign(low=frame["least"].where(two), high=frame["most"].where(two))
        note = base.notes("grey: mean over held-out domains", frame["low"].notna().any() and thin)
        frame.loc[whole, "low"], frame.loc[whole, "high"] = frame["y"].clip(upper=0), frame["y"].clip(lower=0)
        style = np.where(whole, "square", "dot")
        metric = f" in {self.params.metric}" if self.params.metric != "ood" else ""
        return Plot(
            f"Differences from {self.params.to}{metric}",
            frame.rename(columns={"method": "y", "target": "label", "y": "x"}).assign(style=style),
            Axis(f"{base.in_words(self.params.metric)}\nminus that of {self.params.to}{self._unit}"),
            Axis(names=methods),
            [*order["target"], MEAN],
            note,
            size=(WIDTH, BLANK + LINE * len(methods)),
            colours={MEAN: base.GREY},
            rules={"x": [0.0]},
            order={"panel": order["panel"], "label": [MEAN, *order["target"]], "y": methods},
        )

    @property
    def _unit(self) -> str:
        return " (points)" if in_percent(self.params.metric) else ""

    def _differences(self, collected: Collected) -> tuple[pd.DataFrame, dict[str, list[str]]]:
        """Means of paired differences over seeds as y, and the orders of panel, target and method.

        They are on each held-out domain, then, as target MEAN, over all domains where none is missing.
        Methods are ordered by their mean over the runs of a domain, then over domains.
        """
        metric = self.params.metric
        frame = base.with_seed(selected(collected, quantities=[metric]))
        frame = frame[frame["target"] != NONE].dropna(subset=[metric])
        by = sorted({*collected.keys, "seed"} - {"method"})
        own = frame["method"] == self.params.to
        pairs = frame[~own].merge(frame.loc[own, [*by, metric]], on=by, suffixes=("", " to"))
        if pairs.empty:
            what = f"has no run of another method next to one of {self.params.to}"
            raise base.nothing_finished(collected, what)
        pairs["y"] = pairs[metric] - pairs[f"{metric} to"]
        pairs, order = base.placed(collected, pairs)
        pairs["panel"] = pairs["row"]
        dots = base.over_seeds(collected, pairs, ["panel", "target", "method"])
        means = dots.groupby(["panel", "method"])["y"].agg(y="mean", domains="count").reset_index()
        every = means["panel"].map(dots.groupby("panel")["target"].nunique())
        domains = [name for name in collected.order["target"] if (dots["target"] == name).any()]
        whole = means[means["domains"] == every].assign(target=MEAN)
        overall = pairs.groupby(["method", "target"])["y"].mean().groupby("method").mean()
        methods = [*overall.sort_values(ascending=False, kind="stable").index]
        order = {"panel": order["row"], "target": domains, "method": methods}
        return pd.concat([dots, whole], ignore_index=True), order
