"""Quantities: from records to the numbers of a table.

A metric is read from records, or computed from statistics, on every evaluated set of an experiment's runs.
Its values on the clients of a run, after a round, are aggregated to one number, and a rule chooses the round.

With clients k = 0..N-1, their training sizes n_k and values a_k (on the test split; on validation where the
partition declares no test part):

- id = avg: the mean of a_k (`avg` is FDSE's name)
- all: sum n_k a_k / sum n_k
- worst: the worst a_k
- std: the standard deviation of a_k (divided by n)
- pooled: accuracy or loss of all these samples as one set
- ood: the value on the held-out domain, the mean over models where a method has several for it

Rounds are chosen by `val`, which is `all` on the validation split, or by `held_out`, the value on a second
held-out domain. Clients without such images, or with an undefined value (NaN), are left out; `clients` counts
the others. Fractions are in percent. Names of quantities: fedshift.experiments.column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedshift.analysis.collected import ACCURACIES, CHOOSING, OWN_SPLIT, Collected, whole_runs
from fedshift.analysis.metrics.base import Array, Metric, as_array, computed
from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.experiments.column import DEFAULT, Quantity, quantity
from fedshift.experiments.protocols import Rule
from fedshift.federation.records import KEYS, own_split, reported

PLACE = "place in runs"  # index of Collected.runs; no axis has a blank in its name
ROUND = [PLACE, "round"]
CLIENTS = "clients"
Values = pd.DataFrame  # one row a round, model and set: keys, split, own_split, client, train, n, value


def reported_values(collected: Collected, metric: type[Metric]) -> Iterator[pd.DataFrame]:
    """One row per run, round, model and evaluated set that tables use.

    The columns are PLACE, round, client, split, own_split, train, n and value. Values on clients are of the
    model and stage that the run declares for tables. Values on held-out domains are of all models, as no
    client trained there. Runs without statistics have no rows for a computed metric.
    """
    if metric.recorded:
        for places, table in _parts(collected, collected.path, [*KEYS, "metric", "n", "value"]):
            of_metric = pc.equal(table["metric"], metric.name)
            frame = table.filter(of_metric).drop_columns("metric").to_pandas()
            yield _reported(collected, frame.assign(**{PLACE: places[of_metric.to_numpy()]}))
        return
    for frame, arrays in reported_sets(collected, metric.reads()):
        yield frame.assign(value=metric.compute(*(arrays[name] for name in metric.reads())))


def reported_sets(
    collected: Collected, read: Sequence[str]
) -> Iterator[tuple[pd.DataFrame, dict[str, Array]]]:
    """The reported sets with the statistics `read` and `n`, in parts with the same number of classes."""
    names = list(dict.fromkeys([*read, "n"]))
    for places, table in _parts(collected, collected.statistics, [*KEYS, *names]):
        classes = pc.list_value_length(table["n"]).to_numpy()
        for width in np.unique(classes):
            part = table.filter(pa.array(classes == width))
            frame = part.select([*KEYS]).to_pandas().assign(**{PLACE: places[classes == width]})
            frame = _reported(collected, frame.assign(row=range(len(frame))))
            part = part.select(names).take(pa.array(frame.pop("row"), pa.int64()))
            arrays = {name: as_array(part[name]) for name in names}
            yield frame.assign(n=arrays["n"].sum(-1)), arrays


def _parts(
    collected: Collected, path: Path, columns: list[str]
) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
    """Rows of finished runs, in parts, with the place of each row's run."""
    keys = collected.keys
    for starts, table in whole_runs(path, keys, [*keys, *columns]):
        owners = zip(*(table[key].take(starts).to_pylist() for key in keys), strict=True)
        of_runs = np.array([collected.places.get(owner, -1) for owner in owners])
        places = np.repeat(of_runs, np.diff([*starts, len(table)]))
        yield places[places >= 0], table.select(columns).filter(pa.array(places >= 0))


def _reported(collected: Collected, records: pd.DataFrame) -> pd.DataFrame:
    """The rows of `records` that tables use, with the clients' `train` sizes and own split."""
    runs = collected.runs.loc[records[PLACE].unique(), ["stage", "evaluates", "clients", "spec"]]
    stage, model = (records[PLACE].map(runs[name]) for name in ("stage", "evaluates"))
    declared = (records["stage"] == stage) & (records["model"] == model)
    records = records[declared | (records["split"] == "target")]
    clients = runs["clients"].explode()
    sizes = pd.DataFrame(list(clients), columns=["client", "train", "test"]).assign(**{PLACE: clients.index})
    sizes[OWN_SPLIT] = sizes[PLACE].map(own_splits(runs))
    return records.merge(sizes, on=[PLACE, "client"], how="left")


