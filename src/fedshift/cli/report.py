"""`fedshift report`: tables, figures, partitions, costs and provenance of experiments as one offline page."""

from __future__ import annotations

import click

from fedshift.cli._options import experiments_argument
from fedshift.cli.plan import read_request
from fedshift.storage.workspace import Workspace


@click.command
@experiments_argument
@click.option("--set", "folder", help="The folder's name below results/report/.")
@click.pass_obj
def command(workspace: Workspace, names: tuple[str, ...], folder: str | None) -> None:
    """Write results/report/<set>/index.html of the finished and archived runs of experiments (default: those
    of params.yaml).

    <set> is --set, else the name of the only experiment, or folder of them, that is asked for, else "all".
    The page needs no network.
    """
    from fedshift.analysis import report
    from fedshift.cli._collected import present

    experiments = read_request(workspace, names).experiments
    present(workspace, experiments)
    single = [group[0] for group in (names, experiments) if len(group) == 1]
    click.echo(report.write(workspace, experiments, folder or (single[0] if single else "all")))
