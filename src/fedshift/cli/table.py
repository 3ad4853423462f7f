"""`fedshift table`: write an experiment's tables."""

from __future__ import annotations

import click

from fedshift.analysis import tables
from fedshift.cli._collected import collected_or_archived
from fedshift.cli._options import experiment_argument
from fedshift.common.errors import FedshiftError
from fedshift.experiments.column import column
from fedshift.storage.workspace import Workspace


@click.command
@experiment_argument
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="METRIC.AGGREGATION",
    help="Only print the tables, with this in place of their metrics: ece.ood, worst_class.pooled, "
    "accuracy.std (see fedshift list metrics).",
)
@click.pass_obj
def command(workspace: Workspace, experiment: str, metrics: tuple[str, ...]) -> None:
    """Write the tables of EXPERIMENT below results/tables/, ours beside the published values, and print
    them. In a fresh clone they are made of the archive (docs/archive.md).
    """
    for metric in metrics:
        if column(metric, "--metric").relative:
            what = f"'{metric}' is relative to a row, which the experiment's file names"
            raise FedshiftError("--metric", what, "Leave out `gain.` or `ratio.`.")
    collected = collected_or_archived(workspace, experiment)
    if metrics:
        click.echo(tables.with_metrics(workspace, collected, list(metrics)))
        return
    if not collected.experiment.tables:
        hint = f"experiments/{experiment}.yaml declares no `tables`: docs/add-an-experiment.md says how."
        click.echo(hint, err=True)
    stem = tables.write(workspace, collected)
    click.echo(stem.with_suffix(".md").read_text(encoding="utf-8"))
    click.echo(stem.with_suffix(".md"))