def own_splits(runs: pd.DataFrame) -> pd.Series[str]:
    """For each of these finished `runs`, the split that `id` is measured on."""
    pairs = zip(runs["spec"].map(json.loads), runs["clients"], strict=True)
    splits = [own_split(spec["partition"], sum(client["test"] for client in of)) for spec, of in pairs]
    return pd.Series(splits, runs.index, dtype=object)


def lower_is_better(text: str) -> bool:
    """Whether lower values of a quantity are better: as for its metric, and for deviations over clients."""
    metric, aggregation = quantity(text)
    return aggregation == "std" or get("metrics", metric).better == "lower"


def own(values: Values) -> Values:
    """The values on the clients' own samples (`fedshift.federation.records.own_split`)."""
    return values[values["split"] == values[OWN_SPLIT]]


HELD_OUT = {"ood": -1, "held_out": -2}  # the domain's number in the column `client`
WEIGHTS = {"all": "train", "val": "train", "pooled": "n"}  # of a weighted mean over clients, by column


def aggregate(values: Values, keys: list[str], metric: type[Metric], how: str) -> pd.Series[float]:
    """One number for each group of `keys`, by one of the aggregations above."""
    if how in HELD_OUT:
        values = values[(values["split"] == "target") & (values["client"] == HELD_OUT[how])]
    elif how == CLIENTS:
        held = values["value"].notna() & (values["split"] == values[OWN_SPLIT])
        values = values.assign(client=values["client"].where(held))
        return values.groupby(keys, dropna=False)["client"].nunique().astype(float)
    else:
        values = values[values["split"] == "val"] if how == "val" else own(values)
    if how in WEIGHTS:
        by = WEIGHTS[how]
        values = values[values["value"].notna()]
        products = values.assign(value=values["value"] * values[by])
        sums = products.groupby(keys, dropna=False)[["value", by]].sum()
        return sums["value"] / sums[by]
    groups = values.groupby(keys, dropna=False)["value"]
    if how == "std":
        return groups.std(ddof=0)
    if how == "worst":
        return groups.min() if metric.better == "higher" else groups.max()
    return groups.mean()


OTHERWISE = "Leave the rule out, or use runs that hold out"
NO_DOMAIN = "has no held-out domain to choose by"
VALIDATION = ("val", "has no validation image to choose by", "Write select: last, or use larger clients.")
CHOOSES: dict[Rule, tuple[str, str, str]] = {
    "best_first": VALIDATION,
    "best_later": VALIDATION,
    "oracle": ("ood", NO_DOMAIN, f"{OTHERWISE} a domain."),
    "held_out": ("held_out", NO_DOMAIN, f"{OTHERWISE} two: target: [reported, for choosing]."),
}  # rule -> what it chooses by, what is wrong where a run has none, and the fix


def curves(collected: Collected, quantities: Iterable[str] = ()) -> pd.DataFrame:
    """One row per finished run and evaluated round, with the quantities that tables and rules need.

    The columns are the keys, PLACE, round, the ACCURACIES, `quantities` by name, `val` and `held_out`. `val`
    is the accuracy ALL on the validation split. `held_out` is the accuracy on the second held-out domain, NaN
    where a run has only one. Values computed from statistics are NaN where a run recorded none.

    Raises FedshiftError for an unknown quantity.
    """
    wanted = {name: Quantity(DEFAULT, name) for name in (*ACCURACIES, *CHOOSING)}
    wanted |= {name: quantity(name) for name in quantities if name not in wanted}
    read: dict[str, list[str]] = {}
    for metric, aggregation in wanted.values():
        if (metric, aggregation) not in collected.aggregated:
            read.setdefault(metric, [CLIENTS]).append(aggregation)
    for metric, aggregations in read.items():
        frame = aggregated(collected, metric, aggregations)
        collected.aggregated.update({(metric, how): frame[how] for how in aggregations})
    columns = {name: collected.aggregated[own] for name, own in wanted.items()}
    frame = pd.concat(columns, axis=1).sort_index().reset_index()
    keys = collected.runs.loc[frame[PLACE], collected.keys].reset_index(drop=True)
    return pd.concat([keys, frame], axis=1)


