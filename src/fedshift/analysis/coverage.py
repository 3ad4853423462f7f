"""Coverage: every number of reference/published.csv with the one cell of an experiment that stands beside it,
or with the reason why none does.

A table of an experiment says which of the paper's tables it is (`printed`); rows and columns meet by run_key
and metric_id, as in `fedshift.analysis.published`. Nothing has to be trained for it.
"""

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from fedshift.analysis import published
from fedshift.analysis.columns import setting
from fedshift.analysis.comparable import printed_cell
from fedshift.analysis.uneven import AVERAGE
from fedshift.common.files import canonical_json
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import column
from fedshift.experiments.expand import Cell, expand, places
from fedshift.experiments.load import available, load
from fedshift.experiments.protocols import protocol
from fedshift.experiments.schema import METRIC, Experiment, Table
from fedshift.storage.workspace import Workspace

LOST = "lost in our copy of the paper"
Key = tuple[str, str, str, str]  # paper, table, run_key and metric_id of a printed number


@dataclass(frozen=True)
class Place:
    """A cell: experiment, table of it, row, metric, values on the table's axes."""

    workspace: Workspace
    experiment: str
    table: str
    row: str
    metric: str
    values: dict[str, Any]

    @property
    def differs(self) -> list[str]:
        """What the cell's runs have otherwise than the printed row."""
        experiment, cells = _expanded(self.workspace, self.experiment)
        table = experiment.tables[self.table]
        runs_of = functools.partial(_runs, table, cells, tuple(self.values.values()))
        named = {axis: "mean" if value == AVERAGE else value for axis, value in self.values.items()}
        place = self.row, named, self.metric
        known = protocol(self.workspace, experiment.protocol)
        return printed_cell(self.workspace, experiment, known, table, place, runs_of)[1]


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
    experiment = Experiment.model_validate_json(text)
    points = [*places(workspace, experiment)]
    found: list[tuple[Key, Place]] = []
    for name, table in experiment.tables.items():
        if not table.printed:
            continue
        for row, *values in dict.fromkeys(key for point in points for key in _keys(table, *point)):
            at = dict(zip(_columns(table), values, strict=True))
            named = {axis: "mean" if value == AVERAGE else value for axis, value in at.items()}
            for metric in table.metrics:
                if (own := column(metric)).kind == "setting":  # that the row's method may not have
                    runs = _runs(table, _expanded(workspace, experiment.name)[1], tuple(values), row)
                    if all(math.isnan(setting(text, own.name)) for text in runs["spec"]):
                        continue
                place = Place(workspace, experiment.name, name, row, metric, at)
                for key in published.keys(experiment, row, named, metric):
                    found += [((experiment.paper, printed, *key), place) for printed in table.printed]
    return found


def _columns(table: Table) -> list[str]:
    return [column for column in table.columns if column != METRIC]


def _keys(table: Table, label: str, axes: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Row and values on the column axes of a run; and of the average over targets, as tables have it."""
    columns = _columns(table)
    values = [axes.get(column, NONE) for column in columns]
    yield label, *values
    if axes.get("target", NONE) != NONE and "target" in columns:
        values[columns.index("target")] = AVERAGE
        yield label, *values


@functools.cache
def _expanded(workspace: Workspace, name: str) -> tuple[Experiment, list[Cell]]:
    experiment = load(workspace, name)
    return experiment, expand(workspace, experiment)


def _runs(table: Table, cells: Sequence[Cell], values: tuple[Any, ...], row: str) -> pd.DataFrame:
    """The runs of a cell as Collected.runs, what `differences` reads of it."""
    uses = [cell for cell in cells if (row, *values) in _keys(table, cell.label, cell.axes)]
    runs = {use.spec.model_copy(update={"seed": 0}).model_dump_json(): use.task for use in uses}
    tasks = [canonical_json(task.declared()) if task else None for task in runs.values()]
    return pd.DataFrame({"spec": [*runs], "adaptation": tasks})
