"""`fedshift check`: hold an experiment's results against what it must reach."""

from __future__ import annotations

import click

from fedshift.analysis.check import Comparison, check, diverged, write
from fedshift.cli._collected import collected_or_archived, not_finished
from fedshift.cli._names import complete, experiments
from fedshift.storage.workspace import Workspace


@click.command
@click.argument("experiment", shell_complete=complete(experiments))
@click.pass_context
def command(context: click.Context, experiment: str) -> None:
    """Hold the results of EXPERIMENT against what it must reach; ends with 1 where something falls short."""
    workspace: Workspace = context.obj
    collected = collected_or_archived(workspace, experiment)
    comparisons = check(collected)
    write(workspace, collected, comparisons)
    for comparison in comparisons:
        click.echo(_line(comparison))
    for line in not_finished(workspace, collected):
        click.echo(line)
    if rows := diverged(collected):
        click.echo("\n".join(f"not finite: {row}" for row in rows))
        click.echo("  Lower local.lr, or set local.clip: docs/one-run.md, What goes wrong.")
    context.exit(0 if all(comparison.passed for comparison in comparisons) else 1)


def _line(comparison: Comparison) -> str:
    value = "none" if comparison.value is None else f"{comparison.value:.4g}"
    return (
        f"{'ok  ' if comparison.passed else 'FAIL'} {comparison.what}: {value} (must be "
        f"{comparison.relation} {comparison.bound:.4g})"
    )
