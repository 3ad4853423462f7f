"""Measurements of a run in three tables: rows in memory, immutable Parquet segments on disk.

- Records: one value a row (accuracies and losses, costs, clients' scalars)
- Statistics: one evaluated set a row, from which metrics are computed
- Diagnostics: one number a row of the tensors that a method records
"""

from __future__ import annotations

import io
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

BINS = 20  # of equal width on [0, 1]; a confidence on a bound belongs to the bin above it
TYPES = {
    "n": pa.int32(), "correct": pa.int32(), "loss": pa.float16(),
    "wrong": pa.int32(), "right": pa.int32(), "confidence": pa.float32(),
}  # fmt: skip

KEYS = {
    "round": pa.int32(), "stage": pa.string(), "model": pa.string(), "member": pa.int16(),
    "client": pa.int16(), "split": pa.string(),
}  # fmt: skip
SCHEMA = pa.schema(
    {**KEYS, "metric": pa.string(), "value": pa.float64(), "n": pa.int64(), "time": pa.float64()}
)
STATISTICS = pa.schema({**KEYS, **{name: pa.list_(kind) for name, kind in TYPES.items()}})
DIAGNOSTICS = pa.schema({
    "round": pa.int32(), "client": pa.int16(), "name": pa.string(), "index": pa.int32(),
    "value": pa.float32(),
})  # fmt: skip
MEASURED = ("machine",)


def reproducible(records: pa.Table) -> pa.Table:
    """Records without those of MEASURED and without times; equal for equal runs on one class of machine."""
    rows = records.filter(pc.invert(pc.is_in(records["stage"], pa.array(MEASURED))))
    times = pa.nulls(len(rows), pa.float64())
    return rows.set_column(rows.schema.get_field_index("time"), SCHEMA.field("time"), times)


def timings(records: pa.Table) -> pa.Table:
    """Records of MEASURED: the duration of each round on its machine, and when it ended."""
    return records.filter(pc.is_in(records["stage"], pa.array(MEASURED)))


def timed(records: pa.Table, timings: pa.Table, otherwise: float) -> pa.Table:
    """Join the two parts that `reproducible` and `timings` split.

    Each row has the time (s since 1970) at which its round ended, or `otherwise`.
    """
    ended = dict(zip(timings["round"].to_pylist(), timings["time"].to_pylist(), strict=True))
    first = min(ended.values(), default=otherwise)
    known = {0: first, **ended}
    times = pa.array([known.get(number, otherwise) for number in records["round"].to_pylist()], pa.float64())
    whole = records.set_column(records.schema.get_field_index("time"), SCHEMA.field("time"), times)
    return pa.concat_tables([whole, timings.select(whole.column_names)])


class Table:
    """Rows since the last segment."""

    schema: ClassVar[pa.Schema]

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows, self.schema)

    def pack(self) -> bytes:
        """The rows as one Parquet file; the same rows give the same bytes."""
        sink = io.BytesIO()
        pq.write_table(self.table(), sink, compression="zstd")
        return sink.getvalue()


class Records(Table):
    """Table of single values, reproducible except for `time` and the stages in MEASURED."""

    schema = SCHEMA

    def add(
        self, finished: int, stage: str, model: str, client: int, split: str, values: dict[str, float],
        *, member: int = 0, n: int = 0,
    ) -> None:  # fmt: skip
        """Record metrics after `finished` rounds (0: untrained); member: which of a method's models."""
        place = dict(zip(KEYS, (finished, stage, model, member, client, split), strict=True))
        told = {"n": n, "time": time.time()}
        for metric, value in values.items():
            self.rows.append({**place, "metric": metric, "value": float(value), **told})


