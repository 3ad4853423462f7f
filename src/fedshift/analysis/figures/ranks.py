"""Ranks: mean ranks of the methods over data sets and held-out domains, with the critical difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series, Spread, Style
from fedshift.analysis.figures._marks import in_words, several
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.ranking import ranking
from fedshift.experiments.column import quantity
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

LINE = 0.27  # inches a method
ALIKE, APART = "not told apart from the first", "worse than the first"


@dataclass(frozen=True)
class Params:
    """metric: what methods are ranked by; alpha: of the Nemenyi test."""

    metric: str = "ood"
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05


class Ranks(Figure):
    """A line per method, the best mean rank on top. Two methods whose bars, half of Nemenyi's critical
    difference to each side, do not meet are told apart (fedshift.analysis.ranking).
    """

    name = "ranks"
    Params = Params

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """The metric exists."""
        quantity(self.params.metric, where)

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Over all blocks of the experiment that have all their seeds."""
        result = ranking([collected], self.params.metric, self.params.alpha)
        table, half = result.table, result.critical / 2
        series = []
        for place, (method, rank) in enumerate(zip(table["method"], table["rank"], strict=True)):
            apart = method not in result.alike
            spread = Spread([rank - half], [rank + half], "bar", "x")
            style: Style = "ring" if apart else "square"
            series.append(
                Series(APART if apart else ALIKE, str(method), [rank], [float(place)], style, spread)
            )
        ticks = {float(place): str(method) for place, method in enumerate(table["method"])}
        words = in_words(self.params.metric)
        x = Axis(
            f"mean rank by {words} (1: the best)",
            ticks={float(rank): str(rank) for rank in range(1, len(table) + 1)},
            limits=(0.9, len(table) + 0.1),
        )
        last = float(table["rank"].min()) + result.critical
        rules: list[tuple[Literal["x", "y"], float]] = [("x", last)] * (last < len(table))
        panel = Panel(series, x, Axis("", ticks=ticks, limits=(len(table) - 0.4, -0.6)), rules=rules)
        note = f"bar: half the critical difference ({result.critical:.2f}) to each side"
        note += f"; over {_blocks(collected, result.blocks)}"
        note += f"; ring, beyond the line: {APART}" * any(mark.label == APART for mark in series)
        left = [one for one in collected.experiment.rows if one not in [*table["method"]]]
        note += f"; left out: {', '.join(left)}" * bool(left)
        note += f"; Friedman's p:\u00a0{result.p:.2g}" * (not math.isnan(result.p))
        return Panels("Mean ranks", [Row([panel])], [ALIKE, APART], note, (5.0, 0.6 + LINE * len(table)))


def _blocks(collected: Collected, count: int) -> str:
    """What methods are ranked over: held-out domains by name, where there are as many of them as blocks."""
    names = collected.order.get("target", [])
    return (
        several("target", names) if len(names) == count else f"{count} pairs of data set and held-out domain"
    )
