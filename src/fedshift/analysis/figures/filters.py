"""Filters: the patches to which filters of each client's network respond most, with their gradients.

The gradients are those of guided backpropagation.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.analysis.collected import Collected
from fedshift.analysis.evaluated import pixels, results_of
from fedshift.analysis.figures.base import At, Axis, Figure, Plot, Trained, rows_of, shown
from fedshift.storage.workspace import Workspace

MEANING = "a line: a filter's patches by falling response, then their gradients (grey: 0)"
GAP = 2  # pixels of white between patches
CLIENTS = 4  # at most


@dataclass(frozen=True)
class Params(At):
    """`row`: a row of the experiment, "" for its first."""

    row: Trained = ""


class Filters(Figure):
    """A row of panels for each stage, a column for each client, and in a panel a line for each filter.

    A line has the filter's patches by falling response, then their gradients in the same order (grey is 0).
    """

    name = "filters"
    evaluations = ("filters",)
    Params = Params

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        frame = results_of(workspace, collected, "filters")
        row = self.params.row or rows_of(frame, collected)[0]
        frame, which = shown(frame[frame["method"] == row], collected, self.params.at)
        clients = sorted(frame["client"].unique())[:CLIENTS]
        frame = frame[frame["client"].isin(clients)].sort_values(["place", "client"], kind="stable")
        frame = frame.assign(
            x=frame["rank"], y=frame["response"], label="filter " + frame["filter"].astype(str)
        )
        frame["mark"] = "image " + frame["sample"].astype(str)
        pictures = {}
        for (_, client), part in frame.groupby(["place", "client"], sort=False):
            numbers = ", ".join(map(str, sorted(part["filter"].unique())))
            stage = f"{part['layer'].iloc[0]}, filters\n{numbers} from the top"
            domains = ", ".join(dict.fromkeys(part["domain"]))
            panel = f"client {client}: {domains}\npatches | gradients"
            frame.loc[part.index, ["y_axis", "panel"]] = stage, panel
            pictures["", stage, panel] = _picture(part)
        return Plot(
            "What filters respond to",
            frame,
            Axis("rank"),
            [*map(Axis, frame["y_axis"].unique())],
            note=f"{row}, {which}; {MEANING}",
            size=(2.6, 1.8),
            pictures=pictures,
        )


def _picture(frame: pd.DataFrame) -> NDArray[np.uint8]:
    """[.., .., 3]: the patches of one stage of one client's network, then their gradients."""
    px, line = int(frame["px"].iloc[0]), frame["filter"].rank(method="dense").astype(int) - 1
    place = frame.groupby("filter")["rank"].rank(method="first").astype(int) - 1
    step, most = px + GAP, place.max() + 1
    canvas = np.full((step * (line.max() + 1), 2 * step * most + 2 * GAP, 3), 255, np.uint8)
    for name, left in (("patch", 0), ("gradient", step * most + 2 * GAP)):
        for data, row, column in zip(frame[name], step * line, left + step * place, strict=True):
            canvas[row : row + px, column : column + px] = pixels(data, px)
    return canvas
