"""`fedshift scorecard`: every printed number and claim, counted by verdict."""

from __future__ import annotations

import click

from fedshift.analysis.report import scorecard
from fedshift.storage.workspace import Workspace


@click.command
@click.pass_obj
def command(workspace: Workspace) -> None:
    """Write results/scorecard.html and .md: by paper and table how many printed numbers are inside, outside,
    undecided, not run, not comparable, and the verdicts on claims. It reads the tables that were written.
    """
    click.echo(scorecard.write(workspace))
