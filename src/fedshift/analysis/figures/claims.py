"""Claims: every paired difference with its interval, next to the published difference."""

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from fedshift.analysis.claims.judge import verdicts
from fedshift.analysis.collected import Collected
from fedshift.analysis.figures.base import GREY, Axes, Axis, Figure, Plot, notes
from fedshift.common.errors import FedshiftError
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

PRINTED = "printed"
COLOURS = {"as published": "#009E73", "against": "#D55E00", "open": "#57606a", "not run": GREY}
COLOURS |= {PRINTED: "#CC79A7"}
COLUMNS = ["label", "mark", "style", "x", "y", "low", "high"]
LINE, TALL = 0.27, 0.16  # inches per difference, and per additional line of its name
LETTERS = 60  # of its name in a line
ROOM = 1.6  # end of the axis over the largest value; a longer interval is cut there, with an arrow


class Claims(Figure):
    """One line per claim and method on its right side: rings are its seeds, the square is their mean.

    A bar is the 95% interval over seeds. With one seed there is no interval: the square is open, and the
    rings are its pairs (other axes). Diamonds are published differences, where the claim names one method.
    """

    name = "claims"

    def check(self, experiment: Experiment, axes: Axes, where: str) -> None:
        """Check that the experiment tests a claim."""
        if not experiment.tests_claims:
            what = "plots the claims that an experiment tests, and this one tests none"
            raise FedshiftError(where, what, "Leave it out, or say `claims`.")

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        every = verdicts(workspace, collected)
        run = every[every["seeds"] > 0]
        lines = (every if run.empty else run).assign(alone=~every["claim"].duplicated(keep=False))
        begins = ~lines["claim"].duplicated()
        names = [*map(_name, lines.to_dict("records"), begins)]
        rows = [
            row
            for line, name in zip(lines.to_dict("records"), names, strict=True)
            for row in _rows(line, name)
        ]
        frame = pd.DataFrame(rows, columns=COLUMNS).dropna(subset="x")
        furthest = frame["x"].abs().max()
        end = ROOM * furthest if furthest > 0 else 1.0
        note = notes(
            frame["low"].notna().any() and "bar: 95% interval over seeds",
            (frame["style"] == "open").any() and "open: mean of one seed",
            (frame["style"] == "square").any() and "square: mean",
            (frame["mark"] == "seed").any() and "rings: seeds",
            (frame["mark"] == "pair").any() and "rings of one seed: its pairs",
            (frame["style"] == "diamond").any() and "diamond: published",
            len(every) > len(lines) and f"not shown: {len(every) - len(lines)} without runs",
        )
        wrapped = max((len(name) // LETTERS for name in names), default=0)
        return Plot(
            "Claims",
            frame,
            Axis("difference, left less right side (of accuracies in points)", limits=(-end, end)),
            Axis(names=names),
            [*COLOURS],
            note,
            size=(7.0, 0.6 + (LINE + TALL * wrapped) * len(lines)),
            colours=COLOURS,
            rules={"x": [0.0], "y": [place - 0.5 for place in np.flatnonzero(begins)[1:]]},
        )


def _name(line: Mapping[Hashable, Any], begins: bool) -> str:
    """The claim, in words where its lines begin, and the method on the right where it has more than one."""
    name = f"{line['claim']}: {line['said']}" if begins else line["claim"]
    return name if line["alone"] else f"{name}   {line['right']}"


def _rows(line: Mapping[Hashable, Any], name: str) -> list[tuple[Any, ...]]:
    """The marks of one line, with the columns COLUMNS; x is NaN for an absent mark.

    A published difference from the best of several methods belongs to no single line and is left out.
    """
    label, one_seed = line["verdict"], line["seeds"] == 1
    mark, rings = ("pair", line["pairs"].values()) if one_seed else ("seed", line["by_seed"])
    ends, printed = (line["low"], line["high"]), line["printed"] if line["alone"] else math.nan
    return [
        *((label, mark, "ring", ring, name, None, None) for ring in rings),
        (label, "mean", "open" if one_seed else "square", line["difference"], name, *ends),
        (PRINTED, "printed", "diamond", printed, name, None, None),
    ]
