"""Select: metrics of every run over its rounds, and the round that tables show.

What they are called: fedshift.experiments.column. How the clients of a run become one number:
fedshift.analysis.quantities.aggregation. Fractions are in percent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.collection.columns import ACCURACIES, CHOOSING
from fedshift.analysis.metrics.base import Metric
from fedshift.analysis.quantities import values
from fedshift.analysis.quantities.aggregation import AGGREGATE, CLIENTS
from fedshift.analysis.quantities.values import PLACE, ROUND
from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.experiments.column import DEFAULT, Quantity, quantity
from fedshift.experiments.protocols import Rule

MEASURE: dict[Rule, str] = {"best_first": "val", "best_later": "val", "oracle": "ood", "held_out": "held_out"}
OTHERWISE = "Leave the rule out, or use runs that hold out"
LACKING = {
    "val": ("has no validation image to choose by", "Write select: last, or use larger clients."),
    "ood": ("has no held-out domain to choose by", f"{OTHERWISE} a domain."),
    "held_out": (
        "has no held-out domain to choose by",
        f"{OTHERWISE} two: target: [reported, for choosing].",
    ),
}  # what a rule chooses by -> what is wrong where a run has none, and the fix


def curves(collected: Collected, quantities: Iterable[str] = ()) -> pd.DataFrame:
    """Per finished run and evaluated round: keys, round, the ACCURACIES, `quantities` by their names, and
    what rounds are selected on: `val`, the accuracy ALL on the validation split, and `held_out`, that on the
    second held-out domain (NaN where a run has one held-out domain only).

    NaN, too, for what is computed from statistics where a run recorded none. Raises FedshiftError for a name
    that is no quantity.
    """
    return named(collected, by_place(collected, quantities))


def by_place(collected: Collected, quantities: Iterable[str] = ()) -> pd.DataFrame:
    """`curves` with PLACE in place of the keys."""
    wanted = {name: Quantity(DEFAULT, name) for name in (*ACCURACIES, *CHOOSING)}
    wanted |= {name: quantity(name) for name in quantities if name not in wanted}
    read: dict[tuple[str, bool], list[str]] = {}
    for metric, aggregation in wanted.values():
        if (metric, aggregation) not in collected.aggregated:
            of_clients = [] if aggregation == "pooled" else [CLIENTS]
            read.setdefault((metric, aggregation == "pooled"), of_clients).append(aggregation)
    for (metric, pooled), aggregations in read.items():
        frame = aggregated(collected, metric, aggregations, pooled)
        collected.aggregated.update({(metric, how): frame[how] for how in aggregations})
    columns = {name: collected.aggregated[own] for name, own in wanted.items()}
    return pd.concat(columns, axis=1).sort_index().reset_index()


def aggregated(
    collected: Collected, metric: str, aggregations: Sequence[str], pooled: bool = False
) -> pd.DataFrame:
    """A column for each aggregation of a metric; the index is ROUND. pooled: of all clients' own samples as
    one set.
    """
    kind: type[Metric] = get("metrics", metric)
    factor = 100 if kind.percent else 1
    empty = pd.MultiIndex.from_arrays([[], []], names=ROUND)
    parts = [pd.DataFrame(columns=[*aggregations], index=empty, dtype=float)]
    for part in (values.pooled if pooled else values.reported)(collected, kind):
        columns = {how: AGGREGATE[how](part, ROUND, kind) for how in aggregations}
        scaled = {how: values if how == CLIENTS else values * factor for how, values in columns.items()}
        parts.append(pd.DataFrame(scaled))
    return pd.concat(parts[1:] or parts)


def named(collected: Collected, frame: pd.DataFrame) -> pd.DataFrame:
    """A frame with the keys of its runs in front, in place of PLACE."""
    keys = collected.runs[collected.keys].loc[frame[PLACE]].reset_index(drop=True)
    return pd.concat([keys, frame.drop(columns=PLACE).reset_index(drop=True)], axis=1)


def selected(collected: Collected, rule: Rule | None = None, quantities: Iterable[str] = ()) -> pd.DataFrame:
    """One row of `curves` per finished run: the round that `rule` chooses, by default the protocol's."""
    return named(collected, selected_by_place(collected, rule, quantities))


def selected_by_place(
    collected: Collected, rule: Rule | None = None, quantities: Iterable[str] = ()
) -> pd.DataFrame:
    """`selected` with PLACE in place of the keys."""
    return choose(by_place(collected, quantities), [PLACE], rule or collected.protocol.select)


def choose(frame: pd.DataFrame, keys: list[str], rule: Rule) -> pd.DataFrame:
    """One row per run.

    last: its last round; last_third: the mean over the rounds evaluated from two thirds of them on, under the
        last one's number, NaN where one of them is;
    best_first, best_later: highest `val`, on a tie the first or the later one; oracle: highest `ood`, the
        first;
    held_out: highest accuracy on the second held-out domain, the first. Raises FedshiftError where a rule has
        nothing to choose by: no held-out domain, or no client with a validation image.
    """
    if rule == "last_third":
        return _late_mean(frame, keys)
    ordered = frame.sort_values("round", ascending=rule not in ("last", "best_later"))
    if rule != "last":
        by = MEASURE[rule]
        if (frame[by].isna() & frame.duplicated(keys, keep=False)).any():
            raise FedshiftError("tables: select", f"'{rule}' {LACKING[by][0]}", LACKING[by][1])
        # Equal sums of fractions may differ in their last bit, which must not break a tie.
        ordered = ordered.assign(**{by: ordered[by].round(9)}).sort_values(by, ascending=False, kind="stable")
    return frame.loc[ordered.drop_duplicates(keys).index].reset_index(drop=True)


def _late_mean(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    end = frame.groupby(keys, dropna=False)["round"].transform("max")
    late = frame[3 * frame["round"] >= 2 * end].assign(round=end)
    groups = late.groupby(keys, dropna=False, sort=False, as_index=False)
    return groups.mean(skipna=False)
