"""Points: what MLflow gets of a run's records, one value for each metric and round, by names with one slash
(docs/tracking.md).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fedshift.analysis.metrics.base import computed
from fedshift.common.registry import get
from fedshift.federation.reported import Tested, reported

PLACE = ["round", "stage", "model", "client", "split"]
COLUMNS = [*PLACE, "metric", "value", "time"]
SHORT = {"accuracy": "acc"}
ON_CLIENTS = ("val", "test")


@dataclass(frozen=True)
class Point:
    """One value of one metric after `round` rounds; `time` in milliseconds, as recorded."""

    name: str
    round: int
    value: float
    time: int


def points(
    records: pa.Table, statistics: pa.Table | None = None, metrics: Collection[str] = ()
) -> list[Point]:
    """What is shown of records of whole rounds: means over clients of accuracy and loss, sums of costs; names
    as in docs/tracking.md. And of `metrics`, which are computed from the statistics of these rounds.

    A function of the records and statistics alone, to the last bit: the same rounds give the same points.
    """
    rows = records.select(COLUMNS).to_pylist()
    if statistics is not None and len(statistics):
        rows += _computed(rows, statistics, metrics)
    looked_at = reported({(row["model"], row["stage"]) for row in rows if row["split"] in ON_CLIENTS})
    with_test = any(row["split"] == "test" for row in rows)
    groups: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if name := _name(row, looked_at, with_test):
            groups[name, row["round"]].append(row)
    return [_point(name, finished, group) for (name, finished), group in groups.items()]


def _computed(
    rows: list[dict[str, Any]], statistics: pa.Table, metrics: Collection[str]
) -> Iterator[dict[str, Any]]:
    """Rows of `metrics` beside those of accuracy, with their time."""
    times = {tuple(row[key] for key in PLACE): row["time"] for row in rows if row["metric"] == "accuracy"}
    places = statistics.select(PLACE).to_pylist()
    for name in metrics:
        values = computed(get("metrics", name), statistics).tolist()
        for place, value in zip(places, values, strict=True):
            if (key := tuple(place.values())) in times and not math.isnan(value):
                yield {**place, "metric": name, "value": value, "time": times[key]}


def _name(row: dict[str, Any], looked_at: Tested, with_test: bool) -> str:
    """MLflow's name of a record; empty where the record is not shown."""
    metric = SHORT.get(row["metric"], row["metric"])
    if row["stage"] == "cost":
        return "cost/bytes" if metric.startswith("bytes_") else f"cost/{metric}"
    if row["stage"] in ("train", "machine", "diagnostic"):
        return f"{row['stage']}/{metric}"
    if row["split"] == "target":
        return f"ood/{metric}" if row["client"] == -1 else f"held_out/{metric}"
    if (row["model"], row["stage"]) != looked_at:
        return ""
    return {"test": f"id/{metric}", "val": f"val/{metric}" if with_test else f"id/{metric}"}.get(
        row["split"], ""
    )


def _point(name: str, finished: int, group: list[dict[str, Any]]) -> Point:
    total = math.fsum(row["value"] for row in group)
    value = total if name.startswith("cost/") else total / len(group)
    return Point(name, finished, value, round(1000 * max(row["time"] for row in group)))


def final_points(summary: dict[str, Any], records: pa.Table) -> list[Point]:
    """Accuracies after the last round and, as `final/best_..`, after the round that was best on validation;
    and what the run cost.

    All are at step 0: of a metric with that step alone MLflow draws a bar, of one with another step a single
    dot.
    """
    end = round(1000 * pc.max(records["time"]).as_py())
    costs = summary["costs"]
    values = {
        "final/bytes": costs.get("bytes_up", 0) + costs.get("bytes_down", 0),
        "final/seconds": costs.get("seconds"),
    }
    rounds = {"final/": pc.max(records["round"]).as_py(), "final/best_": summary["best_round"].get("first")}
    for label, finished in rounds.items():
        if finished is not None:
            at_end = points(records.filter(pc.equal(records["round"], finished)))
            values |= {
                label + point.name.replace("/", "_"): point.value
                for point in at_end
                if point.name in ("id/acc", "ood/acc")
            }
    return [Point(name, 0, float(value), end) for name, value in values.items() if value is not None]
