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
    "source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A tree domain/class/image on this machine: linked, not copied.",
)
@click.pass_obj
def command(workspace: Workspace, name: str, release: str, source: Path | None) -> None:
    """Get the raw images of data set NAME into data/raw/NAME/RELEASE."""
    from fedshift.data.fetch import fetch

    click.echo(fetch(workspace, name, release, source, say=click.echo))