def aggregated(collected: Collected, metric: str, aggregations: Sequence[str]) -> pd.DataFrame:
    """A column for each aggregation of a metric; the index is ROUND."""
    kind: type[Metric] = get("metrics", metric)
    empty = pd.MultiIndex.from_arrays([[], []], names=ROUND)
    parts = [pd.DataFrame(columns=[*aggregations], index=empty, dtype=float)]
    for part in reported_values(collected, kind):
        parts.append(pd.DataFrame({how: aggregate(part, ROUND, kind, how) for how in aggregations}))
    whole = pd.concat(parts[1:] or parts)
    return whole * [100 if kind.percent and how != CLIENTS else 1 for how in whole]


def selected(collected: Collected, rule: Rule | None = None, quantities: Iterable[str] = ()) -> pd.DataFrame:
    """One row of `curves` per finished run: the round that `rule` chooses, by default the protocol's."""
    frame = curves(collected, quantities)
    return choose(frame, [*collected.keys, PLACE], rule or collected.protocol.select)


def choose(frame: pd.DataFrame, keys: list[str], rule: Rule) -> pd.DataFrame:
    """One row per run, in the round that `rule` chooses.

    - last: the last round
    - last_third: the mean over the rounds evaluated from two thirds on, with the number of the last one; NaN
      if one of them is NaN
    - best_first, best_later: highest `val`; on a tie, the first or the later one
    - oracle: highest `ood`; on a tie, the first
    - held_out: highest accuracy on the second held-out domain; on a tie, the first

    Raises FedshiftError if a rule has nothing to choose by: no held-out domain, or no client with a
    validation image.
    """
    if rule == "last_third":
        end = frame.groupby(keys, dropna=False)["round"].transform("max")
        late = frame[3 * frame["round"] >= 2 * end].assign(round=end)
        return late.groupby(keys, dropna=False, sort=False, as_index=False).mean(skipna=False)
    ordered = frame.sort_values("round", ascending=rule not in ("last", "best_later"))
    if rule != "last":
        by, wrong, cure = CHOOSES[rule]
        if (frame[by].isna() & frame.duplicated(keys, keep=False)).any():
            raise FedshiftError("tables: select", f"'{rule}' {wrong}", cure)
        # Equal sums of fractions may differ in their last bit, which must not break a tie.
        ordered = ordered.assign(**{by: ordered[by].round(9)}).sort_values(by, ascending=False, kind="stable")
    return frame.loc[ordered.drop_duplicates(keys).index].reset_index(drop=True)


SET = ["round", "stage", "model", "client", "split"]
WHERE = ("id", "ood", "held_out")


def left_out(collected: Collected, metric: str, rule: Rule | None = None) -> pd.Series[str]:
    """For each planned run, "2 of 3" where a metric has values on 2 of its 3 clients only; indexed as `runs`.

    "" otherwise, also where the run is not finished or has no statistics for the metric.
    """
    if (metric, CLIENTS) not in collected.aggregated:
        curves(collected, [f"{metric}.id"])
    rounds = selected(collected, rule)[ROUND]
    counts = rounds.join(collected.aggregated[metric, CLIENTS], on=ROUND).set_index(PLACE)[CLIENTS]
    total = collected.runs["clients"].str.len()
    few = counts[counts < total[counts.index]]
    texts = few.astype(int).astype(str) + " of " + total[few.index].astype(int).astype(str)
    return texts.reindex(collected.runs.index, fill_value="")


def by_round(
    records: pa.Table, partition: Mapping[str, Any], metric: str = DEFAULT, statistics: pa.Table | None = None
) -> pd.DataFrame:
    """A recorded metric by round (the index): columns `id`, `ood`, `held_out` and `val`.

    `val` is the mean over clients on their validation images, where `id` uses another split. NaN for absent
    values.

    `partition`: as in the run's resolved specification.
    `statistics`: of the run, for a metric that is computed.
    """
    kind: type[Metric] = get("metrics", metric)
    if kind.recorded:
        values = records.filter(pc.equal(records["metric"], metric)).select([*SET, "value"]).to_pandas()
    elif statistics is not None and len(statistics):
        values = statistics.select(SET).to_pandas().assign(value=computed(kind, statistics))
    else:
        return pd.DataFrame(columns=[*WHERE], dtype=float)
    of_clients = values[values["split"] != "target"]
    model, stage = reported({*zip(of_clients["model"], of_clients["stage"], strict=True)})
    shown = (values["model"] == model) & (values["stage"] == stage) | (values["split"] == "target")
    own = own_split(partition, int((values["split"] == "test").sum()))
    values = values[shown].assign(**{OWN_SPLIT: own})
    columns = {where: aggregate(values, ["round"], kind, where) for where in WHERE}
    if own != "val":
        columns["val"] = aggregate(values.assign(**{OWN_SPLIT: "val"}), ["round"], kind, "id")
    return pd.DataFrame(columns)
