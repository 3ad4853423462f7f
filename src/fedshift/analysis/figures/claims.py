"""Claims: every paired difference with its interval, beside the difference that the paper prints."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from fedshift.analysis.claims.judge import Difference, Verdict, verdicts
from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series, Spread
from fedshift.analysis.figures.base import Figure
from fedshift.common.errors import FedshiftError
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

PRINTED = "printed"
COLOURS = {
    "as published": "#009E73",
    "against": "#D55E00",
    "open": "#57606a",
    "not run": "#57606a",
    PRINTED: "#CC79A7",
}
LINE = 0.27  # inches a difference
LETTERS = 60  # of its name in a line; a longer one is broken
TALL = 0.16  # inches more for each further line of a name
ROOM = 1.6  # the axis ends at so many times the largest value; a longer interval is cut there, with an arrow


class Claims(Figure):
    """A line per claim and method on its right side: rings are its seeds, the square their mean.

    Bar: the 95% interval over seeds; one seed has none, and its rings are its pairs (other axes). Diamond:
    printed, where the claim names one method.
    """

    name = "claims"

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """The experiment tests a claim."""
        if not experiment.tests_claims:
            what = "draws the claims that an experiment tests, and this one tests none"
            raise FedshiftError(where, what, "Leave it out, or say `claims`.")

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Of every claim that has runs; of all where none has."""
        return panels(verdicts(workspace, collected))


def panels(judged: Sequence[Verdict]) -> Panels:
    """The figure of these verdicts."""
    every = [(verdict, difference) for verdict in judged for difference in verdict.differences]
    lines = [line for line in every if line[1].seeds] or every
    end = ROOM * max((abs(value) for line in lines for value in _values(*line)), default=0.0) or 1.0
    series = [mark for place, line in enumerate(lines) for mark in _marks(float(place), *line)]
    first = {id(verdict): place for place, (verdict, _) in reversed([*enumerate(lines)])}
    ticks = {
        float(place): textwrap.fill(_line(verdict, difference, first[id(verdict)] == place), LETTERS)
        for place, (verdict, difference) in enumerate(lines)
    }
    notes: list[tuple[float, str, str]] = [
        (float(first[id(verdict)]), verdict.verdict, verdict.verdict)
        for verdict in judged
        if id(verdict) in first
    ]
    x = Axis("difference, left less right side (of accuracies in points)", limits=(-end, end))
    y = Axis("", ticks=ticks, limits=(len(lines) - 0.4, -0.6))
    rules: list[tuple[Literal["x", "y"], float]] = [("x", 0.0)]
    rules += [("y", place - 0.5) for place in sorted(first.values())[1:]]
    panel = Panel(series, x, y, notes=notes, rules=rules)
    broken = max((name.count("\n") for name in ticks.values()), default=0)
    size = (7.0, 0.6 + (LINE + TALL * broken) * len(lines))
    return Panels("Claims", [Row([panel])], [*COLOURS], _note(series, len(every) - len(lines)), size, COLOURS)


def _note(series: Sequence[Series], left_out: int) -> str:
    """What the marks are that are drawn, and how many comparisons are not."""
    kinds = {mark.spread.kind for mark in series if mark.spread}
    parts = {
        "bar: 95% interval over seeds": "bar" in kinds,
        "square: mean": any(mark.style == "square" for mark in series),
        "rings: seeds": any(mark.mark == "seed" for mark in series),
        "rings of one seed: its pairs": any(mark.mark == "pair" for mark in series),
        "diamond: printed": any(mark.style == "diamond" for mark in series),
        f"not shown: {left_out} without runs": left_out > 0,
    }
    return "; ".join(text for text, holds in parts.items() if holds)


def _line(verdict: Verdict, difference: Difference, begins: bool) -> str:
    """The claim where its lines begin, and the method on the right where the claim has more than one."""
    name = f"{verdict.claim}: {verdict.statement}" if begins else ""
    return name if len(verdict.differences) == 1 else f"{name}   {difference.right}"


def _values(verdict: Verdict, difference: Difference) -> list[float]:
    """What must be seen: the mean, rings, the printed difference."""
    values = (difference.mean, _printed(verdict), *_rings(difference))
    return [value for value in values if not math.isnan(value)]


def _rings(difference: Difference) -> list[float]:
    """What the interval is computed from: seeds, or of a single one its pairs."""
    return [*(difference.pairs.values() if difference.seeds == 1 else difference.by_seed)]


def _printed(verdict: Verdict) -> float:
    """A claim about several methods prints its difference from the best of them: on no line of its own."""
    return verdict.printed if len(verdict.differences) == 1 else math.nan


def _marks(place: float, verdict: Verdict, difference: Difference) -> Iterator[Series]:
    """The marks of one line; what is not a number is left out."""
    label, rings = verdict.verdict, _rings(difference)
    if rings:
        mark = "pair" if difference.seeds == 1 else "seed"
        yield Series(label, mark, rings, [place] * len(rings), "ring")
    if not math.isnan(difference.mean):
        low, high = difference.low, difference.high
        spread = None if math.isnan(low) else Spread([low], [high], "bar", "x")
        yield Series(label, "mean", [difference.mean], [place], "square", spread)
    if not math.isnan(printed := _printed(verdict)):
        yield Series(PRINTED, "printed", [printed], [place], "diamond")
