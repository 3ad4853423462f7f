"""`fedshift collect`: gather the metrics of an experiment's runs."""

from pathlib import Path

import click

from fedshift.analysis.collect import collect
from fedshift.analysis.collected import ARCHIVE, not_finite
from fedshift.cli._options import experiment_argument, plan_option
from fedshift.cli.plan import read_request
from fedshift.planning import planfile
from fedshift.storage.workspace import Workspace

NAMED = 10  # maximum of unfinished runs to name; more are counted


@click.command
@experiment_argument
@plan_option
@click.pass_obj
def command(workspace: Workspace, experiment: str, plan: Path | None) -> None:
    """Gather the metrics of EXPERIMENT's runs into results/metrics/. Runs that are not finished here come
    from the archive, or are listed as missing.
    """
    if plan is None:  # of what is declared now, if it was made: thousands of runs are not expanded again
        plan = planfile.last(workspace, read_request(workspace, (experiment,)))
    collected = collect(workspace, experiment, plan)
    total = len(collected.runs)
    click.echo(f"{total - len(collected.missing)} of {total} runs: {collected.path}")
    if archived := (collected.runs["source"] == ARCHIVE).sum():
        click.echo(f"from the archive: {archived}")
    if diverged := not_finite(collected.path, collected.keys):
        run, start = diverged[0]
        first = " ".join([run["method"], *(f"{axis}={run[axis]}" for axis in collected.keys[1:])])
        click.echo(
            f"not finite: records of {len(diverged)} runs, {first} from round {start} on\n"
            "  Lower local.lr, or set local.clip: docs/troubleshooting.md.",
            err=True,
        )
    for name in collected.missing[:NAMED]:
        failure = workspace.run_at(name.partition(" (")[0]).failure()
        why = f"  {failure['kind']}: {failure['text']}" if failure else ""
        click.echo(f"not finished: {name}{why}", err=True)
    if more := collected.missing[NAMED:]:
        click.echo(f"and {len(more)} more: fedshift status --runs {experiment}", err=True)
