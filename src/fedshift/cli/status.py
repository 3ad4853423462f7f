"""`fedshift status`: where every run of the experiments stands, failures with their reasons."""

from __future__ import annotations

from collections import Counter

import click

from fedshift.cli.plan import request, rerun_option
from fedshift.planning import planfile
from fedshift.planning.lacking import lacking, told
from fedshift.planning.plan import ready
from fedshift.spec import RunSpec
from fedshift.training.status import STATES, state
from fedshift.workspace import Workspace


@click.command
@click.argument("names", metavar="[EXPERIMENT]...", nargs=-1)
@click.option(
    "--runs", "each", is_flag=True, help="Name every run, not only those that failed or are running."
)
@rerun_option
@click.pass_obj
def command(workspace: Workspace, names: tuple[str, ...], each: bool, rerun: str | None) -> None:
    """Count finished, running, failed and missing runs of experiments (default: those of params.yaml)."""
    asked = request(workspace.root, names, rerun=rerun)
    path = ready(workspace, asked)
    width = max(map(len, asked.experiments))
    click.echo(f"{'experiment':{width}} {'runs':>6} " + " ".join(f"{name:>8}" for name in STATES))
    lines: dict[str, tuple[str, str]] = {}
    for name in asked.experiments:
        found = {run: state(workspace.root, run) for run in planfile.runs(path, experiments=(name,))}
        counts = Counter(kind for kind, _ in found.values())
        click.echo(f"{name:{width}} {len(found):6} " + " ".join(f"{counts[kind]:8}" for kind in STATES))
        lines |= {run.directory: (kind, why) for run, (kind, why) in found.items()}
    todo = [run for run in planfile.runs(path) if lines[run.directory][0] != "finished"]
    for line in told(lacking(workspace, [RunSpec.model_validate_json(run.spec) for run in todo])):
        click.echo(line)
    for directory, (kind, why) in lines.items():
        if each or kind in ("failed", "running"):
            click.echo(f"{kind:8} {directory}" + (f"  {why}" if why else ""))
