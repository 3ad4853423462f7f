"""Shared by the verbs that show collected results."""

from __future__ import annotations

from collections.abc import Iterable

from fedshift.analysis.collection.collect import collect
from fedshift.analysis.collection.collected import Collected, is_there, lacking, read
from fedshift.archive import store
from fedshift.cli.plan import read_request
from fedshift.common.errors import FedshiftError
from fedshift.storage.workspace import Workspace


def collected_or_archived(workspace: Workspace, name: str) -> Collected:
    """What `fedshift collect` wrote of an experiment. Where the archive has more, the experiment's file is
    newer or other code collected it, as in a clone that has not collected yet or pulled since, it is
    collected first: nothing is trained. Raises FedshiftError where there is nothing to show.
    """
    if not workspace.archive.is_dir() or _is_current(workspace, name):
        collected = read(workspace, name)
        runs = collected.runs  # adaptations come with their runs
        missing = runs.loc[(runs["state"] != "finished") & runs["adaptation"].isna(), "run"]
        if not any_archived(workspace, missing):
            return collected
    collected = collect(workspace, name, rerun=read_request(workspace, (name,)).rerun)
    if len(collected.missing) == len(collected.runs):
        what = "no run of it is finished here or archived"
        raise FedshiftError(f"experiments/{name}.yaml", what, f"To train them: fedshift run {name}")
    return collected


def _is_current(workspace: Workspace, name: str) -> bool:
    """Whether an experiment was collected by this code, and since its file was written."""
    collected, file = workspace.metrics(name), workspace.experiments / f"{name}.yaml"
    if not is_there(workspace, name) or lacking(workspace, name):
        return False
    return not file.exists() or collected.stat().st_mtime >= file.stat().st_mtime


def any_archived(workspace: Workspace, directories: Iterable[str]) -> bool:
    """Whether one of the runs with these directories, below the workspace's root, is in the archive."""
    return any(store.paths(workspace, workspace.name_of(workspace.run_at(run))) for run in directories)
