"""`fedshift doctor`: what is available, what is missing, and how to fix it."""

import sys

import click

from fedshift.cli._options import experiments_argument
from fedshift.cli.plan import read_request
from fedshift.doctor import examine
from fedshift.storage.workspace import Workspace

MARKS = {"ok": ("ok", "green"), "absent": ("--", "yellow"), "wrong": ("!!", "red")}


@click.command(epilog="Example: fedshift doctor hfedf/table2")
@experiments_argument
@click.pass_obj
def command(workspace: Workspace, names: tuple[str, ...]) -> None:
    """Check GPU, Slurm, images and pretrained weights for experiments (default: those of params.yaml).

    "ok": available. "--": missing and not needed. "!!": broken, or needed and missing; the line below shows
    the fix. Exits with 1 if there is a "!!".
    """
    wrong = 0
    for finding in examine(workspace, read_request(workspace, names)):
        mark, colour = MARKS[finding.state]
        click.echo(f"{click.style(mark, fg=colour)}  {finding.part:22} {finding.text}")
        if finding.cure:
            click.echo(f"{'':27}-> {finding.cure}")
        wrong += finding.state == "wrong"
    sys.exit(min(wrong, 1))
