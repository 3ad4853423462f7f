"""Select: accuracies of every run over its rounds, and the round that tables show.

With clients k = 0..N-1, their training sizes n_k and accuracies a_k (on the test split where the partition has one, else on
validation): id = avg = mean of a_k; all = sum n_k a_k / sum n_k; ood = accuracy on the held-out target domain, the mean over
models where a method has several for an unseen domain, and all that an adapted row has; held_out = the same on a second held-out domain. All in percent.
"""

from __future__ import annotations

import pandas as pd

from fedshift.analysis.collect import Collected
from fedshift.errors import FedshiftError
from fedshift.experiments.protocols import Rule

METRICS = ("id", "ood", "all", "avg")
MEASURE: dict[Rule, str] = {"best_first": "val", "best_later": "val", "oracle": "ood", "held_out": "held_out"}


def curves(collected: Collected) -> pd.DataFrame:
    """Per finished run and evaluated round: keys, round, the METRICS, and what rounds are selected on: `val`, ALL on the validation
    split, and `held_out`, the accuracy on the second held-out domain (NaN where a run has one only).
    """
    keys = [*collected.keys, "round"]
    records = _shown(collected)
    validation = records[records["split"] == "val"]
    own = records[records["split"] == records["own_split"]]
    target = records[(records["split"] == "target") & (records["client"] == -1)]
    second = records[(records["split"] == "target") & (records["client"] == -2)]
    mean = own.groupby(keys, dropna=False)["value"].mean()
    columns = {
        "id": mean,
        "ood": target.groupby(keys, dropna=False)["value"].mean(),
        "all": _by_size(own, keys),
        "avg": mean,
        "val": _by_size(validation, keys),
        "held_out": second.groupby(keys, dropna=False)["value"].mean(),
    }
    return pd.DataFrame({name: 100 * values for name, values in columns.items()}).reset_index()


def selected(collected: Collected, rule: Rule | None = None) -> pd.DataFrame:
    """One row of `curves` per finished run: the round that `rule` chooses, by default the protocol's."""
    return choose(curves(collected), collected.keys, rule or collected.protocol.select)


def choose(frame: pd.DataFrame, keys: list[str], rule: Rule) -> pd.DataFrame:
    """One row per run.

    last: its last round; last_third: the mean over the rounds evaluated from two thirds of them on, under the last one's number;
    best_first, best_later: highest `val`, on a tie the first or the later one; oracle: highest `ood`, the first;
    held_out: highest accuracy on the second held-out domain, the first. Raises FedshiftError where a rule has nothing to choose by.
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
    return late.groupby(keys, dropna=False, sort=False, as_index=False).mean()


def _shown(collected: Collected) -> pd.DataFrame:
    """Accuracies of the model and at the stage that a run declares for tables, with `train` sizes and the split to report.

    On the held-out domain all are kept: no client trained there, so a method has one way only to make models for it.
    """
    finished = collected.runs[collected.runs["state"] == "finished"].rename(columns={"stage": "shown_stage"})
    clients = finished[[*collected.keys, "clients"]].explode("clients", ignore_index=True)
    sizes = clients[collected.keys].assign(
        **pd.DataFrame(list(clients["clients"]), columns=["client", "train", "test"])
    )
    tested = sizes.groupby(collected.keys, dropna=False)["test"].transform("sum") > 0
    sizes["own_split"] = tested.map({True: "test", False: "val"})
    records = collected.accuracy().merge(
        finished[[*collected.keys, "evaluates", "shown_stage"]], on=collected.keys
    )
    shown = (records["stage"] == records["shown_stage"]) & (records["model"] == records["evaluates"])
    records = records[shown | (records["split"] == "target")]
    return records.merge(sizes, on=[*collected.keys, "client"], how="left")


def _by_size(records: pd.DataFrame, keys: list[str]) -> pd.Series[float]:
    sums = (
        records.assign(value=records["value"] * records["train"])
        .groupby(keys, dropna=False)[["value", "train"]]
        .sum()
    )
    return sums["value"] / sums["train"]
