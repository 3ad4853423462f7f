"""Claims: every paired difference with its interval, next to the published difference."""

import math
from typing import Any

import pandas as pd

from fedshift.analysis.claims.judge import Difference, Verdict, verdicts
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
        every = [(one, gap) for one in verdicts(workspace, collected) for gap in one.differences]
        lines = [line for line in every if line[1].seeds] or every
        first = {verdict.claim: place for place, (verdict, _) in reversed([*enumerate(lines)])}
        names = [_name(*line, first[line[0].claim] == place) for place, line in enumerate(lines)]
        rows = [row for line, name in zip(lines, names, strict=True) for row in _rows(*line, name)]
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
            rules={"x": [0.0], "y": [place - 0.5 for place in sorted(first.values())[1:]]},
        )


def _name(verdict: Verdict, difference: Difference, begins: bool) -> str:
    """The claim, in words where its lines begin, and the method on the right where it has more than one."""
    name = f"{verdict.claim}: {verdict.statement}" if begins else verdict.claim
    return name if len(verdict.differences) == 1 else f"{name}   {difference.right}"


def _rows(verdict: Verdict, difference: Difference, name: str) -> list[tuple[Any, ...]]:
    """The marks of one line, with the columns COLUMNS; x is NaN for an absent mark.

    A published difference from the best of several methods belongs to no single line and is left out.
    """
    label, alone = verdict.verdict, difference.seeds == 1
    rings = [*(difference.pairs.values() if alone else difference.by_seed)]
    low, high = difference.low, difference.high
    printed = verdict.printed if len(verdict.differences) == 1 else math.nan
    return [
        *((label, "pair" if alone else "seed", "ring", ring, name, None, None) for ring in rings),
        (label, "mean", "open" if alone else "square", difference.mean, name, low, high),
        (PRINTED, "printed", "diamond", printed, name, None, None),
    ]
