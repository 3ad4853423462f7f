"""Shared by the verbs that show collected results."""

from __future__ import annotations

from collections.abc import Sequence

import click

from fedshift.analysis.collection.collect import NothingFinished, collect
from fedshift.analysis.collection.collected import Collected, is_there, lacking, read
from fedshift.archive import store
from fedshift.experiments.expand import specs
from fedshift.experiments.schema import Experiment
from fedshift.experiments.tuning import read_choice
from fedshift.storage.workspace import Workspace

NAMED = 10  # runs that are not finished; thousands are counted


def collected_or_archived(workspace: Workspace, name: str) -> Collected:
    """What `fedshift collect` wrote of an experiment. Where the archive has more, the experiment's file is
    newer or other code collected it, as in a clone that has not collected yet or pulled since, it is
    collected first: nothing is trained. Raises FedshiftError where there is nothing to show.
    """
    here = is_there(workspace, name)
    if here and (_is_current(workspace, name) or not workspace.archive.is_dir()):
        collected = read(workspace, name)
        runs = collected.runs  # adaptations come with their runs
        missing = runs.loc[(runs["state"] != "finished") & runs["adaptation"].isna(), "run"]
        if not store.archived(workspace, missing):
            return collected
    return collect(workspace, name)


def present(workspace: Workspace, names: Sequence[str]) -> list[Collected]:
    """Those of several experiments that have results; the others are named. Raises NothingFinished where none
    has.
    """
    found, errors = [], []
    for name in names:
        try:
            found.append(collected_or_archived(workspace, name))
        except NothingFinished as error:
            errors.append(error)
    if errors and not found:
        raise errors[0]
    for nothing in errors:
        click.echo(f"left out: {nothing}", err=True)
    return found


def not_finished(workspace: Workspace, collected: Collected) -> list[str]:
    """A line for each run that is not finished, with the reason where it failed; of many the first NAMED and
    how many others there are.
    """
    lines = []
    for run in collected.missing[:NAMED]:
        failure = workspace.run_at(run.partition(" (")[0]).failure()
        lines.append(f"not finished: {run}" + (f"  {failure['kind']}: {failure['text']}" if failure else ""))
    if more := collected.missing[NAMED:]:
        lines.append(f"and {len(more)} more: fedshift status --runs {collected.experiment.name}")
    return lines


def _is_current(workspace: Workspace, name: str) -> bool:
    """Whether what was collected of an experiment is by this code, and since its file was written."""
    collected, file = workspace.metrics(name), workspace.experiments / f"{name}.yaml"
    written_since = file.exists() and collected.stat().st_mtime < file.stat().st_mtime
    return not lacking(workspace, name) and not written_since


def shown_without_training(workspace: Workspace, experiment: Experiment) -> bool:
    """Whether an experiment needs no run or has an archived one; of a tuned one, of those that
    its search has chosen. Only runs in whose folder the archive has something are looked for.
    """
    if not experiment.train:
        return True
    choice = None
    if experiment.tune:
        if not workspace.tuned(experiment.name).is_file():
            return False
        choice = read_choice(workspace, experiment.name)
    runs = specs(workspace, experiment, choice, lambda spec: workspace.archived(spec.place).is_dir())
    return any(store.paths(workspace, spec.run_name) for spec in runs)
