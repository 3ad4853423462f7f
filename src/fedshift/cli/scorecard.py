"""`fedshift scorecard`: every printed number and claim, counted by verdict."""

from __future__ import annotations

from collections.abc import Iterator

import click

from fedshift.analysis import tables
from fedshift.analysis.collection.uses import planned
from fedshift.analysis.report import scorecard
from fedshift.cli._collected import any_archived, collected_or_archived
from fedshift.cli.plan import read_request
from fedshift.experiments.load import available, load
from fedshift.storage.workspace import Workspace


@click.command
@click.option(
    "--written",
    "written_alone",
    is_flag=True,
    help="Read the tables that are there; make none of the archive.",
)
@click.pass_obj
def command(workspace: Workspace, written_alone: bool) -> None:
    """Write results/scorecard.html and .md: by paper and table how many printed numbers are inside, outside,
    undecided, not run, not comparable, and the verdicts on claims. It reads the tables that were written;
    of experiments that lack theirs, those are made first which need no run or have archived ones
    (docs/archive.md).
    """
    for name in [] if written_alone else _archived(workspace):
        click.echo(tables.write(workspace, collected_or_archived(workspace, name)).with_suffix(".html"))
    click.echo(scorecard.write(workspace))


def _archived(workspace: Workspace) -> Iterator[str]:
    """Experiments with tables, none of them written, that need no run or have archived ones."""
    if not workspace.archive.is_dir():
        return
    for name in available(workspace):
        experiment = load(workspace, name)
        if workspace.tables(name).exists() or not experiment.tables:
            continue
        rerun = read_request(workspace, (name,)).rerun
        if not experiment.train or any_archived(
            workspace, (use.directory for use in planned(workspace, experiment, None, rerun))
        ):
            yield name
