"""Records of many runs in one Parquet file: read run by run, written in row groups of RUNS_A_GROUP finished runs.

A row group holds the records of consecutive runs, one after the other, so that a run's records are found again by group, first
row and number of rows. The same runs give the same bytes, whether their records come from run directories or from an older file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from fedshift.errors import FedshiftError
from fedshift.files import atomic_path
from fedshift.rundir import RunDirectory

RUNS_A_GROUP = 64
RECORDS = pa.schema(
    {
        "round": pa.int32(), "stage": pa.string(), "model": pa.string(), "row": pa.int16(), "client": pa.int16(),
        "split": pa.string(), "metric": pa.string(), "value": pa.float64(), "n": pa.int64(), "time": pa.float64(),
    }
)  # fmt: skip


class Place(NamedTuple):
    """Where a run's records lie in the file: row group, first row in it, number of rows."""

    group: int
    start: int
    length: int


def of_run(run: RunDirectory) -> pa.Table:
    """The records that a finished run left."""
    with pq.ParquetFile(run.metrics) as file:
        return file.read(columns=RECORDS.names).select(RECORDS.names).cast(RECORDS)


class Written:
    """A file that `write` made. Runs are read fastest in the order in which they lie there."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, pq.ParquetFile(path)
        self._group = functools.lru_cache(2)(self.file.read_row_group)

    def records(self, place: Place, name: str) -> pa.Table:
        """The records of the run `<digest>-<code>`. Raises FedshiftError where another run's lie there."""
        part = self._group(place.group).slice(place.start, place.length)
        found = {f"{part['digest'][row]}-{part['code'][row]}" for row in (0, -1)} if len(part) else {name}
        if len(part) != place.length or found != {name}:
            cure = "Delete both and run `fedshift collect` again."
            raise FedshiftError(self.path, "does not fit the .runs.parquet beside it", cure)
        return part.select(RECORDS.names)


def write(
    path: Path, runs: pa.Table, sources: Sequence[Callable[[], pa.Table]], metadata: dict[str, str]
) -> list[Place]:
    """Write all records, each with its run's row of `runs` in front (one row and one source a run); return where they lie."""
    schema = pa.schema([*runs.schema, *RECORDS], metadata)
    places: list[Place] = []
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        for group, first in enumerate(range(0, len(sources), RUNS_A_GROUP)):
            tables = [read() for read in sources[first : first + RUNS_A_GROUP]]
            places += _places(group, map(len, tables))
            owners = [first + k for k, table in enumerate(tables) for _ in range(len(table))]
            records, beside = pa.concat_tables(tables), runs.take(pa.array(owners, pa.int64()))
            whole = pa.table([*beside.columns, *records.columns], schema=schema).combine_chunks()
            writer.write_table(whole, row_group_size=max(1, len(whole)))
    return places


def _places(group: int, lengths: Iterable[int]) -> Iterable[Place]:
    start = 0
    for length in lengths:
        yield Place(group, start, length)
        start += length
