"""What `fedshift collect` wrote of an experiment's runs: its columns, the experiment with its runs, and what
methods recorded of them.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fedshift.common.errors import FedshiftError
from fedshift.common.parquet import read_parquet
from fedshift.common.registry import get
from fedshift.experiments.axes import axes
from fedshift.experiments.load import load
from fedshift.experiments.protocols import Protocol, protocol
from fedshift.experiments.schema import AxisValues, Experiment
from fedshift.federation.records import DIAGNOSTICS, SCHEMA, STATISTICS
from fedshift.storage.rundir import RunDirectory
from fedshift.storage.workspace import Workspace

SIZES = ("train", "val", "test")  # of a client's splits
CLIENT = {"client": pa.int16(), "domains": pa.list_(pa.string()), **dict.fromkeys(SIZES, pa.int64())}
COSTS = {
    "bytes_up": pa.int64(), "bytes_down": pa.int64(), "state_dict_bytes": pa.int64(),
    "macs_per_image": pa.int64(), "seconds": pa.float64(), "peak_memory_mb": pa.float64(),
}  # fmt: skip
TEXTS = (
    "digest", "code", "installed", "source", "run", "state", "failure", "spec", "adaptation", "evaluates",
    "stage", "bn", "precision", "hardware", "images",
)  # fmt: skip
RUNS = pa.schema(
    {
        **dict.fromkeys(TEXTS, pa.string()),
        "pooled": pa.bool_(),
        "rounds": pa.int64(),
        "finished": pa.float64(),
        "classes": pa.list_(pa.string()),
        "clients": pa.list_(pa.struct(CLIENT)),
        "absent": pa.string(),
        **COSTS,
    }
)
OWN, ARCHIVE = "own", "archive"  # values of `source`: trained here, or read from the archive
# Joined to records and statistics (fedshift.analysis.quantities).
OWN_SPLIT = "own_split"
# Of curves: accuracies by aggregation, and those that choose rounds.
ACCURACIES = ("id", "ood", "all", "avg")
CHOOSING = ("val", "held_out")
# Of tables (fedshift.analysis.tables): the rule and the table of a cell, its numbers, what is printed beside.
SELECT, TABLE = "select", "table"
NUMBERS = ("mean", "std", "seeds", "planned")
BESIDE = {
    "published": float, "published_std": float, "difference": float, "low": float, "high": float,
    "margin": float, "rule": str, "verdict": str, "uid": str, "orientation": float, "orientation_std": float,
    "differs": str, "remark": str, "spread": str, "fewer": str, "clients": str, "archived": int, "text": str,
    "published_text": str,
}  # fmt: skip
COLUMNS = frozenset(
    [
        *("method", *RUNS.names, *SCHEMA.names, *STATISTICS.names, *DIAGNOSTICS.names, *SIZES, OWN_SPLIT),
        *(*ACCURACIES, *CHOOSING, SELECT, TABLE, *NUMBERS, *BESIDE),
    ]
)  # which no axis may be called


@dataclass(frozen=True)
class Collected:
    """An experiment with its collected runs; `keys` ("method" and the axes) together name one run.

    `runs` has one row per planned run, and one per adaptation of it; `state` is finished, failed or missing,
    and only finished ones have records.
    """

    experiment: Experiment
    protocol: Protocol
    path: Path
    keys: list[str]
    runs: pd.DataFrame

    @property
    def statistics(self) -> Path:
        """The file of statistics, from which metrics are computed."""
        return beside(self.path, "statistics")

    @functools.cached_property
    def aggregated(self) -> dict[tuple[str, str], pd.Series[float]]:
        """(metric, aggregation) -> its values by run and round, as far as they have been asked for
        (fedshift.analysis.quantities): tables, figures and claims ask for the same ones.
        """
        return {}

    @functools.cached_property
    def places(self) -> dict[tuple[Any, ...], int]:
        """Keys of a finished run, None where there is no value -> its row in `runs`."""
        finished = self.runs.loc[self.runs["state"] == "finished", self.keys].astype(object)
        named = finished.where(finished.notna(), None).itertuples(index=False, name=None)
        return dict(zip(named, finished.index, strict=True))

    def of_each_run(self, rows: pd.DataFrame) -> pd.DataFrame:
        """What `rows` have for each planned run, by its keys, on the index of `runs`; else NaN."""
        return self.runs[self.keys].merge(rows, on=self.keys, how="left").set_axis(self.runs.index)

    @functools.cached_property
    def order(self) -> dict[str, list[Any]]:
        """The values on each axis that runs have, in the order of the experiment's file."""
        where = f"experiments/{self.experiment.name}.yaml"
        listed = {name: (axis.key, self._listed(axis)) for name, axis in self.experiment.axes.items()}
        shown = [columns for axis in axes(listed, where) for columns in axis.columns]
        order = {}
        for key in self.keys[1:]:
            present = [*self.runs[key].dropna().drop_duplicates()]
            declared = [columns[key] for columns in shown if key in columns]
            order[key] = [value for value in dict.fromkeys([*declared, *present]) if value in present]
        return order

    def _listed(self, axis: AxisValues) -> list[Any]:
        """The values of an axis; what "all" means is in the protocol and in the data sets of the runs."""
        if axis.values != "all":
            return axis.values
        if axis.key == "seed":
            return self.protocol.seeds
        names = dict.fromkeys(json.loads(spec)["data"]["dataset"] for spec in self.runs["spec"])
        return [*dict.fromkeys(domain for name in names for domain in get("datasets", name).domains)]

    @property
    def missing(self) -> list[str]:
        """Directories of the runs that are not finished, failed ones first; of an adapted run with its row:
        "<directory> (fdse-adapted)"; none where none is trained.
        """
        if not self.experiment.train:
            return []
        left = self.runs[self.runs["state"] != "finished"].sort_values("state", kind="stable")
        rows = left["method"].map(" ({})".format).where(left["adaptation"].notna(), "")
        return list(left["run"] + rows)


