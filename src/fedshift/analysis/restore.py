"""Restore: run directories of runs that were made elsewhere, and their adaptations, from stamps and metrics, which DVC shares.

A restored directory holds summary.json, byte for byte, and metrics.parquet; not the weights. So plan, status and collect know the
run as finished, and an experiment that grows trains only what is new.
"""

from __future__ import annotations

import json

import pyarrow.parquet as pq

from fedshift.analysis import adapted
from fedshift.analysis.records import Place, Written
from fedshift.files import atomic_path, write_json
from fedshift.workspace import Workspace


def restore(workspace: Workspace) -> int:
    """Write the directories of collected runs that are not here, and results of adaptations; return how many runs."""
    stamps = (json.loads(path.read_text()) for path in (workspace.results / "packs").glob("*.json"))
    summaries = {name: summary for stamp in stamps for name, summary in stamp["finished"].items()}
    restored = 0
    for path in sorted((workspace.results / "metrics").rglob("*.runs.parquet")):
        written = Written(path.with_name(path.name.replace(".runs.parquet", ".parquet")))
        rows = pq.read_table(path, filters=[("state", "==", "finished")]).to_pylist()
        for row in rows:
            if row.get("adaptation"):
                continue
            directory, name = workspace.root / row["run"], f"{row['digest']}-{row['code']}"
            if name in summaries and not (directory / "summary.json").exists():
                records = written.records(Place(row["group"], row["start"], row["length"]), name)
                with atomic_path(directory / "metrics.parquet") as temporary:
                    pq.write_table(records, temporary, compression="zstd")
                write_json(directory / "summary.json", summaries[name])  # last: with it the run is finished
                restored += 1
    adapted.restore(workspace)
    return restored
