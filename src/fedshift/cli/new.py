"""`fedshift new`: a file to start from, with its test."""

import click

from fedshift.storage.workspace import Workspace

KINDS = ("method", "dataset", "experiment", "metric", "figure")


@click.command
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.pass_obj
def command(workspace: Workspace, kind: str, name: str) -> None:
    """Write a KIND called NAME into this checkout: whole, and tested as it stands. Then change it.

    \b
    fedshift new method fedmine
    fedshift new experiment mine/first
    """
    from fedshift.skeletons import SKELETONS, write

    for path in write(workspace, kind, name):
        click.echo(path)
    skeleton = SKELETONS[kind]
    for place, line in skeleton.add.items():
        click.echo(f"Add to {place}:\n{line.format(name=name)}")
    click.echo(f"How to go on: {skeleton.page}. Then:")
    for line in skeleton.after:
        click.echo(f"  {line.format(name=name)}")
