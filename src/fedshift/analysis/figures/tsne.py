"""T-SNE: a map of the features of all clients' images, by class and by domain, with distances as numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.collection.evaluated import results_of
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series
from fedshift.analysis.figures._runs import OfRuns, rows_of, shown
from fedshift.storage.workspace import Workspace

PLAIN = Axis(ticks={}, limits=(-0.05, 1.05))
DOMAINS = ["#24292f", "#b08800", "#6f42c1", "#8c959f", "#005f5f", "#a40e26"]  # no colour of a class
BY = {"class": "coloured\nby class", "domain": "coloured\nby domain"}


@dataclass(frozen=True)
class Params:
    """at: values on axes, one run of each row at these; the first of the file on others."""

    at: tuple[str, ...] = ()


class TSNE(OfRuns):
    """A panel for each row of the experiment, an image a dot; above it the mean distance between images of
    two classes and of one. A map has no unit: each fills its panel.
    """

    name = "tsne"
    evaluations = ("tsne", "distances")
    Params = Params

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no run was evaluated."""
        frame, which = shown(results_of(workspace, collected, "tsne"), collected, self.params.at)
        numbers = results_of(workspace, collected, "distances").set_index("digest")
        methods = rows_of(frame, collected)
        maps = {method: _filling(frame[frame["method"] == method]) for method in methods}
        titles = {method: _title(method, numbers.loc[maps[method]["digest"].iloc[0]]) for method in methods}
        names = {by: [*dict.fromkeys(frame.sort_values("label")[by])] for by in BY}
        rows = [
            Row(
                [
                    Panel(
                        [*_series(maps[method], by, names[by])],
                        PLAIN,
                        replace(PLAIN, label=BY[by]),
                        titles[method],
                    )
                    for method in methods
                ]
            )
            for by in BY
        ]
        note = f"{which}; a dot: an image of a client; distances between features of length 1: mean of pairs"
        labels = [*names["class"], *names["domain"]]
        colours = dict(zip(names["domain"], itertools.cycle(DOMAINS)))
        title = "Map of the features (t-SNE)"
        return Panels(title, rows, labels, note, (2.9, 2.7), colours, names="beside")


def _filling(frame: pd.DataFrame) -> pd.DataFrame:
    """A map in the middle of its panel, between 0 and 1 on its longer side."""
    places = frame[["x", "y"]].astype(float)
    low, high = places.min(), places.max()
    return frame.assign(**0.5 + (places - (low + high) / 2) / ((high - low).max() or 1.0))


def _title(method: str, numbers: pd.Series[Any]) -> str:
    return f"{method}\nbetween classes {numbers['inter']:.2f}, within {numbers['intra']:.2f}"


def _series(frame: pd.DataFrame, by: str, names: list[str]) -> Iterator[Series]:
    for name in names:
        part = frame[frame[by] == name]
        yield Series(name, "image", [*part["x"].astype(float)], [*part["y"].astype(float)], "dot")
