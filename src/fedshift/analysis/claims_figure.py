"""Figure of claims: every paired difference with its interval, beside the difference that the paper prints."""

from __future__ import annotations

import textwrap
from itertools import chain

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedshift.analysis.claims import Difference, Verdict

COLOURS = {"confirmed": "#009E73", "refuted": "#D55E00", "undecided": "#57606a"}
LINE = 0.27  # inches a difference
ROOM = 1.6  # the axis ends at so many times the largest value; a longer interval is cut there, with an arrow


def claims_figure(title: str, found: list[Verdict]) -> Figure:
    """One line per claim and method on its right side: dots are the pairs (other axes), each the mean over seeds, the square their mean.

    Bar: Student's 95% interval over seeds; thin and dashed with one seed, where it is over the dots and judges nothing. Diamond: printed,
    where the claim names one method.
    """
    lines = [(one, each) for one in found for each in one.differences]
    figure = Figure(figsize=(8.6, 1.5 + LINE * len(lines)), layout="constrained")
    axes = figure.subplots()
    end = ROOM * max((abs(value) for line in lines for value in _values(*line)), default=0.0)
    end = end or 1.0
    axes.set_xlim(-end, end)
    for place, (one, each) in enumerate(lines):
        _difference(axes, place, one, each, end)
    axes.axvline(0, color="#24292f", linewidth=0.8)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    first = {id(one): place for place, (one, _) in reversed([*enumerate(lines)])}
    axes.set_yticks(
        range(len(lines)),
        [
            f"{_name(one) if first[id(one)] == place else ''}   {each.right}"
            for place, (one, each) in enumerate(lines)
        ],
    )
    for place in [*first.values()][:-1]:
        axes.axhline(place - 0.5, color="#d0d7de", linewidth=0.8)
    for one in found:
        if id(one) in first:
            axes.annotate(
                one.verdict, (1.01, first[id(one)]), xycoords=("axes fraction", "data"), va="center", color=COLOURS[one.verdict], fontsize=8
            )  # fmt: skip
    axes.grid(axis="y", visible=False)
    how = "bar: 95% interval over seeds, dashed: one seed, over its pairs; dots: pairs; diamond: printed"
    axes.set_xlabel(f"difference of accuracy (points)\n{how}")
    figure.suptitle(textwrap.fill(title, 90), fontsize=10, fontweight="bold")
    return figure


def _name(one: Verdict) -> str:
    return f"{one.claim}: {one.said}"


def _values(one: Verdict, each: Difference) -> list[float]:
    """What must be seen whole: intervals over seeds, pairs, the printed difference."""
    shown = chain((each.mean, each.low, each.high, _printed(one)), each.pairs.values())
    return [value for value in shown if value == value]


def _printed(one: Verdict) -> float:
    """A claim about several methods prints its difference from the best of them: on no one's line."""
    return one.printed if len(one.differences) == 1 else float("nan")


def _difference(axes: Axes, place: int, one: Verdict, each: Difference, end: float) -> None:
    colour = COLOURS[one.verdict]
    low, high, style, width = each.low, each.high, "-", 2.2
    if each.seeds == 1:
        low, high, style, width = each.pairs_low, each.pairs_high, "--", 0.9
    axes.plot(
        [max(low, -end), min(high, end)], [place, place], color=colour, linestyle=style, linewidth=width
    )
    for limit, marker in ((low, "<"), (high, ">")):
        if abs(limit) > end:
            axes.plot(end if limit > 0 else -end, place, marker, color=colour, markersize=4, clip_on=False)
    pairs = [*each.pairs.values()]
    axes.plot(
        pairs,
        [place] * len(pairs),
        "o",
        color=colour,
        markerfacecolor="white",
        markersize=3.5,
        markeredgewidth=0.8,
    )
    axes.plot(each.mean, place, "s", color=colour, markersize=5)
    axes.plot(_printed(one), place, "D", color="#CC79A7", markerfacecolor="none", markersize=6)
