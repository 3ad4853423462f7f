"""Diagnostics: what methods recorded of finished runs (fedshift.federation.diagnostics), as a frame."""

from __future__ import annotations

import pandas as pd

from fedshift.analysis.collection.collected import read
from fedshift.common.parquet import read_parquet
from fedshift.federation.records import DIAGNOSTICS
from fedshift.storage.rundir import RunDirectory
from fedshift.storage.workspace import Workspace


def diagnostics(workspace: Workspace, of: RunDirectory | str, *names: str) -> pd.DataFrame:
    """A row for each number: round, client (-1: of no client), name, index, value.

    of: a run, or a collected experiment by name, whose keys then stand in front; names: only these
        diagnostics.
    `index` is a number's place in its tensor less a first axis of clients (DiagnosticsTable.add). No rows
    have runs that are not finished, whose method recorded nothing, or that were pulled. Raises FedshiftError
    for an experiment that was not collected.
    """
    if isinstance(of, RunDirectory):
        return _of_run(of, names)
    collected = read(workspace, of)
    runs = collected.runs[(collected.runs["state"] == "finished") & collected.runs["adaptation"].isna()]
    frames = [_of_run(workspace.run_at(run), names) for run in runs["run"]]
    keys = runs[collected.keys].reset_index(drop=True)
    places = [place for place, frame in enumerate(frames) for _ in range(len(frame))]
    beside = keys.iloc[places].reset_index(drop=True)
    return pd.concat([beside, pd.concat([_nothing(), *frames], ignore_index=True)], axis=1)


def _of_run(run: RunDirectory, names: tuple[str, ...]) -> pd.DataFrame:
    if not run.diagnostics.is_file():
        return _nothing()
    filters = [("name", "in", names)] if names else None
    return pd.DataFrame(read_parquet(run.diagnostics, schema=DIAGNOSTICS, filters=filters).to_pandas())


def _nothing() -> pd.DataFrame:
    return pd.DataFrame(DIAGNOSTICS.empty_table().to_pandas())
