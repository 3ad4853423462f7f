"""Values: a metric on every evaluated set of an experiment's runs, read from records or computed from
statistics.

Files are read some runs at a time (`whole_runs`), so what comes out is in parts; no run is in two of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedshift.analysis.collected import OWN_SPLIT, Collected
from fedshift.analysis.metrics.base import Array, Metric, as_array
from fedshift.analysis.records import ROWS_A_GROUP, whole_runs
from fedshift.federation.records import KEYS, own_split, union

PLACE = "place in runs"  # no axis has a blank in its name
ROUND = [PLACE, "round"]
SETS = 1 << 15  # at a time: their statistics take a hundred times as much as a record


def reported(collected: Collected, metric: type[Metric]) -> Iterator[pd.DataFrame]:
    """One row per run, round, model and set that tables look at: PLACE, round, client, split, own_split,
    train, n, value.

    On clients these are of the model and at the stage that a run declares for tables; on held-out domains all
    are kept: no client trained there, so a method has one way only to make models for it. Runs that recorded
    no statistics have no rows of a computed metric.
    """
    if metric.recorded:
        for places, table in _parts(collected, collected.path, [*KEYS, "metric", "n", "value"]):
            own = pc.equal(table["metric"], metric.name)
            frame = table.filter(own).drop_columns("metric").to_pandas()
            yield _reported(collected, frame.assign(**{PLACE: places[own.to_numpy()]}))
        return
    for frame, arrays in sets(collected, metric.reads()):
        yield frame.assign(value=metric.compute(*(arrays[name] for name in metric.reads())))


def pooled(collected: Collected, metric: type[Metric]) -> Iterator[pd.DataFrame]:
    """As `reported`, but of a computed metric one row per run and round: of all clients' own samples as one
    set.
    """
    if metric.recorded:
        yield from reported(collected, metric)
        return
    for frame, arrays in sets(collected, metric.reads()):
        own = frame.assign(row=range(len(frame)))[frame["split"] == frame[OWN_SPLIT]]
        own = own.sort_values(ROUND, kind="stable", ignore_index=True)
        starts = np.flatnonzero((own[ROUND] != own[ROUND].shift()).any(axis=1))
        if len(starts):
            together = union({name: array[own["row"]] for name, array in arrays.items()}, starts)
            values = metric.compute(*(together[name] for name in metric.reads()))
            yield own.iloc[starts].assign(value=values, n=together["n"].sum(-1))


def sets(collected: Collected, read: Sequence[str]) -> Iterator[tuple[pd.DataFrame, dict[str, Array]]]:
    """The reported sets, and these statistics of them, with `n`; all sets of a part have the same number of
    classes.
    """
    names = list(dict.fromkeys([*read, "n"]))
    for places, table in _parts(collected, collected.statistics, [*KEYS, *names], SETS):
        classes = pc.list_value_length(table["n"]).to_numpy()
        for width in np.unique(classes):
            part = table.filter(pa.array(classes == width))
            frame = part.select([*KEYS]).to_pandas().assign(**{PLACE: places[classes == width]})
            frame = _reported(collected, frame.assign(row=range(len(frame))))
            part = part.select(names).take(pa.array(frame.pop("row"), pa.int64()))
            arrays = {name: as_array(part[name]) for name in names}
            yield frame.assign(n=arrays["n"].sum(-1)), arrays


def _parts(
    collected: Collected, path: Path, columns: list[str], rows: int = ROWS_A_GROUP
) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
    """Rows of finished runs, and the place of each row's run."""
    keys = collected.keys
    for starts, table in whole_runs(path, keys, [*keys, *columns], rows):
        owners = zip(*(table[key].take(starts).to_pylist() for key in keys), strict=True)
        of_runs = np.array([collected.places.get(owner, -1) for owner in owners])
        places = np.repeat(of_runs, np.diff([*starts, len(table)]))
        yield places[places >= 0], table.select(columns).filter(pa.array(places >= 0))


def _reported(collected: Collected, records: pd.DataFrame) -> pd.DataFrame:
    """The rows of `records` of the declared model and stage, and of held-out domains; with `train` sizes and
    the clients' own split.
    """
    runs = collected.runs.loc[records[PLACE].unique(), ["stage", "evaluates", "clients", "spec"]]
    stage, model = (records[PLACE].map(runs[name]) for name in ("stage", "evaluates"))
    declared = (records["stage"] == stage) & (records["model"] == model)
    records = records[declared | (records["split"] == "target")]
    clients = runs["clients"].explode()
    sizes = pd.DataFrame(list(clients), columns=["client", "train", "test"]).assign(**{PLACE: clients.index})
    sizes[OWN_SPLIT] = sizes[PLACE].map(own_splits(runs))
    return records.merge(sizes, on=[PLACE, "client"], how="left")


def own_splits(runs: pd.DataFrame) -> pd.Series[str]:
    """The split that `id` is measured on, of each of these finished `runs`."""
    pairs = zip(runs["spec"].map(json.loads), runs["clients"], strict=True)
    splits = [own_split(spec["partition"], sum(client["test"] for client in of)) for spec, of in pairs]
    return pd.Series(splits, runs.index, dtype=object)
