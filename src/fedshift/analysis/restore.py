"""Restore: run directories of runs that were made elsewhere, and their adaptations, from stamps and metrics, which DVC shares.

A restored directory holds the summary, byte for byte, and the records; not the weights. So plan, status and collect know the
run as finished, and an experiment that grows trains only what is new.
"""

from __future__ import annotations

import pyarrow.parquet as pq

from fedshift.analysis import adapted
from fedshift.analysis.records import Place, Written
from fedshift.files import atomic_path
from fedshift.rundir import State
from fedshift.workspace import Workspace


def restore(workspace: Workspace) -> int:
    """Write the directories of collected runs that are not here, and results of adaptations; return how many runs."""
    summaries = {name: summary for stamp in workspace.packs() for name, summary in stamp.finished().items()}
    restored = 0
    for path in sorted((workspace.results / "metrics").rglob("*.runs.parquet")):
        written = Written(path.with_name(path.name.replace(".runs.parquet", ".parquet")))
        rows = pq.read_table(path, filters=[("state", "==", "finished")]).to_pylist()
        for row in rows:
            if row.get("adaptation"):
                continue
            run = workspace.run_at(row["run"])
            if run.name in summaries and run.outcome() is not State.FINISHED:
                records = written.records(Place(row["group"], row["start"], row["length"]), run.name)
                with atomic_path(run.metrics) as temporary:
                    pq.write_table(records, temporary, compression="zstd")
                run.finish(summaries[run.name])  # last: with it the run is finished
                restored += 1
    adapted.restore(workspace)
    return restored
