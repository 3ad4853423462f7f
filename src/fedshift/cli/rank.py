"""`fedshift rank`: methods over data sets and held-out domains."""

from __future__ import annotations

import click

from fedshift.cli._collected import present
from fedshift.experiments.column import quantity
from fedshift.storage.workspace import Workspace


@click.command
@click.argument("experiments", nargs=-1, required=True, metavar="EXPERIMENT...")
@click.option("--metric", default="ood", show_default=True, metavar="METRIC.AGGREGATION", help="Ranked by.")
@click.option(
    "--against", default="", metavar="ROW", help="Compared with.  [default: fedavg, else the first]"
)
@click.pass_obj
def command(workspace: Workspace, experiments: tuple[str, ...], metric: str, against: str) -> None:
    """Rank the methods of EXPERIMENTs by their mean over all data sets and held-out domains, and say which
    can be told from fedavg: differences with intervals that hold all at once at 95%.

    Written to results/tables/<first EXPERIMENT>/ranks.csv and .md.
    """
    from fedshift.analysis import ranking

    quantity(metric, "--metric")
    collections = present(workspace, experiments)
    result = ranking.ranking(collections, metric, against)
    stem = ranking.write(workspace.tables(experiments[0]), result, metric)
    click.echo(stem.with_suffix(".md").read_text(encoding="utf-8"))
    click.echo(stem.with_suffix(".csv"))
