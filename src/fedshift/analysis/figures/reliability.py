"""Reliability: the model's confidence when right and when wrong, and its accuracy by confidence."""

import itertools

import numpy as np
import pandas as pd

from fedshift.analysis.clients import Confidences, confidences
from fedshift.analysis.collected import Collected
from fedshift.analysis.figures.base import GREY, TITLES, Axis, Figure, Plot, held_out, notes, nothing_finished
from fedshift.analysis.metrics.base import ratio
from fedshift.analysis.metrics.ece import ECE
from fedshift.federation.records import BINS
from fedshift.storage.workspace import Workspace

RIGHT, WRONG, CURVE, EQUAL = "right", "wrong", "accuracy", "accuracy = confidence"
COLOURS = {RIGHT: "#0072B2", WRONG: "#D55E00", CURVE: "#000000", EQUAL: GREY}
BARS = 10  # two bins each: thinner bars would not be distinguishable
WIDTH = 1 / BARS
PERCENT = 100
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
        by_domain = {where: confidences(collected, where) for where in ("id", "ood")}
        methods = [row for row in collected.experiment.rows if any(row in of for of in by_domain.values())]
        if not methods:
            raise nothing_finished(collected, "no finished run recorded how sure its models are")
        parts, axes, texts = [], [], {}
        for curve, (where, of) in itertools.product((False, True), by_domain.items()):
            limits = (-ROOM, PERCENT + ROOM) if curve else None
            unit = "accuracy (%)" if curve else "samples (%)"
            axes.append(Axis(f"{TITLES[where]}\n{unit}", limits=limits, from_zero=not curve))
            for method in [name for name in methods if name in of]:
                values = _curve(of[method]) if curve else _histogram(of[method])
                parts.append(values.assign(panel=method, y_axis=axes[-1].label))
                if curve:
                    ece = PERCENT * float(ECE.compute(*of[method]))
                    texts["", axes[-1].label, method] = f"ECE {ece:.1f}%"
        return Plot(
            "Confidence",
            pd.concat(parts, ignore_index=True),
            Axis("probability of the predicted class", ticks=(0.0, 0.5, 1.0), limits=(0.0, 1.0)),
            axes,
            [*COLOURS],
            notes(
                "all runs of a method together",
                held_out(collected, collected.runs[collected.runs["state"] == "finished"]),
                f"ECE over {BINS} bins",
                f"ring: a bin of fewer than {FEW} samples",
            ),
            (1.9, 1.8),
            COLOURS,
            texts=texts,
        )


def _histogram(of: Confidences) -> pd.DataFrame:
    """Right and wrong samples by confidence, in percent of all, side by side."""
    middles = np.array([round((place + 0.5) * WIDTH, 6) for place in range(BARS)])
    total = (of.right + of.wrong).sum()
    sides = [
        {"label": label, "x": middles + shift, "y": PERCENT * counts.reshape(BARS, -1).sum(1) / total}
        for label, counts, shift in ((RIGHT, of.right, -WIDTH / 4), (WRONG, of.wrong, WIDTH / 4))
    ]
    return pd.concat(map(pd.DataFrame, sides)).assign(mark="share of samples", style="bar")


def _curve(of: Confidences) -> pd.DataFrame:
    """Accuracy of the samples of each bin against their mean confidence, with the diagonal."""
    n = of.right + of.wrong
    bins = pd.DataFrame({"x": ratio(of.confidence, n), "y": PERCENT * ratio(of.right, n), "n": n})
    bins = bins[bins["n"] > 0].assign(label=CURVE, mark="bin", style="marked")
    diagonal = pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, PERCENT]}).assign(label=EQUAL, mark="guide")
    few = bins[bins["n"] < FEW].assign(mark="of few samples", style="ring")
    return pd.concat([diagonal.assign(style="line"), bins, few])
