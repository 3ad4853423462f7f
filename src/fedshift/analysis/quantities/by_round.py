"""Quantities of one run after each round, from its records and statistics alone, so that a run that is still
being trained has them, too. Definitions: fedshift.analysis.quantities.aggregation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fedshift.analysis.collection.columns import OWN_SPLIT
from fedshift.analysis.metrics.base import Metric, computed
from fedshift.analysis.quantities.aggregation import AGGREGATE
from fedshift.common.registry import get
from fedshift.experiments.column import DEFAULT
from fedshift.federation.records import own_split, reported

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
    columns = {where: AGGREGATE[where](values, ["round"], kind) for where in WHERE}
    if own != "val":
        columns["val"] = AGGREGATE["id"](values.assign(**{OWN_SPLIT: "val"}), ["round"], kind)
    return pd.DataFrame(columns)
