"""Ranks: the methods by their mean over data sets and held-out domains, as differences from one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series, Spread, Style
from fedshift.analysis.figures._marks import in_words, several
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.ranking import ranking
from fedshift.experiments.column import quantity
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

LINE = 0.27  # inches a method
APART, ALIKE = "told apart", "not told apart"


@dataclass(frozen=True)
class Params:
    """metric: what methods are ranked by; against: the row that they are compared with, by default fedavg."""

    metric: str = "ood"
    against: str = ""


class Ranks(Figure):
    """A line per method, the best on top: its difference from one method, with an interval; all intervals
    hold together at 95% (fedshift.analysis.ranking).
    """

    name = "ranks"
    Params = Params

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """The metric exists."""
        quantity(self.params.metric, where)

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Over all blocks of the experiment that have all their seeds."""
        result = ranking([collected], self.params.metric, self.params.against)
        rows, told = result.table.to_dict("records"), {*result.better, *result.worse}
        series = []
        for place, row in enumerate(rows):
            label = APART if row["method"] in told else ALIKE
            spread = Spread([row["low"]], [row["high"]], "bar", "x") if row["low"] == row["low"] else None
            style: Style = "square" if label == APART else "ring"
            at = [row["difference"]], [float(place)]
            series.append(Series(label, str(row["method"]), *at, style, spread))
        ticks = {float(place): str(row["method"]) for place, row in enumerate(rows)}
        x = Axis(f"{in_words(self.params.metric)}, less {result.against}'s")
        rules: list[tuple[Literal["x", "y"], float]] = [("x", 0.0)]
        panel = Panel(series, x, Axis("", ticks=ticks, limits=(len(rows) - 0.4, -0.6)), rules=rules)
        note = f"bar: 95% interval, of all differences together; ring: {ALIKE} from {result.against}"
        note += f"; over {_blocks(collected, result.blocks)}, {result.seeds} seeds"
        left = [one for one in collected.experiment.rows if one not in ticks.values()]
        note += f"; left out: {', '.join(left)}" * bool(left)
        return Panels("Ranks", [Row([panel])], [APART, ALIKE], note, (5.0, 0.6 + LINE * len(rows)))


def _blocks(collected: Collected, count: int) -> str:
    """What methods are ranked over: held-out domains by name, where there are as many of them as blocks."""
    names = collected.order.get("target", [])
    return (
        several("target", names) if len(names) == count else f"{count} pairs of data set and held-out domain"
    )
