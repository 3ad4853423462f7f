"""The values of a comparison's cells, run by run: a metric in the round that tables show, or what its curve
says over rounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from fedshift.analysis import collected as collecting
from fedshift.analysis.collected import Collected
from fedshift.analysis.comparison import Cell
from fedshift.analysis.select import choose, curves
from fedshift.errors import unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.schema import SELECTED
from fedshift.workspace import Workspace

VALUE = "value"


@dataclass(frozen=True)
class Values:
    """What comparisons read of experiments.

    frames: experiment and rounds -> one row per planned run, NaN where it is missing; axes: of each
        experiment.
    """

    frames: dict[tuple[str, str], pd.DataFrame]
    axes: dict[str, list[str]]

    def of(self, cell: Cell, where: str) -> pd.DataFrame:
        """VALUE of the cell's runs, with their axes (a seed of 0 where there is no such axis); no row where
        its experiment was not collected. Raises FedshiftError at `where` for an axis that it has not.
        """
        if cell.experiment not in self.axes:
            return pd.DataFrame({"seed": [], VALUE: []})
        axes, frame = self.axes[cell.experiment], self.frames[cell.experiment, cell.rounds]
        frame = frame[frame["method"] == cell.row]
        for axis, value in cell.where.items():
            if axis not in axes:
                raise unknown(f"{where}.where", "axis", axis, axes)
            frame = frame[frame[axis] == value]
        runs = frame[axes].fillna(NONE).assign(**{VALUE: frame[cell.metric]})
        return runs if "seed" in axes else runs.assign(seed=0)


def values_of(workspace: Workspace, collected: Collected, cells: Iterable[Cell]) -> Values:
    """What these cells need of an experiment, and of others that were collected; each is read once."""
    wanted: dict[str, dict[str, dict[str, None]]] = {}
    for cell in cells:
        wanted.setdefault(cell.experiment, {}).setdefault(cell.rounds, {})[cell.metric] = None
    values = Values({}, {})
    for name, by_rounds in wanted.items():
        own = name == collected.experiment.name
        if not own and not collecting.is_there(workspace, name):
            continue
        of = collected if own else collecting.read(workspace, name)
        values.axes[name] = of.keys[1:]
        frame = curves(of, dict.fromkeys(metric for metrics in by_rounds.values() for metric in metrics))
        for rounds, metrics in by_rounds.items():
            chosen = _over_rounds(of, frame, rounds, [*metrics])[[*of.keys, *metrics]]
            values.frames[name, rounds] = of.runs[of.keys].merge(chosen, on=of.keys, how="left")
    return values


def _over_rounds(collected: Collected, frame: pd.DataFrame, rounds: str, metrics: list[str]) -> pd.DataFrame:
    """One row per finished run; rounds: as a claim declares them (fedshift.experiments.schema.Claim)."""
    if rounds == SELECTED:
        return choose(frame, collected.keys, collected.protocol.select)
    if at := re.fullmatch(r"round (\d+)", rounds):
        return frame[frame["round"] == int(at[1])]
    curve = frame.sort_values("round").groupby(collected.keys, dropna=False)[metrics]
    return (curve.mean() if rounds == "mean" else curve.agg(_fluctuation)).reset_index()


def _fluctuation(curve: pd.Series[float]) -> float:
    """The standard deviation (n) of the steps of a curve; NaN of fewer than two steps."""
    return float(curve.diff().std(ddof=0)) if len(curve) > 2 else math.nan
