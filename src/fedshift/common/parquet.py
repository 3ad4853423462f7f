"""Parquet files, read so that a process may end right after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def read_parquet(source: Path | bytes, columns: list[str] | None = None, **options: Any) -> pa.Table:
    """The table of a Parquet file, or of the bytes of one.

    options: `filters` and `schema`, as `pyarrow.parquet.read_table` has them; it looks for a data set of many
    files, so that without options a small file takes a third of the time. One thread reads: with several,
    a process that ends soon after may abort with status 134, its work done (apache/arrow issue 34314).
    """
    file = pa.BufferReader(source) if isinstance(source, bytes) else source
    if not options:
        with pq.ParquetFile(file) as opened:
            return opened.read(columns=columns, use_threads=False)
    return pq.read_table(file, columns=columns, use_threads=False, **options)  # noqa: TID251
