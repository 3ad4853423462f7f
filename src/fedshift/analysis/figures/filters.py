"""Filters: the patches to which filters of each client's network respond most, beside what guided
backpropagation leaves of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.collection.evaluated import pixels, results_of
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Picture, Row
from fedshift.analysis.figures._runs import OfRuns, rows_of, shown
from fedshift.common.errors import unknown
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

GAP = 2  # pixels of white between patches


@dataclass(frozen=True)
class Params:
    """at: values on axes, one run at these; the first of the file on others.
    row: of the experiment, its first if ""; clients: at most so many.
    """

    at: tuple[str, ...] = ()
    row: str = ""
    clients: int = 4


class Filters(OfRuns):
    """A row of panels for each stage, a column for each client; in a panel a line for each filter: its
    patches by falling response, then their gradients in the same order (grey is 0).
    """

    name = "filters"
    evaluations = ("filters",)
    Params = Params

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """The row and the values exist."""
        super().check(experiment, axes, where)
        if self.params.row and self.params.row not in experiment.methods:
            raise unknown(
                f"{where}.row", "trained row of this experiment", self.params.row, experiment.methods
            )

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no run was evaluated."""
        frame = results_of(workspace, collected, "filters")
        row = self.params.row or rows_of(frame, collected)[0]
        frame, which = shown(frame[frame["method"] == row], collected, self.params.at)
        clients = sorted(frame["client"].unique())[: self.params.clients]
        rows = []
        for _, stage in frame.groupby("place"):
            parts = [stage[stage["client"] == client] for client in clients]
            rows.append(Row([_panel(part) for part in parts]))
        note = (
            f"{row}, {which}; a line: a filter's patches by falling response, then their gradients (grey: 0)"
        )
        return Panels("What filters respond to", rows, [], note, (2.6, 1.8))


def _panel(frame: pd.DataFrame) -> Panel:
    """One stage of one client's network."""
    lines = [_line(part.sort_values("rank")) for _, part in frame.groupby("filter")]
    widest = max(line.shape[1] for line in lines)
    padded = [
        np.pad(line, ((0, GAP), (0, widest - line.shape[1]), (0, 0)), constant_values=255) for line in lines
    ]
    first = frame.iloc[0]
    columns = zip(frame["filter"], frame["sample"], frame["rank"], frame["response"], strict=True)
    values = [(f"filter {f}", f"image {s}", float(rank), float(response)) for f, s, rank, response in columns]
    domains = ", ".join(dict.fromkeys(frame["domain"]))
    title = f"client {first['client']}: {domains}\npatches | gradients"
    picture = Picture(np.concatenate(padded), values)
    numbers = ", ".join(map(str, sorted(frame["filter"].unique())))
    stage = f"{first['layer']}, filters\n{numbers} from the top"
    return Panel([], Axis("rank"), Axis(stage), title, picture=picture)


def _line(frame: pd.DataFrame) -> NDArray[np.uint8]:
    """[px, .., 3]: patches side by side, then their gradients."""
    tiles = []
    for name in ("patch", "gradient"):
        for data, px in zip(frame[name], frame["px"], strict=True):
            tiles.append(np.pad(pixels(data, px), ((0, 0), (0, GAP), (0, 0)), constant_values=255))
        tiles.append(np.full((tiles[0].shape[0], 2 * GAP, 3), 255, np.uint8))
    return np.concatenate(tiles[:-1], axis=1)
