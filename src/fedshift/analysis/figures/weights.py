"""Weights: the weight of each client in the server's step, over rounds or at the end of training."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedshift.analysis.clients import SHARES
from fedshift.analysis.collected import Collected
from fedshift.analysis.figures import base
from fedshift.analysis.figures.base import Axis, Figure, Plot
from fedshift.storage.workspace import Workspace

LEAST = "the least of all clients"
PERCENT = 100
MANY = 60  # rounds, above which single ones hide each other
WINDOW = 21  # rounds per median, in that case
ENDS = (0.05, 0.95)  # quantiles of the weights at both edges of the band
MOVING = f"line: median of all seeds in {WINDOW} rounds; band: the middle {ENDS[1] - ENDS[0]:.0%} of these"


@dataclass(frozen=True)
class Params:
    """`at`: all `rounds`, or the `end` of training."""

    at: Literal["rounds", "end"] = "rounds"


class Weights(Figure):
    """Weights of the clients, for every method that records them.

    Over rounds there is a panel per held-out domain. It has a line per client, and one for the least weight
    of a round, that of the client that agrees least. At the end, there are dots per held-out domain. A grey
    rule marks equal weights, if all rounds have the same number of clients.

    With MANY rounds or more, a line is the median over seeds and the WINDOW rounds around each, in a band
    with 90% of them. With fewer rounds it is the mean over seeds of each round.
    """

    name = "weights"
    Params = Params

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        frame, order = base.of_methods(workspace, collected, *SHARES)
        clients = frame.groupby([*collected.keys, "round"], dropna=False)["client"].nunique()
        equal = {PERCENT / count for count in clients}
        targets = [*collected.order.get("target", []), "all"]
        if self.params.at == "rounds":
            plotted, about = _over_rounds(collected, frame)
            order["label"].append(LEAST)
            x, size = Axis("round", whole=True), (2.0, 1.9)
        else:
            last = base.at_the_end(frame).assign(x=frame.get("target", "all"))
            last = base.in_order(last, x=targets)
            plotted = base.marks(collected, last, ["row", "x", "label"], "dot")
            order = {"row": order["row"], "x": targets, "label": order["label"]}
            about, present = base.note(plotted), [*last["x"].unique()]
            x, size = Axis("held-out domain", names=present), (1.2 + 0.9 * len(present), 2.2)
        rule: Any = {"y": [*equal]} if len(equal) == 1 else {}
        return Plot(
            "Clients' weights",
            plotted,
            x,
            Axis("weight in the\nserver's step (%)"),
            note=base.notes(about, rule and "grey rule: all clients equally"),
            size=size,
            colours={LEAST: "#000000"},
            rules=rule,
            order=order,
        )


def _over_rounds(collected: Collected, frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Lines of clients (those of the same domains together) and of the least weight, with a note on them."""
    by = ["row", "panel", "round", "seed"]
    clients = frame.groupby([*by, "label"])["y"].mean().reset_index()
    least = frame.groupby(by)["y"].min().reset_index().assign(label=LEAST)
    lines = pd.concat([clients, least], ignore_index=True).rename(columns={"round": "x"})
    places, half = ["row", "panel", "label", "x"], WINDOW // 2
    if frame["round"].nunique() < MANY:
        plotted = base.marks(collected, lines, places, "line")
        return plotted[(plotted["label"] != LEAST) | (plotted["mark"] == "mean")], base.note(plotted)
    near = pd.concat([lines.assign(x=lines["x"] + shift) for shift in range(-half, half + 1)])
    quantiles = near.groupby(places)["y"].quantile(np.array([ENDS[0], 0.5, ENDS[1]])).unstack()
    moving = quantiles.set_axis(["low", "y", "high"], axis=1).reset_index()
    moving = moving.merge(lines[places].drop_duplicates())  # rounds with a value
    return moving.assign(mark="median", style="line"), MOVING
