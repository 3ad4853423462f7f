"""Uses: the runs and adaptations that an experiment is made of, and the keys that name them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from fedshift.analysis.collection.columns import COLUMNS, OWN
from fedshift.archive import choices
from fedshift.common.errors import FedshiftError
from fedshift.common.files import canonical_json
from fedshift.experiments.choice import Choice, path_of, read, stage_of
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.load import load
from fedshift.experiments.schema import Experiment
from fedshift.identity import digest, method_code, run_name
from fedshift.planning import planfile
from fedshift.storage.workspace import Workspace

UNKNOWN = "0" * 16  # digest of a run whose settings are still searched


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
        choice = choice_now(workspace, experiment) if experiment.tune else None
        now = [_use_now(workspace, cell) for cell in expand(workspace, experiment, choice)]
        return now if choice or not experiment.tune else [_waiting(use) for use in now]
    runs = {run.digest: run for run in planfile.runs(plan, experiments=(experiment.name,))}
    uses = [use for use in planfile.cells(plan) if use.experiment == experiment.name]
    if not uses and experiment.tune:
        what = "its final runs wait for what its tuning chooses"
        cure = f"To tune and train it: fedshift run {experiment.name}"
        raise FedshiftError(f"experiments/{experiment.name}.yaml", what, cure)
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


def choice_now(workspace: Workspace, experiment: Experiment) -> Choice | None:
    """What the search has chosen here; what it chose where it was archived; None where it has not been made.
    Only of a tuned experiment.
    """
    digests = search(workspace, experiment)
    own = read(path_of(workspace, experiment.name, digests))
    return own or choices.find(workspace, experiment.name, digests)


def search(workspace: Workspace, experiment: Experiment) -> list[str]:
    """The digests of the runs of a tuned experiment's search."""
    cells = expand(workspace, load(workspace, stage_of(experiment.name)))
    return [digest(cell.spec) for cell in cells]


def _waiting(use: Use) -> Use:
    """The use of a run that is not known yet: never that of an untuned run which happens to be there."""
    return use._replace(name=UNKNOWN, directory=use.directory.removesuffix(use.name) + UNKNOWN)


def _use_now(workspace: Workspace, cell: Cell) -> Use:
    run = workspace.run(run_name(cell.spec, digest(cell.spec)))
    below, spec = run.path.relative_to(workspace.root).as_posix(), cell.spec.model_dump_json()
    adaptation = canonical_json(cell.task.declared()) if cell.task else ""
    return Use(cell.label, cell.axes, run.name, below, spec, method_code(cell.spec), adaptation)


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
