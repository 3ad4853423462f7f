"""Collect: the records of all runs of an experiment in one Parquet file, their statistics in a second, and
one row per run in a third.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedshift.analysis.records import of_run, statistics_of_run, write
from fedshift.analysis.sources import OWN, with_archive
from fedshift.errors import FedshiftError
from fedshift.evaluations import base as evaluations
from fedshift.evaluations._adaptation import AFTER
from fedshift.experiments.axes import axes
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.load import load, protocol
from fedshift.experiments.protocols import Protocol
from fedshift.experiments.schema import AxisValues, Experiment
from fedshift.experiments.task import place
from fedshift.federation.records import DIAGNOSTICS, SCHEMA, STATISTICS
from fedshift.files import atomic_path, canonical_json
from fedshift.identity import identify, run_name
from fedshift.planning import planfile
from fedshift.registry import get
from fedshift.rundir import RunDirectory, State, Summary
from fedshift.workspace import Workspace

CLIENTS = pa.list_(
    pa.struct(
        {
            "client": pa.int16(),
            "domains": pa.list_(pa.string()),
            "train": pa.int64(),
            "val": pa.int64(),
            "test": pa.int64(),
        }
    )
)
COSTS = {
    "bytes_up": pa.int64(),
    "bytes_down": pa.int64(),
    "state_dict_bytes": pa.int64(),
    "macs_per_image": pa.int64(),
    "seconds": pa.float64(),
    "peak_memory_mb": pa.float64(),
}
RUNS = pa.schema(
    {
        "digest": pa.string(),
        "code": pa.string(),
        "installed": pa.string(),
        "source": pa.string(),
        "run": pa.string(),
        "state": pa.string(),
        "failure": pa.string(),
        "spec": pa.string(),
        "adaptation": pa.string(),
        "evaluates": pa.string(),
        "stage": pa.string(),
        "bn": pa.string(),
        "precision": pa.string(),
        "hardware": pa.string(),
        "classes": pa.list_(pa.string()),
        "clients": CLIENTS,
        **COSTS,
    }
)
# What curves, tables and checks add to the columns of the collected files.
ADDED = frozenset(
    {
        "id",
        "ood",
        "all",
        "avg",
        "val",
        "held_out",
        "shown_stage",
        "own_split",
        "train",
        "test",
        "chance",
        "select",
        "mean",
        "std",
        "seeds",
        "planned",
        "published",
        "published_std",
        "difference",
        "table",
        "orientation",
        "orientation_std",
        "differs",
        "remark",
        "spread",
        "fewer",
        "archived",
        "validation",
    }
)
COLUMNS = frozenset({"method", *RUNS.names, *SCHEMA.names, *STATISTICS.names, *DIAGNOSTICS.names, *ADDED})
Row = dict[str, Any]


class Use(NamedTuple):
    """One run of the experiment: the row's label, the value on each axis, its name, directory and resolved
    spec (JSON).

    installed: the code when this was planned; source: "own", or "archive" of a run that is read from there;
    adaptation: what is adapted how, where the row is an adapted
        one (as planfile.Cell says it).
    """

    label: str
    axes: dict[str, Any]
    name: str
    directory: str
    spec: str
    installed: str
    adaptation: str = ""
    source: str = OWN


@dataclass(frozen=True)
class Collected:
    """An experiment with its collected runs; `keys` ("method" and the axes) together name one run.

    `runs` has one row per planned run, and one per adaptation of it; `state` is finished, failed or missing,
    and only finished ones have records.
    """

    experiment: Experiment
    protocol: Protocol
    path: Path
    keys: list[str]
    runs: pd.DataFrame

    @property
    def statistics(self) -> Path:
        """The file of statistics, from which metrics are computed."""
        return _beside(self.path, "statistics")

    @functools.cached_property
    def order(self) -> dict[str, list[Any]]:
        """The values on each axis that runs have, in the order of the experiment's file."""
        where = f"experiments/{self.experiment.name}.yaml"
        declared = {name: (axis.key, self._listed(axis)) for name, axis in self.experiment.axes.items()}
        shown: dict[str, list[Any]] = {key: [] for key in self.keys[1:]}
        for columns in (columns for axis in axes(declared, where) for columns in axis.columns):
            for name, value in columns.items():
                shown.setdefault(name, []).append(value)
        met = {key: [*self.runs[key].dropna().drop_duplicates()] for key in self.keys[1:]}
        return {
            key: [value for value in dict.fromkeys([*shown[key], *there]) if value in there]
            for key, there in met.items()
        }

    def _listed(self, axis: AxisValues) -> list[Any]:
        """The values of an axis; what "all" means is in the protocol and in the data sets of the runs."""
        if axis.values != "all":
            return axis.values
        if axis.key == "seed":
            return self.protocol.seeds
        names = dict.fromkeys(json.loads(spec)["data"]["dataset"] for spec in self.runs["spec"])
        return [*dict.fromkeys(domain for name in names for domain in get("datasets", name).domains)]

    @property
    def missing(self) -> list[str]:
        """Directories of the runs that are not finished; of an adapted one with its row: "<directory>
        (fdse-adapted)".
        """
        left = self.runs[self.runs["state"] != "finished"]
        rows = left["method"].map(" ({})".format).where(left["adaptation"].notna(), "")
        return list(left["run"] + rows)


