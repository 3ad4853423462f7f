"""`fedshift figure`: draw an experiment's figures."""

from __future__ import annotations

import sys

import click

from fedshift.analysis.figures import draw
from fedshift.cli._collected import collected_or_archived
from fedshift.cli._options import experiment_argument
from fedshift.storage.workspace import Workspace


@click.command
@experiment_argument
@click.option("--lenient", is_flag=True, hidden=True, help="For Snakemake: exit with 0 in any case.")
@click.pass_obj
def command(workspace: Workspace, experiment: str, lenient: bool) -> None:
    """Plot the figures that EXPERIMENT lists below results/figures/ as SVG, PDF and PNG, with their values as
    CSV. A figure that the finished runs do not allow yet is left out, with the reason; where none can be
    plotted, exits with 2.
    """
    undrawn: list[str] = []
    paths = draw.write(workspace, collected_or_archived(workspace, experiment), undrawn.append)
    for path in paths:
        click.echo(path)
    for line in undrawn:
        click.echo(line, err=True)
    if undrawn and not paths and not lenient:
        sys.exit(2)
