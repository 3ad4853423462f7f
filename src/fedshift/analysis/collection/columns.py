"""Columns: of the collected files, and of the frames that curves, tables and checks make of them."""

from __future__ import annotations

import pyarrow as pa

from fedshift.federation.records import DIAGNOSTICS, SCHEMA, STATISTICS

SIZES = ("train", "val", "test")  # of a client's splits
CLIENT = {"client": pa.int16(), "domains": pa.list_(pa.string()), **dict.fromkeys(SIZES, pa.int64())}
COSTS = {
    "bytes_up": pa.int64(),
    "bytes_down": pa.int64(),
    "state_dict_bytes": pa.int64(),
    "macs_per_image": pa.int64(),
    "seconds": pa.float64(),
    "peak_memory_mb": pa.float64(),
}
RUNS = pa.schema(
    {
        "digest": pa.string(),
        "code": pa.string(),
        "installed": pa.string(),
        "source": pa.string(),
        "run": pa.string(),
        "state": pa.string(),
        "failure": pa.string(),
        "spec": pa.string(),
        "adaptation": pa.string(),
        "evaluates": pa.string(),
        "stage": pa.string(),
        "bn": pa.string(),
        "precision": pa.string(),
        "hardware": pa.string(),
        "images": pa.string(),
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
# Joined to records and statistics (fedshift.analysis.quantities.values).
OWN_SPLIT = "own_split"
# Of curves (fedshift.analysis.quantities.select): accuracies by aggregation, and those that choose rounds.
ACCURACIES = ("id", "ood", "all", "avg")
CHOOSING = ("val", "held_out")
# Of tables (fedshift.analysis.tables): the rule and the table of a cell, its numbers, what is printed beside.
SELECT, TABLE = "select", "table"
NUMBERS = ("mean", "std", "seeds", "planned")
BESIDE = {
    "published": float,
    "published_std": float,
    "difference": float,
    "low": float,
    "high": float,
    "margin": float,
    "rule": str,
    "verdict": str,
    "uid": str,
    "orientation": float,
    "orientation_std": float,
    "differs": str,
    "remark": str,
    "spread": str,
    "fewer": str,
    "clients": str,
    "archived": int,
    "text": str,
    "published_text": str,
}
COLUMNS = frozenset(
    [
        "method",
        *RUNS.names,
        *SCHEMA.names,
        *STATISTICS.names,
        *DIAGNOSTICS.names,
        *SIZES,
        OWN_SPLIT,
        *ACCURACIES,
        *CHOOSING,
        SELECT,
        TABLE,
        *NUMBERS,
        *BESIDE,
    ]
)  # which no axis may be called
