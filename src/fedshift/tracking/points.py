"""Points: what MLflow gets of a run's records, one value for each metric and round (docs/tracking.md).

Names have one slash, `<metric>/<where>`: MLflow lists metrics and charts in alphabetical order, so accuracy
(`acc/..`) comes first.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fedshift.analysis.metrics.base import computed
from fedshift.common.registry import get
from fedshift.federation.records import Tested, own_split, reported

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
    records: pa.Table,
    statistics: pa.Table | None = None,
    metrics: Collection[str] = (),
    *,
    partition: Mapping[str, Any],
) -> list[Point]:
    """What is shown of records of whole rounds: means over clients of accuracy and loss, sums of costs; names
    as in docs/tracking.md. And of `metrics`, which are computed from the statistics of these rounds.

    partition: as in the run's resolved specification.

    A function of the records and statistics alone, to the last bit: the same rounds give the same points.
    """
    rows = records.select(COLUMNS).to_pylist()
    if statistics is not None and len(statistics):
        rows += _computed(rows, statistics, metrics)
    looked_at = reported({(row["model"], row["stage"]) for row in rows if row["split"] in ON_CLIENTS})
    own = own_split(partition, sum(row["split"] == "test" for row in rows))
    groups: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if name := _name(row, looked_at, own):
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


def _name(row: dict[str, Any], looked_at: Tested, own: str) -> str:
    """MLflow's name of a record; empty where the record is not shown."""
    metric, stage, split = SHORT.get(row["metric"], row["metric"]), row["stage"], row["split"]
    if stage == "cost":
        return "cost/bytes" if metric.startswith("bytes_") else f"cost/{metric}"
    if stage in ("machine", "diagnostic"):
        return f"{stage}/{metric}"
    if stage == "train":
        return f"{metric}/train"
    if split == "target":
        return f"{metric}/ood" if row["client"] == -1 else f"{metric}/held_out"
    if (row["model"], stage) != looked_at:
        return ""
    if split == own:
        return f"{metric}/id"
    return f"{metric}/val" if split == "val" else ""


def _point(name: str, finished: int, group: list[dict[str, Any]]) -> Point:
    total = math.fsum(row["value"] for row in group)
    value = total if name.startswith("cost/") else total / len(group)
    return Point(name, finished, value, round(1000 * max(row["time"] for row in group)))


def final_points(summary: dict[str, Any], records: pa.Table) -> list[Point]:
    """Accuracies after the last round (`acc_final/..`, also by the domain of the clients) and after the round
    that was best on validation (`acc_best/..`); and what the run cost.

    All are at step 0: of a metric with that step alone MLflow draws a bar, of one with another step a single
    dot.
    """
    end = round(1000 * pc.max(records["time"]).as_py())
    costs = summary["costs"]
    values = {
        "cost/total_bytes": costs.get("bytes_up", 0) + costs.get("bytes_down", 0),
        "cost/total_seconds": costs.get("seconds"),
    }
    last, partition = pc.max(records["round"]).as_py(), summary["spec"]["partition"]
    for place, finished in (("acc_final", last), ("acc_best", summary["best_round"].get("first"))):
        if finished is not None:
            accuracy = _accuracy(records, finished, partition)
            values |= {f"{place}/{where}": value for where, value in accuracy.items()}
    of_domain: dict[str, list[int]] = defaultdict(list)
    for client in summary["clients"]:
        if len(client["domains"]) == 1:
            of_domain[client["domains"][0]].append(client["client"])
    if len(of_domain) > 1:
        split = own_split(partition, sum(client["test"] for client in summary["clients"]))
        own = records.filter(pc.equal(records["split"], split))
        for domain, clients in of_domain.items():
            theirs = own.filter(pc.is_in(own["client"], pa.array(clients, own["client"].type)))
            if "id" in (found := _accuracy(theirs, last, partition)):
                values[f"acc_final/id.{plain(domain)}"] = found["id"]
    return [Point(name, 0, float(value), end) for name, value in values.items() if value is not None]


def _accuracy(records: pa.Table, finished: int, partition: Mapping[str, Any]) -> dict[str, float]:
    """`id` and `ood` after a round, as far as they are known."""
    at_end = points(records.filter(pc.equal(records["round"], finished)), partition=partition)
    return {point.name[4:]: point.value for point in at_end if point.name in ("acc/id", "acc/ood")}


def plain(name: str) -> str:
    """`name` without the characters that MLflow accepts in no metric or tag."""
    return re.sub(r"[^\w.\- ]", "_", name)
