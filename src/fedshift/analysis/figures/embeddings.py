"""Embeddings: where the clients' embeddings lie at the end of training, or how they move over rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series
from fedshift.analysis.figures._marks import aside, with_seed
from fedshift.analysis.figures._recorded import holders, nothing, points
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.quantities.clients import DOMAINS
from fedshift.analysis.quantities.recorded import PLACE, of_clients
from fedshift.storage.workspace import Workspace

LANES = 0.5  # of the room of a seed, for its clients below each other
FIRST, SECOND = "first number", "second number"


@dataclass(frozen=True)
class Params:
    """at: the `end` of training, or all `rounds` (of vectors their first number).
    diagnostic: what methods record of each client, a number or a vector.
    """

    at: Literal["end", "rounds"] = "end"
    diagnostic: str = "embeddings"


class Embeddings(Figure):
    """A row per method and value of the further axes, a panel per held-out domain; colours are clients, by
    the domains that they hold.

    At the end: numbers along x, a line for each seed; vectors by their first two numbers.
    """

    name = "embeddings"
    Params = Params

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no finished run recorded them."""
        frame = of_clients(workspace, collected, self.params.diagnostic)
        if frame.empty:
            raise nothing(collected, self.params.diagnostic)
        frame = with_seed(frame)
        size = int(frame[PLACE].max()) + 1
        rows = []
        for row in points(collected, frame):
            panels = [
                self._panel(part, size, [*frame["seed"].unique()], target and f"held out: {target}")
                for _, target, part in row
            ]
            rows.append(Row(panels, row[0][0]))
        over_rounds = self.params.at == "rounds"
        first = "the first" if over_rounds else "the first two"
        note = "; ".join(["lines: single seeds"] * over_rounds + [f"{first} of {size} numbers"] * (size > 1))
        labels = holders(frame)
        return Panels("Client embeddings", rows, labels, note, (2.1, 1.7), names="beside")

    def _panel(self, frame: pd.DataFrame, size: int, seeds: list[int], title: str) -> Panel:
        """Embeddings of `size` numbers: over rounds, or after the last, in a plane or in lanes of seeds."""
        if self.params.at == "rounds":
            axes = Axis("round", whole=True), Axis("embedding" + " (first number)" * (size > 1))
            return Panel([*_over_rounds(frame)], *axes, title)
        last = frame[frame["round"] == frame.groupby(["seed"])["round"].transform("max")]
        if size > 1:
            return Panel([*_plane(last)], Axis(FIRST), Axis(SECOND), title)
        ticks = {float(place): f"seed {seed}" for place, seed in enumerate(seeds)}
        places = {seed: float(place) for place, seed in enumerate(seeds)}
        y = Axis("", ticks=ticks, limits=(len(seeds) - 0.5, -0.5), whole=True)
        return Panel([*_along(last, places)], Axis("embedding (no unit)"), y, title)


def _along(last: pd.DataFrame, places: dict[int, float]) -> Iterator[Series]:
    """Each client a little below the one before, so that none hides another."""
    groups = last.groupby(DOMAINS, sort=False)
    for index, (label, own) in enumerate(groups):
        ys = [places[seed] + LANES * aside(index, groups.ngroups) for seed in own["seed"]]
        yield Series(str(label), "after the last round", [*map(float, own["value"])], ys, "dot")


def _plane(last: pd.DataFrame) -> Iterator[Series]:
    for label, own in last.groupby(DOMAINS, sort=False):
        pairs = own.pivot_table(index=["seed", "client"], columns=PLACE, values="value")
        yield Series(
            str(label), "after the last round", [*map(float, pairs[0])], [*map(float, pairs[1])], "dot"
        )


def _over_rounds(frame: pd.DataFrame) -> Iterator[Series]:
    """A line for each seed: each starts elsewhere, so that their mean would be nobody's."""
    first = frame[frame[PLACE] == 0]
    for (label, seed), own in first.groupby([DOMAINS, "seed"], sort=False):
        line = own.groupby("round")["value"].mean()
        yield Series(str(label), f"seed {seed}", [*map(float, line.index)], [*map(float, line)], "line")
