"""`fedshift report`: tables, figures, partitions, costs and provenance of experiments as one offline page."""

from __future__ import annotations

import click

from fedshift.cli._names import complete, experiments
from fedshift.cli.plan import read_request
from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace


@click.command
@click.argument("names", metavar="[EXPERIMENT]...", nargs=-1, shell_complete=complete(experiments))
@click.option("--set", "folder", help="The folder's name below results/report/.")
@click.pass_obj
def command(workspace: Workspace, names: tuple[str, ...], folder: str | None) -> None:
    """Write results/report/<set>/index.html of collected experiments (default: those of params.yaml), and of
    archived ones (docs/archive.md).

    <set> is --set, else the name of the only experiment, or folder of them, that is asked for, else "all".
    The page needs no network.
    """
    from fedshift.analysis import report
    from fedshift.cli._collected import collected_or_archived, shown_without_training

    experiments = read_request(workspace, names).experiments
    for name in experiments:
        if not workspace.metrics(name).is_file() and shown_without_training(workspace, load(workspace, name)):
            collected_or_archived(workspace, name)
    single = [group[0] for group in (names, experiments) if len(group) == 1]
    click.echo(report.write(workspace, experiments, folder or (single[0] if single else "all")))
