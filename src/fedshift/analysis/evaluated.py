"""Results of evaluations of an experiment's runs, gathered in a folder beside its metrics, which DVC shares:
a Parquet file for each evaluation; and run directories restored from what DVC shares.

A result is one file in its run's directory. Gathered it has the row's label, the axes and the run's name in
front, as collected records do. A restored directory holds the summary, byte for byte, the records and the
statistics; not the weights. So plan, status and collect know the run as finished, and an experiment that
grows trains only what is new.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedshift.analysis.collect import Use, keys_of
from fedshift.analysis.collected import Collected
from fedshift.analysis.records import by_run
from fedshift.analysis.records import write as write_records
from fedshift.common.errors import FedshiftError
from fedshift.common.files import atomic_path
from fedshift.common.parquet import read_parquet
from fedshift.common.registry import get
from fedshift.evaluations._adaptation import AFTER
from fedshift.experiments.schema import Experiment
from fedshift.experiments.task import Task, place
from fedshift.experiments.validate import asked_for
from fedshift.storage.rundir import RunDirectory, State
from fedshift.storage.workspace import Workspace, found

if TYPE_CHECKING:
    from fedshift.evaluations.base import Evaluation, Row

# fedshift.evaluations.base, which imports torch, is imported where a result is read: tables ask for few.


def gather(
    workspace: Workspace, experiment: Experiment, label: str, task: Task, results: list[tuple[Use, Path]]
) -> Path:
    """Gather the results of one evaluation in <label>.parquet of the experiment's folder; return its path.

    results: each run with the file of its result.
    """
    kind: type[Evaluation] = get("evaluations", task.evaluation)
    path = workspace.evaluated(experiment.name) / f"{label}.parquet"
    keys = keys_of(experiment, [use for use, _ in results])
    digests = [use.name.partition("-")[0] for use, _ in results]
    keys = keys.append_column("digest", pa.array(digests, pa.string()))
    stamps = {digest: _read(result)[1] for digest, (_, result) in zip(digests, results, strict=True)}
    sources = [functools.partial(_table, result) for _, result in results]
    write_records(path, kind.schema(), keys, sources, {"made": json.dumps(stamps)})
    return path


def _table(result: Path) -> pa.Table:
    return _read(result)[0]


def _read(result: Path) -> tuple[pa.Table, Row]:
    from fedshift.evaluations.base import read

    return read(result)


def evaluated(workspace: Workspace, experiment: str, label: str) -> pa.Table:
    """All rows of an evaluation of an experiment's runs: `method`, the axes, digest of the run, then
    its own columns (fedshift.federation.records.KEYS and those of the evaluation).

    label: its name, then the values of parameters that the experiment sets ("features-200"). Columns of lists
        of equal length become arrays by fedshift.analysis.metrics.base.as_array. Raises FedshiftError where
        it has not been made.
    """
    path = workspace.evaluated(experiment) / f"{label}.parquet"
    if not path.is_file():
        what = "is not there: its runs have not been evaluated so"
        raise FedshiftError(path, what, f"Run `fedshift evaluate {experiment} {label.partition('-')[0]}`.")
    return read_parquet(path).replace_schema_metadata()


def results_of(workspace: Workspace, collected: Collected, evaluation: str) -> pd.DataFrame:
    """What an evaluation that the experiment asks for gave of its planned runs: `evaluated` as a frame, for
    figures and tables. Raises FedshiftError where it was not asked for, or has not been made.
    """
    where = f"experiments/{collected.experiment.name}.yaml"
    table = evaluated(
        workspace, collected.experiment.name, asked_for(collected.experiment, evaluation, where)
    )
    frame = pd.DataFrame(table.to_pandas())
    planned = collected.runs[["digest"]].drop_duplicates()
    if (frame := frame.merge(planned, on="digest")).empty:
        what = f"no finished run has a result of the evaluation '{evaluation}'"
        cure = f"Run `fedshift evaluate {collected.experiment.name}`."
        raise FedshiftError(workspace.evaluated(collected.experiment.name), what, cure)
    return frame


def measured(workspace: Workspace, collected: Collected, name: str) -> pd.Series[float]:
    """`<evaluation>.<number>` of every planned run, NaN where there is no result."""
    evaluation, _, number = name.partition(".")
    kind: type[Evaluation] = get("evaluations", evaluation)
    where = f"experiments/{collected.experiment.name}.yaml"
    label = asked_for(collected.experiment, evaluation, where)
    if not (workspace.evaluated(collected.experiment.name) / f"{label}.parquet").is_file():
        return pd.Series(math.nan, index=collected.runs.index)
    frame = evaluated(workspace, collected.experiment.name, label).to_pandas()
    of = {digest: kind.quantity(part, number) for digest, part in frame.groupby("digest")}
    return collected.runs["digest"].map(of).astype(float)


def restore_results(workspace: Workspace, runs: Mapping[str, RunDirectory]) -> None:
    """Write the results, in the directories of `runs` (by name), that were gathered elsewhere and are not
    here.
    """
    from fedshift.evaluations.base import write

    for path in sorted((workspace.results / "metrics").rglob("*.evaluated/*.parquet")):
        for stamp, table in _results(path):
            run = runs.get(stamp["run"])
            if run and not (result := place(run, stamp)).exists():
                write(result, table, stamp)


def _results(path: Path) -> Iterator[tuple[Row, pa.Table]]:
    """What was gathered, run by run."""
    stamps = json.loads(pq.read_schema(path).metadata[b"made"])
    for owner, table in by_run(path):
        yield stamps[owner["digest"]], table


def pixels(data: bytes, px: int) -> NDArray[np.uint8]:
    """An image that an evaluation's table holds as bytes, RGB row by row: [px, px, 3]."""
    return np.frombuffer(data, np.uint8).reshape(px, px, 3)


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
    restore_results(workspace, there)
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
