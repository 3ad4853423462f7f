"""What the columns of a table show of each planned run (fedshift.experiments.column).

Costs: parameters, state_dict, macs and macs_norm are counted from the run's declaration, on shapes alone; the
others were measured, and are NaN of a run that is not finished. `up` and `down` are what one client that
takes part sends and gets in a round; they are NaN where one client holds all images and nothing travels.
"""

from __future__ import annotations

import functools
import json
import math
from typing import Any

import pandas as pd

from fedshift.analysis.clients import last_recorded, leading
from fedshift.analysis.collected import Collected
from fedshift.analysis.comparable import flat
from fedshift.analysis.evaluated import measured
from fedshift.analysis.quantities import choose, curves
from fedshift.common.registry import get
from fedshift.experiments.column import COUNTED, REACHED, Column, column, quantity, recorded
from fedshift.experiments.protocols import Rule
from fedshift.experiments.schema import Table
from fedshift.storage.workspace import Workspace

MEGA = 1e6


def sent(runs: pd.DataFrame, way: str) -> pd.Series[float]:
    """MB that all clients sent (`up`) or got (`down`) in a whole run, by rows of Collected.runs; NaN where
    one client holds all images.
    """
    return (runs[f"bytes_{way}"] / MEGA).where(~runs["pooled"].eq(True))


def cost(runs: pd.DataFrame, name: str) -> pd.Series[float]:
    """One of COSTS for rows of Collected.runs."""
    if name in COUNTED:
        from fedshift.analysis.layers import counts  # torch, which other costs do not need

        networks = runs["spec"].map(lambda text: json.dumps({**json.loads(text), "seed": 0}))
        return networks.map(lambda text: counts(text).get(name, math.nan)).astype(float)
    if name in ("up", "down"):
        participation = runs["spec"].map(functools.partial(setting, key="federation.participation"))
        takers = (participation * runs["clients"].str.len()).round().clip(lower=1)
        values = sent(runs, name) / (runs["rounds"] * takers)
    else:
        values = runs[{"seconds": "seconds", "memory": "peak_memory_mb"}[name]]
    return values.where(runs["state"] == "finished").astype(float)


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
    reported = collected.of_each_run(choose(rounds, keys, rule))
    frame = runs[keys].copy()
    for text in table.metrics:
        own = column(text)
        if own.kind == "quantity":
            values = reported[own.name]
        elif own.kind == "cost":
            values = cost(runs, own.name)
        elif own.kind == "recorded":
            values = last_recorded(workspace, collected, own.name)
        elif own.kind == "leads":
            values = leading(collected, own.name, rule)
        elif own.kind in REACHED:
            values = _reached(collected, own, rounds, late)
        elif own.kind == "evaluated":
            values = measured(workspace, collected, own.name)
        elif own.kind == "setting":
            values = runs["spec"].map(functools.partial(setting, key=own.name)).astype(float)
        else:
            from fedshift.analysis.layers import layer

            paper, (printed, *_) = collected.experiment.paper, table.printed
            pieces = [layer(workspace, paper, printed, own.name, spec) for spec in runs["spec"]]
            values = pd.Series([piece.parameters for piece in pieces], runs.index, dtype=float)
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
    known = rounds.assign(first=rounds["round"].where(hit)).dropna(subset=name)
    firsts = known.groupby(collected.keys, dropna=False).agg(first=("first", "min"), last=("round", "max"))
    runs, of = collected.runs, collected.of_each_run(firsts.reset_index())
    reached = of["first"].astype(float)
    if late:
        reached = reached.mask(reached.isna() & of["last"].notna(), of["last"].max() + 1)
    if own.kind == "rounds_to":
        return reached
    sent = (runs["bytes_up"] + runs["bytes_down"]) / MEGA
    return (runs["seconds"] if own.kind == "seconds_to" else sent) * reached / runs["rounds"]


def _relative(collected: Collected, own: Column, values: pd.Series[float], against: str) -> pd.Series[float]:
    """Values relative to those of the row `against` at the same place on all axes."""
    axes, runs = collected.keys[1:], collected.runs
    frame = runs[axes].assign(own=values, hardware=runs["hardware"], every=0)
    base = frame[runs["method"] == against].rename(columns={"own": "base", "hardware": "beside"})
    both = frame.merge(base, on=[*axes, "every"], how="left").set_axis(runs.index)
    if own.relative == "gain":
        return both["base"] - both["own"]
    ratio = both["own"] / both["base"]
    timed = own.name == "seconds" or own.kind == "seconds_to"
    return ratio.where(both["hardware"] == both["beside"]) if timed else ratio
