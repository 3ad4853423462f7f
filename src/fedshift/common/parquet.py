"""Parquet files; a table is identified by its columns and attributes (`attrs`), not by the file's bytes."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fedshift.common.errors import Damaged, FedshiftError
from fedshift.common.files import atomic_path, canonical_json

KEY = b"fedshift"


def read_parquet(source: Path | bytes, columns: list[str] | None = None, **options: Any) -> pa.Table:
    """The table of a Parquet file, or of the bytes of one.

    One thread reads. With several, a process that ends soon after may abort with status 134, its work done
    (apache/arrow issue 34314).

    `options`: `filters` and `schema` of `pyarrow.parquet.read_table`, which searches for a data set of many
        files. Without options that is avoided, and a small file takes a third of the time.
    """
    file = pa.BufferReader(source) if isinstance(source, bytes) else source
    if not options:
        with pq.ParquetFile(file) as opened:
            return opened.read(columns=columns, use_threads=False)
    return pq.read_table(file, columns=columns, use_threads=False, **options)  # noqa: TID251


def columns_hash(frame: pd.DataFrame) -> str:
    """SHA-256 over the name and values of every column, and over the table's attributes, if any.

    Integers are hashed as little-endian int64, so that the hash does not depend on the Parquet version or on
    a column's width.
    """
    total = hashlib.sha256()
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_integer_dtype(column.dtype):
            values = column.to_numpy().astype(np.dtype("<i8")).tobytes()
        else:
            values = "\0".join(column).encode()
        total.update(f"{name}:{len(values)}:".encode() + values)
    if frame.attrs:
        total.update(canonical_json(frame.attrs).encode())
    return total.hexdigest()


def write_columns(path: Path, frame: pd.DataFrame, facts: dict[str, Any]) -> str:
    """Write a Parquet file atomically, with its attributes, `facts` and the hash; return the hash."""
    digest = columns_hash(frame)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    metadata = {**(table.schema.metadata or {}), KEY: canonical_json({**facts, "hash": digest}).encode()}
    with atomic_path(path) as temporary:
        pq.write_table(table.replace_schema_metadata(metadata), temporary)
    return digest


def read_columns(path: Path, cure: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table and its facts (with `hash`).

    Raises FedshiftError with `cure` if the file is absent, and Damaged if it does not match its hash.
    """
    if not path.is_file():
        raise FedshiftError(path, "no such file", cure)
    try:
        table = read_parquet(path)
        facts = json.loads((table.schema.metadata or {})[KEY])
        frame = table.to_pandas()
        sound = columns_hash(frame) == facts["hash"]
    except (OSError, pa.ArrowException, KeyError, ValueError):
        sound = False
    if not sound:
        raise Damaged(path, "is damaged: its columns do not match their hash", f"Delete it. {cure}")
    return frame, facts
