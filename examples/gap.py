"""Gap: how far out-of-distribution accuracy lies below in-distribution accuracy, per method and seed."""

from __future__ import annotations

from dataclasses import dataclass

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.quantities.select import selected
from fedshift.common.errors import FedshiftError
from fedshift.storage.workspace import Workspace


@dataclass(frozen=True)
class Params:
    """relative: in percent of in-distribution accuracy, rather than in points."""

    relative: bool = False


class Gap(Figure):
    """A ring per seed, a dot for their mean; gaps are averaged over the other axes first."""

    name = "gap"
    Params = Params

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no finished run has a held-out domain."""
        runs = selected(collected).dropna(subset=["id", "ood"])
        if runs.empty:
            raise FedshiftError(collected.path, "has no run with a held-out domain", "Leave the figure out.")
        runs["gap"] = runs["id"] - runs["ood"]
        if self.params.relative:
            runs["gap"] *= 100 / runs["id"]
        methods = [*runs["method"].unique()]
        series = []
        for place, method in enumerate(methods):
            seeds = runs[runs["method"] == method].groupby("seed")["gap"].mean()
            series.append(Series(method, "seed", [float(place)] * len(seeds), [*seeds], "ring"))
            series.append(Series(method, "mean", [float(place)], [seeds.mean()], "dot"))
        x = Axis("method", ticks=dict(enumerate(methods)))
        y = Axis(f"accuracy lost out of distribution\n({'%' if self.params.relative else 'points'})")
        return Panels("Generalisation gap", [Row([Panel(series, x, y)])], methods, "rings: seeds")
