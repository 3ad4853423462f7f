"""`fedshift export`: tables as LaTeX."""

from __future__ import annotations

from pathlib import Path

import click

from fedshift.analysis import latex
from fedshift.cli._collected import collected_or_archived
from fedshift.cli._options import experiment_argument
from fedshift.common.errors import FedshiftError
from fedshift.storage.workspace import Workspace


@click.command
@experiment_argument
@click.option("--printed", is_flag=True, help="Add the published value and the verdict below each number.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Output folder; default: results/export/EXPERIMENT.",
)
@click.pass_obj
def command(workspace: Workspace, experiment: str, printed: bool, out: Path | None) -> None:
    """Write the tables of EXPERIMENT as LaTeX (booktabs, siunitx, graphicx): the best of a column bold, the
    second underlined.

    \b
    fedshift export hfedf/table2 --printed
    """
    collected = collected_or_archived(workspace, experiment)
    if not collected.experiment.tables:
        cure = "See docs/add-an-experiment.md."
        raise FedshiftError(f"experiments/{experiment}.yaml", "declares no `tables` to export", cure)
    for path in latex.write(workspace, collected, out or workspace.exported(experiment), printed):
        click.echo(path)
