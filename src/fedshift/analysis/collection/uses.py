"""Uses: the runs and adaptations that an experiment is made of, and the keys that name them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from fedshift.analysis.collection.columns import COLUMNS, OWN
from fedshift.common.errors import FedshiftError
from fedshift.common.files import canonical_json
from fedshift.experiments.expand import Cell
from fedshift.experiments.expand import planned as declared
from fedshift.experiments.schema import Experiment
from fedshift.planning import planfile
from fedshift.storage.workspace import Workspace


class Use(NamedTuple):
    """One run of the experiment: the row's label, the value on each axis, its name, directory and resolved
    spec (JSON).

    installed: fingerprint of the files of its method and model now, or when it was planned
    adaptation: of an adapted row, the task as planfile.Cell has it
    source: OWN, or ARCHIVE of a run that is read from there
    """

    label: str
    axes: dict[str, Any]
    name: str
    directory: str
    spec: str
    installed: str
    adaptation: str = ""
    source: str = OWN


def planned(workspace: Workspace, experiment: Experiment, plan: Path | None) -> list[Use]:
    """The runs and adaptations that an experiment is made of; without a plan, and where none is trained,
    those that its file declares now.
    """
    if plan is None or not experiment.train:
        return [_use_now(workspace, cell) for cell in declared(workspace, experiment)]
    runs = {run.digest: run for run in planfile.runs(plan, experiments=(experiment.name,))}
    uses = [use for use in planfile.cells(plan) if use.experiment == experiment.name]
    if not uses:
        name = experiment.name
        raise FedshiftError(
            plan, f"this plan has no experiment '{name}'", f"Run `fedshift plan {name}` and name that plan."
        )
    return [
        Use(
            use.label,
            json.loads(use.axes),
            workspace.run_at(run.directory).name,
            run.directory,
            run.spec,
            run.code,
            use.adaptation,
        )
        for use, run in ((use, runs[use.digest]) for use in uses)
    ]


def _use_now(workspace: Workspace, cell: Cell) -> Use:
    run = workspace.run(cell.spec.run_name)
    below, spec = run.path.relative_to(workspace.root).as_posix(), cell.spec.model_dump_json()
    adaptation = canonical_json(cell.task.declared()) if cell.task else ""
    return Use(cell.label, cell.axes, run.name, below, spec, cell.spec.method_code, adaptation)


def keys_of(experiment: Experiment, uses: Sequence[Use]) -> pa.Table:
    """Method label and axes, in the order of the file, one row per run. Raises FedshiftError for an axis with
    the name of a column.
    """
    for axis in COLUMNS & {*experiment.axes}:
        where, key = f"experiments/{experiment.name}.yaml: axes.{axis}", experiment.axes[axis].key
        cure = (
            f"Give it another name: `axes: {{<name>: {{key: {key}, values: [..]}}}}`. Runs stay as they are."
        )
        raise FedshiftError(where, "is a column of collected files and tables already", cure)
    columns = {"method": pa.array([use.label for use in uses], pa.string())}
    for axis in dict.fromkeys([*experiment.axes, *(axis for use in uses for axis in use.axes)]):
        columns[axis] = pa.array([use.axes.get(axis) for use in uses])
    return pa.table(columns)
