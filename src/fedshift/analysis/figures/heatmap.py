"""Heat map: every method minus another one, on every held-out domain."""

import pandas as pd

from fedshift.analysis.collected import Collected
from fedshift.analysis.figures import base
from fedshift.analysis.figures.base import Axis, Plot
from fedshift.analysis.figures.differences import Differences
from fedshift.analysis.quantities import lower_is_better
from fedshift.storage.workspace import Workspace

LINE, COLUMN = 0.21, 0.62  # inches: height of a method, width of a domain


class Heatmap(Differences):
    """One line per method, the largest mean first; one column per held-out domain, and one for their mean.

    There is a panel per value of the axes other than target and seed. A cell is the mean difference over
    seeds, paired by seed.
    """

    name = "heatmap"

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        frame, panels = self._differences(collected)
        cells = frame.groupby(["panel", "method", "target"], sort=False)["y"].mean().reset_index()
        means = cells.groupby(["panel", "method"], sort=False)["y"].agg(y="mean", own="size").reset_index()
        domains_of = cells.groupby("panel")["target"].nunique()
        means = means[means["own"] == means["panel"].map(domains_of)].assign(target="mean")
        together = pd.concat([cells, means]).rename(columns={"method": "label", "target": "x"})
        order = cells.groupby("method")["y"].mean().sort_values(ascending=False, kind="stable").index
        domains = [name for name in collected.order["target"] if (together["x"] == name).any()]
        plotted = base.in_order(together, panel=panels, label=[*order], x=[*domains, "mean"])
        metric = base.in_words(self.params.metric)
        better, worse = ("red", "blue") if lower_is_better(self.params.metric) else ("blue", "red")
        columns = max(plotted.groupby("panel")["x"].nunique())
        return Plot(
            f"{metric[0].upper()}{metric[1:]} minus that of {self.params.to}{self._unit}",
            plotted[["panel", "label", "x", "y"]],
            Axis(),
            Axis(),
            [*order],
            f"mean over seeds of paired differences; {better}: better, {worse}: worse",
            size=(COLUMN * columns, 0.3 + LINE * len(order)),
            heat=True,
        )