class StatisticsTable(Table):
    """Statistics of evaluated sets, reproducible to the last bit."""

    schema = STATISTICS

    def add(
        self, finished: int, stage: str, model: str, client: int, split: str, values: Statistics,
        *, member: int = 0,
    ) -> None:  # fmt: skip
        """Record the statistics of one model on one set after `finished` rounds (0: untrained)."""
        row = dict(zip(KEYS, (finished, stage, model, member, client, split), strict=True))
        with np.errstate(over="ignore"):  # a loss that diverged is infinite in half precision
            for name, kind in TYPES.items():
                row[name] = getattr(values, name).astype(kind.to_pandas_dtype())
        self.rows.append(row)


class DiagnosticsTable(Table):
    """Table of tensors that methods record, reproducible to the last bit, of a run with `clients` clients."""

    schema = DIAGNOSTICS

    def __init__(self, clients: int) -> None:
        super().__init__()
        self._clients = clients

    def add(
        self, finished: int, name: str, axes: Sequence[int | str], clients: Sequence[int],
        values: NDArray[Any],
    ) -> None:  # fmt: skip
        """Record a tensor after `finished` rounds: values [axes], where each axis "K" counts these `clients`.

        A first axis "K" or "N" (all clients) becomes the column `client`, which otherwise is -1. `index` is
        the place among the other axes, flattened as if every "K" had all clients. A place therefore has the
        same meaning whichever clients take part.
        """
        sized = list(zip(axes, values.shape, strict=True))
        shape = [self._clients if axis == "K" else n for axis, n in sized]
        places = [np.asarray(clients, int) if axis == "K" else np.arange(n) for axis, n in sized]
        owners = np.array([-1])
        if axes and axes[0] in ("K", "N"):
            owners, *places = places
            shape = shape[1:]
        index = np.ravel_multi_index(np.ix_(*places), shape).ravel() if shape else np.zeros(1, int)
        columns = {
            "round": np.full(values.size, finished),
            "client": owners.repeat(len(index)),
            "name": np.full(values.size, name),
            "index": np.tile(index, len(owners)),
            "value": values.ravel(),
        }
        self.rows.append(pa.table(columns).cast(self.schema, safe=False))

    def table(self) -> pa.Table:
        return pa.concat_tables([self.schema.empty_table(), *self.rows]).combine_chunks()


Tested = tuple[str, str]  # (model, stage), as records name them
LOCAL: Tested = ("personal", "post_train")  # each client's own model, right after its local training
PERSONALISED: Tested = ("personal", "post_agg")  # what the server, after aggregation, has for each client
GLOBAL: Tested = ("global", "post_agg")  # the aggregated model, one for all
ADAPTED = "adapted"  # stage of a model that an evaluation has adapted to the held-out images


def reported(tested: Collection[Tested]) -> Tested:
    """The model that selection, tables and MLflow use.

    It is the first of LOCAL, PERSONALISED and GLOBAL that was tested on clients, else GLOBAL. FLGo's logger,
    the source of FDSE's numbers, does the same.
    """
    return next((choice for choice in (LOCAL, PERSONALISED) if choice in tested), GLOBAL)


def own_split(partition: Mapping[str, Any], test: int) -> str:
    """The split of the clients' images that `id` is measured on: "test", or "val" if the partition has no
    test part.

    With a declared test part, a client without a test image has no value.

    test: number of test images of all clients, which identifies official lists without a test part
    """
    declared = bool(test) if partition["split"] == "official" else partition["fractions"][2] > 0
    return "test" if declared else "val"


@dataclass(frozen=True)
class Statistics:
    """Statistics of a set of samples, or of several: `...` is empty, or an axis of sets."""

    n: NDArray[Any]
    """[..., C] Samples by class."""
    correct: NDArray[Any]
    """[..., C] Samples by class whose label has the highest logit."""
    loss: NDArray[Any]
    """[..., C] Mean cross entropy by class (nats), 0 for a class without samples; to three digits."""
    wrong: NDArray[Any]
    """[..., BINS] Misclassified samples by confidence, the highest probability of the softmax."""
    right: NDArray[Any]
    """[..., BINS] Correctly classified samples by confidence."""
    confidence: NDArray[Any]
    """[..., BINS] Sum of the confidences of the samples in a bin."""
