"""Spread: the standard deviation of weights over the clients' networks, by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.collection.evaluated import results_of
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series, Spread
from fedshift.analysis.figures._marks import held_out
from fedshift.analysis.figures._runs import rows_of
from fedshift.analysis.figures.base import Figure
from fedshift.common.errors import FedshiftError
from fedshift.storage.workspace import Workspace

NOTHING = 1e-6  # of the widest layer, what rounding leaves of clients with one model


@dataclass(frozen=True)
class Params:
    """scale: of the deviation; a log scale leaves out rows whose clients share all weights."""

    scale: Literal["linear", "log"] = "linear"


class LayerSpread(Figure):
    """A line for each row of the experiment: means over its runs; bars: from the lowest to the highest."""

    name = "spread"
    evaluations = ("spread",)
    Params = Params

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no run was evaluated, and where networks of several kinds were."""
        frame = results_of(workspace, collected, "spread")
        where = f"experiments/{collected.experiment.name}.yaml: figures.spread"
        if self.params.scale == "log":
            frame = frame[frame["deviation"] > NOTHING * frame["deviation"].max()]
            if frame.empty:
                what = "has a log scale, and all clients share all weights"
                raise FedshiftError(where, what, "Say `scale: linear`.")
        if (frame.groupby("place")["layer"].nunique() > 1).any():
            what = "has networks with other layers, which have no common axis"
            raise FedshiftError(where, what, "Draw networks of one kind in one experiment.")
        series = []
        for method in (methods := rows_of(frame, collected)):
            by_layer = frame[frame["method"] == method].groupby("place")["deviation"]
            mean, low, high = by_layer.mean(), by_layer.min(), by_layer.max()
            x = [float(place) for place in mean.index]
            around = Spread([*low], [*high], "bar") if by_layer.size().max() > 1 else None
            series.append(Series(method, "mean", x, [*mean], "marked", around))
        names = frame.drop_duplicates("place").set_index("place")["layer"].sort_index()
        ticks = {float(place): _short(layer) for place, layer in zip([*names.index], names, strict=True)}
        x_axis = Axis("layer, from the input", ticks=ticks)
        y_axis = Axis("std of weights over clients\n(unit of weights)", self.params.scale)
        least = NOTHING * max((y for one in series for y in one.y), default=0.0)
        alike = [one.label for one in series if max(one.y) <= least]
        note = "; ".join(
            [*filter(None, [held_out(collected, frame)])]
            + ["bars: lowest to highest run"] * (frame["digest"].nunique() > len(methods))
            + [f"0 everywhere: {', '.join(alike)}"] * (len(alike) > 1)
        )
        size = (max(3.6, 0.75 * len(ticks)), 2.7)
        row = Row([Panel(series, x_axis, y_axis)])
        return Panels("Spread of the clients' weights", [row], methods, note, size, names="beside")


def _short(layer: str) -> str:
    """A layer's name without what all or most have: "stages.stage1.conv" is "stage1"."""
    return layer.removeprefix("stages.").removesuffix(".conv").removesuffix(".fc").replace(".", "\n")
