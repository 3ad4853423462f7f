"""Shared by the verbs that show collected results."""

from __future__ import annotations

from collections.abc import Iterable

from fedshift.analysis.collection.collect import collect
from fedshift.analysis.collection.collected import Collected, is_there, lacking, read
from fedshift.analysis.collection.uses import choice_now
from fedshift.archive import store
from fedshift.cli.plan import read_request
from fedshift.common.errors import FedshiftError
from fedshift.experiments.expand import specs
from fedshift.experiments.schema import Experiment
from fedshift.identity import Identity, digest, run_name
from fedshift.spec import RunSpec
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


def shown_without_training(workspace: Workspace, experiment: Experiment) -> bool:
    """Whether an experiment needs no run or has an archived one, by any code; of a tuned one, of those that
    its search has chosen. Only runs in whose folder the archive has something are looked for.
    """
    if not experiment.train:
        return True
    name, choice = experiment.name, None
    if experiment.tune:
        if workspace.choices(name).is_dir() or workspace.archived_choices(name).is_dir():
            choice = choice_now(workspace, experiment, read_request(workspace, (name,)).rerun)
        if choice is None:
            return False

    def has_folder(spec: RunSpec) -> bool:
        return workspace.archived(run_name(spec, Identity("", ""))).is_dir()

    runs = specs(workspace, experiment, choice, has_folder)
    return any(store.paths(workspace, run_name(spec, Identity(digest(spec), ""))) for spec in runs)
