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
        parts, pictures = [], {}
        for (_, client), part in frame.groupby(["place", "client"], sort=False):
            numbers = ", ".join(map(str, sorted(part["filter"].unique())))
            stage = f"{part['layer'].iloc[0]}, filters\n{numbers} from the top"
            domains = ", ".join(dict.fromkeys(part["domain"]))
            panel = f"client {client}: {domains}\npatches | gradients"
            pictures["", stage, panel] = _picture(part)
            labels = "filter " + part["filter"].astype(str)
            values = part.assign(x=part["rank"], y=part["response"], label=labels, panel=panel, y_axis=stage)
            parts.append(values.assign(mark="image " + part["sample"].astype(str)))
        plotted = pd.concat(parts, ignore_index=True)
        return Plot(
            "What filters respond to",
            plotted,
            Axis("rank"),
            [Axis(stage) for stage in plotted["y_axis"].unique()],
            note=f"{row}, {which}; {MEANING}",
            size=(2.6, 1.8),
            pictures=pictures,
        )


def _picture(frame: pd.DataFrame) -> NDArray[np.uint8]:
    """[lines of px, .., 3]: one stage of one client's network."""
    lines = [_line(part.sort_values("rank")) for _, part in frame.groupby("filter")]
    widest = max(line.shape[1] for line in lines)
    missing = [((0, GAP), (0, widest - line.shape[1]), (0, 0)) for line in lines]
    padded = [np.pad(line, pad, constant_values=255) for line, pad in zip(lines, missing, strict=True)]
    return np.concatenate(padded)


def _line(frame: pd.DataFrame) -> NDArray[np.uint8]:
    """[px, .., 3]: patches side by side, then their gradients."""
    tiles = []
    for name in ("patch", "gradient"):
        for data, px in zip(frame[name], frame["px"], strict=True):
            tiles.append(np.pad(pixels(data, px), ((0, 0), (0, GAP), (0, 0)), constant_values=255))
        tiles.append(np.full((tiles[0].shape[0], 2 * GAP, 3), 255, np.uint8))
    return np.concatenate(tiles[:-1], axis=1)
