"""`fedshift run`: one experiment from images to tables and figures, by Snakemake."""

from __future__ import annotations

import os
import sys

import click

from fedshift.workspace import Workspace


@click.command
@click.argument("experiment")
@click.option(
    "--profile",
    envvar="SNAKEMAKE_PROFILE",
    default="profiles/local",
    show_default=True,
    help="Snakemake's profile: profiles/local or slurm.",
)
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- SNAKEMAKE_OPTIONS]...")
@click.pass_obj
def command(workspace: Workspace, experiment: str, profile: str, options: tuple[str, ...]) -> None:
    """Make all results of EXPERIMENT, whether or not params.yaml lists it; what is done is not done again.

    What follows `--` is for Snakemake: options (`fedshift run demo -- --dry-run`) and targets
    (`fedshift run demo -- results/tables/demo/table.csv`).
    """
    from fedshift.cli.plan import read_request

    read_request(workspace, (experiment,))  # known, or refused with the nearest name
    config, words = f"experiments=[{experiment}]", list(options)
    if flags := [place for place, word in enumerate(words) if word in ("--config", "-C")]:
        words.insert(flags[-1] + 1, config)  # Snakemake listens to the last one alone
        words = ["--profile", profile, *words]
    else:
        words = ["--config", config, "--profile", profile, *words]
    os.chdir(workspace.root)
    # In its place: Ctrl-C and the exit status are Snakemake's own.
    os.execv(sys.executable, [sys.executable, "-m", "snakemake", *words])
