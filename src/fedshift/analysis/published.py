"""Published: the printed numbers of reference/published.csv that belong to a cell of a table."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedshift.experiments.schema import FIELD, Experiment
from fedshift.workspace import Workspace

NAMES = {"ood": ("acc_ood", "acc_target")}  # papers that print one domain at a time have no word for it
# The meaning of a printed +- that is no standard deviation over seeds; the notes of hFedF's protocol explain
# hFedF's.
SPREADS = {
    "ci95": "the printed ± is the half-width of a 95% interval of {n} runs; shown is its standard deviation, "
    "half-width times sqrt({n}) over Student's t",
    "unstated_in_brackets": "the paper prints the number after ± in brackets and does not say what it is",
}


class Row(NamedTuple):
    """What reference/published.csv says of an experiment, but for its held-out domain."""

    paper: str
    dataset: str
    backbone: str
    protocol: str
    partition: str
    method: str
    variant: str


COLUMNS = ("paper", "ds_id", "backbone", "protocol", "partition", "algo", "variant")


@dataclass(frozen=True)
class Published:
    """A printed accuracy (percent), a row of reference/published.csv.

    value: as printed; std: the printed spread, as a standard deviation; kind: what the reference takes the
    spread for ("" for none); n: over how many seeds, in its words; judged: what it takes the value for (NaN
    for a slip whose right value is unknown); remark, spread: what a reader must know of the value and of
    the spread, "" for nothing; row, target: which experiment it is of ("mean": all held-out domains of the
    paper).
    """

    value: float
    std: float
    kind: str
    n: str
    judged: float
    remark: str
    spread: str
    row: Row
    target: str


def find(
    workspace: Workspace, experiment: Experiment, method: str, values: dict[str, Any], metric: str
) -> Published | None:
    """The printed `metric` of a method at the axis `values`, or None where the paper prints none.

    The experiment's `published` gives the run_key's template; an average over targets is printed under the
    target "mean".
    """
    printed = _printed(workspace.reference / "published.csv")
    return next(filter(None, map(printed.get, keys(experiment, method, values, metric))), None)


def keys(
    experiment: Experiment, method: str, values: dict[str, Any], metric: str
) -> Iterator[tuple[str, str]]:
    """Where the number of a cell would stand in reference/published.csv: run_key and metric_id, the first of
    which counts.
    """
    values = {"target": "mean", **values, "method": method}
    for template in experiment.templates(method):
        if not {*FIELD.findall(template)} <= {*values}:
            continue  # The cell is an average over an axis that the paper keeps apart.
        key = FIELD.sub(lambda field: str(values[field[1]]), template)
        yield from ((key, name) for name in NAMES.get(metric, (f"acc_{metric}",)))


@functools.cache
def targets(workspace: Workspace, paper: str, dataset: str) -> frozenset[str]:
    """The held-out domains that a paper averages over on a data set: those with a number of their own."""
    rows = _printed(workspace.reference / "published.csv").values()
    return frozenset(
        printed.target
        for printed in rows
        if printed.row[:2] == (paper, dataset) and printed.target not in ("mean", "all_clients")
    )


@functools.cache
def data_sets(workspace: Workspace) -> dict[str, str]:
    """What papers call a data set -> its name here."""
    table = pd.read_csv(workspace.reference / "published.csv", usecols=["dataset", "ds_id"]).dropna()
    return dict(zip(table["dataset"], table["ds_id"], strict=True))


@functools.cache
def by_uid(workspace: Workspace) -> dict[str, Published]:
    """Every printed accuracy by its row_uid, those that a paper prints again in another table too."""
    return {row["row_uid"]: _row(row) for row in _accuracies(workspace.reference / "published.csv")}


@functools.cache
def _printed(path: Path) -> dict[tuple[str, str], Published]:
    rows = [row for row in _accuracies(path) if row["same_as"] != row["same_as"]]
    return {(row["run_key"], row["metric_id"]): _row(row) for row in rows}


def _accuracies(path: Path) -> list[dict[Any, Any]]:
    table = pd.read_csv(path, low_memory=False, dtype={"n_seeds": str})
    table = table[table["metric_id"].str.startswith("acc_", na=False)]
    for column in ("mean", "std", "value_judge"):
        table[column] = pd.to_numeric(table[column])
    return table[table["mean"].notna()].to_dict("records")


def _row(row: dict[Any, Any]) -> Published:
    n, kind = row["n_seeds"], row["spread_kind"] if row["std"] == row["std"] else ""
    std = row["std"] * (_std_of_half_width(int(n)) if kind == "ci95" else 1)
    spread = SPREADS.get(kind, "").format(n=n)
    of = Row(*(str(row[column]) for column in COLUMNS))
    seeds = "" if n != n else n
    return Published(
        row["mean"], std, kind, seeds, row["value_judge"], _remark(row), spread, of, str(row["target"])
    )


def _remark(row: dict[Any, Any]) -> str:
    if row["value_judge"] == row["mean"]:
        return ""
    why = next((text for text in (row["note"], row["audit_note"]) if isinstance(text, str)), "")
    taken = f"is taken for {row['value_judge']:g}, which the difference is from"
    slip = "is a slip, and no difference is shown"
    return f"the printed {row['mean']:g} {slip if math.isnan(row['value_judge']) else taken} ({why})"


def _std_of_half_width(n: int) -> float:
    """The standard deviation of n values whose mean has a 95% interval of half-width 1."""
    from scipy.special import stdtrit  # Student's quantile; scipy.stats takes seconds to import

    return float(math.sqrt(n) / stdtrit(n - 1, 0.975))
