"""The metrics of a run: rows in memory, immutable Parquet segments on disk."""

from __future__ import annotations

import io
import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    [
        ("round", pa.int32()), ("stage", pa.string()), ("model", pa.string()), ("row", pa.int16()), ("client", pa.int16()),
        ("split", pa.string()), ("metric", pa.string()), ("value", pa.float64()), ("n", pa.int64()), ("time", pa.float64()),
    ]
)  # fmt: skip
MEASURED = ("machine",)


class Records:
    """Rows since the last segment. Stages in MEASURED, and `time`, depend on the machine; all else must be reproducible."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(
        self,
        finished: int,
        stage: str,
        model: str,
        client: int,
        split: str,
        values: dict[str, float],
        *,
        row: int = 0,
        n: int = 0,
    ) -> None:
        """Record metrics after `finished` rounds (0: untrained)."""
        place = {
            "round": finished,
            "stage": stage,
            "model": model,
            "row": row,
            "client": client,
            "split": split,
        }
        now = time.time()
        self.rows.extend(
            {**place, "metric": metric, "value": float(value), "n": n, "time": now}
            for metric, value in values.items()
        )

    def pack(self) -> bytes:
        """The rows as one Parquet file; the same rows give the same bytes."""
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(self.rows, SCHEMA), sink, compression="zstd")
        return sink.getvalue()

    def unpack(self, data: bytes) -> None:
        """Take back rows that `pack` gave."""
        self.rows = pq.read_table(io.BytesIO(data)).to_pylist()
