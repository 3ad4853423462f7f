"""Clients: accuracy on each client's own samples, by its domain, as dots side by side or as a radar."""

from dataclasses import dataclass
from typing import Literal

from fedshift.analysis.clients import DOMAINS, by_client
from fedshift.analysis.collected import Collected
from fedshift.analysis.figures import base
from fedshift.analysis.figures.base import Axis, Figure, Plot
from fedshift.experiments.column import DEFAULT
from fedshift.storage.workspace import Workspace

WHOLE = 100.0
PLACE = ["panel", "label", "x"]


@dataclass(frozen=True)
class Params:
    """`style`: `dots`, or `radar`: one direction per client, for few methods.
    `scaled`: plot each client's values in percent of the largest among the methods, as in Fig. 3 of FDSE.
    """

    style: Literal["dots", "radar"] = "dots"
    scaled: bool = False


class Clients(Figure):
    """A panel per value of the axes other than target and seed.

    For runs that hold out different domains, the value is the mean over those in which a client's domain
    takes part. Dots have a bar of one standard deviation with three or more seeds; with fewer, rings show the
    seeds. A radar shows the means only.
    """

    name = "clients"
    Params = Params

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        # Without seeds that have a missing run: their mean would be over fewer held-out domains.
        finished = collected.runs["state"] == "finished"
        places = [collected.runs[key] for key in collected.keys if key != "target"]
        whole = collected.runs.loc[finished.groupby(places, dropna=False).transform("all"), collected.keys]
        frame = by_client(collected, DEFAULT).merge(whole)
        frame = frame.rename(columns={"method": "label", DOMAINS: "x", "value": "y"})
        if frame.empty:
            raise base.nothing_finished(collected, "holds no seed with all its runs")
        frame, order = base.placed(collected, frame.sort_values("client", kind="stable"))
        radar = self.params.style == "radar"
        seeds = (
            frame.assign(panel=frame["row"]).groupby([*PLACE, "seed"], sort=False)["y"].mean().reset_index()
        )
        if self.params.scaled:
            means = seeds.groupby(["panel", "x", "label"])["y"].transform("mean")
            seeds["y"] *= WHOLE / means.groupby([seeds["panel"], seeds["x"]]).transform("max")
        plotted = base.marks(collected, seeds, PLACE, "dot")
        if radar:
            plotted = plotted[plotted["mark"] == "mean"].assign(style="marked", low=None, high=None)
        unit = "% of the best" if self.params.scaled else "%"
        middle = max(0.0, 10 * (plotted["y"].min() // 10) - 10)
        limits = (middle, WHOLE) if radar else None
        most = plotted.groupby("panel")["x"].nunique().max()
        return Plot(
            "Accuracy by client",
            plotted,
            Axis("client, by its domain"),
            Axis(f"accuracy\non own samples ({unit})", limits=limits),
            note=base.notes(
                base.note(plotted, {"target": collected.order["target"]} if "target" in frame else {}),
                self.params.scaled and "100: the best method on this client",
                limits and f"middle: {middle:g}",
            ),
            size=(3.1, 2.9) if radar else (max(2.6, min(6.0, 0.5 * most)), 2.7),
            polar=radar,
            order={"panel": order["row"], "label": collected.experiment.rows},
        )
