"""Reliability: the model's confidence when right and when wrong, and its accuracy by confidence."""

import pandas as pd

from fedshift.analysis.clients import COUNTS, confidences
from fedshift.analysis.collected import Collected
from fedshift.analysis.figures import base
from fedshift.analysis.figures.base import GREY, Axis, Figure, Plot
from fedshift.analysis.metrics.ece import ECE
from fedshift.federation.records import BINS
from fedshift.storage.workspace import Workspace

RIGHT, WRONG, CURVE, EQUAL = "right", "wrong", "accuracy", "accuracy = confidence"
COLOURS = {RIGHT: "#0072B2", WRONG: "#D55E00", CURVE: "#000000", EQUAL: GREY}
BARS = 10  # two bins each: thinner bars would not be distinguishable
WIDTH = 1 / BARS
PERCENT = 100
CURVES = {where: base.LABELS[where] for where in ("id", "ood")}
SHARES = {where: label.replace("accuracy", "samples") for where, label in CURVES.items()}
FEW = 10  # samples, too few for a meaningful accuracy
ROOM = 4  # for marks at 0 and 100


class Reliability(Figure):
    """Rows are histogram and curve, in- and out-of-distribution; there is a panel per method.

    All runs of a method are taken together, each sample once, in the round that tables report. The panel of a
    curve has its expected calibration error, over all bins that runs record. A bin without samples has no
    point.
    """

    name = "reliability"

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        bins = confidences(collected)
        if bins.empty:
            raise base.nothing_finished(collected, "no finished run recorded how sure its models are")
        bins = bins.assign(panel=bins["method"], n=bins["right"] + bins["wrong"])
        wide = bins.assign(y_axis=bins["where"].map(CURVES)).pivot(index=["y_axis", "panel"], columns="bin")
        errors = PERCENT * ECE.compute(*(wide[name].to_numpy() for name in COUNTS))
        shares = [Axis(label, from_zero=True) for label in SHARES.values()]
        curves = [Axis(label, limits=(-ROOM, PERCENT + ROOM)) for label in CURVES.values()]
        return Plot(
            "Confidence",
            pd.concat([_histogram(bins), _curve(bins)]),
            Axis("probability of the predicted class", ticks=(0.0, 0.5, 1.0), limits=(0.0, 1.0)),
            [*shares, *curves],
            [*COLOURS],
            base.notes(
                "all runs of a method together",
                base.held_out(collected, collected.runs[collected.runs["state"] == "finished"]),
                f"ECE over {BINS} bins",
                f"ring: a bin of fewer than {FEW} samples",
            ),
            (1.9, 1.8),
            COLOURS,
            texts={("", *at): f"ECE {error:.1f}%" for at, error in zip(wide.index, errors, strict=True)},
            order={
                "y_axis": [*SHARES.values(), *CURVES.values()],
                "panel": collected.experiment.rows,
                "label": [RIGHT, WRONG, EQUAL, CURVE],
            },
        )


def _histogram(bins: pd.DataFrame) -> pd.DataFrame:
    """Right and wrong samples by confidence, in percent of all, side by side."""
    bars = bins.assign(x=(bins["bin"] * BARS // BINS + 0.5) * WIDTH)
    counts = bars.groupby(["where", "panel", "x"])[[RIGHT, WRONG, "n"]].sum()
    shares = PERCENT * counts.div(counts.groupby(["where", "panel"])["n"].transform("sum"), axis=0)
    sides = shares.reset_index().melt(["where", "panel", "x"], [RIGHT, WRONG], "label", "y")
    sides["x"] += sides["label"].map({RIGHT: -WIDTH / 4, WRONG: WIDTH / 4})
    return sides.assign(y_axis=sides["where"].map(SHARES), mark="share of samples", style="bar")


def _curve(bins: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of the samples of each bin against their mean confidence, with the diagonal."""
    bins = bins.assign(y_axis=bins["where"].map(CURVES), label=CURVE, mark="bin", style="marked")
    points = bins[bins["n"] > 0].assign(x=bins["confidence"] / bins["n"], y=PERCENT * bins[RIGHT] / bins["n"])
    few = points[points["n"] < FEW].assign(mark="of few samples", style="ring")
    ends = pd.DataFrame(
        {"x": [0.0, 1.0], "y": [0.0, PERCENT], "label": EQUAL, "mark": "guide", "style": "line"}
    )
    diagonals = bins[["y_axis", "panel"]].drop_duplicates().merge(ends, how="cross")
    return pd.concat([diagonals, points, few])
