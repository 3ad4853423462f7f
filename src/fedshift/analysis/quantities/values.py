"""Values: a metric on every evaluated set of an experiment's runs, read from records or computed from
statistics.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.collection.columns import OWN_SPLIT, REPORTED_STAGE
from fedshift.analysis.metrics.base import Array, Metric, as_array
from fedshift.federation.records import KEYS
from fedshift.federation.statistics import union


def reported(collected: Collected, metric: type[Metric]) -> pd.DataFrame:
    """One row per run, round, model and set that tables look at: keys, round, client, split, own_split,
    train, n, value.

    On clients these are of the model and at the stage that a run declares for tables; on held-out domains all
    are kept: no client trained there, so a method has one way only to make models for it. Runs that recorded
    no statistics have no rows of a computed metric.
    """
    if metric.recorded:
        columns = [*collected.keys, *KEYS, "n", "value"]
        table = pq.read_table(collected.path, columns=columns, filters=[("metric", "==", metric.name)])
        return _reported(collected, table.to_pandas())
    parts = [
        frame.assign(value=metric.compute(*(arrays[name] for name in metric.reads())))
        for frame, arrays in sets(collected, metric)
    ]
    return pd.concat(parts) if parts else _reported(collected, _nothing(collected))


def pooled(collected: Collected, metric: type[Metric]) -> pd.DataFrame:
    """As `reported`, but of a computed metric one row per run and round: of all clients' own samples as one
    set.
    """
    if metric.recorded:
        return reported(collected, metric)
    parts = []
    by = [*collected.keys, "round"]
    for frame, arrays in sets(collected, metric):
        own = frame.assign(place=range(len(frame)))[frame["split"] == frame[OWN_SPLIT]]
        own = own.sort_values(by, kind="stable", ignore_index=True)
        changes = own[by].astype(object).fillna("")
        starts = np.flatnonzero((changes != changes.shift()).any(axis=1))
        if len(starts):
            together = union({name: array[own["place"]] for name, array in arrays.items()}, starts)
            values = metric.compute(*(together[name] for name in metric.reads()))
            parts.append(own.iloc[starts].assign(value=values, n=together["n"].sum(-1)))
    return pd.concat(parts) if parts else _reported(collected, _nothing(collected))


def _nothing(collected: Collected) -> pd.DataFrame:
    return pd.DataFrame(columns=[*collected.keys, *KEYS, "n", "value"])


def sets(collected: Collected, metric: type[Metric]) -> Iterator[tuple[pd.DataFrame, dict[str, Array]]]:
    """The reported sets, and the statistics of them that a metric reads, one part for each number of classes
    that runs have.
    """
    names = list(dict.fromkeys([*metric.reads(), "n"]))
    table = pq.read_table(collected.statistics, columns=[*collected.keys, *KEYS, *names])
    classes = pc.list_value_length(table["n"])
    for width in pc.unique(classes).to_pylist():
        part = table.filter(pc.equal(classes, width))
        frame = pd.DataFrame(part.select([*collected.keys, *KEYS]).to_pandas())
        frame = _reported(collected, frame.assign(place=range(len(frame))))
        part = part.select(names).take(pa.array(frame.pop("place"), pa.int64()))
        arrays = {name: as_array(part[name]) for name in names}
        yield frame.assign(n=arrays["n"].sum(-1)), arrays


def _reported(collected: Collected, records: pd.DataFrame) -> pd.DataFrame:
    """The rows of `records` of the declared model and stage, and of held-out domains; with `train` sizes and
    the clients' own split.
    """
    finished = collected.runs[collected.runs["state"] == "finished"].rename(columns={"stage": REPORTED_STAGE})
    clients = finished[[*collected.keys, "clients"]].explode("clients", ignore_index=True)
    sizes = clients[collected.keys].assign(
        **pd.DataFrame(list(clients["clients"]), columns=["client", "train", "test"])
    )
    tested = sizes.groupby(collected.keys, dropna=False)["test"].transform("sum") > 0
    sizes[OWN_SPLIT] = tested.map({True: "test", False: "val"})
    records = records.merge(finished[[*collected.keys, "evaluates", REPORTED_STAGE]], on=collected.keys)
    declared = (records["stage"] == records[REPORTED_STAGE]) & (records["model"] == records["evaluates"])
    records = records[declared | (records["split"] == "target")]
    return records.merge(sizes, on=[*collected.keys, "client"], how="left")
