"""Restore: run directories of runs that were made elsewhere, and their adaptations, from stamps and metrics, which DVC shares.

A restored directory holds summary.json, byte for byte, metrics.parquet and statistics.parquet; not the weights. So plan, status and
collect know the run as finished, and an experiment that grows trains only what is new.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fedshift.analysis import adapted
from fedshift.analysis.records import by_run
from fedshift.files import atomic_path, write_json
from fedshift.workspace import Workspace


def restore(workspace: Workspace) -> int:
    """Write the directories of collected runs that are not here, and results of adaptations; return how many runs."""
    stamps = (json.loads(path.read_text()) for path in (workspace.results / "packs").glob("*.json"))
    summaries = {name: summary for stamp in stamps for name, summary in stamp["finished"].items()}
    restored = 0
    for path in sorted((workspace.results / "metrics").rglob("*.runs.parquet")):
        rows = pq.read_table(path, filters=[("state", "==", "finished")]).to_pylist()
        directories = {
            name: directory
            for row in rows
            if (name := f"{row['digest']}-{row['code']}") in summaries
            and not ((directory := workspace.root / row["run"]) / "summary.json").exists()
        }
        for kind in ("statistics", "metrics"):
            _write(path.with_name(path.name.replace(".runs.", SUFFIX[kind])), kind, directories)
        for name, directory in directories.items():
            if (directory / "metrics.parquet").exists():
                write_json(directory / "summary.json", summaries[name])  # last: with it the run is finished
                restored += 1
    adapted.restore(workspace)
    return restored


SUFFIX = {"metrics": ".", "statistics": ".statistics."}


def _write(path: Path, kind: str, directories: dict[str, Path]) -> None:
    """Write <kind>.parquet of the runs `<digest>-<code>` from a collected file, each once."""
    left = dict(directories)
    for owner, table in by_run(path) if left and path.exists() else ():
        name = f"{owner['digest']}-{owner['code']}"
        if name in left and not _adapted(table):
            with atomic_path(left.pop(name) / f"{kind}.parquet") as temporary:
                pq.write_table(table, temporary, compression="zstd")


def _adapted(table: pa.Table) -> bool:
    return bool(table["stage"][0].as_py() == adapted.STAGE)
