"""`fedshift compare`: methods trained under the same settings on one data set, from images to a table."""

import sys
from typing import Any

import click

from fedshift.cli._options import parsed
from fedshift.cli.run import profile_option, snakemake, snakemake_arguments, to_its_end
from fedshift.common.files import write_bytes
from fedshift.storage.workspace import Workspace


def _words(context: click.Context, parameter: click.Parameter, text: str | None) -> list[str] | None:
    """ "a, b" as names."""
    return [word.strip() for word in text.split(",")] if text else None


def _numbers(context: click.Context, parameter: click.Parameter, text: str | None) -> list[int] | None:
    """ "0,1,2" as numbers."""
    try:
        return [int(word) for word in text.split(",")] if text else None
    except ValueError:
        raise click.BadParameter("numbers with commas between them") from None


@click.command(
    epilog="Examples: fedshift compare --data folder:clinics --methods fedavg,fedbn,fdse --rounds 20; "
    "fedshift compare --data pacs --plan-only"
)
@click.option(
    "--data",
    metavar="DATASET[:RELEASE]",
    required=True,
    help="Data set: digits, pacs:hfedf, or folder:PATH, a tree domain/class/image.",
)
@click.option(
    "--methods", default="all", show_default=True, metavar="NAME,NAME..", callback=_words, help="Methods."
)
@click.option(
    "--target",
    "targets",
    metavar="DOMAIN,DOMAIN..",
    callback=_words,
    help="Domains to hold out.  [default: each once]",
)
@click.option("--seeds", metavar="N,N..", callback=_numbers, help="Seeds.  [default: the protocol's]")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds.  [default: the protocol's]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any setting, of all methods.")
@click.option("--protocol", default="unified", show_default=True, help="A file below reference/protocols.")
@click.option("--name", help="Name of the experiment.  [default: compare/RELEASE, or compare/DATASET]")
@click.option("--plan-only", is_flag=True, help="Print runs and cost only; write no experiment.")
@profile_option
@snakemake_arguments
@click.pass_context
def command(
    context: click.Context, /, data: str, settings: tuple[str, ...], name: str | None, plan_only: bool,
    profile: str, options: tuple[str, ...], **declared: Any,
) -> None:  # fmt: skip
    """Compare methods on one data set, holding out each of its domains once. Ends with tables, and with the
    methods that are distinguishable on held-out domains.

    Writes experiments/compare/NAME.yaml and runs it with Snakemake. The same command resumes. Other methods,
    seeds or domains extend the experiment; only missing runs are trained.
    """
    from fedshift.cli.plan import command as plan
    from fedshift.cli.results import rank, table
    from fedshift.data.dataset import address
    from fedshift.data.fetch import fetch
    from fedshift.data.verify import as_listed
    from fedshift.experiments import declare

    workspace: Workspace = context.obj
    where = address(data)
    fetch(workspace, where.dataset, where.release, where.tree or (), say=click.echo)
    as_listed(workspace, where.dataset, where.release)
    experiment = declare.declaration(workspace, where, settings=parsed(settings, "--set"), **declared)
    called = where.dataset if where.release == "original" else where.release
    name = name or f"{declare.FOLDER}/{called}"
    file = workspace.experiments / f"{name}.yaml"
    before = file.read_bytes() if file.exists() else None
    declare.write(workspace, name, experiment)
    stays = False
    try:
        context.invoke(plan, names=(name,))
        stays = not plan_only
    finally:
        if not stays:
            if before is None:
                file.unlink(missing_ok=True)
            elif file.read_bytes() != before:
                write_bytes(file, before)
    if stays:
        click.echo(file)
        if made := to_its_end(snakemake(name, profile, options), workspace.root):
            click.echo("Not finished. The same command resumes.", err=True)
            sys.exit(made)
        context.invoke(table, experiment=name)
        if len(experiment["methods"]) > 1:
            context.invoke(rank, experiments=(name,))
        click.echo(f"report: {workspace.report(name) / 'index.html'}")
        click.echo(f"runs, for predict and export-model: fedshift status {name} --runs")
