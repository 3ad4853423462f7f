"""`fedshift rank`: methods over data sets and held-out domains."""

from __future__ import annotations

import click

from fedshift.cli._collected import present
from fedshift.experiments.column import quantity
from fedshift.storage.workspace import Workspace


@click.command
@click.argument("experiments", nargs=-1, required=True, metavar="EXPERIMENT...")
@click.option("--metric", default="ood", show_default=True, metavar="METRIC.AGGREGATION", help="Ranked by.")
@click.option("--alpha", type=click.FloatRange(0, 1, True, True), default=0.05, show_default=True)
@click.pass_obj
def command(workspace: Workspace, experiments: tuple[str, ...], metric: str, alpha: float) -> None:
    """Rank the methods of EXPERIMENTs over all their data sets and held-out domains: mean ranks with the
    Friedman test and Nemenyi's critical difference, interquartile means, the probability of improvement.

    Written to results/tables/<first EXPERIMENT>/ranks.csv and .md.
    """
    from fedshift.analysis import ranking

    quantity(metric, "--metric")
    collections = present(workspace, experiments)
    result = ranking.ranking(collections, metric, alpha)
    stem = ranking.write(workspace.tables(experiments[0]), result, metric)
    click.echo(stem.with_suffix(".md").read_text(encoding="utf-8"))
    click.echo(stem.with_suffix(".csv"))
