"""Shared by the verbs that start Snakemake."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

profile_option = click.option(
    "--profile",
    envvar="SNAKEMAKE_PROFILE",
    default="profiles/local",
    show_default=True,
    help="Snakemake's profile: profiles/local or slurm.",
)
snakemake_arguments = click.argument(
    "options", nargs=-1, type=click.UNPROCESSED, metavar="[-- SNAKEMAKE_OPTIONS]..."
)


def snakemake(experiment: str, profile: str, options: Sequence[str]) -> list[str]:
    """The command that makes all results of an experiment; options: further words for Snakemake."""
    config, words = f"experiments=[{experiment}]", [part for word in options for part in _apart(word)]
    if flags := [place for place, word in enumerate(words) if word in ("--config", "-C")]:
        words.insert(flags[-1] + 1, config)  # Snakemake listens to the last one alone
        words = ["--profile", profile, *words]
    else:
        words = ["--config", config, "--profile", profile, *words]
    return [sys.executable, "-m", "snakemake", *words]


def _apart(word: str) -> list[str]:
    """`--config=pack=2` and `-Cpack=2` as two words, every other as it is."""
    for flag, joined in (("--config", "--config="), ("-C", "-C")):
        if word.startswith(joined) and word != flag:
            return [flag, word.removeprefix(joined)]
    return [word]
