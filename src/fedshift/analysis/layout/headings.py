"""Headings: what tables call their columns, and how they write the numbers below."""

from __future__ import annotations

from collections.abc import Callable

from fedshift.analysis.quantities import aggregation
from fedshift.common.registry import get
from fedshift.experiments.column import COSTS, REACHED, RELATIVE, column, recorded_of

FINER = 2  # digits more of what is no percentage, such as a loss
DIGITS = 3  # of costs


def heading(text: str) -> str:
    """What tables call a column: "ood", "gain in ood", "M parameters", "rounds to ood 60", "local.lr"."""
    own = column(text)
    name = {
        "quantity": lambda: aggregation.heading(own.name),
        "cost": lambda: COSTS[own.name],
        "setting": lambda: own.name,
        "recorded": lambda: " ".join(filter(None, recorded_of(own.name))),
        "leads": lambda: f"% of clients led in {own.name}",
        "layer": lambda: f"layer {own.name.partition('.')[2]}",
        "evaluated": lambda: _evaluated(own.name),
    }.get(own.kind, lambda: f"{REACHED[own.kind]} to {own.name.replace('=', ' ')}")()
    return f"{RELATIVE[own.relative]} {name}" if own.relative else name


def _evaluated(name: str) -> str:
    evaluation, _, number = name.partition(".")
    return str(get("evaluations", evaluation).quantities[number])


def in_percent(text: str) -> bool:
    """Whether a column holds percentages, or differences of them."""
    own = column(text)
    return own.kind == "quantity" and own.relative != "ratio" and aggregation.in_percent(own.name)


def form(text: str, digits: int) -> Callable[[float], str]:
    """How numbers of a column are written; digits: those of percentages in the table."""
    own = column(text)
    if own.kind == "setting":
        return "{:g}".format
    if own.kind == "layer":
        return "{:,.0f} parameters".format
    places = digits if in_percent(text) else digits + FINER if own.kind == "quantity" else DIGITS
    return f"{{:.{places}f}}".format
