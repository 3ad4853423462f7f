"""Embeddings: where the clients' embeddings lie at the end of training, or how they move over rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedshift.analysis.clients import DOMAINS, INDEX, of_clients
from fedshift.analysis.collected import Collected
from fedshift.analysis.figures._queries import (
    at_the_end,
    headings,
    holders,
    in_order,
    not_recorded,
    panel_of,
    with_seed,
)
from fedshift.analysis.figures.base import Axis, Figure, Plot
from fedshift.storage.workspace import Workspace


@dataclass(frozen=True)
class Params:
    """at: the `end` of training, or all `rounds` (of vectors their first number).
    diagnostic: what methods record of each client, a number or a vector.
    """

    at: Literal["end", "rounds"] = "end"
    diagnostic: str = "embeddings"


class Embeddings(Figure):
    """A row per method and value of the other axes, a panel per held-out domain; colours are clients, by
    the domains that they hold.

    At the end: numbers along x, a line for each seed; vectors by their first two numbers. Over rounds: a line
    for each seed, as each starts elsewhere.
    """

    name = "embeddings"
    Params = Params

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        """Raises FedshiftError where no finished run recorded them."""
        frame = of_clients(workspace, collected, self.params.diagnostic)
        if frame.empty:
            raise not_recorded(collected, self.params.diagnostic)
        size, targets = int(frame[INDEX].max()) + 1, collected.order.get("target", [])
        frame = with_seed(frame).rename(columns={DOMAINS: "label"})
        frame["row"], rows = headings(collected, frame, methods=True)
        frame["panel"] = frame["target"].map(panel_of) if targets else ""
        labels = holders(frame.rename(columns={"label": DOMAINS}))
        by = ["row", "panel", "label", "seed"]
        if self.params.at == "rounds":
            lines = frame[frame[INDEX] == 0].groupby([*by, "round"], sort=False)["value"].mean()
            plotted = lines.sort_index(level="round", sort_remaining=False).reset_index()
            plotted = plotted.rename(columns={"round": "x", "value": "y"})
            plotted = plotted.assign(mark="seed " + plotted["seed"].astype(str), style="line")
            x, y = Axis("round", whole=True), Axis("embedding" + " (first number)" * (size > 1))
        else:
            last = at_the_end(frame, ["row", "panel", "seed"])
            numbers = last.pivot_table(index=[*by, "client"], columns=INDEX, values="value", sort=False)
            plotted = numbers.reset_index().assign(mark="after the last round")
            seeds = ["seed " + str(seed) for seed in frame["seed"].unique()]
            plotted["x"] = plotted[0]
            plotted["y"] = plotted[1] if size > 1 else "seed " + plotted["seed"].astype(str)
            x = Axis("first number" if size > 1 else "embedding (no unit)")
            y = Axis("second number") if size > 1 else Axis(names=seeds)
        about = ["lines: single seeds"] if self.params.at == "rounds" else []
        if size > 1:
            about += [f"the first {'' if about else 'two '}of {size} numbers"]
        orders = {"row": rows, "panel": [*map(panel_of, targets)], "label": labels}
        return Plot(
            "Client embeddings",
            in_order(plotted, **orders, seed=[*frame["seed"].unique()]),
            x,
            y,
            labels,
            "; ".join(about),
            size=(2.1, 1.7),
        )
