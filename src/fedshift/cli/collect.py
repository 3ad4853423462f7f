"""`fedshift collect`: gather the metrics of an experiment's runs."""

from __future__ import annotations

from pathlib import Path

import click

from fedshift.analysis.collection.collect import collect
from fedshift.analysis.collection.columns import ARCHIVE
from fedshift.cli._collected import not_finished
from fedshift.cli._names import complete, experiments
from fedshift.cli._planned import plan_option
from fedshift.cli.plan import read_request
from fedshift.planning import planfile
from fedshift.planning.request import Request
from fedshift.storage.workspace import TUNING, Workspace


@click.command
@click.argument("experiment", shell_complete=complete(experiments))
@plan_option
@click.pass_obj
def command(workspace: Workspace, experiment: str, plan: Path | None) -> None:
    """Gather the metrics of EXPERIMENT's runs into results/metrics/; those that are not
    finished here come from the archive (docs/archive.md), or are named. EXPERIMENT.tuning is its tuning.
    """
    request = read_request(workspace, (experiment.removesuffix(TUNING),))
    if plan is None:
        plan = _last(workspace, request)
    collected = collect(workspace, experiment, plan)
    click.echo(
        f"{len(collected.runs) - len(collected.missing)} of {len(collected.runs)} runs: {collected.path}"
    )
    if archived := (collected.runs["source"] == ARCHIVE).sum():
        click.echo(f"from the archive: {archived}")
    for line in not_finished(workspace, collected):
        click.echo(line, err=True)


def _last(workspace: Workspace, request: Request) -> Path | None:
    """The plan of what is declared now, where one was made: thousands of runs need not be expanded again. Not
    of a tuned experiment, whose plan may lack the final runs.
    """
    path = planfile.last(workspace, request)
    return path if path and not planfile.choices(path) else None
