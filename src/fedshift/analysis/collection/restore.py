"""Restore: run directories of runs that were made elsewhere, and what was evaluated of them, from stamps and
metrics, which DVC shares.

A restored directory holds the summary, byte for byte, the records and the statistics; not the weights. So
plan, status and collect know the run as finished, and an experiment that grows trains only what is new.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fedshift.analysis.collection import evaluated
from fedshift.analysis.collection.records import by_run
from fedshift.common.files import atomic_path
from fedshift.common.parquet import read_parquet
from fedshift.evaluations._adaptation import AFTER
from fedshift.storage.rundir import State
from fedshift.storage.workspace import Workspace


def restore(workspace: Workspace) -> int:
    """Write the directories of collected runs that are not here, failed ones with their reasons, and results
    of evaluations; return how many finished runs.
    """
    summaries = {name: summary for stamp in workspace.packs() for name, summary in stamp.finished().items()}
    failures = {name: failure for stamp in workspace.packs() for name, failure in stamp.failed().items()}
    restored = 0
    for path in sorted((workspace.results / "metrics").rglob("*.runs.parquet")):
        for row in read_parquet(path, filters=[("state", "==", "failed")]).to_pylist():
            run = workspace.run_at(row["run"])
            if run.name in failures and run.outcome() is State.MISSING:
                run.fail(failures[run.name])
        rows = read_parquet(path, filters=[("state", "==", "finished")]).to_pylist()
        runs = {
            run.name: run
            for row in rows
            if (run := workspace.run_at(row["run"])).name in summaries and run.outcome() is not State.FINISHED
        }
        _write(
            path.with_name(path.name.replace(".runs.", ".statistics.")),
            {k: v.statistics for k, v in runs.items()},
        )
        _write(path.with_name(path.name.replace(".runs.", ".")), {k: v.metrics for k, v in runs.items()})
        for name, run in runs.items():
            if run.metrics.exists():
                run.finish(summaries[name])  # last: with it the run is finished
                restored += 1
    evaluated.restore(workspace, {run.name: run for run in workspace.runs()})
    return restored


def _write(collected: Path, files: dict[str, Path]) -> None:
    """Write to `files`, by name of run, its rows of a collected file."""
    left = dict(files)
    for owner, table in by_run(collected) if left and collected.exists() else ():
        name = f"{owner['digest']}-{owner['code']}"
        if name in left and not _adapted(table):
            with atomic_path(left.pop(name)) as temporary:
                pq.write_table(table, temporary, compression="zstd")


def _adapted(table: pa.Table) -> bool:
    return bool(table["stage"][0].as_py() == AFTER)
