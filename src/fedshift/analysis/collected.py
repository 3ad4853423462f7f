"""Results of `fedshift collect`: columns, the experiment with its runs, records by run, and diagnostics."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedshift.common.errors import FedshiftError
from fedshift.common.parquet import read_parquet
from fedshift.experiments.axes import axes_of
from fedshift.experiments.load import load
from fedshift.experiments.protocols import Protocol, protocol
from fedshift.experiments.schema import Experiment
from fedshift.federation.records import DIAGNOSTICS, SCHEMA, STATISTICS, timed
from fedshift.storage.rundir import RunDirectory
from fedshift.storage.workspace import Workspace

SIZES = ("train", "val", "test")  # of a client's splits
CLIENT = {"client": pa.int16(), "domains": pa.list_(pa.string()), **dict.fromkeys(SIZES, pa.int64())}
COSTS = {
    "bytes_up": pa.int64(), "bytes_down": pa.int64(), "state_dict_bytes": pa.int64(),
    "macs_per_image": pa.int64(), "seconds": pa.float64(), "peak_memory_mb": pa.float64(),
}  # fmt: skip
TEXTS = (
    "digest", "code", "installed", "source", "run", "state", "failure", "spec", "adaptation", "evaluates",
    "stage", "bn", "precision", "hardware", "images",
)  # fmt: skip
RUNS = pa.schema(
    {
        **dict.fromkeys(TEXTS, pa.string()),
        "pooled": pa.bool_(),
        "rounds": pa.int64(),
        "finished": pa.float64(),
        "classes": pa.list_(pa.string()),
        "clients": pa.list_(pa.struct(CLIENT)),
        "absent": pa.string(),
        **COSTS,
    }
)
OWN, ARCHIVE = "own", "archive"  # values of `source`: trained here, or read from the archive
# Joined to records and statistics (fedshift.analysis.quantities).
OWN_SPLIT = "own_split"
# Of curves: accuracies by aggregation, and those that choose rounds.
ACCURACIES = ("id", "ood", "all", "avg")
CHOOSING = ("val", "held_out")
# Columns of tables (fedshift.analysis.tables): rule and table of a cell, its numbers, and published values.
SELECT, TABLE = "select", "table"
NUMBERS = ("mean", "std", "seeds", "planned")
BESIDE = {
    "published": float, "published_std": float, "difference": float, "low": float, "high": float,
    "margin": float, "rule": str, "verdict": str, "uid": str, "orientation": float, "orientation_std": float,
    "differs": str, "remark": str, "spread": str, "fewer": str, "clients": str, "archived": int, "text": str,
    "published_text": str,
}  # fmt: skip
COLUMNS = frozenset(
    [
        *("method", *RUNS.names, *SCHEMA.names, *STATISTICS.names, *DIAGNOSTICS.names, *SIZES, OWN_SPLIT),
        *(*ACCURACIES, *CHOOSING, SELECT, TABLE, *NUMBERS, *BESIDE),
    ]
)  # which no axis may be called


@dataclass(frozen=True)
class Collected:
    """An experiment with its collected runs; `keys` ("method" and the axes) together identify one run.

    `runs` has one row per planned run, and one per adaptation of it. Its `state` is finished, failed or
    missing. Only finished runs have records. `aggregated` is the cache of fedshift.analysis.quantities:
    (metric, aggregation) -> values by run and round.
    """

    experiment: Experiment
    protocol: Protocol
    path: Path
    keys: list[str]
    runs: pd.DataFrame
    aggregated: dict[tuple[str, str], pd.Series[float]] = field(default_factory=dict, init=False)

    @property
    def statistics(self) -> Path:
        """The file of statistics, from which metrics are computed."""
        return beside(self.path, "statistics")

    @functools.cached_property
    def places(self) -> dict[tuple[Any, ...], int]:
        """Keys of a finished run (None where there is no value) -> its row in `runs`."""
        finished = self.runs.loc[self.runs["state"] == "finished", self.keys].astype(object)
        named = finished.where(finished.notna(), None).itertuples(index=False, name=None)
        return dict(zip(named, finished.index, strict=True))

    def of_each_run(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The values of `rows` for each planned run, matched by its keys and indexed as `runs`.

        NaN for runs without a row.
        """
        return self.runs[self.keys].merge(rows, on=self.keys, how="left").set_axis(self.runs.index)

    @functools.cached_property
    def order(self) -> dict[str, list[Any]]:
        """The values that runs have on each axis, in the order of the experiment's file."""
        shown = [columns for axis in axes_of(self.experiment, self.protocol) for columns in axis.columns]
        order = {}
        for key in self.keys[1:]:
            present = [*self.runs[key].dropna().drop_duplicates()]
            declared = [columns[key] for columns in shown if key in columns]
            order[key] = [value for value in dict.fromkeys([*declared, *present]) if value in present]
        return order

    @property
    def missing(self) -> list[str]:
        """Directories of the runs that are not finished, failed ones first.

        An adapted run has its row appended: "<directory> (fdse-adapted)". Empty if the experiment trains
        nothing.
        """
        if not self.experiment.train:
            return []
        left = self.runs[self.runs["state"] != "finished"].sort_values("state", kind="stable")
        rows = left["method"].map(" ({})".format).where(left["adaptation"].notna(), "")
        return list(left["run"] + rows)


