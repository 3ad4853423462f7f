"""Ranks: mean ranks of the methods over data sets and held-out domains, with the critical difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.figures._queries import in_words, several
from fedshift.analysis.figures.base import Axis, Figure, Plot
from fedshift.analysis.ranking import ranking
from fedshift.experiments.column import quantity
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

LINE = 0.27  # inches a method
TICKS = 14  # at most so many
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

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        """Over all blocks of the experiment that have all their seeds."""
        result = ranking([collected], self.params.metric, self.params.alpha)
        rank, methods, half = result.table["rank"], [*result.table["method"]], result.critical / 2
        alike = result.table["method"].isin(result.alike)
        frame = result.table.assign(
            label=np.where(alike, ALIKE, APART), style=np.where(alike, "square", "open"),
            mark=methods, x=rank, y=methods, low=rank - half, high=rank + half,
        )  # fmt: skip
        last = float(rank.min()) + result.critical
        names = collected.order.get("target", [])
        left = [one for one in collected.experiment.rows if one not in methods]
        notes = [
            f"bar: half the critical difference ({result.critical:.2f}) to each side",
            "over "
            + (
                several("target", names)
                if len(names) == result.blocks
                else f"{result.blocks} pairs of data set and held-out domain"
            ),
            f"left out: {', '.join(left)}" * bool(left),
            f"Friedman's p:\u00a0{result.p:.2g}" * (not math.isnan(result.p)),
        ]
        x = Axis(
            f"mean rank by {in_words(self.params.metric)} (1: the best)",
            ticks=range(1, len(methods) + 1, 1 + len(methods) // TICKS),
            limits=(0.9, len(methods) + 0.1),
        )
        return Plot(
            "Mean ranks",
            frame,
            x,
            Axis(names=methods),
            [ALIKE, APART],
            "; ".join(filter(None, notes)),
            size=(5.0, 0.6 + LINE * len(methods)),
            colours={ALIKE: "#0072B2", APART: "#D55E00"},
            rules={"x": [last] * (last < len(methods))},
        )
