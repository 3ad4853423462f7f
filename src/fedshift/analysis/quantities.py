"""From metrics to the numbers of a table: how a metric's values on the clients of a run, after a round,
become one number, and which round a table shows.

With clients k = 0..N-1, their training sizes n_k and values a_k (on the test split; on validation where the
partition declares no test part):

- id = avg = mean of a_k, the second by FDSE's name; all = sum n_k a_k / sum n_k; worst: the worst a_k; std:
  their standard deviation (n)
- pooled: the metric of all these samples as one set
- ood: the value on the held-out domain, the mean over models where a method has several for an unseen domain

Rounds are chosen by `val`, all on the validation split, and by `held_out`, the value on a second held-out
domain. A client without such an image, or whose value is not defined (NaN), is left out; `clients` counts the
others. Fractions are in percent. Names of quantities: fedshift.experiments.column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fedshift.analysis import values
from fedshift.analysis.collected import ACCURACIES, CHOOSING, OWN_SPLIT, Collected
from fedshift.analysis.metrics.base import Metric, computed
from fedshift.analysis.values import PLACE, ROUND
from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.experiments.column import AGGREGATIONS, DEFAULT, Quantity, quantity
from fedshift.experiments.protocols import Rule
from fedshift.federation.records import own_split, reported

CLIENTS = "clients"
Values = pd.DataFrame  # one row a round, model and set: keys, split, own_split, client, train, n, value


def heading(text: str) -> str:
    """What tables call a quantity: "ood" (of accuracy), "ECE ood", "worst class pooled"."""
    metric, aggregation = quantity(text)
    of = "" if metric == DEFAULT else f"{get('metrics', metric).title} "
    return f"{of}{AGGREGATIONS[aggregation]}"


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
        columns = {how: aggregate(part, ROUND, kind, how) for how in aggregations}
        parts.append(
            pd.DataFrame({how: of * (1 if how == CLIENTS else factor) for how, of in columns.items()})
        )
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


def by_round(
    records: pa.Table, partition: Mapping[str, Any], metric: str = DEFAULT, statistics: pa.Table | None = None
) -> pd.DataFrame:
    """A metric as it was recorded: the index is the round; columns `id`, `ood`, `held_out`, and `val`: the
    mean over clients on their validation images, where `id` is another split's. NaN where there is none.

    partition: as in the run's resolved specification; statistics: of the run, for a metric that is computed
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
