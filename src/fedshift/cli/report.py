"""`fedshift report`: tables, figures, partitions, costs and provenance of experiments as one offline page."""

from __future__ import annotations

import click

from fedshift.analysis import report
from fedshift.cli.plan import request
from fedshift.workspace import Workspace


@click.command
@click.argument("names", metavar="[EXPERIMENT]...", nargs=-1)
@click.option("--set", "chosen", help="The folder's name below results/report/.")
@click.pass_obj
def command(workspace: Workspace, names: tuple[str, ...], chosen: str | None) -> None:
    """Write results/report/<set>/index.html of collected experiments (default: those of params.yaml).

    <set> is the name that is given, of an experiment or of a folder of them, or "all" where there are
    several, unless --set names it. The page needs no network.
    """
    asked = request(workspace, names).experiments
    alone = [one for one in (names, asked) if len(one) == 1]
    click.echo(report.write(workspace, asked, chosen or (alone[0][0] if alone else "all")))
