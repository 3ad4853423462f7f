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
from fedshift.storage.workspace import Workspace, found


def restore(workspace: Workspace) -> int:
    """Write the directories of collected runs that are not here, failed ones with their reasons, and results
    of evaluations; return how many finished runs.
    """
    stamps = workspace.packs()
    summaries = {digest: summary for stamp in stamps for digest, summary in stamp.finished().items()}
    failures = {digest: failure for stamp in stamps for digest, failure in stamp.failed().items()}
    restored = 0
    for path in sorted((workspace.results / "metrics").rglob("*.runs.parquet")):
        for row in read_parquet(path, filters=[("state", "==", "failed")]).to_pylist():
            run = workspace.run_at(row["run"])
            if run.digest in failures and run.outcome() is State.MISSING:
                run.fail(failures[run.digest])
        rows = read_parquet(path, filters=[("state", "==", "finished")]).to_pylist()
        runs = {
            run.digest: run
            for row in rows
            if (run := workspace.run_at(row["run"])).digest in summaries
            and run.outcome() is not State.FINISHED
        }
        _write(
            path.with_name(path.name.replace(".runs.", ".statistics.")),
            {k: v.statistics for k, v in runs.items()},
        )
        _write(path.with_name(path.name.replace(".runs.", ".")), {k: v.metrics for k, v in runs.items()})
        for digest, run in runs.items():
            if run.metrics.exists():
                run.finish(summaries[digest])  # last: with it the run is finished
                restored += 1
    there = {run.digest: found(run.path.with_name(run.digest)) for run in workspace.runs()}
    evaluated.restore(workspace, there)
    return restored


def _write(collected: Path, files: dict[str, Path]) -> None:
    """Write to `files`, by digest of the run, its rows of a collected file."""
    left = dict(files)
    for owner, table in by_run(collected) if left and collected.exists() else ():
        digest = owner["digest"]
        if digest in left and not _adapted(table):
            with atomic_path(left.pop(digest)) as temporary:
                pq.write_table(table, temporary, compression="zstd")


def _adapted(table: pa.Table) -> bool:
    return bool(table["stage"][0].as_py() == AFTER)
