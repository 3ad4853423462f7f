"""fedshift prepare: decode raw images once into a memory map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fedshift.workspace import Workspace


@click.command("prepare")
@click.argument("name")
@click.option("--release", default="original", show_default=True)
@click.option("--px", default=32, show_default=True, help="Side of the squares, in pixels.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes; default the cores at hand.")
@click.pass_obj
def command(workspace: Workspace, name: str, release: str, px: int, jobs: int | None) -> None:
    """Resize every image of data set NAME to PX x PX, into data/prepared/NAME."""
    from fedshift.data.prepare import prepare
    from fedshift.spec import Prepare, closed

    click.echo(prepare(workspace, name, release, closed(Prepare, {"px": px}, "--px"), jobs))
