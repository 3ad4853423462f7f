"""`fedshift export`: tables for a paper."""

from __future__ import annotations

from pathlib import Path

import click

from fedshift.analysis import export
from fedshift.cli._collected import collected_or_archived
from fedshift.cli._names import complete, experiments
from fedshift.common.errors import FedshiftError
from fedshift.storage.workspace import Workspace


@click.command
@click.argument("experiment", shell_complete=complete(experiments))
@click.option(
    "--tex", "formats", flag_value="tex", multiple=True, help="LaTeX (booktabs, siunitx, graphicx)."
)
@click.option("--pdf", "formats", flag_value="pdf", multiple=True, help="A page made of it; needs pdflatex.")
@click.option(
    "--csv", "formats", flag_value="csv", multiple=True, help="All numbers of the table, one cell a line."
)
@click.option("--md", "formats", flag_value="md", multiple=True, help="Markdown.")
@click.option("--html", "formats", flag_value="html", multiple=True, help="A section of HTML without styles.")
@click.option("--printed", is_flag=True, help="Below ours the paper's value and the verdict on it.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to; else results/export/EXPERIMENT.",
)
@click.pass_obj
def command(
    workspace: Workspace, experiment: str, formats: tuple[str, ...], printed: bool, out: Path | None
) -> None:
    """Write the tables of EXPERIMENT for a paper: the best of a column bold, the second underlined. Without a
    format: LaTeX and CSV.

    \b
    fedshift export hfedf/table2 --tex --pdf --printed
    """
    collected = collected_or_archived(workspace, experiment)
    if not collected.experiment.tables:
        cure = "See docs/add-an-experiment.md."
        raise FedshiftError(f"experiments/{experiment}.yaml", "declares no `tables` to export", cure)
    folder = out or workspace.exported(experiment)
    for path in export.write(workspace, collected, folder, set(formats) or {"tex", "csv"}, printed):
        click.echo(path)
