"""`fedshift new`: create a file to start from, with its test."""

import click

from fedshift.common.registry import OWN
from fedshift.skeletons import SKELETONS, write
from fedshift.storage.workspace import Workspace


@click.command(epilog="Examples: fedshift new method fedmine; fedshift new experiment mine/first")
@click.argument("kind", type=click.Choice([*SKELETONS]))
@click.argument("name")
@click.pass_obj
def command(workspace: Workspace, kind: str, name: str) -> None:
    """Write a KIND called NAME into own/ of the project folder: a working skeleton with its test. Then change
    it. It is found by its name; no other file has to change. An experiment is written to
    experiments/NAME.yaml, without a test.
    """
    for path in write(workspace, kind, name):
        click.echo(path)
    page, after = SKELETONS[kind]
    click.echo(f"How to go on: {page}. Then:")
    for line in after:
        click.echo(f"  {line.format(name=name, test=f'pytest {OWN}/tests/test_{name}.py')}")
