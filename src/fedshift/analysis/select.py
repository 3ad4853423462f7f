"""Select: accuracies of every run over its rounds, and the round that tables show.

With clients k = 0..N-1, their training sizes n_k and accuracies a_k (on the test split where the partition has one, else on
validation): id = avg = mean of a_k; all = sum n_k a_k / sum n_k; ood = accuracy on the held-out target domain, the mean over
models where a method has several for an unseen domain. All in percent.
"""

from __future__ import annotations

from typing import Literal

import pandas as pd

from fedshift.analysis.collect import Collected

METRICS = ("id", "ood", "all", "avg")


def curves(collected: Collected) -> pd.DataFrame:
    """Per finished run and evaluated round: keys, round, the METRICS, and `val`: ALL on the validation split (what selection uses)."""
    keys = [*collected.keys, "round"]
    records = _shown(collected)
    validation = records[records["split"] == "val"]
    own = records[records["split"] == records["own_split"]]
    target = records[records["split"] == "target"]
    mean = own.groupby(keys, dropna=False)["value"].mean()
    columns = {
        "id": mean,
        "ood": target.groupby(keys, dropna=False)["value"].mean(),
        "all": _by_size(own, keys),
        "avg": mean,
        "val": _by_size(validation, keys),
    }
    return pd.DataFrame({name: 100 * values for name, values in columns.items()}).reset_index()


def selected(collected: Collected) -> pd.DataFrame:
    """One row of `curves` per finished run: the round that the protocol's tables show."""
    return choose(curves(collected), collected.keys, collected.protocol.select)


def choose(
    frame: pd.DataFrame, keys: list[str], rule: Literal["last", "best_first", "best_later"]
) -> pd.DataFrame:
    """One row per run: its last round, or the round with the highest `val`, on a tie the first or the later one."""
    ordered = frame.sort_values("round", ascending=rule == "best_first")
    if rule != "last":
        # Equal sums of fractions may differ in their last bit, which must not break a tie.
        ordered = ordered.assign(val=ordered["val"].round(9)).sort_values(
            "val", ascending=False, kind="stable"
        )
    return frame.loc[ordered.drop_duplicates(keys).index].reset_index(drop=True)


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
