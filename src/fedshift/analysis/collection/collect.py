"""Collect: the records of all runs of an experiment in one Parquet file, their statistics in a second, and
one row per run in a third.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedshift.analysis.collection.collected import Collected, beside, read
from fedshift.analysis.collection.columns import COSTS, RUNS
from fedshift.analysis.collection.records import ended, of_run, statistics_of_run, write
from fedshift.analysis.collection.sources import with_archive
from fedshift.analysis.collection.uses import Use, keys_of, planned
from fedshift.archive.machine import hardware
from fedshift.common.errors import FedshiftError
from fedshift.common.files import atomic_path, canonical_json
from fedshift.common.registry import names
from fedshift.experiments.load import load
from fedshift.experiments.task import place
from fedshift.federation.records import SCHEMA, STATISTICS
from fedshift.spec import Method
from fedshift.storage.rundir import RunDirectory, State, Summary, rounds_trained
from fedshift.storage.workspace import TUNING, Workspace

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
