"""`fedshift compare`: methods trained under the same settings on one data set, from images to a table."""

import sys

import click

from fedshift.cli._options import complete, parsed, registered
from fedshift.cli.run import profile_option, snakemake, snakemake_arguments, to_its_end
from fedshift.common.files import write_bytes
from fedshift.storage.workspace import Workspace


@click.command(
    epilog="Examples: fedshift compare --data folder:clinics --methods fedavg,fedbn,fdse --rounds 20; "
    "fedshift compare --data pacs --plan-only"
)
@click.option(
    "--data",
    metavar="DATASET[:RELEASE]",
    required=True,
    shell_complete=complete(registered("datasets")),
    help="Data set: digits, vlcs:domainbed, or folder:PATH, a tree domain/class/image.",
)
@click.option("--methods", default="all", show_default=True, metavar="NAME,NAME..", help="Methods.")
@click.option(
    "--target", "targets", metavar="DOMAIN,DOMAIN..", help="Domains to hold out.  [default: each once]"
)
@click.option("--seeds", metavar="N,N..", help="Seeds.  [default: the protocol's]")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds.  [default: the protocol's]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any setting, of all methods.")
@click.option("--protocol", default="unified", show_default=True, help="A file below reference/protocols.")
@click.option("--name", help="Name of the experiment.  [default: compare/RELEASE, or compare/DATASET]")
@click.option("--plan-only", is_flag=True, help="Print runs and cost only; write no experiment.")
@profile_option
@snakemake_arguments
@click.pass_obj
def command(
    workspace: Workspace,
    data: str,
    methods: str,
    targets: str | None,
    seeds: str | None,
    rounds: int | None,
    settings: tuple[str, ...],
    protocol: str,
    name: str | None,
    plan_only: bool,
    profile: str,
    options: tuple[str, ...],
) -> None:
    """Compare methods on one data set, holding out each of its domains once. Ends with tables, and with the
    methods that are distinguishable on held-out domains.

    Writes experiments/compare/NAME.yaml and runs it with Snakemake. The same command resumes. Other methods,
    seeds or domains extend the experiment; only missing runs are trained.
    """
    from fedshift.data.dataset import address
    from fedshift.data.fetch import fetch
    from fedshift.data.verify import as_listed
    from fedshift.experiments import declare

    where = address(data)
    fetch(workspace, where.dataset, where.release, where.tree or (), say=click.echo)
    as_listed(workspace, where.dataset, where.release)
    declared = declare.declaration(
        workspace,
        where,
        methods.replace(" ", "").split(","),
        protocol=protocol,
        targets=[word.strip() for word in targets.split(",")] if targets else None,
        seeds=_numbers(seeds) if seeds else None,
        rounds=rounds,
        settings=parsed(settings, "--set"),
    )
    called = where.dataset if where.release == "original" else where.release
    name = name or f"{declare.FOLDER}/{called}"
    file = workspace.experiments / f"{name}.yaml"
    before = file.read_bytes() if file.exists() else None
    declare.write(workspace, name, declared)
    stays = False
    try:
        _said(["plan", name], workspace)
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
        _said(["table", name], workspace)
        if len(declared["methods"]) > 1:
            _said(["rank", name], workspace)
        click.echo(f"report: {workspace.report(name) / 'index.html'}")
        click.echo(f"runs, for predict and export-model: fedshift status {name} --runs")


def _said(arguments: list[str], workspace: Workspace) -> None:
    """Call another command; exit with its status if it fails."""
    from fedshift.cli import main

    if status := main.main(["--root", str(workspace.root), *arguments], standalone_mode=False):
        sys.exit(status)


def _numbers(text: str) -> list[int]:
    """ "0,1,2" as numbers."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise click.BadParameter("numbers with commas between them", param_hint="--seeds") from None
