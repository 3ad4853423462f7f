"""Coverage: every number of reference/published.csv with the one cell of an experiment that stands beside it,
or with the reason why none does.

A table of an experiment says which of the paper's tables it is (`printed`); rows and columns meet by run_key
and metric_id, as in `fedshift.analysis.printed.published`. Nothing has to be trained for it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from fedshift.analysis.costs.run_values import setting
from fedshift.analysis.printed import published
from fedshift.analysis.printed.cell import printed_cell
from fedshift.analysis.quantities.uneven import AVERAGE
from fedshift.common.files import canonical_json
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import column
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.load import available, load, protocol
from fedshift.experiments.schema import METRIC, Experiment, Table
from fedshift.storage.workspace import Workspace

LOST = "lost in our copy of the paper"
Key = tuple[str, str, str, str]  # paper, table, run_key and metric_id of a printed number


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
    cells: dict[Key, list[Place]] = {}
    for name in available(workspace) if names is None else names:
        experiment = load(workspace, name)
        if any(table.printed for table in experiment.tables.values()):
            for key, place in _places(workspace, experiment.model_dump_json()):
                cells.setdefault(key, []).append(place)
    return [
        Number(row["row_uid"], row["paper"], row["table"], reason, [] if reason else cells.get(key, []))
        for row in published.rows(workspace.reference / "published.csv")
        for reason in [LOST if row["value_kind"] == "lost" else ""]
        for key in [(row["paper"], row["table"], row["run_key"], row["metric_id"])]
    ]


@functools.cache
def _places(workspace: Workspace, text: str) -> list[tuple[Key, Place]]:
    """The cells of the tables of an experiment (JSON) that say what they print. Its own tables, the claims
    beside them and the scorecard ask for them by turns.
    """
    return [*_placed(workspace, Experiment.model_validate_json(text))]


def _placed(workspace: Workspace, experiment: Experiment) -> Iterator[tuple[Key, Place]]:
    uses = expand(workspace, experiment)
    known = protocol(workspace, experiment.protocol)
    for name, table in experiment.tables.items():
        if not table.printed:
            continue
        for row, *values in (cells := _cells(table, uses)):
            point = dict(zip(_columns(table), values, strict=True))
            named = {axis: "mean" if value == AVERAGE else value for axis, value in point.items()}
            runs_of = functools.cache(functools.partial(_runs, cells, values=tuple(values)))
            for metric in table.metrics:
                if _lacks(metric, runs_of(row)):
                    continue
                place = row, named, metric
                _, differs = printed_cell(workspace, experiment, known, table, place, runs_of)
                at = Place(experiment.name, name, row, metric, point, differs)
                for key, printed in itertools.product(
                    published.keys(experiment, row, named, metric), table.printed
                ):
                    yield (experiment.paper, printed, *key), at


def _lacks(metric: str, runs: pd.DataFrame) -> bool:
    """Whether a column is of a setting that the row's method has not."""
    own = column(metric)
    return own.kind == "setting" and all(math.isnan(setting(text, own.name)) for text in runs["spec"])


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


def _runs(cells: dict[tuple[Any, ...], list[Cell]], row: str, values: tuple[Any, ...]) -> pd.DataFrame:
    """The runs of a cell as Collected.runs, what `differences` reads of it."""
    uses = cells.get((row, *values), [])
    runs = {use.spec.model_copy(update={"seed": 0}).model_dump_json(): use.task for use in uses}
    tasks = [canonical_json(task.declared()) if task else None for task in runs.values()]
    return pd.DataFrame({"spec": [*runs], "adaptation": tasks})
