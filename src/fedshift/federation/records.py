"""What a run records, in two tables: rows in memory, immutable Parquet segments on disk.

Records: one value a row - accuracies and losses, costs, diagnostics. Statistics: one evaluated set a row,
    from which metrics are computed.
"""

from __future__ import annotations

import io
import time
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from fedshift.federation.statistics import TYPES, Statistics

KEYS = {
    "round": pa.int32(),
    "stage": pa.string(),
    "model": pa.string(),
    "member": pa.int16(),
    "client": pa.int16(),
    "split": pa.string(),
}
SCHEMA = pa.schema(
    {**KEYS, "metric": pa.string(), "value": pa.float64(), "n": pa.int64(), "time": pa.float64()}
)
STATISTICS = pa.schema({**KEYS, **{name: pa.list_(kind) for name, kind in TYPES.items()}})
MEASURED = ("machine",)


class Table:
    """Rows since the last segment."""

    schema: ClassVar[pa.Schema]

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def pack(self) -> bytes:
        """The rows as one Parquet file; the same rows give the same bytes."""
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(self.rows, self.schema), sink, compression="zstd")
        return sink.getvalue()

    def unpack(self, data: bytes) -> None:
        """Take back rows that `pack` gave."""
        self.rows = pq.read_table(io.BytesIO(data)).to_pylist()


class Records(Table):
    """Single values. Stages in MEASURED, and `time`, depend on the machine; all else must be reproducible."""

    schema = SCHEMA

    def add(
        self,
        finished: int,
        stage: str,
        model: str,
        client: int,
        split: str,
        values: dict[str, float],
        *,
        member: int = 0,
        n: int = 0,
    ) -> None:
        """Record metrics after `finished` rounds (0: untrained); member: which of a method's models for an
        unseen domain.
        """
        place = dict(zip(KEYS, (finished, stage, model, member, client, split), strict=True))
        now = time.time()
        self.rows.extend(
            {**place, "metric": metric, "value": float(value), "n": n, "time": now}
            for metric, value in values.items()
        )


class StatisticsTable(Table):
    """Statistics of evaluated sets, reproducible to the last bit."""

    schema = STATISTICS

    def add(
        self,
        finished: int,
        stage: str,
        model: str,
        client: int,
        split: str,
        values: Statistics,
        *,
        member: int = 0,
    ) -> None:
        """Record the statistics of one model on one set after `finished` rounds (0: untrained)."""
        place = dict(zip(KEYS, (finished, stage, model, member, client, split), strict=True))
        self.rows.append({**place, **values.columns()})
