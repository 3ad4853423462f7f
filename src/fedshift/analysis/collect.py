"""Collect: the records of all runs of an experiment in one Parquet file, their statistics in a second, and
one row per run in a third.
"""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedshift.analysis.collected import ARCHIVE, COLUMNS, COSTS, OWN, RUNS, Collected, beside, read
from fedshift.analysis.records import ended, of_run, statistics_of_run, write
from fedshift.archive.machine import hardware
from fedshift.archive.store import stand_in
from fedshift.common.errors import FedshiftError
from fedshift.common.files import atomic_path, canonical_json
from fedshift.common.registry import names
from fedshift.experiments.expand import Cell
from fedshift.experiments.expand import planned as declared
from fedshift.experiments.load import load
from fedshift.experiments.schema import Experiment
from fedshift.experiments.task import place
from fedshift.federation.records import SCHEMA, STATISTICS
from fedshift.planning import planfile
from fedshift.spec import Method
from fedshift.storage.rundir import RunDirectory, State, Summary, rounds_trained
from fedshift.storage.workspace import TUNING, Workspace


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


def with_archive(workspace: Workspace, use: Use) -> Use:
    """The use itself where its run is finished here; else that of the archived run, where there is one."""
    run = workspace.run_at(use.directory)
    if run.outcome() is State.FINISHED or (archived := stand_in(workspace, run)) is None:
        return use
    directory = archived.path.relative_to(workspace.root).as_posix()
    return use._replace(name=archived.name, directory=directory, source=ARCHIVE)


Row = dict[str, Any]


class NothingFinished(FedshiftError):
    """An experiment has no results yet."""

    def __init__(self, name: str, *, failed: bool) -> None:
        cure = f"Why runs failed: fedshift status {name}" if failed else f"To train them: fedshift run {name}"
        where = f"experiments/{name.removesuffix(TUNING)}.yaml"
        super().__init__(where, "no run of it is finished here or archived", cure)


def collect(workspace: Workspace, name: str, plan: Path | None = None, *, empty: bool = False) -> Collected:
    """Write results/metrics/<experiment>.parquet (one row per run, round, client and recorded value),
    <experiment>.statistics.parquet (one per run, round and evaluated set) and <experiment>.runs.parquet.

    `plan` says which runs the experiment is made of; left out, its file does. Where one is not finished here,
    the archived run is taken. A run that is neither is named in the first and the last file and contributes
    nothing; nor does an adaptation that has not been made. Raises NothingFinished, and writes nothing, where
    no run is finished or archived; `empty`: writes that, too.
    """
    experiment, path = load(workspace, name), workspace.metrics(name)
    uses = [with_archive(workspace, use) for use in planned(workspace, experiment, plan)]
    rows = [_row(workspace, use) for use in uses]
    keys = keys_of(experiment, uses)
    finished = [number for number, row in enumerate(rows) if row["state"] == "finished"]
    if experiment.train and not finished and not empty:
        raise NothingFinished(name, failed=any(row["state"] == "failed" for row in rows))
    frame = pa.Table.from_pylist(rows, RUNS)
    named = [keys, frame.select(["digest"])]
    constants = pa.table({column: part[column] for part in named for column in part.column_names})
    runs = constants.take(pa.array(finished, pa.int64()))
    missing = json.dumps([row["run"] for row in rows if row["state"] != "finished"])
    for file, schema, of in (
        (path, SCHEMA, _records),
        (beside(path, "statistics"), STATISTICS, _statistics),
    ):
        sources = [functools.partial(of, workspace, uses[number]) for number in finished]
        write(file, schema, runs, sources, {"missing": missing})
    with atomic_path(beside(path, "runs")) as temporary:
        columns = [*keys.column_names, *frame.column_names]
        pq.write_table(pa.table([*keys.columns, *frame.columns], names=columns), temporary)
    return read(workspace, name)


def _row(workspace: Workspace, use: Use) -> Row:
    """The run's row, or that of its adaptation."""
    run = workspace.run_at(use.directory)
    row: Row = {"digest": run.digest, "installed": use.installed, "run": use.directory}
    row |= {"source": use.source}
    row |= {"spec": use.spec, "adaptation": use.adaptation or None}
    row |= {"precision": json.loads(use.spec)["local"]["precision"]}
    outcome = run.outcome()
    if outcome is State.MISSING:
        return {**row, "state": outcome}
    if outcome is State.FAILED:
        return {**row, "state": outcome, "failure": (run.failure() or {}).get("text", "")}
    summary = run.summary() or {}
    costs = {name: summary["costs"].get(name) for name in COSTS}
    measured = summary["environment"]
    if use.adaptation:
        if not (result := _adapted(run, use, summary)).is_file():
            return {**row, "state": State.MISSING}
        from fedshift.evaluations.base import read as read_result  # torch, which few experiments need here

        _, stamp = read_result(result)
        costs["seconds"] += stamp["seconds"]
        measured = stamp["environment"]
    described = {name: summary[name] for name in ("evaluates", "stage", "classes", "clients")}
    return {
        **row,
        **described,
        **costs,
        "absent": canonical_json(summary.get("absent", {})),
        "state": State.FINISHED,
        "code": summary.get("method_code", ""),
        "bn": summary["policy"]["bn"],
        "pooled": _pools(canonical_json(json.loads(use.spec)["method"])),
        "hardware": hardware(measured),
        "images": summary["hashes"].get("prepared"),
        "rounds": rounds_trained(summary),
        "finished": ended(run, summary),
    }


@functools.cache
def _pools(method: str) -> bool | None:
    """Whether a method, as a run declares it (JSON), trains one client on everybody's images; None where the
    method is of a package that is not installed here.
    """
    declared = json.loads(method)
    known = declared["name"] in names("methods")
    return bool(Method(**declared).build().clients == "pooled") if known else None


def _adapted(run: RunDirectory, use: Use, summary: Summary) -> Path:
    """The result of a finished run's adaptation, computed from the weights that the run has now."""
    declaration = json.loads(use.adaptation)
    weights = summary["hashes"].get(f"weights_{declaration['task']['selection']}")
    return place(run, {**declaration, "run": run.digest, "weights": weights})


def _records(workspace: Workspace, use: Use) -> pa.Table:
    """A finished run's records, or those of its adaptation: the test after it."""
    run = workspace.run_at(use.directory)
    if not use.adaptation:
        return of_run(run)
    from fedshift.evaluations._adaptation import AFTER
    from fedshift.evaluations.base import read as read_result

    table, _ = read_result(_adapted(run, use, run.summary() or {}))
    return table.filter(pc.equal(table["stage"], AFTER))


def _statistics(workspace: Workspace, use: Use) -> pa.Table:
    """A finished run's statistics; an adaptation has none."""
    return STATISTICS.empty_table() if use.adaptation else statistics_of_run(workspace.run_at(use.directory))
