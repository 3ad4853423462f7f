"""`fedshift figure`: draw an experiment's figures."""

from __future__ import annotations

import click

from fedshift.analysis import figures
from fedshift.analysis.collect import read
from fedshift.workspace import Workspace


@click.command
@click.argument("experiment")
@click.pass_obj
def command(workspace: Workspace, experiment: str) -> None:
    """Draw the figures of EXPERIMENT below results/figures/ as SVG and PNG."""
    for path in figures.write(workspace, read(workspace, experiment)):
        click.echo(path)
