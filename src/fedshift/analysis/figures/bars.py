"""Bars: a metric at each value of an axis (data sets, targets, a setting), a bar per method or target."""

from dataclasses import dataclass
from typing import ClassVar

from fedshift.analysis.figures.base import Metric
from fedshift.analysis.figures.sweep import Across, Sweep


@dataclass(frozen=True)
class Params(Across):
    """As of a sweep, whose scale and levels bars have not."""

    metrics: tuple[Metric, ...] = ("ood",)

    scale: ClassVar[str] = "linear"
    levels: ClassVar[tuple[str, ...]] = ()


class Bars(Sweep):
    """Means over the axes that are neither x, lines, panels nor seed, then over seeds, in the round that
    tables report, as bars from 0.

    From three seeds on a line of one standard deviation to each side; rings are seeds of fewer. Diamonds: the
    published value, where it is of the same experiment.
    """

    name = "bars"
    Params: ClassVar[type] = Params
    style: ClassVar[str] = "bar"
    by_name: ClassVar[bool] = True
