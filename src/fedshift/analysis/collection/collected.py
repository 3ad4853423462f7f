"""Collected: an experiment with what `fedshift collect` wrote of its runs."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from fedshift.analysis.collection.columns import RUNS
from fedshift.common.errors import FedshiftError
from fedshift.common.parquet import read_parquet
from fedshift.common.registry import get
from fedshift.experiments.axes import axes
from fedshift.experiments.load import load
from fedshift.experiments.protocols import Protocol, protocol
from fedshift.experiments.schema import AxisValues, Experiment
from fedshift.storage.workspace import Workspace


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
        (fedshift.analysis.quantities.select): tables, figures and claims ask for the same ones.
        """
        return {}

    @functools.cached_property
    def places(self) -> dict[tuple[Any, ...], int]:
        """Keys of a finished run, None where there is no value -> its row in `runs`."""
        finished = self.runs.loc[self.runs["state"] == "finished", self.keys].astype(object)
        named = finished.where(finished.notna(), None).itertuples(index=False, name=None)
        return dict(zip(named, finished.index, strict=True))

    @functools.cached_property
    def order(self) -> dict[str, list[Any]]:
        """The values on each axis that runs have, in the order of the experiment's file."""
        where = f"experiments/{self.experiment.name}.yaml"
        listed = {name: (axis.key, self._listed(axis)) for name, axis in self.experiment.axes.items()}
        declared: dict[str, list[Any]] = {key: [] for key in self.keys[1:]}
        for columns in (columns for axis in axes(listed, where) for columns in axis.columns):
            for name, value in columns.items():
                declared.setdefault(name, []).append(value)
        met = {key: [*self.runs[key].dropna().drop_duplicates()] for key in self.keys[1:]}
        return {
            key: [value for value in dict.fromkeys([*declared[key], *present]) if value in present]
            for key, present in met.items()
        }

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
        raise FedshiftError(
            path, "is not there: the runs have not been collected", f"Run `fedshift collect {name}` first."
        )
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
