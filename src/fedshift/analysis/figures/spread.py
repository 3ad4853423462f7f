"""Spread: the standard deviation of weights over the clients' networks, by layer."""

from fedshift.analysis.collected import Collected
from fedshift.analysis.evaluated import results_of
from fedshift.analysis.figures.base import Axis, Figure, Plot, held_out, notes, rows_of
from fedshift.common.errors import FedshiftError
from fedshift.storage.workspace import Workspace

NOTHING = 1e-6  # relative to the widest layer: rounding errors if clients share one model


class LayerSpread(Figure):
    """A line for each row of the experiment: means over its runs, with bars from lowest to highest."""

    name = "spread"
    evaluations = ("spread",)

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        frame = results_of(workspace, collected, "spread")
        methods = rows_of(frame, collected)
        if (frame.groupby("place")["layer"].nunique() > 1).any():
            what = "has networks with other layers, which have no common axis"
            where = f"{collected.experiment.file}: figures.spread"
            raise FedshiftError(where, what, "Draw networks of one kind in one experiment.")
        frame = frame.rename(columns={"method": "label"}).assign(x=frame["layer"].map(_short))
        layers = [*frame.sort_values("place")["x"].unique()]
        groups = frame.groupby(["label", "x"], sort=False)["deviation"]
        found = groups.agg(y="mean", low="min", high="max", runs="size").reset_index()
        several = found.groupby("label")["runs"].transform("max") > 1
        found[["low", "high"]] = found[["low", "high"]].where(several)
        most = found.groupby("label")["y"].max()
        alike = [method for method in methods if most[method] <= NOTHING * most.max()]
        note = notes(
            held_out(collected, frame),
            frame["digest"].nunique() > len(methods) and "bars: lowest to highest run",
            len(alike) > 1 and f"0 everywhere: {', '.join(alike)}",
        )
        return Plot(
            "Spread of the clients' weights",
            found.assign(style="marked"),
            Axis("layer, from the input", names=layers),
            Axis("std of weights over clients\n(unit of weights)"),
            note=note,
            size=(max(3.6, 0.75 * len(layers)), 2.7),
            order={"label": methods, "x": layers},
        )


def _short(layer: str) -> str:
    """A layer's name without the parts that all or most share: "stages.stage1.conv" becomes "stage1"."""
    return layer.removeprefix("stages.").removesuffix(".conv").removesuffix(".fc").replace(".", "\n")
