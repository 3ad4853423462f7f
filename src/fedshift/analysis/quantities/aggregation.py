"""Aggregation: how a metric's values on the clients of a run, after a round, become one number.

With clients k = 0..N-1, their training sizes n_k and values a_k (on the test split; on validation where the
partition declares no test part):

- id = avg = mean of a_k, the second by FDSE's name; all = sum n_k a_k / sum n_k; worst: the worst a_k; std:
  their standard deviation (n)
- pooled: the metric of all these samples as one set
- ood: the value on the held-out domain, the mean over models where a method has several for an unseen domain

Rounds are chosen by `val`, all on the validation split, and by `held_out`, the value on a second held-out
domain. A client without such an image, or whose value is not defined (NaN), is left out; `clients` counts the
others.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from fedshift.analysis.collection.columns import OWN_SPLIT
from fedshift.analysis.metrics.base import Metric
from fedshift.common.registry import get
from fedshift.experiments.column import AGGREGATIONS, DEFAULT, quantity

CLIENTS = "clients"
Values = pd.DataFrame  # one row a round, model and set: keys, split, own_split, client, train, n, value
Aggregated = Callable[[Values, list[str], type[Metric]], "pd.Series[float]"]


def heading(text: str) -> str:
    """What tables call a quantity: "ood" (of accuracy), "ECE ood", "worst class pooled"."""
    metric, aggregation = quantity(text)
    return " ".join(
        [*([] if metric == DEFAULT else [get("metrics", metric).title]), AGGREGATIONS[aggregation]]
    )


def in_percent(text: str) -> bool:
    """Whether a quantity is a fraction, which tables show in percent."""
    return bool(get("metrics", quantity(text).metric).percent)


def lower_is_better(text: str) -> bool:
    """Whether less of a quantity is better: where it is of its metric, and of a deviation over clients."""
    metric, aggregation = quantity(text)
    return aggregation == "std" or get("metrics", metric).better == "lower"


def own(values: Values) -> Values:
    """Those on the clients' own samples: `fedshift.federation.records.own_split`."""
    return values[values["split"] == values[OWN_SPLIT]]


def _mean(values: Values, keys: list[str], metric: type[Metric]) -> pd.Series[float]:
    return own(values).groupby(keys, dropna=False)["value"].mean()


def _all(values: Values, keys: list[str], metric: type[Metric]) -> pd.Series[float]:
    return weighted(own(values), keys, "train")


def _pooled(values: Values, keys: list[str], metric: type[Metric]) -> pd.Series[float]:
    return weighted(own(values), keys, "n")


def _worst(values: Values, keys: list[str], metric: type[Metric]) -> pd.Series[float]:
    groups = own(values).groupby(keys, dropna=False)["value"]
    return groups.min() if metric.better == "higher" else groups.max()


def _std(values: Values, keys: list[str], metric: type[Metric]) -> pd.Series[float]:
    return own(values).groupby(keys, dropna=False)["value"].std(ddof=0)


def _clients(values: Values, keys: list[str], metric: type[Metric]) -> pd.Series[float]:
    held = (values["split"] == values[OWN_SPLIT]) & values["value"].notna()
    groups = values.assign(held=values["client"].where(held)).groupby(keys, dropna=False)
    return groups["held"].nunique().astype(float)


def _held_out(place: int) -> Aggregated:
    """The value on a held-out domain, which is recorded as client -1 or -2."""

    def aggregate(values: Values, keys: list[str], metric: type[Metric]) -> pd.Series[float]:
        target = values[(values["split"] == "target") & (values["client"] == place)]
        return target.groupby(keys, dropna=False)["value"].mean()

    return aggregate


def _validation(values: Values, keys: list[str], metric: type[Metric]) -> pd.Series[float]:
    return weighted(values[values["split"] == "val"], keys, "train")


def weighted(values: Values, keys: list[str], by: str) -> pd.Series[float]:
    """The mean of the values that are defined, weighted by another column."""
    values = values[values["value"].notna()]
    sums = values.assign(value=values["value"] * values[by]).groupby(keys, dropna=False)[["value", by]].sum()
    return sums["value"] / sums[by]


AGGREGATE: dict[str, Aggregated] = {
    "id": _mean,
    "ood": _held_out(-1),
    "all": _all,
    "avg": _mean,
    "pooled": _pooled,
    "worst": _worst,
    "std": _std,
    "val": _validation,
    "held_out": _held_out(-2),
    CLIENTS: _clients,
}
