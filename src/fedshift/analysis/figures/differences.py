"""Differences: how far each method lies above or below another one, on each held-out domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.panels import COLOURS, Axis, Panel, Panels, Row, Series, Spread
from fedshift.analysis.figures._marks import aside, by_further_axes, in_words, with_seed
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.quantities.aggregation import in_percent
from fedshift.analysis.quantities.seeds import ENOUGH, Kind, over_seeds
from fedshift.analysis.quantities.select import selected
from fedshift.common.errors import FedshiftError, unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import quantity
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

LINE, BLANK, WIDTH = 0.21, 0.7, 3.6  # inches: a method, around all, a panel
LANES = 0.8  # of what `aside` gives, for the domains of a method
THIN: dict[Kind, str] = {
    "std": "± one standard deviation over seeds",
    "range": "the lower to the higher of two seeds",
}
MEAN, GREY = "mean", "#8b949e"


@dataclass(frozen=True)
class Params:
    """to: the row that the others are held against.
    metric: as tables name it.
    """

    to: str = "fedavg"
    metric: str = "ood"


class Differences(Figure):
    """A line per method, the largest mean on top; a panel per value of the axes beyond target and seed.

    A dot is the mean over seeds of the difference on one held-out domain, paired by seed; its thin line is
    one standard deviation to each side where it has three seeds; where none has, it goes from the lower to
    the higher of two. A grey bar from 0 is the mean over domains, where none of them is missing.
    """

    name = "differences"
    Params = Params

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """Row and metric exist, and there is an axis of held-out domains."""
        if self.params.to not in experiment.rows:
            raise unknown(f"{where}.to", "row of this experiment", self.params.to, experiment.rows)
        quantity(self.params.metric, f"{where}.metric")
        if "target" not in axes:
            raise FedshiftError(where, "draws held-out domains, and 'target' is no axis", "Add it to `axes`.")

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no run has its counterpart."""
        frame = self._differences(collected)
        if frame.empty:
            what = f"holds no run of another method beside one of {self.params.to}"
            raise FedshiftError(collected.path, what, "Train the experiment, then collect it again.")
        means = frame.groupby(["method", "target"])["value"].mean().groupby("method").mean()
        methods = [str(name) for name in means.sort_values(ascending=False, kind="stable").index]
        domains = [name for name in collected.order["target"] if (frame["target"] == name).any()]
        axis_y = Axis(
            "", ticks={float(place): name for place, name in enumerate(methods)},
            limits=(len(methods) - 0.4, -0.6), whole=True,
        )  # fmt: skip
        words = in_words(self.params.metric)
        unit = " (points)" if in_percent(self.params.metric) else ""
        axis_x = Axis(f"{words}\nminus that of {self.params.to}{unit}")
        panels, colours = [], {MEAN: GREY}
        seeds = frame.groupby([*{*collected.keys} - {"seed"}])["seed"].size().max()
        kind: Kind = "std" if seeds >= ENOUGH else "range"
        for title, part in by_further_axes(collected, frame):
            here = [name for name in domains if (part["target"] == name).any()]
            colours |= {str(name): colour for name, colour in zip(here, cycle(COLOURS[:-1]), strict=False)}
            series = [*_series(part, methods, here, collected.protocol.ddof, kind)]
            panels.append(Panel(series, axis_x, axis_y, title, rules=[("x", 0.0)]))
        note = "grey: mean over held-out domains"
        if any(one.spread and one.spread.kind == "thin" for panel in panels for one in panel.series):
            note += f"; thin line: {THIN[kind]}"
        size = (WIDTH, BLANK + LINE * len(methods))
        labels = [*map(str, domains), MEAN]
        title = f"Differences from {self.params.to}"
        return Panels(title, [Row(panels)], labels, note, size, colours, "beside")

    def _differences(self, collected: Collected) -> pd.DataFrame:
        """A row per run whose counterpart is there, too: keys, and the difference as `value`."""
        frame = selected(collected, quantities=[self.params.metric])
        frame = with_seed(frame)
        frame = frame[frame["target"] != NONE].dropna(subset=[self.params.metric])
        by = sorted({*collected.keys, "seed"} - {"method"})
        own = frame["method"] == self.params.to
        pairs = frame[~own].merge(frame.loc[own, [*by, self.params.metric]], on=by, suffixes=("", " to"))
        return pairs.assign(value=pairs[self.params.metric] - pairs[f"{self.params.metric} to"])


def _series(
    frame: pd.DataFrame, methods: Sequence[str], domains: Sequence[Any], ddof: int, kind: Kind
) -> Iterator[Series]:
    """The marks of a panel: the mean over domains, and on it those of each, beside each other.

    frame: a row per run with `value`, the difference; kind: of the thin lines, all of which are alike.
    """
    places = {name: float(place) for place, name in enumerate(methods)}
    frame = frame.assign(place=frame["method"].map(places))
    by_domain = frame.groupby(["place", "target"])["value"].mean().unstack()
    whole = by_domain.dropna().mean(axis=1)
    from_zero = Spread([*whole.clip(upper=0)], [*whole.clip(lower=0)], "bar", "x")
    yield Series(MEAN, MEAN, [*whole], [float(place) for place in whole.index], "square", from_zero)
    for index, domain in enumerate(domains):
        line = over_seeds(frame[frame["target"] == domain], "place", "value", ddof)
        if line is None:
            continue
        beside = LANES * aside(index, len(domains))
        spread = Spread([*line.low], [*line.high], "thin", "x") if line.kind == kind else None
        at = [float(place) + beside for place in line.mean.index]
        yield Series(str(domain), MEAN, [*line.mean], at, "dot", spread)
