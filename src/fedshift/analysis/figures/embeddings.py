"""Embeddings: the clients' embeddings at the end of training, or their course over rounds."""

from dataclasses import dataclass
from typing import Literal

from fedshift.analysis.clients import INDEX
from fedshift.analysis.collected import Collected
from fedshift.analysis.figures.base import Axis, Figure, Plot, at_the_end, notes, of_methods
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
        frame, order = of_methods(workspace, collected, "embeddings")
        frame = frame.assign(mark="seed " + frame["seed"].astype(str))
        order["seed"] = [*frame["seed"].unique()]
        size, by = int(frame[INDEX].max()) + 1, ["row", "panel", "label", "seed", "mark"]
        if self.params.at == "rounds":
            first = frame[frame[INDEX] == 0].rename(columns={"round": "x"}).sort_values("x", kind="stable")
            plotted = first.groupby([*by, "x"], sort=False)["y"].mean().reset_index().assign(style="line")
            x, y = Axis("round", whole=True), Axis("embedding" + " (first number)" * (size > 1))
            about = notes("lines: single seeds", size > 1 and f"the first of {size} numbers")
        else:
            last = at_the_end(frame).pivot_table("y", [*by, "client"], INDEX).reset_index()
            plotted = last.assign(
                x=last[0], y=last[1] if size > 1 else last["mark"], mark="after the last round"
            )
            x = Axis("first number" if size > 1 else "embedding (no unit)")
            y = Axis("second number") if size > 1 else Axis(names=[*frame["mark"].unique()])
            about = notes(size > 1 and f"the first two of {size} numbers")
        return Plot("Client embeddings", plotted, x, y, note=about, size=(2.1, 1.7), order=order)
