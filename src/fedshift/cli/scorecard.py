"""`fedshift scorecard`: every published number, comparison and sentence, counted by verdict."""

import functools
import gc
from collections.abc import Iterator
from multiprocessing import parent_process
from pathlib import Path

import click
from tqdm import tqdm

from fedshift.analysis import scorecard, tables
from fedshift.analysis.collected import read
from fedshift.analysis.coverage import numbers
from fedshift.archive import store
from fedshift.cli.results import collected_or_archived
from fedshift.common.processes import spread
from fedshift.experiments.expand import cells_of
from fedshift.experiments.load import available, load
from fedshift.experiments.schema import Experiment
from fedshift.experiments.tuning import read_choice
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace


@click.command(epilog="Example: fedshift scorecard")
@click.option(
    "--written",
    "written_alone",
    is_flag=True,
    help="Use existing tables only; build none from the archive.",
)
@click.pass_obj
def command(workspace: Workspace, written_alone: bool) -> None:
    """Write results/scorecard.html and .md: published numbers and claims by verdict, for every paper.

    Uses the tables of all experiments. Missing tables of experiments that are archived, or need no run, are
    written first.
    """
    unwritten = [] if written_alone else [*_unwritten(workspace)]
    # Planning is done in separate processes, as it loads torch, which the page does not need.
    with spread(len(unwritten)) as each:
        # All are collected before a table is made: claims compare with runs of other experiments.
        collected = each(functools.partial(_collected, workspace), unwritten)
        bar = tqdm(collected, "archived experiments", len(unwritten), disable=None if unwritten else True)
        names = [name for name, shown in zip(unwritten, bar, strict=True) if shown]
        published = each(numbers, [workspace])
        for page in each(functools.partial(_write, workspace), names):
            click.echo(page)
        known = next(iter(published))
    page = scorecard.write(workspace, known)
    click.echo(page.with_suffix(".md").read_text(encoding="utf-8").split("\n\n")[1])
    click.echo(page)


def _collected(workspace: Workspace, name: str) -> bool:
    """Collect an experiment if that needs no training; returns whether it does not."""
    if parent_process():  # a worker, which lasts seconds, of which this would take an eighth
        gc.disable()
    if shown := shown_without_training(workspace, load(workspace, name)):
        collected_or_archived(workspace, name)
    return shown


def _write(workspace: Workspace, name: str) -> Path:
    """Write the tables of a collected experiment."""
    return tables.write(workspace, read(workspace, name)).with_suffix(".md")


def _unwritten(workspace: Workspace) -> Iterator[str]:
    """Experiments with tables or claims of which none is written."""
    for name in available(workspace) if workspace.archive.is_dir() else ():
        experiment = load(workspace, name)
        if (experiment.tables or experiment.claims) and not workspace.tables(name).exists():
            yield name


def shown_without_training(workspace: Workspace, experiment: Experiment) -> bool:
    """Whether an experiment needs no run, or has an archived one.

    For a tuned experiment, only runs with settings that its search has chosen count. Most experiments have
    none, and resolving a spec takes long. So only specs with the images, local training and rounds of an
    archived run are resolved.
    """
    if not experiment.train:
        return True
    choice = None
    if experiment.tune:
        if not workspace.tuned(experiment.name).is_file():
            return False
        choice = read_choice(workspace, experiment.name)

    def like_an_archived(spec: RunSpec) -> bool:
        archived = map(store.specification, store.within(workspace.archive / spec.place))
        return any(_settings(other) == _settings(spec) for other in archived)

    cells = cells_of(workspace, experiment, choice, like_an_archived, built=False)
    return any(store.paths(workspace, cell.spec.run_name) for cell in cells)


def _settings(spec: RunSpec) -> tuple[object, ...]:
    """The settings that a declared spec shares with the resolved one."""
    return spec.data, spec.local, spec.federation, spec.evaluation
