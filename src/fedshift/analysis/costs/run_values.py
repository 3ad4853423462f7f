"""Run values: what the columns of a table show of each planned run (fedshift.experiments.column)."""

from __future__ import annotations

import functools
from typing import Any

import pandas as pd

from fedshift.analysis import costs
from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.collection.evaluated import measured
from fedshift.analysis.printed.comparable import flat
from fedshift.analysis.quantities import recorded as recording
from fedshift.analysis.quantities.clients import leading
from fedshift.analysis.quantities.select import choose, curves
from fedshift.common.registry import get
from fedshift.experiments.column import REACHED, Column, column, quantity, recorded
from fedshift.experiments.protocols import Rule
from fedshift.experiments.schema import Table
from fedshift.storage.workspace import Workspace

TIMED = ("seconds", "seconds_to")
ALIKE = "hardware"  # times are compared on one kind of it alone


def of_runs(
    workspace: Workspace, collected: Collected, rule: Rule, table: Table, late: bool = False
) -> pd.DataFrame:
    """Keys and one column for each of the table's metrics, NaN where a run has no value; of a layer its
    parameters.

    rule: which round the quantities are of; late: whether a run that never reaches a value counts as if it
    did one round after the longest (claims), or has no value (tables). Relative columns compare runs at the
    same values on all axes; the ratio of seconds is NaN where the two ran on other hardware.
    """
    keys, runs = collected.keys, collected.runs
    rounds = curves(collected, recorded(table.metrics))
    reported = runs[keys].merge(choose(rounds, keys, rule), on=keys, how="left").set_axis(runs.index)
    frame = runs[keys].copy()
    for text in table.metrics:
        own = column(text)
        if own.kind == "quantity":
            values = reported[own.name]
        elif own.kind == "cost":
            values = costs.cost(runs, own.name)
        elif own.kind == "recorded":
            values = recording.last(workspace, collected, own.name)
        elif own.kind == "leads":
            values = leading(collected, own.name, rule)
        elif own.kind in REACHED:
            values = _reached(collected, own, rounds, late)
        elif own.kind == "evaluated":
            values = measured(workspace, collected, own.name)
        elif own.kind == "setting":
            values = runs["spec"].map(functools.partial(setting, key=own.name)).astype(float)
        else:
            from fedshift.analysis.costs.architecture import layer

            paper, (printed, *_) = collected.experiment.paper, table.printed
            piece = functools.partial(layer, workspace, paper, printed, own.name)
            values = runs["spec"].map(piece).map(lambda piece_of: piece_of.parameters).astype(float)
        frame[text] = _relative(collected, own, values, table.against) if own.relative else values
    return frame


def setting(text: str, key: str) -> float:
    """The number at a dotted key of a resolved spec (JSON), with the standard values of parameters that it
    does not set; NaN where there is none, or no number.
    """
    value: Any = flat(text).get(key)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number else float("nan")


def _reached(collected: Collected, own: Column, rounds: pd.DataFrame, late: bool) -> pd.Series[float]:
    """Rounds, MB sent and got by all clients, or seconds, until a quantity first reaches a value: of bytes
    and seconds the share of all rounds that the run trained.
    """
    name, value = own.threshold
    lower = get("metrics", quantity(name).metric).better == "lower"
    hit = rounds[name] <= value if lower else rounds[name] >= value
    keys, runs = collected.keys, collected.runs
    known = rounds.assign(first=rounds["round"].where(hit)).dropna(subset=name)
    firsts = known.groupby(keys, dropna=False).agg(first=("first", "min"), last=("round", "max"))
    of = runs[keys].merge(firsts.reset_index(), on=keys, how="left").set_axis(runs.index)
    reached = of["first"].astype(float)
    if late:
        reached = reached.mask(reached.isna() & of["last"].notna(), of["last"].max() + 1)
    if own.kind == "rounds_to":
        return reached
    sent = (runs["bytes_up"] + runs["bytes_down"]) / costs.MEGA
    return (runs["seconds"] if own.kind == "seconds_to" else sent) * reached / runs["rounds"]


def _relative(collected: Collected, own: Column, values: pd.Series[float], against: str) -> pd.Series[float]:
    """Values relative to those of the row `against` at the same place on all axes."""
    axes, runs = collected.keys[1:], collected.runs
    frame = runs[axes].assign(own=values, hardware=runs[ALIKE], every=0)
    base = frame[runs["method"] == against].rename(columns={"own": "base", ALIKE: "beside"})
    both = frame.merge(base, on=[*axes, "every"], how="left").set_axis(runs.index)
    if own.relative == "gain":
        return both["base"] - both["own"]
    ratio = both["own"] / both["base"]
    return ratio.where(both[ALIKE] == both["beside"]) if {own.kind, own.name} & {*TIMED} else ratio
