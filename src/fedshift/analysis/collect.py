"""Collect: the records of all runs of an experiment in one Parquet file, and one row per run in a second."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fedshift import planfile
from fedshift.errors import FedshiftError
from fedshift.experiments import Cell, Experiment, Protocol, expand, load, protocol
from fedshift.files import atomic_path
from fedshift.identity import Identity, identify
from fedshift.spec import RunSpec
from fedshift.workspace import Workspace

RECORDS = pa.schema(
    {
        "round": pa.int32(), "stage": pa.string(), "model": pa.string(), "row": pa.int16(), "client": pa.int16(),
        "split": pa.string(), "metric": pa.string(), "value": pa.float64(), "n": pa.int64(), "time": pa.float64(),
    }
)  # fmt: skip
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
    "bytes_up": pa.int64(), "bytes_down": pa.int64(), "state_dict_bytes": pa.int64(), "macs_per_image": pa.int64(),
    "seconds": pa.float64(), "peak_memory_mb": pa.float64(),
}  # fmt: skip
RUNS = pa.schema(
    {
        "digest": pa.string(), "code": pa.string(), "run": pa.string(), "state": pa.string(), "failure": pa.string(),
        "evaluates": pa.string(), "stage": pa.string(), "bn": pa.string(), "precision": pa.string(), "hardware": pa.string(),
        "classes": pa.list_(pa.string()), "clients": CLIENTS, **COSTS,
    }
)  # fmt: skip


@dataclass(frozen=True)
class Collected:
    """An experiment with its collected runs; `keys` ("method" and the axes) together name one run.

    `runs` has one row per planned run; `state` is finished, failed or missing, and only finished runs have records.
    """

    experiment: Experiment
    protocol: Protocol
    path: Path
    keys: list[str]
    runs: pd.DataFrame

    def accuracy(self) -> pd.DataFrame:
        """The accuracies (fractions) among the records: keys, round, stage, model, row, client, split and value."""
        columns = [*self.keys, "round", "stage", "model", "row", "client", "split", "value"]
        return pd.DataFrame(
            pq.read_table(self.path, columns=columns, filters=[("metric", "==", "accuracy")]).to_pandas()
        )

    @property
    def missing(self) -> list[str]:
        """Directories of the runs that are not finished."""
        return list(self.runs.loc[self.runs["state"] != "finished", "run"])


def collect(workspace: Workspace, name: str, plan: Path | None = None) -> Collected:
    """Write results/metrics/<experiment>.parquet (one row per run, round, client and metric) and <experiment>.runs.parquet.

    `plan` says which runs the experiment is made of; left out, they are those of the code installed now. A run without
    summary.json is not finished: it is named in both files and contributes no records.
    """
    experiment = load(workspace.root, name)
    runs = _planned(workspace, experiment, plan)
    directories = [workspace.run(cell.spec, identity.digest, identity.code) for cell, identity in runs]
    rows = [_run(workspace, *run, directory) for run, directory in zip(runs, directories, strict=True)]
    keys = _keys(experiment, [cell for cell, _ in runs])
    missing = [row["run"] for row in rows if row["state"] != "finished"]
    schema = pa.schema(
        [*keys.schema, RUNS.field("digest"), RUNS.field("code"), *RECORDS], {"missing": json.dumps(missing)}
    )
    path = workspace.metrics(name)
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        for index, directory in enumerate(directories):
            if rows[index]["state"] == "finished":
                writer.write_table(
                    _records(directory, {**keys.slice(index, 1).to_pylist()[0], **rows[index]}, schema)
                )
    frame = pa.Table.from_pylist(rows, RUNS)
    with atomic_path(_runs_path(path)) as temporary:
        pq.write_table(
            pa.table([*keys.columns, *frame.columns], names=[*keys.column_names, *frame.column_names]),
            temporary,
        )
    return read(workspace, name)


def read(workspace: Workspace, name: str) -> Collected:
    """What `collect` wrote. Raises FedshiftError where it has not run yet."""
    experiment, path = load(workspace.root, name), workspace.metrics(name)
    if not path.exists() or not _runs_path(path).exists():
        raise FedshiftError(
            path, "is not there: the runs have not been collected", f"Run `fedshift collect {name}` first."
        )
    runs = pd.DataFrame(pq.read_table(_runs_path(path)).to_pandas())
    keys = list(runs.columns[: list(runs.columns).index("digest")])
    return Collected(experiment, protocol(workspace.root, experiment.protocol), path, keys, runs)


def _planned(workspace: Workspace, experiment: Experiment, plan: Path | None) -> list[tuple[Cell, Identity]]:
    if plan is None:
        return [(cell, identify(cell.spec)) for cell in expand(workspace.root, experiment)]
    runs = {run.digest: run for run in planfile.runs(plan)}
    uses = [(use, runs[use.digest]) for use in planfile.cells(plan) if use.experiment == experiment.name]
    if not uses:
        name = experiment.name
        raise FedshiftError(
            plan, f"this plan has no experiment '{name}'", f"Run `fedshift plan {name}` and name that plan."
        )
    return [
        (
            Cell(use.label, json.loads(use.axes), RunSpec.model_validate_json(run.spec)),
            Identity(run.digest, run.code),
        )
        for use, run in uses
    ]


def _runs_path(path: Path) -> Path:
    return path.with_suffix(".runs.parquet")


def _keys(experiment: Experiment, cells: Sequence[Cell]) -> pa.Table:
    """Method label and axes, one row per run; an axis whose values have no common type is kept as JSON text."""
    columns = {"method": pa.array([cell.label for cell in cells], pa.string())}
    for axis in (path.rpartition(".")[2] for path in experiment.axes):
        values = [cell.axes[axis] for cell in cells]
        try:
            columns[axis] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            columns[axis] = pa.array([json.dumps(value) for value in values])
    return pa.table(columns)


def _run(workspace: Workspace, cell: Cell, identity: Identity, directory: Path) -> dict[str, Any]:
    row = {
        **dataclasses.asdict(identity),
        "run": directory.relative_to(workspace.root).as_posix(),
        "precision": cell.spec.local.precision,
    }
    if not (directory / "summary.json").exists():
        failure = directory / "failure.json"
        if not failure.exists():
            return {**row, "state": "missing"}
        return {**row, "state": "failed", "failure": json.loads(failure.read_text()).get("text", "")}
    summary = json.loads((directory / "summary.json").read_text())
    costs = {name: summary["costs"].get(name) for name in COSTS}
    shown = {name: summary[name] for name in ("evaluates", "stage", "classes", "clients")}
    return {
        **row,
        **shown,
        **costs,
        "state": "finished",
        "bn": summary["policy"]["bn"],
        "hardware": _hardware(summary["environment"]),
    }


def _hardware(environment: dict[str, Any]) -> str:
    """What may change the last bits of a result: the accelerator; on a CPU its instruction set and the threads."""
    if environment["device"] != "cpu":
        return str(environment["device"])
    return f"cpu, {environment['capability']}, threads: {environment['threads']}"


def _records(directory: Path, constants: dict[str, Any], schema: pa.Schema) -> pa.Table:
    table = pq.read_table(directory / "metrics.parquet", columns=RECORDS.names).cast(RECORDS)
    constant = {
        field.name: pa.repeat(pa.scalar(constants[field.name], field.type), len(table))
        for field in schema
        if field.name not in RECORDS.names
    }
    return pa.table({**constant, **{name: table[name] for name in RECORDS.names}}, schema=schema)
