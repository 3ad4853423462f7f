"""Bars: a metric at each value of an axis (data sets, targets, a setting), a bar per method or target."""

from dataclasses import dataclass
from typing import ClassVar

from fedshift.analysis.figures.base import AxisName, Metric, Rows
from fedshift.analysis.figures.sweep import Sweep


@dataclass(frozen=True)
class Params:
    """x: the axis whose values stand side by side, or `setting.<dotted key>`.
    metrics: as tables name them; a row of panels for each; those without a value are left out.
    lines: the axis whose values are bars, or `method`.
    panels: the axis whose values are panels side by side, or `method`; "" for one panel (by `method` where
        bars are of another axis).
    rows: which rows are drawn, as a pattern.
    """

    x: str = ""
    metrics: tuple[Metric, ...] = ("ood",)
    lines: AxisName = "method"
    panels: AxisName = ""
    rows: Rows = "*"

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
