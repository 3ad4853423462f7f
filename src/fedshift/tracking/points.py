"""Points: the values of a run's records that MLflow gets, one for each metric and round
(docs/share-results.md).

Names have one slash, `<metric>/<where>`: MLflow lists metrics and charts in alphabetical order, so accuracy
(`acc/..`) comes first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fedshift.analysis.quantities import SET, by_round
from fedshift.federation.records import own_split

COLUMNS = [*SET, "metric", "value", "time"]
SHORT = {"accuracy": "acc", "bytes_up": "bytes", "bytes_down": "bytes"}


class Point(NamedTuple):
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
    """Points of records of whole rounds.

    - accuracy and loss as tables aggregate them
    - `metrics`, computed from the statistics of these rounds
    - sums of costs
    - means of other records

    The same rounds give the same points.

    partition: as in the run's resolved specification
    """
    series: dict[str, pd.Series[float]] = {}
    for metric in ("accuracy", "loss", *metrics):
        for where, values in by_round(records, partition, metric, statistics).items():
            series[f"{SHORT.get(metric, metric)}/{where}"] = values.dropna()
    frame = records.select(COLUMNS).to_pandas()
    others = frame[frame["stage"].isin(["cost", "machine", "diagnostic", "train"])]
    for (stage, metric), values in others.groupby(["stage", others["metric"].replace(SHORT)]):
        of_rounds = values.groupby("round")["value"]
        name = f"{metric}/train" if stage == "train" else f"{stage}/{metric}"
        series[name] = of_rounds.sum() if stage == "cost" else of_rounds.mean()
    times = (1000 * frame.groupby("round")["time"].max()).round().astype(int).to_dict()
    return [
        Point(name, finished, value, times[finished])
        for name, values in series.items()
        for finished, value in zip(values.index.tolist(), values.tolist(), strict=True)
        if finished in times
    ]


def final_points(summary: dict[str, Any], records: pa.Table) -> list[Point]:
    """Accuracies after the last round (`acc_final/..`) and after the best round on validation
    (`acc_best/..`), and costs.

    The former are also given by the domain of the clients. All are at step 0: MLflow plots a metric with that
    step alone as a bar, one with another step as a single dot.
    """
    costs, partition = summary["costs"], summary["spec"]["partition"]
    values = {
        "cost/total_bytes": costs.get("bytes_up", 0) + costs.get("bytes_down", 0),
        "cost/total_seconds": costs.get("seconds"),
    }
    accuracy = by_round(records, partition)[["id", "ood"]]
    last = accuracy.index.max()
    for place, finished in (("acc_final", last), ("acc_best", summary["best_round"].get("first"))):
        if finished is not None:
            values |= accuracy.loc[finished].dropna().add_prefix(f"{place}/").to_dict()
    of_domain: dict[str, list[int]] = defaultdict(list)
    for client in summary["clients"]:
        if len(client["domains"]) == 1:
            of_domain[client["domains"][0]].append(client["client"])
    if len(of_domain) > 1:
        split = own_split(partition, sum(client["test"] for client in summary["clients"]))
        own = records.filter(pc.equal(records["split"], split))
        for domain, clients in of_domain.items():
            theirs = own.filter(pc.is_in(own["client"], pa.array(clients, own["client"].type)))
            if last in (found := by_round(theirs, partition)["id"].dropna()):
                values[f"acc_final/id.{plain(domain)}"] = found[last]
    end = round(1000 * pc.max(records["time"]).as_py())
    return [Point(name, 0, float(value), end) for name, value in values.items() if value is not None]


def plain(name: str) -> str:
    """`name` without the characters that MLflow does not accept in metrics or tags."""
    return re.sub(r"[^\w.\- ]", "_", name)