def collect(workspace: Workspace, name: str, plan: Path | None = None, rerun: str = "code") -> Collected:
    """Write results/metrics/<experiment>.parquet (one row per run, round, client and recorded value),
    <experiment>.statistics.parquet (one per run, round and evaluated set) and <experiment>.runs.parquet.

    `plan` says which runs the experiment is made of; left out, they are those of the code installed now, or
    by `rerun: version`. In place of a run that is not finished here the archived one is taken. A run without
    either is named in the first and the last file
    and contributes nothing; nor does an adaptation that has not been made.
    """
    experiment, path = load(workspace.root, name), workspace.metrics(name)
    uses = [with_archive(workspace, use) for use in planned(workspace, experiment, plan, rerun)]
    rows = [_row(workspace, use) for use in uses]
    keys = keys_of(experiment, uses)
    finished = [number for number, row in enumerate(rows) if row["state"] == "finished"]
    named = [keys, pa.Table.from_pylist(rows, RUNS).select(["digest", "code"])]
    constants = pa.table({column: part[column] for part in named for column in part.column_names})
    runs = constants.take(pa.array(finished, pa.int64()))
    missing = json.dumps([row["run"] for row in rows if row["state"] != "finished"])
    for file, schema, of in (
        (path, SCHEMA, _records),
        (_beside(path, "statistics"), STATISTICS, _statistics),
    ):
        sources = [functools.partial(of, workspace, uses[number]) for number in finished]
        write(file, schema, runs, sources, {"missing": missing})
    with atomic_path(_beside(path, "runs")) as temporary:
        pq.write_table(_table(keys, rows), temporary)
    return read(workspace, name)


def read(workspace: Workspace, name: str) -> Collected:
    """What `collect` wrote. Raises FedshiftError where it has not run yet, or not as this code does."""
    experiment, path = load(workspace.root, name), workspace.metrics(name)
    if not all(file.exists() for file in (path, _beside(path, "statistics"), _beside(path, "runs"))):
        raise FedshiftError(
            path, "is not there: the runs have not been collected", f"Run `fedshift collect {name}` first."
        )
    runs = pd.DataFrame(pq.read_table(_beside(path, "runs")).to_pandas())
    if lacking := [column for column in RUNS.names if column not in runs]:
        what = f"was collected by other code: it has no column '{lacking[0]}'"
        raise FedshiftError(_beside(path, "runs"), what, f"Run `fedshift collect {name}` again.")
    keys = list(runs.columns[: list(runs.columns).index("digest")])
    return Collected(experiment, protocol(workspace.root, experiment.protocol), path, keys, runs)


def planned(
    workspace: Workspace, experiment: Experiment, plan: Path | None, rerun: str = "code"
) -> list[Use]:
    """The runs and adaptations that an experiment is made of; without a plan, those of the code installed
    now, or by `rerun: version`.
    """
    if plan is None:
        return [_use_now(workspace, cell, rerun) for cell in expand(workspace.root, experiment)]
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
            run.name,
            run.directory,
            run.spec,
            run.installed or run.code,
            use.adaptation,
        )
        for use, run in ((use, runs[use.digest]) for use in uses)
    ]


def _use_now(workspace: Workspace, cell: Cell, rerun: str) -> Use:
    identity = identify(cell.spec)
    run = workspace.run(run_name(cell.spec, identity)).reuse(rerun)
    below, spec = run.path.relative_to(workspace.root).as_posix(), cell.spec.model_dump_json()
    adaptation = canonical_json(cell.task.declared()) if cell.task else ""
    return Use(cell.label, cell.axes, run.name, below, spec, identity.code, adaptation)


def _beside(path: Path, kind: str) -> Path:
    """The file `<experiment>.<kind>.parquet` beside the records."""
    return path.with_suffix(f".{kind}.parquet")


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


def _table(keys: pa.Table, rows: Sequence[Row]) -> pa.Table:
    frame = pa.Table.from_pylist(rows, RUNS)
    names = [*keys.column_names, *frame.column_names]
    return pa.table([*keys.columns, *frame.columns], names=names)


def _row(workspace: Workspace, use: Use) -> Row:
    """The run's row, or that of its adaptation."""
    run, (digest, _, code) = workspace.run_at(use.directory), use.name.partition("-")
    row: Row = {"digest": digest, "code": code, "installed": use.installed, "run": use.directory}
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
        _, made = evaluations.read(result)
        costs["seconds"] += made["seconds"]
        measured = made["environment"]
    shown = {name: summary[name] for name in ("evaluates", "stage", "classes", "clients")}
    return {
        **row,
        **shown,
        **costs,
        "state": State.FINISHED,
        "bn": summary["policy"]["bn"],
        "hardware": _hardware(measured),
    }


def _adapted(run: RunDirectory, use: Use, summary: Summary) -> Path:
    """The result of a finished run's adaptation, made of the very weights that the run has now."""
    told = json.loads(use.adaptation)
    kept = summary["hashes"].get(f"weights_{told['task']['selection']}")
    return place(run, {**told, "run": run.name, "weights": kept})


def _records(workspace: Workspace, use: Use) -> pa.Table:
    """A finished run's records, or those of its adaptation: the test after it."""
    run = workspace.run_at(use.directory)
    if not use.adaptation:
        return of_run(run)
    table, _ = evaluations.read(_adapted(run, use, run.summary() or {}))
    return table.filter(pc.equal(table["stage"], AFTER))


def _statistics(workspace: Workspace, use: Use) -> pa.Table:
    """A finished run's statistics; an adaptation has none."""
    return STATISTICS.empty_table() if use.adaptation else statistics_of_run(workspace.run_at(use.directory))


def _hardware(environment: dict[str, Any]) -> str:
    """What may change the last bits of a result: the accelerator; on a CPU its instruction set and the
    threads.
    """
    if environment["device"] != "cpu":
        return str(environment["device"])
    return f"cpu, {environment['capability']}, threads: {environment['threads']}"
