"""Coverage: each number of reference/published.csv with its cell in an experiment, or the reason why not.

A table of an experiment declares which of the paper's tables it reproduces (`printed`). Rows and columns are
matched by run_key and metric_id, as in `fedshift.analysis.published`. This needs no training.
"""

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from fedshift.analysis.cells import Cell, by_cell, setting
from fedshift.analysis.published import keys, printed_cell, rows
from fedshift.common.files import canonical_json
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import column
from fedshift.experiments.expand import expand, places
from fedshift.experiments.load import available, load
from fedshift.experiments.protocols import protocol
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

LOST = "lost in our copy of the paper"
Key = tuple[str, str, str, str]  # paper, table, run_key and metric_id of a published number


@dataclass(frozen=True)
class Place:
    """A cell: experiment, table, row, metric, and values on the table's axes."""

    workspace: Workspace
    experiment: str
    table: str
    row: str
    metric: str
    values: dict[str, Any]

    @functools.cached_property
    def differs(self) -> list[str]:
        """The settings in which the cell's runs differ from the published row."""
        experiment = load(self.workspace, self.experiment)
        known, table = protocol(self.workspace, experiment.protocol), experiment.tables[self.table]
        runs = _averaged(self.workspace, self.experiment)[self.table]
        own, base = (
            runs.get((row, *self.values.values()), pd.DataFrame()) for row in (self.row, table.against)
        )
        place = self.row, self.values, self.metric
        return printed_cell(self.workspace, experiment, known, table, place, own, base)[1]


@dataclass(frozen=True)
class Number:
    """A published number (a row of reference/published.csv) with its cells, or the reason for having none."""

    uid: str
    paper: str
    table: str
    reason: str
    places: list[Place] = field(default_factory=list)


def numbers(workspace: Workspace, names: Iterable[str] | None = None) -> list[Number]:
    """Every published number, in the order of the reference, with its cells.

    A number that is lost in our copy has a reason and no cell.

    `names`: the experiments to search; None: all.
    """
    cells: dict[Key, list[Place]] = {}
    for name in available(workspace) if names is None else names:
        experiment = load(workspace, name)
        if any(table.printed for table in experiment.tables.values()):
            for key, place in _places(workspace, experiment.model_dump_json()):
                cells.setdefault(key, []).append(place)
    return [
        Number(row["row_uid"], row["paper"], row["table"], reason, [] if reason else cells.get(key, []))
        for row in rows(workspace)
        for reason in [LOST if row["value_kind"] == "lost" else ""]
        for key in [(row["paper"], row["table"], row["run_key"], row["metric_id"])]
    ]


@functools.cache
def _places(workspace: Workspace, text: str) -> list[tuple[Key, Place]]:
    """The cells of those tables of an experiment (JSON) that declare a published table."""
    experiment = Experiment.model_validate_json(text)
    every = [{"method": row, **at} for row, at in places(workspace, experiment)]
    runs = pd.DataFrame(every, dtype=object).fillna(NONE)
    found: list[tuple[Key, Place]] = []
    for name, table in experiment.tables.items():
        for cell in by_cell(runs, table.axes) if table.printed else ():
            row, at = str(cell[0]), dict(zip(table.axes, cell[1:], strict=True))
            for metric in table.metrics:
                if (own := column(metric)).kind == "setting":  # which the row's method may not have
                    specs = _averaged(workspace, experiment.name)[name][cell]["spec"]
                    if all(math.isnan(setting(text, own.name)) for text in specs):
                        continue
                place = Place(workspace, experiment.name, name, row, metric, at)
                for key in keys(experiment, row, at, metric):
                    found += [((experiment.paper, printed, *key), place) for printed in table.printed]
    return found


@functools.cache
def _averaged(workspace: Workspace, name: str) -> dict[str, dict[Cell, pd.DataFrame]]:
    """The runs that each cell of an experiment's tables averages, as read by `printed_cell`."""
    experiment = load(workspace, name)
    runs = pd.DataFrame(
        [
            {
                "method": use.label,
                **use.axes,
                "spec": use.spec.model_copy(update={"seed": 0}).model_dump_json(),
                "adaptation": canonical_json(use.task.declared()) if use.task else None,
            }
            for use in expand(workspace, experiment, built=False)
        ],
        dtype=object,
    )
    axes = [*runs.columns.drop(["spec", "adaptation"])]
    runs[axes] = runs[axes].fillna(NONE)
    return {name: by_cell(runs, table.axes) for name, table in experiment.tables.items()}
