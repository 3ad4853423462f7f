"""fedshift verify: check raw images against their manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fedshift.workspace import Workspace


@click.command("verify")
@click.argument("name")
@click.option("--release", default="original", show_default=True)
@click.option(
    "--write-manifest", is_flag=True, help="Take the tree as it is for right: write its manifest first."
)
@click.pass_obj
def command(workspace: Workspace, name: str, release: str, write_manifest: bool) -> None:
    """Check every raw image of data set NAME; names what is missing, surplus or corrupt."""
    from fedshift.data import verify

    if write_manifest:
        click.echo(verify.write_manifest(workspace, name, release))
    click.echo(verify.verify(workspace, name, release))
