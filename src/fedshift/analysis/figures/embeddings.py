"""Embeddings: the clients' embeddings at the end of training, or their course over rounds."""

from dataclasses import dataclass
from typing import Literal

from fedshift.analysis.clients import INDEX
from fedshift.analysis.collected import Collected
from fedshift.analysis.figures.base import Axis, Figure, Plot, at_the_end, in_order, notes, of_methods
from fedshift.storage.workspace import Workspace


@dataclass(frozen=True)
class Params:
    """`at`: the `end` of training, or all `rounds` (the first number of vectors)."""

    at: Literal["end", "rounds"] = "end"


class Embeddings(Figure):
    """A row of panels per method and value of the other axes, a panel per held-out domain.

    Colours are clients, by their domains. At the end, numbers are along x with one line per seed, and vectors
    are shown by their first two numbers. Over rounds there is one line per seed, as each seed starts
    elsewhere.
    """

    name = "embeddings"
    Params = Params

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        frame, orders = of_methods(workspace, collected, "embeddings")
        size, by = int(frame[INDEX].max()) + 1, ["row", "panel", "label", "seed"]
        frame["mark"] = "seed " + frame["seed"].astype(str)
        orders["seed"] = [*frame["seed"].unique()]
        if self.params.at == "rounds":
            lines = frame[frame[INDEX] == 0].groupby([*by, "mark", "round"], sort=False)["y"].mean()
            plotted = lines.sort_index(level="round", sort_remaining=False).reset_index()
            plotted = plotted.rename(columns={"round": "x"}).assign(style="line")
            x, y = Axis("round", whole=True), Axis("embedding" + " (first number)" * (size > 1))
            about = "the first of"
        else:
            index, last = [*by, "mark", "client"], at_the_end(frame)
            numbers = last.pivot_table(index=index, columns=INDEX, values="y", sort=False).reset_index()
            plotted = numbers.assign(x=numbers[0], y=numbers[1] if size > 1 else numbers["mark"])
            plotted = plotted.assign(mark="after the last round")
            x = Axis("first number" if size > 1 else "embedding (no unit)")
            y = Axis("second number") if size > 1 else Axis(names=[*frame["mark"].unique()])
            about = "the first two of"
        return Plot(
            "Client embeddings",
            in_order(plotted, **orders),
            x,
            y,
            orders["label"],
            notes(
                self.params.at == "rounds" and "lines: single seeds", size > 1 and f"{about} {size} numbers"
            ),
            size=(2.1, 1.7),
        )