def read(workspace: Workspace, name: str) -> Collected:
    """Read the files that `collect` wrote.

    Raises FedshiftError where they are absent, or were written by an incompatible version.
    """
    experiment, path = load(workspace, name), workspace.metrics(name)
    if not is_there(workspace, name):
        what, cure = "is not there: the runs have not been collected", f"Run `fedshift collect {name}` first."
        raise FedshiftError(path, what, cure)
    if missing := lacking(workspace, name):
        what = f"was collected by other code: it has no column '{missing[0]}'"
        raise FedshiftError(beside(path, "runs"), what, f"Run `fedshift collect {name}` again.")
    runs = pd.DataFrame(read_parquet(beside(path, "runs")).to_pandas())
    keys = list(runs.columns[: list(runs.columns).index("digest")])
    return Collected(experiment, protocol(workspace, experiment.protocol), path, keys, runs)


def is_there(workspace: Workspace, name: str) -> bool:
    path = workspace.metrics(name)
    return all(file.exists() for file in (path, beside(path, "statistics"), beside(path, "runs")))


def lacking(workspace: Workspace, name: str) -> list[str]:
    """The columns of runs that are missing because other code collected the experiment."""
    present = pq.read_schema(beside(workspace.metrics(name), "runs")).names
    return [column for column in RUNS.names if column not in present]


def beside(path: Path, kind: str) -> Path:
    """The file `<experiment>.<kind>.parquet` next to the records."""
    return path.with_suffix(f".{kind}.parquet")


def diagnostics(workspace: Workspace, name: str, *names: str) -> pd.DataFrame:
    """One row for each number that the runs of experiment `name` recorded.

    The columns are the experiment's keys, round, client (-1: of no client), name, index and value. `index` is
    a number's position in its tensor, without a first axis of clients (DiagnosticsTable.add). There are no
    rows for runs that are not finished, that were pulled, or whose method records nothing.

    `names`: only these diagnostics.

    Raises FedshiftError for an experiment that was not collected.
    """
    collected = read(workspace, name)
    runs = collected.runs[(collected.runs["state"] == "finished") & collected.runs["adaptation"].isna()]
    filters = [("name", "in", names)] if names else None
    files = [workspace.run_at(run).diagnostics for run in runs["run"]]
    nothing = DIAGNOSTICS.empty_table()
    tables = [
        read_parquet(file, schema=DIAGNOSTICS, filters=filters) if file.is_file() else nothing
        for file in files
    ]
    keys = runs[collected.keys].iloc[np.repeat(range(len(tables)), [*map(len, tables)])]
    rows = pa.concat_tables([nothing, *tables]).to_pandas()
    return pd.concat([keys.reset_index(drop=True), rows], axis=1)


def timed_records(run: RunDirectory, columns: list[str] | None = None) -> pa.Table:
    """The records of a finished run, with the costs of each round and the times.

    Without a file of timings, `time` is when the file of records was written.
    """
    records = read_parquet(run.metrics)
    if records["time"].null_count:  # else of an earlier version: they are in one file
        rounds = read_parquet(run.timings) if run.timings.is_file() else SCHEMA.empty_table()
        records = timed(records, rounds, run.metrics.stat().st_mtime)
    return records.select(columns or records.column_names)


def not_finite(path: Path, keys: list[str]) -> list[tuple[dict[str, Any], int]]:
    """The runs with a recorded value that is not finite, by their `keys`, each with the first such round.

    Reads the files that `write` wrote.
    """
    value = pc.field("value")
    table = read_parquet(path, [*keys, "round"], filters=~pc.is_finite(value) | value.is_null())
    first = table.to_pandas().groupby(keys, sort=False, dropna=False)["round"].min().reset_index()
    return [(row, row.pop("round")) for row in first.to_dict("records")]


def by_run(path: Path) -> Iterator[tuple[str, pa.Table]]:
    """Read a file that `write` wrote, run by run: the run id and the run's rows.

    A run that two rows of an experiment share comes twice.
    """
    names = pq.read_schema(path).names
    keys = names[: names.index("round")]
    for starts, table in whole_runs(path, keys, names):
        for start, end in itertools.pairwise([*starts, len(table)]):
            yield table["digest"][start].as_py(), table.slice(start, end - start).drop_columns(keys)


def whole_runs(
    path: Path, keys: list[str], columns: Sequence[str]
) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
    """Read `columns` (which include `keys`) of a file that `write` wrote, some whole runs at a time.

    Yields where each run begins, and the rows. Memory does not grow with the number of runs.
    """
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=columns).select(columns).combine_chunks()
            changes = np.arange(len(table)) == 0  # rows whose keys are not those of the row above
            for column in table.select(keys).columns:
                codes = pc.fill_null(column.combine_chunks().dictionary_encode().indices, -1).to_numpy()
                changes[1:] |= codes[1:] != codes[:-1]
            yield np.flatnonzero(changes), table
