"""Published: the printed numbers of reference/published.csv that belong to a cell of a table."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedshift.experiments.declared import FIELD, Experiment

NAMES = {"ood": ("acc_ood", "acc_target")}  # papers that print one domain at a time have no word for it


@dataclass(frozen=True)
class Published:
    """A printed accuracy (percent) with its printed spread; `judged` is False for numbers that the reference marks as slips."""

    value: float
    std: float
    judged: bool


def find(
    root: Path, experiment: Experiment, method: str, values: dict[str, Any], metric: str
) -> Published | None:
    """The printed `metric` of a method at the axis `values`, or None where the paper prints none.

    The experiment's `published` gives the run_key's template; an average over targets is printed under the target "mean".
    """
    template = experiment.published.get(method, experiment.published.get("*"))
    if template is None:
        return None
    values = {"target": "mean", **values, "method": method}
    try:
        key = FIELD.sub(lambda field: str(values[field[1]]), template)
    except KeyError:  # The cell is an average over an axis that the paper keeps apart.
        return None
    printed = _printed(root / "reference" / "published.csv")
    found = (printed.get((key, name)) for name in NAMES.get(metric, (f"acc_{metric}",)))
    return next(filter(None, found), None)


@functools.cache
def _printed(path: Path) -> dict[tuple[str, str], Published]:
    table = pd.read_csv(path, low_memory=False)
    table = table[table["same_as"].isna() & table["metric_id"].str.startswith("acc_", na=False)]
    value = table["value_judge"].fillna(table["mean"])
    rows = zip(
        table["run_key"], table["metric_id"], value, table["std"], table["value_judge"].notna(), strict=True
    )
    return {
        (key, metric): Published(value, std, judged)
        for key, metric, value, std, judged in rows
        if pd.notna(value)
    }
