"""`fedshift run`: one experiment from images to tables and figures, by Snakemake; or one run of a method."""

from __future__ import annotations

import os

import click
from click.core import ParameterSource

from fedshift.cli._names import complete, domains, experiments_and_methods, registered
from fedshift.cli._options import device_option, threads_option
from fedshift.cli._snakemake import profile_option, snakemake, snakemake_arguments
from fedshift.storage.workspace import Workspace


@click.command
@click.argument("name", metavar="EXPERIMENT|METHOD", shell_complete=complete(experiments_and_methods))
@profile_option
@click.option(
    "--data",
    metavar="DATASET[:RELEASE]",
    shell_complete=complete(registered("datasets")),
    help="Train METHOD once, on this: digits, pacs:hfedf, folder:PATH.",
)
@click.option(
    "--target", metavar="DOMAIN", shell_complete=domains, help="The held-out domain.  [default: none]"
)
@click.option("--seed", type=click.IntRange(min=0), help="Decides every draw.  [default: 0]")
@click.option("--rounds", type=click.IntRange(min=0), help="Rounds.  [default: the protocol's]")
@click.option("--protocol", metavar="NAME", help="A file below reference/protocols.  [default: unified]")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any setting of a run, by its dotted key (method.params.mu=0.1): docs/settings.md.",
)
@device_option
@threads_option
@snakemake_arguments
@click.pass_obj
def command(
    workspace: Workspace,
    name: str,
    profile: str,
    data: str | None,
    target: str | None,
    seed: int | None,
    rounds: int | None,
    protocol: str | None,
    settings: tuple[str, ...],
    device: str,
    threads: int,
    options: tuple[str, ...],
) -> None:
    """Make all results of EXPERIMENT, whether or not params.yaml lists it; what is done is not done again.
    What follows `--` is for Snakemake: options (`fedshift run demo -- --dry-run`) and targets
    (`fedshift run demo -- results/tables/demo/table.csv`).

    With --data, train METHOD once, in this process: images are fetched where they may be, decoded and
    divided; Ctrl-C stops it, and the same command goes on. It is the run of the same name and folder that an
    experiment with these settings trains.

    \b
    fedshift run fedavg --data digits --target ink --rounds 3 --set local.lr=0.1
    """
    asked = {"target": target, "seed": seed, "rounds": rounds, "protocol": protocol}
    own = {key: value for key, value in asked.items() if value is not None}
    source = click.get_current_context().get_parameter_source
    typed = [key for key in ("profile", "device", "threads") if source(key) is ParameterSource.COMMANDLINE]
    if data is not None:
        from fedshift.cli import _single

        if options or "profile" in typed:
            given = "What follows --" if options else "--profile"
            raise click.UsageError(f"{given} is for Snakemake, which trains experiments.")
        _single.run(workspace, name, data, own, settings, device, threads)
        return
    own_flags = [*own, *(["set"] if settings else []), *(key for key in typed if key != "profile")]
    if own_flags:
        flags = ", ".join(f"--{key}" for key in own_flags)
        raise click.UsageError(f"{flags}: of one run of a METHOD, which needs --data, too.")
    _known(workspace, name)
    os.chdir(workspace.root)
    words = snakemake(name, profile, options)
    os.execv(words[0], words)  # in its place: Ctrl-C and the exit status are Snakemake's own


def _known(workspace: Workspace, name: str) -> None:
    """Refuse what is no experiment, with the nearest name; of a method say what is lacking."""
    from fedshift.cli.plan import read_request
    from fedshift.common.errors import FedshiftError
    from fedshift.common.registry import names

    try:
        read_request(workspace, (name,))
    except FedshiftError as error:
        if name in names("methods"):
            cure = f"Say on which data: fedshift run {name} --data digits"
            raise FedshiftError(error.where, f"'{name}' is a method, and no experiment", cure) from None
        raise
