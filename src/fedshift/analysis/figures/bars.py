"""Bars: a metric at each value of an axis (data sets, targets, a setting), a bar per method or target."""

from dataclasses import dataclass
from typing import ClassVar

from fedshift.analysis.figures import sweep
from fedshift.analysis.figures.base import Metric
from fedshift.analysis.figures.sweep import Sweep


@dataclass(frozen=True)
class Params(sweep.Params):
    """As for a sweep."""

    metrics: tuple[Metric, ...] = ("ood",)


class Bars(Sweep):
    """Bars from 0: means over the axes that are not x, lines, panels or seed, then over seeds.

    The values are of the round that tables report. With three or more seeds, a line shows one standard
    deviation on each side; with fewer, rings show the seeds. Diamonds are published values of the same
    experiment.
    """

    name = "bars"
    Params: ClassVar[type] = Params
    style: ClassVar[str] = "bar"
