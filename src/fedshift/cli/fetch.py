"""fedshift fetch: get raw images, or say where to get them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fedshift.workspace import Workspace


@click.command("fetch")
@click.argument("name")
@click.option(
    "--release", default="original", show_default=True, help="Release; for `folder`, your name for the tree."
)
@click.option(
    "--from",
    "sources",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    metavar="PATH",
    help="A tree domain/class/image on this machine (linked, not copied), or an archive; several archives: once for each.",
)
@click.option(
    "--lists",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Official lists <domain>_train.txt, <domain>_test.txt, where the project has none.",
)
@click.pass_obj
def command(
    workspace: Workspace, name: str, release: str, sources: tuple[Path, ...], lists: Path | None
) -> None:
    """Get the raw images of data set NAME into data/raw/NAME/RELEASE."""
    from fedshift.data.fetch import fetch

    click.echo(fetch(workspace, name, release, sources, lists, say=click.echo))
