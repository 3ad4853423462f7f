"""`fedshift doctor`: what there is, what is not, what to do."""

import sys

import click

from fedshift.cli._options import experiments_argument
from fedshift.cli.plan import read_request
from fedshift.doctor import examine
from fedshift.storage.workspace import Workspace

MARKS = {"ok": ("ok", "green"), "absent": ("--", "yellow"), "wrong": ("!!", "red")}


@click.command
@experiments_argument
@click.pass_obj
def command(workspace: Workspace, names: tuple[str, ...]) -> None:
    """Check GPU, Slurm, images and published weights for experiments (default: those of params.yaml).

    "ok": there; "--": not there, and not needed; "!!": broken, or needed and not there; the line below says
    what to do. Exits with 1 where there is a "!!".
    """
    wrong = 0
    for finding in examine(workspace, read_request(workspace, names)):
        mark, colour = MARKS[finding.state]
        click.echo(f"{click.style(mark, fg=colour)}  {finding.part:22} {finding.text}")
        if finding.cure:
            click.echo(f"{'':27}-> {finding.cure}")
        wrong += finding.state == "wrong"
    sys.exit(min(wrong, 1))
