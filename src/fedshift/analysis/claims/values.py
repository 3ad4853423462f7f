"""The values of a comparison's cells, run by run: a metric in the round of tables, or over its curve."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from fedshift.analysis.clients import recorded_by_round
from fedshift.analysis.collected import Collected, is_there, read
from fedshift.analysis.columns import of_runs
from fedshift.analysis.quantities import curves
from fedshift.common.errors import unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import REACHED, column, recorded_of
from fedshift.experiments.schema import SELECTED, Compared, Table
from fedshift.storage.workspace import Workspace

VALUE = "value"
LATE = "late"


@dataclass(frozen=True)
class Values:
    """What comparisons read of experiments.

    frames: experiment and rounds -> one row per planned run, NaN where it is missing; axes: of each
        experiment.
    """

    frames: dict[tuple[str, str], pd.DataFrame]
    axes: dict[str, list[str]]

    def of(self, cell: Compared, where: str, every_row: bool = False) -> pd.DataFrame:
        """VALUE of the cell's runs, with their axes (a seed of 0 where there is no such axis), and LATE:
        whether one never gets where the metric asks, and counts as if it did one round after the longest; no
        row where its experiment was not collected. every_row: of all rows of the experiment, by `method`.
        Raises FedshiftError at `where` for an axis that it has not.
        """
        if cell.experiment not in self.axes:
            return pd.DataFrame({"seed": [], VALUE: [], LATE: []})
        axes, frame = self.axes[cell.experiment], self.frames[cell.experiment, cell.rounds]
        if cell.range or cell.peak:
            frame = _over_rows(frame, axes, cell)
        elif not every_row:
            frame = frame[frame["method"] == cell.row]
            own = column(cell.metric)
            _, number, name = recorded_of(own.name) if own.kind == "recorded" else ("", "", "")
            if number == "of" and "target" in frame:  # of one client: runs that do not hold its domain out
                frame = frame[frame["target"] != name]
        for axis, value in cell.where.items():
            if axis not in axes:
                raise unknown(f"{where}.where", "axis", axis, axes)
            frame = frame[frame[axis] == value]
        runs = frame[["method", *axes] if every_row else axes].fillna(NONE)
        late = frame.get(f"{LATE}: {cell.metric}", False)
        runs = runs.assign(**{VALUE: frame[cell.metric], LATE: late})
        return runs if "seed" in axes else runs.assign(seed=0)


def _over_rows(frame: pd.DataFrame, axes: list[str], cell: Compared) -> pd.DataFrame:
    """The largest less the smallest value of the cell's rows at each place on the axes, or where among them
    the largest is, from 0 (the first) to 100 (the last); NaN where one is missing.
    """

    def extent(values: pd.Series[float]) -> float:
        return float(values.max(skipna=False) - values.min(skipna=False))

    def peak(values: pd.Series[float]) -> float:
        return math.nan if values.isna().any() else 100 * float(values.argmax()) / max(len(values) - 1, 1)

    order = [cell.row, *cell.range, *cell.peak]
    rows = frame[frame["method"].isin(order)]
    rows = rows.sort_values("method", key=lambda method: method.map(order.index), kind="stable")
    groups = rows.groupby(axes, dropna=False)[cell.metric]
    said = groups.agg(peak if cell.peak else extent)
    return said.where(groups.size() == len(order)).reset_index()


def values_of(workspace: Workspace, collected: Collected, cells: Iterable[Compared]) -> Values:
    """What these cells need of an experiment, and of others that were collected; each is read once."""
    wanted: dict[str, dict[str, dict[str, None]]] = {}
    for cell in cells:
        wanted.setdefault(cell.experiment, {}).setdefault(cell.rounds, {})[cell.metric] = None
    values = Values({}, {})
    for name, by_rounds in wanted.items():
        own = name == collected.experiment.name
        if not own and not is_there(workspace, name):
            continue
        of = collected if own else read(workspace, name)
        values.axes[name] = of.keys[1:]
        for rounds, metrics in by_rounds.items():
            if rounds == SELECTED:
                values.frames[name, rounds] = _selected(workspace, of, [*metrics])
            else:
                values.frames[name, rounds] = _over_rounds(workspace, of, [*metrics], rounds)
    return values


def _selected(workspace: Workspace, collected: Collected, metrics: list[str]) -> pd.DataFrame:
    """Every planned run as tables show it, with those that are late; relative metrics as the table that has
    them.
    """
    rule, tables = collected.protocol.select, collected.experiment.tables.values()
    against = {metric: table.against for table in tables for metric in table.metrics}
    frame = collected.runs[collected.keys].copy()
    for base in dict.fromkeys(against.get(metric, "") for metric in metrics):
        names = [metric for metric in metrics if against.get(metric, "") == base]
        table = Table(metrics=names, against=base)
        frame[names] = of_runs(workspace, collected, rule, table, late=True)[names]
        if reached := [metric for metric in names if column(metric).kind in REACHED]:
            shown = of_runs(workspace, collected, rule, Table(metrics=reached, against=base))
            for metric in reached:
                frame[f"{LATE}: {metric}"] = frame[metric].notna() & shown[metric].isna()
    return frame


def _over_rounds(workspace: Workspace, collected: Collected, metrics: list[str], rounds: str) -> pd.DataFrame:
    """Every planned run; rounds: as a claim declares them (fedshift.experiments.schema.Claim)."""

    def fluctuation(curve: pd.Series[float]) -> float:
        """The standard deviation (n) of the steps of a curve; NaN of fewer than two steps."""
        return float(curve.diff().std(ddof=0)) if len(curve) > 2 else math.nan

    own = {metric: column(metric) for metric in metrics}
    frame = curves(collected, [metric for metric, one in own.items() if one.kind == "quantity"])
    for metric, one in own.items():
        if one.kind == "recorded":
            numbers = recorded_by_round(workspace, collected, one.name).rename(columns={VALUE: metric})
            frame = frame.merge(numbers, on=[*collected.keys, "round"], how="outer")
    if at := re.fullmatch(r"round (\d+)", rounds):
        chosen = frame[frame["round"] == int(at[1])]
    else:
        curve = frame.sort_values("round").groupby(collected.keys, dropna=False)[metrics]
        chosen = (curve.mean() if rounds == "mean" else curve.agg(fluctuation)).reset_index()
    values = chosen[[*collected.keys, *metrics]]
    return collected.runs[collected.keys].merge(values, on=collected.keys, how="left")