def read(workspace: Workspace, name: str) -> Collected:
    """What `collect` wrote. Raises FedshiftError where it has not run yet, or not as this code does."""
    experiment, path = load(workspace, name), workspace.metrics(name)
    if not is_there(workspace, name):
        what, cure = "is not there: the runs have not been collected", f"Run `fedshift collect {name}` first."
        raise FedshiftError(path, what, cure)
    if missing := lacking(workspace, name):
        what = f"was collected by other code: it has no column '{missing[0]}'"
        raise FedshiftError(beside(path, "runs"), what, f"Run `fedshift collect {name}` again.")
    runs = pd.DataFrame(read_parquet(beside(path, "runs")).to_pandas())
    keys = list(runs.columns[: list(runs.columns).index("digest")])
    return Collected(experiment, protocol(workspace, experiment.protocol), path, keys, runs)


def is_there(workspace: Workspace, name: str) -> bool:
    """Whether an experiment was collected."""
    path = workspace.metrics(name)
    return all(file.exists() for file in (path, beside(path, "statistics"), beside(path, "runs")))


def lacking(workspace: Workspace, name: str) -> list[str]:
    """The columns of runs that an experiment which other code collected does not have."""
    present = pq.read_schema(beside(workspace.metrics(name), "runs")).names
    return [column for column in RUNS.names if column not in present]


def beside(path: Path, kind: str) -> Path:
    """The file `<experiment>.<kind>.parquet` beside the records."""
    return path.with_suffix(f".{kind}.parquet")


def diagnostics(workspace: Workspace, of: RunDirectory | str, *names: str) -> pd.DataFrame:
    """A row for each number: round, client (-1: of no client), name, index, value.

    of: a run, or a collected experiment by name, whose keys then stand in front; names: only these
        diagnostics.
    `index` is a number's place in its tensor less a first axis of clients (DiagnosticsTable.add). No rows
    have runs that are not finished, whose method recorded nothing, or that were pulled. Raises FedshiftError
    for an experiment that was not collected.
    """
    if isinstance(of, str):
        collected = read(workspace, of)
        runs = collected.runs[(collected.runs["state"] == "finished") & collected.runs["adaptation"].isna()]
        parts = [diagnostics(workspace, workspace.run_at(run), *names) for run in runs["run"]]
        keys = runs[collected.keys].iloc[np.repeat(range(len(parts)), [*map(len, parts)])]
        rows = pd.concat([pd.DataFrame(DIAGNOSTICS.empty_table().to_pandas()), *parts], ignore_index=True)
        return pd.concat([keys.reset_index(drop=True), rows], axis=1)
    if not of.diagnostics.is_file():
        return pd.DataFrame(DIAGNOSTICS.empty_table().to_pandas())
    filters = [("name", "in", names)] if names else None
    return pd.DataFrame(read_parquet(of.diagnostics, schema=DIAGNOSTICS, filters=filters).to_pandas())
