"""Ranks: the methods by their mean over data sets and held-out domains, as differences from one of them."""

from dataclasses import dataclass

import numpy as np

from fedshift.analysis.collected import Collected
from fedshift.analysis.figures.base import Axis, Figure, Metric, Plot, Row, in_words, notes, several
from fedshift.analysis.ranking import ranking
from fedshift.storage.workspace import Workspace

LINE = 0.27  # inches a method
APART, ALIKE = "distinguishable", "not distinguishable"


@dataclass(frozen=True)
class Params:
    """`metric`: what methods are ranked by.
    `against`: the row that they are compared with, by default fedavg.
    """

    metric: Metric = "ood"
    against: Row = ""


class Ranks(Figure):
    """One line per method, the best on top: its difference from one method, with an interval.

    All intervals hold jointly at 95% (fedshift.analysis.ranking).
    """

    name = "ranks"
    Params = Params

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        result = ranking([collected], self.params.metric, self.params.against)
        methods = [*result.table["method"]]
        apart = result.table["method"].isin([*result.better, *result.worse])
        frame = result.table.assign(
            label=np.where(apart, APART, ALIKE), style=np.where(apart, "square", "open"),
            mark=methods, x=result.table["difference"], y=methods,
        )  # fmt: skip
        names = collected.order.get("target", [])
        left = ", ".join(row for row in collected.experiment.rows if row not in methods)
        pairs = f"{result.blocks} pairs of data set and held-out domain"
        over = several("target", names) if len(names) == result.blocks else pairs
        note = notes(
            result.table["high"].notna().any() and "bar: 95% interval, of all differences together",
            f"open: {ALIKE} from {result.against}",
            f"over {over}, {result.seeds} seed{'s' * (result.seeds != 1)}",
            left and f"left out: {left}",
        )
        return Plot(
            "Ranks",
            frame,
            Axis(f"{in_words(self.params.metric)}, less {result.against}'s"),
            Axis(names=methods),
            [APART, ALIKE],
            note,
            size=(5.0, 0.6 + LINE * len(methods)),
            colours={APART: "#0072B2", ALIKE: "#57606a"},
            rules={"x": [0.0]},
        )
