"""Reliability: how sure of its class a model is when it is right and when it is wrong, and how often it is
right where it is so sure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series
from fedshift.analysis.figures._marks import TITLES, held_out
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.metrics.base import ratio
from fedshift.analysis.metrics.ece import ECE
from fedshift.analysis.quantities.histograms import Confidences, confidences
from fedshift.common.errors import FedshiftError
from fedshift.federation.records import BINS
from fedshift.storage.workspace import Workspace

RIGHT, WRONG, CURVE, EQUAL = "right", "wrong", "accuracy", "accuracy = confidence"
COLOURS = {RIGHT: "#0072B2", WRONG: "#D55E00", CURVE: "#000000", EQUAL: "#8c959f"}
BARS = 10  # two bins each: thinner bars cannot be told apart
WIDTH = 1 / BARS
PERCENT = 100
FEW = 10  # samples, whose accuracy says little
ROOM = 4  # for marks at 0 and 100


@dataclass(frozen=True)
class Params:
    """show: `histogram` (samples by confidence), `curve` (accuracy by confidence), in this order."""

    show: tuple[Literal["histogram", "curve"], ...] = ("histogram", "curve")


class Reliability(Figure):
    """Rows: histogram and curve, in- and out-of-distribution; a panel per method. All runs of a method
    together, each sample counts once, in the round that tables report.

    Beside a curve its expected calibration error, over all bins that runs record. A bin without samples has
    no point.
    """

    name = "reliability"
    Params = Params

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no finished run recorded statistics."""
        by_domain = {where: confidences(collected, where) for where in ("id", "ood")}
        methods = [row for row in collected.experiment.rows if any(row in of for of in by_domain.values())]
        if not methods:
            what = "no finished run recorded how sure its models are"
            raise FedshiftError(collected.path, what, "Train the experiment, then collect it again.")
        rows = []
        for show in self.params.show:
            for where, of in by_domain.items():
                if of:
                    draw = _histogram if show == "histogram" else _curve
                    panels = [draw(of.get(method), where, method) for method in methods]
                    rows.append(Row(panels))
        few = f"; ring: a bin of fewer than {FEW} samples" if "curve" in self.params.show else ""
        runs = held_out(collected, collected.runs[collected.runs["state"] == "finished"])
        note = "; ".join(filter(None, ["all runs of a method together", runs, f"ECE over {BINS} bins{few}"]))
        return Panels(
            "Confidence", rows, [*COLOURS], note, (1.9, 1.8), COLOURS, names="beside"
        )  # fmt: skip


def _middles() -> list[float]:
    return [round((place + 0.5) * WIDTH, 6) for place in range(BARS)]


def _histogram(of: Confidences | None, where: str, method: str) -> Panel:
    """Right and wrong samples by confidence, in percent of all."""
    series = [*_bars(of)] if of else []
    y = Axis(f"{TITLES[where]}\nsamples (%)", from_zero=True)
    return Panel(series, _confidence(), y, method)


def _bars(of: Confidences) -> Iterator[Series]:
    total = (of.right + of.wrong).sum()
    for place, (label, counts) in enumerate(((RIGHT, of.right), (WRONG, of.wrong))):
        shift = (place - 0.5) * WIDTH / 2
        xs = [middle + shift for middle in _middles()]
        shares = [*map(float, PERCENT * counts.reshape(BARS, -1).sum(1) / total)]
        yield Series(label, "share of samples", xs, shares, "filled", width=0.9 * WIDTH / 2)


def _curve(of: Confidences | None, where: str, method: str) -> Panel:
    """Accuracy of the samples of each bin against their mean confidence, with the diagonal."""
    y = Axis(f"{TITLES[where]}\naccuracy (%)", limits=(-ROOM, PERCENT + ROOM))
    diagonal = Series(EQUAL, "guide", [0.0, 1.0], [0.0, float(PERCENT)], "line")
    if of is None:
        return Panel([diagonal], _confidence(), y, method)
    n = of.right + of.wrong
    mean, accuracy = ratio(of.confidence, n), PERCENT * ratio(of.right, n)
    filled = np.flatnonzero(n)
    curve = Series(CURVE, "bin", [*map(float, mean[filled])], [*map(float, accuracy[filled])], "marked")
    few = filled[n[filled] < FEW]
    hollow = Series(CURVE, "of few samples", [*map(float, mean[few])], [*map(float, accuracy[few])], "ring")
    ece = PERCENT * float(ECE.compute(of.wrong, of.right, of.confidence))
    return Panel([diagonal, curve, hollow], _confidence(), y, method, inside=f"ECE {ece:.1f}%")


def _confidence() -> Axis:
    ends = {0.0: "0", 0.5: "0.5", 1.0: "1"}
    return Axis("probability of the predicted class", ticks=ends, limits=(0.0, 1.0))
