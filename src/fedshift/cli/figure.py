"""`fedshift figure`: draw an experiment's figures."""

from __future__ import annotations

import click

from fedshift.analysis.drawing import static
from fedshift.cli._collected import collected_or_archived
from fedshift.cli._names import complete, experiments
from fedshift.storage.workspace import Workspace


@click.command
@click.argument("experiment", shell_complete=complete(experiments))
@click.pass_obj
def command(workspace: Workspace, experiment: str) -> None:
    """Draw the figures that EXPERIMENT lists below results/figures/ as SVG, PDF and PNG, with their values as
    CSV.
    """
    for path in static.write(workspace, collected_or_archived(workspace, experiment)):
        click.echo(path)
