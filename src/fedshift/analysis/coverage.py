"""Coverage: every number of reference/published.csv with the one cell of an experiment that stands beside it,
or with the reason why none does.

A table of an experiment says which of the paper's tables it is (`printed`); rows and columns meet by run_key
and metric_id, as in `fedshift.analysis.published`. Nothing has to be trained for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from fedshift.analysis import published
from fedshift.analysis.comparable import differences
from fedshift.experiments.axes import NONE
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.load import available, load, protocol
from fedshift.experiments.schema import METRIC, Experiment, Table
from fedshift.experiments.uneven import AVERAGE
from fedshift.files import canonical_json
from fedshift.workspace import Workspace

LOST = "lost in our copy of the paper"
# Why a printed number has no cell, by the beginning of its metric_id.
REASONS = {
    "architecture": "a layer of a network: asserted by tests/models",
    "hp:": "a value that a search found: taken as it is (reference/presets), not searched anew",
    "rel_": "needs a column of gains over another row",
    "params_": "needs columns of costs",
    "comm_": "needs columns of costs",
    "macs_": "needs columns of costs",
    "train_time_": "needs columns of costs",
}


@dataclass(frozen=True)
class Place:
    """A cell: experiment, table of it, row, metric, values on the table's axes; `differs` says what the runs
    have otherwise than the printed row.
    """

    experiment: str
    table: str
    row: str
    metric: str
    values: dict[str, Any]
    differs: list[str]


@dataclass(frozen=True)
class Number:
    """A printed number: a row of reference/published.csv, with its cells and the reason why there is none."""

    uid: str
    paper: str
    table: str
    reason: str
    places: list[Place] = field(default_factory=list)


def numbers(workspace: Workspace, names: Iterable[str] | None = None) -> list[Number]:
    """Every printed number, in the order of the reference, with its cells in the experiments `names` (None:
    in all). One that is lost has a reason and no cell.
    """
    cells: dict[tuple[str, str, str, str], list[Place]] = {}
    for name in available(workspace) if names is None else names:
        experiment = load(workspace, name)
        if any(table.printed for table in experiment.tables.values()):
            for key, metric_id, table, place in _places(workspace, experiment):
                for printed in table.printed:
                    cells.setdefault((experiment.paper, printed, key, metric_id), []).append(place)
    rows = pd.read_csv(workspace.reference / "published.csv", low_memory=False).to_dict("records")
    return [
        Number(row["row_uid"], row["paper"], str(row["table"]), reason, [] if reason else cells.get(key, []))
        for row in rows
        for reason, key in [
            (_reason(row), (row["paper"], str(row["table"]), row["run_key"], row["metric_id"]))
        ]
    ]


def _reason(row: dict[Any, Any]) -> str:
    if row["value_kind"] == "lost":
        return LOST
    return next((why for start, why in REASONS.items() if row["metric_id"].startswith(start)), "")


def _places(workspace: Workspace, experiment: Experiment) -> Iterator[tuple[str, str, Table, Place]]:
    """The cells of an experiment's tables that say what they print, with run_key and metric_id."""
    uses = expand(workspace, experiment)
    known = protocol(workspace, experiment.protocol)
    for name, table in experiment.tables.items():
        if not table.printed:
            continue
        for (row, *values), averaged in _cells(table, uses).items():
            point = dict(zip(_columns(table), values, strict=True))
            runs = _runs(averaged)
            named = {axis: "mean" if value == AVERAGE else value for axis, value in point.items()}
            for metric in table.metrics:
                number = published.find(workspace, experiment, row, named, metric)
                differs = differences(workspace, known, number, runs) if number else []
                for key, metric_id in published.keys(experiment, row, named, metric):
                    yield key, metric_id, table, Place(experiment.name, name, row, metric, point, differs)


def _columns(table: Table) -> list[str]:
    return [column for column in table.columns if column != METRIC]


def _cells(table: Table, uses: list[Cell]) -> dict[tuple[Any, ...], list[Cell]]:
    """Row and values on the column axes -> the runs that the cell averages; with averages over targets, as
    tables have them.
    """
    cells: dict[tuple[Any, ...], list[Cell]] = {}
    for use in uses:
        values = [use.axes.get(column, NONE) for column in _columns(table)]
        cells.setdefault((use.label, *values), []).append(use)
        if use.axes.get("target", NONE) != NONE and "target" in table.columns:
            values[_columns(table).index("target")] = AVERAGE
            cells.setdefault((use.label, *values), []).append(use)
    return cells


def _runs(uses: list[Cell]) -> pd.DataFrame:
    """As Collected.runs, what `differences` reads of it."""
    runs = {use.spec.model_copy(update={"seed": 0}).model_dump_json(): use.task for use in uses}
    tasks = [canonical_json(task.declared()) if task else None for task in runs.values()]
    return pd.DataFrame({"spec": [*runs], "adaptation": tasks})
