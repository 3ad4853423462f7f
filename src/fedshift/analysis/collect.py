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
from fedshift.experiments.expand import planned as declared
from fedshift.experiments.load import load
from fedshift.experiments.schema import Experiment
from fedshift.experiments.task import place
from fedshift.federation.records import ADAPTED, SCHEMA, STATISTICS
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
        found = []
        for cell in declared(workspace, experiment):
            run = workspace.run(cell.spec.run_name)
            directory, spec = run.path.relative_to(workspace.root).as_posix(), cell.spec.model_dump_json()
            adaptation = canonical_json(cell.task.declared()) if cell.task else ""
            method_code = cell.spec.method_code
            found.append(Use(cell.label, cell.axes, run.name, directory, spec, method_code, adaptation))
        return found
    runs = {run.digest: run for run in planfile.runs(plan, experiments=(experiment.name,))}
    if not (uses := planfile.cells(plan, experiment.name)):
        cure = f"Run `fedshift plan {experiment.name}` and name that plan."
        raise FedshiftError(plan, f"this plan has no experiment '{experiment.name}'", cure)
    found = []
    for use in uses:
        of, axes = runs[use.digest], json.loads(use.axes)
        name = workspace.run_at(of.directory).name
        found.append(Use(use.label, axes, name, of.directory, of.spec, of.code, use.adaptation))
    return found


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
    uses = planned(workspace, experiment, plan)
    for number, use in enumerate(uses):
        run = workspace.run_at(use.directory)
        if run.outcome() is not State.FINISHED and (archived := stand_in(workspace, run)):
            directory = archived.path.relative_to(workspace.root).as_posix()
            uses[number] = use._replace(name=archived.name, directory=directory, source=ARCHIVE)
    keys = keys_of(experiment, uses)
    rows = [_row(workspace, use) for use in uses]
    states = [row["state"] for row in rows]
    finished = [number for number, state in enumerate(states) if state == "finished"]
    if experiment.train and not finished and not empty:
        raise NothingFinished(name, failed="failed" in states)
    frame = pa.Table.from_pylist(rows, RUNS)
    runs = keys.append_column("digest", frame["digest"]).take(pa.array(finished, pa.int64()))
    missing = json.dumps([row["run"] for row in rows if row["state"] != "finished"])
    records = [functools.partial(_records, workspace, uses[number]) for number in finished]
    write(path, SCHEMA, runs, records, {"missing": missing})
    statistics = [functools.partial(_statistics, workspace, uses[number]) for number in finished]
    write(beside(path, "statistics"), STATISTICS, runs, statistics, {"missing": missing})
    with atomic_path(beside(path, "runs")) as temporary:
        columns = [*keys.column_names, *frame.column_names]
        pq.write_table(pa.table([*keys.columns, *frame.columns], names=columns), temporary)
    return read(workspace, name)


def _row(workspace: Workspace, use: Use) -> dict[str, Any]:
    """The run's row, or that of its adaptation."""
    run, spec = workspace.run_at(use.directory), json.loads(use.spec)
    row: dict[str, Any] = {
        "digest": run.digest,
        "installed": use.installed,
        "run": use.directory,
        "source": use.source,
        "spec": use.spec,
        "adaptation": use.adaptation or None,
        "precision": spec["local"]["precision"],
        "state": run.outcome(),
    }
    if row["state"] is State.FAILED:
        row["failure"] = (run.failure() or {}).get("text", "")
    if row["state"] in (State.MISSING, State.FAILED):
        return row
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
    return {
        **row,
        **{name: summary[name] for name in ("evaluates", "stage", "classes", "clients")},
        **costs,
        "absent": canonical_json(summary.get("absent", {})),
        "state": State.FINISHED,
        "code": summary.get("method_code", ""),
        "bn": summary["policy"]["bn"],
        "pooled": _pools(canonical_json(spec["method"])),
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
    from fedshift.evaluations.base import read as read_result

    table, _ = read_result(_adapted(run, use, run.summary() or {}))
    return table.filter(pc.equal(table["stage"], ADAPTED))


def _statistics(workspace: Workspace, use: Use) -> pa.Table:
    """A finished run's statistics; an adaptation has none."""
    return STATISTICS.empty_table() if use.adaptation else statistics_of_run(workspace.run_at(use.directory))
