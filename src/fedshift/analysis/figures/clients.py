"""Clients: accuracy on each client's own samples, by its domain, as dots side by side or as a radar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series
from fedshift.analysis.figures._marks import around, aside, by_further_axes, note, with_seed
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.quantities.clients import DOMAINS, by_client
from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.registry import get, names
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

PLACE = "place on x"  # no axis has a blank in its name
WHOLE = 100.0


@dataclass(frozen=True)
class Params:
    """style: `dots`, or `radar`: a direction per client, which is for few methods.
    by: `domain` (clients of the same domains together) or `client` (its number).
    metric: `fedshift list metrics`.
    scaled: each client's values in percent of the largest among the methods, as FDSE's Fig. 3 has them.
    """

    style: Literal["dots", "radar"] = "dots"
    by: Literal["domain", "client"] = "domain"
    metric: str = "accuracy"
    scaled: bool = False


class Clients(Figure):
    """A panel per value of the axes beyond target and seed. Of runs that hold out different domains the mean
    over those in which a client's domain takes part.

    Dots: from three seeds on a bar of one standard deviation, rings are seeds of fewer. A radar has the means
    alone.
    """

    name = "clients"
    Params = Params

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """The metric exists, and has a best to be scaled by: the largest."""
        if self.params.metric not in names("metrics"):
            raise unknown(f"{where}.metric", "metric", self.params.metric, names("metrics"), "metrics")
        if self.params.scaled and get("metrics", self.params.metric).better == "lower":
            what = f"the best {self.params.metric} is the lowest, of which percent say nothing"
            raise FedshiftError(f"{where}.scaled", what, "Leave it out.")

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no run is finished."""
        frame = by_client(collected, self.params.metric)
        frame = _whole(collected, frame)
        if frame.empty:
            what = "holds no seed with all its runs"
            raise FedshiftError(collected.path, what, "Train the experiment, then collect it again.")
        frame = with_seed(frame)
        if self.params.by == "client":
            frame[DOMAINS] = frame["client"].map("client {}".format)
        panels = [self._panel(collected, part, title) for title, part in by_further_axes(collected, frame)]
        row = [Row(panels)]
        about = [note(row, {"target": collected.order["target"]} if "target" in frame else {})]
        about += ["100: the best method on this client"] if self.params.scaled else []
        middle = [panel.y.limits[0] for panel in panels if panel.polar and panel.y.limits]
        about += [f"middle: {middle[0]:g}"] if middle else []
        width = 0.5 * max(len(panel.x.ticks or {}) for panel in panels)
        size = (3.1, 2.9) if self.params.style == "radar" else (max(2.6, min(6.0, width)), 2.7)
        title = f"{get('metrics', self.params.metric).title.capitalize()} by client"
        labels = collected.experiment.rows
        return Panels(title, row, labels, "; ".join(filter(None, about)), size, names="beside")

    def _panel(self, collected: Collected, frame: pd.DataFrame, title: str) -> Panel:
        """One value of the further axes: clients along x, in the order of the runs."""
        order = frame.sort_values("client", kind="stable")[DOMAINS].unique()
        places = {name: float(place) for place, name in enumerate(order)}
        by = ["method", "seed", DOMAINS]
        seeds = frame.groupby(by)["value"].mean().reset_index()
        seeds[PLACE] = seeds[DOMAINS].map(places)
        if self.params.scaled:
            means = seeds.groupby(["method", DOMAINS])["value"].mean()
            seeds["value"] *= WHOLE / seeds[DOMAINS].map(means.groupby(DOMAINS).max())
        series = [*self._series(collected, seeds)]
        radar = self.params.style == "radar"
        low = min((y for line in series for y in line.y), default=0.0)
        limits = (max(0.0, 10 * (low // 10) - 10), WHOLE) if radar and self._percent else None
        unit = " (% of the best)" if self.params.scaled else " (%)" if self._percent else ""
        y = Axis(f"{get('metrics', self.params.metric).title}\non own samples{unit}", limits=limits)
        around_names = None if radar else (-0.5, len(places) - 0.5)
        ticks = {place: name for name, place in places.items()}
        x = Axis(
            "client, by its domain" if self.params.by == "domain" else "client",
            ticks=ticks,
            limits=around_names,
            whole=True,
        )
        return Panel(series, x, y, title, polar=radar)

    @property
    def _percent(self) -> bool:
        return self.params.scaled or bool(get("metrics", self.params.metric).percent)

    def _series(self, collected: Collected, seeds: pd.DataFrame) -> Iterator[Series]:
        """seeds: a row for each method, seed and client."""
        drawn = {*seeds["method"]}
        methods = [row for row in collected.experiment.rows if row in drawn]
        for index, method in enumerate(methods):
            own = seeds[seeds["method"] == method]
            radar = self.params.style == "radar"
            shift = 0.0 if radar else aside(index, len(methods))
            _, marks = around(method, own, PLACE, "value", collected.protocol.ddof, "dot", shift)
            for mark in marks:
                if not radar:
                    yield mark
                elif mark.mark == "mean":
                    yield Series(method, "mean", mark.x, mark.y, "marked")


def _whole(collected: Collected, frame: pd.DataFrame) -> pd.DataFrame:
    """Without seeds that lack a run which holds out another domain: their mean would be of fewer."""
    by = [key for key in collected.keys if key != "target"]
    finished = (collected.runs["state"] == "finished").groupby(
        [collected.runs[key] for key in by], dropna=False
    )
    whole = finished.all().rename("whole").reset_index()
    return frame[frame[by].merge(whole, on=by, how="left")["whole"].to_numpy(dtype=bool)]
