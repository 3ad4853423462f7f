"""Results of evaluations of an experiment's runs: gathered in one folder, read as tables, and restored.

The folder is next to the experiment's metrics and is shared by DVC. It has one Parquet file per evaluation.
In a run's directory a result is a single file. When gathered, it starts with the row's label, the axes and
the run's name, as collected records do.

A restored run directory has the summary (byte for byte), the records and the statistics, but not the weights.
So plan, status and collect treat the run as finished, and an experiment that grows trains only its new runs.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedshift.analysis.collect import Use, keys_of
from fedshift.analysis.collect import write as write_records
from fedshift.analysis.collected import Collected, beside, by_run
from fedshift.common.errors import FedshiftError
from fedshift.common.files import atomic_path
from fedshift.common.parquet import read_parquet
from fedshift.common.registry import get
from fedshift.experiments.schema import Experiment
from fedshift.experiments.task import Task, place, read_result, write_result
from fedshift.experiments.validate import asked_for
from fedshift.federation.records import ADAPTED
from fedshift.storage.rundir import Failure, State, Summary
from fedshift.storage.workspace import Workspace, found


def gather(
    workspace: Workspace, experiment: Experiment, label: str, task: Task, results: list[tuple[Use, Path]]
) -> Path:
    """Gather the results of one evaluation in <label>.parquet of the experiment's folder; return its path.

    `results`: each run with the file of its result.
    """
    path = workspace.evaluated(experiment.name) / f"{label}.parquet"
    digests = [use.run.digest for use, _ in results]
    keys = keys_of(experiment, [use for use, _ in results])
    keys = keys.append_column("digest", pa.array(digests, pa.string()))
    stamps = {digest: read_result(result)[1] for digest, (_, result) in zip(digests, results, strict=True)}
    schema, files = get("evaluations", task.evaluation).schema(), [result for _, result in results]
    write_records(path, schema, keys, lambda file: read_result(file)[0], files, {"made": json.dumps(stamps)})
    return path


def evaluated(workspace: Workspace, experiment: str, label: str) -> pa.Table:
    """All rows of an evaluation of an experiment's runs: `method`, the axes, `digest`, then its own columns.

    Its own columns are those of fedshift.federation.records.KEYS and of the evaluation. Columns of lists of
    equal length become arrays by fedshift.analysis.metrics.base.as_array.

    `label`: the evaluation's name, then the values of parameters that the experiment sets ("features-200").

    Raises FedshiftError where it has not been made.
    """
    path = workspace.evaluated(experiment) / f"{label}.parquet"
    if not path.is_file():
        what = "is not there: its runs have not been evaluated so"
        raise FedshiftError(path, what, f"Run `fedshift evaluate {experiment} {label.partition('-')[0]}`.")
    return read_parquet(path).replace_schema_metadata()


def results_of(workspace: Workspace, collected: Collected, evaluation: str) -> pd.DataFrame:
    """The results of an evaluation on the planned runs, for figures and tables: `evaluated` as a frame.

    Raises FedshiftError if the experiment does not request the evaluation, or it has not been made.
    """
    name = collected.experiment.name
    label = asked_for(collected.experiment, evaluation, collected.experiment.file)
    frame = pd.DataFrame(evaluated(workspace, name, label).to_pandas())
    frame = frame.merge(collected.runs[["digest"]].drop_duplicates(), on="digest")
    if frame.empty:
        what = f"no finished run has a result of the evaluation '{evaluation}'"
        raise FedshiftError(workspace.evaluated(name), what, f"Run `fedshift evaluate {name}`.")
    return frame


def measured(workspace: Workspace, collected: Collected, name: str) -> pd.Series[float]:
    """`<evaluation>.<number>` of every planned run, NaN where there is no result."""
    evaluation, _, number = name.partition(".")
    kind, experiment = get("evaluations", evaluation), collected.experiment
    label = asked_for(experiment, evaluation, experiment.file)
    if not (path := workspace.evaluated(experiment.name) / f"{label}.parquet").is_file():
        return pd.Series(math.nan, index=collected.runs.index)
    of = dict[str, float]()
    for digest, part in by_run(path):
        if digest not in of:
            of[digest] = kind.quantity(part.to_pandas(), number)
    return collected.runs["digest"].map(of).astype(float)


def pixels(data: bytes, px: int) -> NDArray[np.uint8]:
    """An image stored as bytes in an evaluation's table, RGB row by row: [px, px, 3]."""
    return np.frombuffer(data, np.uint8).reshape(px, px, 3)


def restore(workspace: Workspace) -> int:
    """Write the directories of collected runs that are absent here, and results of evaluations.

    Failed runs are written with their reasons. Returns the number of finished runs written.
    """
    summaries: dict[str, Summary] = {}
    failures: dict[str, Failure] = {}
    for stamp in workspace.packs():
        summaries |= stamp.finished()
        failures |= stamp.failed()
    restored = 0
    for path in sorted((workspace.results / "metrics").rglob("*.runs.parquet")):
        missing = {}
        for row in read_parquet(path, ["run", "state"]).to_pylist():
            run = workspace.run_at(row["run"])
            digest, outcome = run.digest, run.outcome()
            if row["state"] == "failed" and digest in failures and outcome is State.MISSING:
                run.fail(failures[digest])
            if row["state"] == "finished" and digest in summaries and outcome is not State.FINISHED:
                missing[digest] = run
        records = path.with_name(path.name.replace(".runs.", "."))
        _write(beside(records, "statistics"), {digest: run.statistics for digest, run in missing.items()})
        _write(records, {digest: run.metrics for digest, run in missing.items()})
        for digest, run in missing.items():
            if run.metrics.exists():
                run.finish(summaries[digest])  # last: with it the run is finished
                restored += 1
    there = {run.digest: found(run.path.with_name(run.digest)) for run in workspace.runs()}
    for path in sorted((workspace.results / "metrics").rglob("*.evaluated/*.parquet")):
        stamps = json.loads(pq.read_schema(path).metadata[b"made"])
        for digest, table in by_run(path):
            stamp = stamps[digest]
            if stamp["run"] in there and not (result := place(there[stamp["run"]], stamp)).exists():
                write_result(result, table, stamp)
    return restored


def _write(collected: Path, files: dict[str, Path]) -> None:
    """Write each run's rows of a collected file to its own file; `files`: run id -> path."""
    left = dict(files)
    for digest, table in by_run(collected) if left and collected.exists() else ():
        if digest in left and table["stage"][0].as_py() != ADAPTED:
            with atomic_path(left.pop(digest)) as temporary:
                pq.write_table(table, temporary, compression="zstd")
