"""Records and statistics of many runs in one Parquet file each: every run's rows, one run after the other,
with its keys in front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fedshift.federation.records import SCHEMA, STATISTICS
from fedshift.files import atomic_path
from fedshift.rundir import RunDirectory

ROWS_A_GROUP = 1 << 16
FORMER = {"row": "member"}  # column of files that were written before it was renamed -> its name
Source = Callable[[], pa.Table]


def of_run(run: RunDirectory) -> pa.Table:
    """The records that a finished run left."""
    table = pq.read_table(run.metrics)
    names = [FORMER.get(name, name) for name in table.column_names]
    return table.rename_columns(names).select(SCHEMA.names).cast(SCHEMA)


def statistics_of_run(run: RunDirectory) -> pa.Table:
    """The statistics that a finished run left: none where it was trained before there were any."""
    recorded = run.statistics.is_file()
    return pq.read_table(run.statistics, schema=STATISTICS) if recorded else STATISTICS.empty_table()


def write(
    path: Path, schema: pa.Schema, runs: pa.Table, sources: Iterable[Source], metadata: dict[str, str]
) -> None:
    """Write rows of `schema` of all runs, each behind its run's row of `runs` (one row and one source a
    run).
    """
    whole = pa.schema([*runs.schema, *schema], metadata)
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, whole, compression="zstd") as writer:
        waiting: list[pa.Table] = []
        for place, source in enumerate(sources):
            table = source()
            beside = runs.take(pa.array([place] * len(table), pa.int64()))
            waiting.append(pa.table([*beside.columns, *table.columns], schema=whole))
            if sum(map(len, waiting)) >= ROWS_A_GROUP:
                writer.write_table(pa.concat_tables(waiting).combine_chunks())
                waiting.clear()
        if waiting:
            writer.write_table(pa.concat_tables(waiting).combine_chunks())


def by_run(path: Path) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    """What `write` wrote, run by run: the keys of a run and its rows. A run that two rows of an experiment
    share comes twice.
    """
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        keys = names[: names.index("round")]
        last: dict[str, Any] = {}
        parts: list[pa.Table] = []
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            for owner, rows in _split(table, keys) if len(table) else ():
                if parts and owner != last:
                    yield last, pa.concat_tables(parts)
                    parts = []
                last, parts = owner, [*parts, rows.drop_columns(keys)]
        if parts:
            yield last, pa.concat_tables(parts)


def _split(table: pa.Table, keys: list[str]) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    """Runs of rows with equal keys, in order."""
    owners = pd.DataFrame(table.select(keys).to_pandas()).astype(object).fillna("")
    starts = [int(place) for place in (owners != owners.shift()).any(axis=1).to_numpy().nonzero()[0]]
    for start, end in zip(starts, [*starts[1:], len(table)], strict=True):
        yield table.slice(start, 1).select(keys).to_pylist()[0], table.slice(start, end - start)
