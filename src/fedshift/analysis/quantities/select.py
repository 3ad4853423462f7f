"""Select: metrics of every run over its rounds, and the round that tables show.

What they are called: fedshift.experiments.quantity. How the clients of a run become one number:
fedshift.analysis.quantities.aggregation. Fractions are in percent.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.collection.columns import ACCURACIES, CHOOSING
from fedshift.analysis.metrics.base import Metric
from fedshift.analysis.quantities import values
from fedshift.analysis.quantities.aggregation import AGGREGATE
from fedshift.errors import FedshiftError
from fedshift.experiments.protocols import Rule
from fedshift.experiments.quantity import DEFAULT, Quantity, quantity
from fedshift.registry import get

MEASURE: dict[Rule, str] = {"best_first": "val", "best_later": "val", "oracle": "ood", "held_out": "held_out"}


def curves(collected: Collected, quantities: Iterable[str] = ()) -> pd.DataFrame:
    """Per finished run and evaluated round: keys, round, the ACCURACIES, `quantities` by their names, and
    what rounds are selected on: `val`, the accuracy ALL on the validation split, and `held_out`, that on the
    second held-out domain (NaN where a run has one held-out domain only).

    NaN, too, for what is computed from statistics where a run recorded none. Raises FedshiftError for a name
    that is no quantity.
    """
    wanted = {name: Quantity(DEFAULT, name) for name in (*ACCURACIES, *CHOOSING)}
    wanted |= {name: quantity(name) for name in quantities if name not in wanted}
    keys = [*collected.keys, "round"]
    columns: dict[str, pd.Series[float]] = {}
    read: dict[tuple[str, bool], pd.DataFrame] = {}
    for name, (metric_name, aggregation) in wanted.items():
        metric: type[Metric] = get("metrics", metric_name)
        sets = (metric_name, aggregation == "pooled")
        if sets not in read:
            read[sets] = (values.pooled if aggregation == "pooled" else values.reported)(collected, metric)
        columns[name] = AGGREGATE[aggregation](read[sets], keys, metric) * (100 if metric.percent else 1)
    return pd.DataFrame(columns).reset_index()


def selected(collected: Collected, rule: Rule | None = None, quantities: Iterable[str] = ()) -> pd.DataFrame:
    """One row of `curves` per finished run: the round that `rule` chooses, by default the protocol's."""
    return choose(curves(collected, quantities), collected.keys, rule or collected.protocol.select)


def choose(frame: pd.DataFrame, keys: list[str], rule: Rule) -> pd.DataFrame:
    """One row per run.

    last: its last round; last_third: the mean over the rounds evaluated from two thirds of them on, under the
        last one's number, NaN where one of them is;
    best_first, best_later: highest `val`, on a tie the first or the later one; oracle: highest `ood`, the
        first;
    held_out: highest accuracy on the second held-out domain, the first. Raises FedshiftError where a rule has
        nothing to choose by.
    """
    if rule == "last_third":
        return _late_mean(frame, keys)
    ordered = frame.sort_values("round", ascending=rule not in ("last", "best_later"))
    if rule != "last":
        by = MEASURE[rule]
        if by != "val" and frame[by].isna().any():
            cure = "Leave the rule out, or use runs that hold out " + (
                "a domain." if rule == "oracle" else "two: target: [reported, for choosing]."
            )
            raise FedshiftError("tables: select", f"'{rule}' has no held-out domain to choose by", cure)
        # Equal sums of fractions may differ in their last bit, which must not break a tie.
        ordered = ordered.assign(**{by: ordered[by].round(9)}).sort_values(by, ascending=False, kind="stable")
    return frame.loc[ordered.drop_duplicates(keys).index].reset_index(drop=True)


def _late_mean(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    end = frame.groupby(keys, dropna=False)["round"].transform("max")
    late = frame[3 * frame["round"] >= 2 * end].assign(round=end)
    groups = late.groupby(keys, dropna=False, sort=False, as_index=False)
    return groups.agg(_mean_of_all)


def _mean_of_all(values: pd.Series[float]) -> float:
    return float(values.mean(skipna=False))
