"""Shared by the verbs that show collected results."""

from __future__ import annotations

from fedshift.analysis.collection.collect import collect
from fedshift.analysis.collection.collected import Collected, read
from fedshift.cli.plan import read_request
from fedshift.common.errors import FedshiftError
from fedshift.storage.workspace import Workspace


def collected_or_archived(workspace: Workspace, name: str) -> Collected:
    """What `fedshift collect` wrote of an experiment. In a clone with an archive that has not collected yet,
    that is done first: nothing is trained. Raises FedshiftError where there is nothing to show.
    """
    if workspace.metrics(name).exists() or not workspace.archive.is_dir():
        return read(workspace, name)
    collected = collect(workspace, name, rerun=read_request(workspace, (name,)).rerun)
    if len(collected.missing) == len(collected.runs):
        what = "no run of it is finished here or archived"
        raise FedshiftError(f"experiments/{name}.yaml", what, f"To train them: fedshift run {name}")
    return collected
