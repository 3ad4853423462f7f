"""Heat map: every method minus another one, on every held-out domain."""

from fedshift.analysis.collected import Collected
from fedshift.analysis.figures import base
from fedshift.analysis.figures.base import Axis, Plot
from fedshift.analysis.figures.differences import MEAN, Differences
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
        frame, order = self._differences(collected)
        metric, domains = base.in_words(self.params.metric), frame.groupby("panel")["target"].nunique()
        better, worse = ("red", "blue") if lower_is_better(self.params.metric) else ("blue", "red")
        return Plot(
            f"{metric[0].upper()}{metric[1:]} minus that of {self.params.to}{self._unit}",
            frame[["panel", "method", "target", "y"]].rename(columns={"method": "label", "target": "x"}),
            Axis(),
            Axis(),
            note=f"mean over seeds of paired differences; {better}: better, {worse}: worse",
            size=(COLUMN * max(domains), 0.3 + LINE * len(order["method"])),
            heat=True,
            order={"panel": order["panel"], "label": order["method"], "x": [*order["target"], MEAN]},
        )
