"""`fedshift table`: write an experiment's tables."""

from __future__ import annotations

import click

from fedshift.analysis import tables
from fedshift.analysis.collect import read
from fedshift.workspace import Workspace


@click.command
@click.argument("experiment")
@click.pass_obj
def command(workspace: Workspace, experiment: str) -> None:
    """Write the tables of EXPERIMENT below results/tables/, ours beside the published values, and print them."""
    stem = tables.write(workspace, read(workspace, experiment))
    click.echo(stem.with_suffix(".md").read_text())
    click.echo(stem.with_suffix(".html"))
