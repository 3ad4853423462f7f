"""Records and statistics of many runs in one Parquet file each: every run's rows, one run after the other,
with its keys in front.
"""

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedshift.archive.file import finished
from fedshift.common.errors import FedshiftError
from fedshift.common.files import atomic_path
from fedshift.common.parquet import read_parquet
from fedshift.common.processes import usable_cores
from fedshift.federation.records import SCHEMA, STATISTICS, timed
from fedshift.storage.rundir import RunDirectory, Summary

ROWS_A_GROUP = 1 << 16
READERS = 4  # threads at most; ahead of the writer they read twice as many runs
Source = Callable[[], pa.Table]


def of_run(run: RunDirectory) -> pa.Table:
    """The records that a finished run left."""
    with _damage_named(run.metrics):
        return read_parquet(run.metrics).select(SCHEMA.names).cast(SCHEMA)


def timed_records(run: RunDirectory, columns: list[str] | None = None) -> pa.Table:
    """The records that a finished run left, with what each round took, and times: of a run of which these
    are not here, that of its file.
    """
    records = read_parquet(run.metrics)
    if records["time"].null_count:  # else of an earlier version: they are in one file
        rounds = read_parquet(run.timings) if run.timings.is_file() else SCHEMA.empty_table()
        records = timed(records, rounds, run.metrics.stat().st_mtime)
    return records.select(columns or records.column_names)


def statistics_of_run(run: RunDirectory) -> pa.Table:
    """The statistics that a finished run left: none where it was trained before there were any."""
    if not run.statistics.is_file():
        return STATISTICS.empty_table()
    with _damage_named(run.statistics):
        table = read_parquet(run.statistics)
    if table.column_names != STATISTICS.names:  # of an earlier version: what it has not is null
        return read_parquet(run.statistics, schema=STATISTICS)
    return table.cast(STATISTICS)


def ended(run: RunDirectory, summary: Summary) -> float:
    """When a finished run was (`archive.file.finished`)."""
    with _damage_named(run.metrics):
        return finished(summary, run.metrics)


@contextlib.contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """In the block, which reads the file at `path`, damage is told with what to do."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        cure = f"Remove {path.parent} and start Snakemake again: the run is trained again."
        raise FedshiftError(path, f"is not whole: {error}", cure) from None


def write(
    path: Path, schema: pa.Schema, runs: pa.Table, sources: Iterable[Source], metadata: dict[str, str]
) -> None:
    """Write rows of `schema` of all runs, each behind its run's row of `runs` (one row and one source a
    run).
    """
    whole = pa.schema([*runs.schema, *schema], metadata)
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, whole, compression="zstd") as writer:
        waiting: list[pa.Table] = []
        owners: list[int] = []  # of the rows of `waiting`
        for place, table in enumerate(_ahead(sources)):
            waiting.append(table)
            owners += [place] * len(table)
            if len(owners) >= ROWS_A_GROUP or place == len(runs) - 1:
                beside = runs.take(pa.array(owners, pa.int64()))
                columns = [*beside.columns, *pa.concat_tables(waiting).columns]
                writer.write_table(pa.table(columns, schema=whole).combine_chunks())
                waiting.clear()
                owners.clear()


def _ahead(sources: Iterable[Source]) -> Iterator[pa.Table]:
    """What sources give, in their order; threads read a few of them ahead."""
    readers = min(READERS, usable_cores())
    waiting: deque[Future[pa.Table]] = deque()
    with ThreadPoolExecutor(readers) as pool:
        for source in sources:
            waiting.append(pool.submit(source))
            if len(waiting) > 2 * readers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def not_finite(path: Path, keys: list[str]) -> list[tuple[dict[str, Any], int]]:
    """The runs with a recorded value that is not a finite number, by their `keys`, each with the first such
    round. Reads what `write` wrote.
    """
    parts = []
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=[*keys, "round", "value"]):
            parts.append(
                batch.filter(pc.invert(pc.fill_null(pc.is_finite(batch["value"]), False))).to_pandas()
            )
    first = pd.concat(parts).groupby(keys, sort=False, dropna=False)["round"].min().reset_index()
    return [(row, row.pop("round")) for row in first.to_dict("records")]


def by_run(path: Path) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    """What `write` wrote, run by run: the keys of a run and its rows. A run that two rows of an experiment
    share comes twice.
    """
    names = pq.read_schema(path).names
    keys = names[: names.index("round")]
    for starts, table in whole_runs(path, keys, names):
        for start, end in itertools.pairwise([*starts, len(table)]):
            owner = table.slice(start, 1).select(keys).to_pylist()[0]
            yield owner, table.slice(start, end - start).drop_columns(keys)


def whole_runs(
    path: Path, keys: list[str], columns: Sequence[str], rows: int = ROWS_A_GROUP
) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
    """`columns` (`keys` among them) of what `write` wrote, some runs at a time, at most `rows` rows or one
    run: where each run begins, and the rows. Memory does not grow with the number of runs.
    """
    with pq.ParquetFile(path) as file:
        rest = file.schema_arrow.empty_table().select(columns)
        for group in range(file.num_row_groups):
            read = file.read_row_group(group, columns=columns).select(columns)
            table = pa.concat_tables([rest, read]).combine_chunks()
            changes = np.arange(len(table)) == 0  # rows whose keys are not those of the row above
            for column in table.select(keys).columns:
                codes = pc.fill_null(column.combine_chunks().dictionary_encode().indices, -1).to_numpy()
                changes[1:] |= codes[1:] != codes[:-1]
            starts, last = np.flatnonzero(changes), group == file.num_row_groups - 1
            end = len(table) if last else int(starts[-1])  # the last run may go on in the next group
            cuts = starts[np.searchsorted(starts, range(rows, end, rows), side="right") - 1]
            for first, after in itertools.pairwise(np.unique([0, *cuts, end]).tolist()):
                within = starts[(starts >= first) & (starts < after)]
                yield within - first, table.slice(first, after - first)
            rest = table.slice(end)
