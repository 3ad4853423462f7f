"""Shared by the verbs that follow a plan."""

from __future__ import annotations

from pathlib import Path

import click

from fedshift.common.errors import FedshiftError

plan_option = click.option(
    "--plan",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="FEDSHIFT_PLAN",
    help="The plan's file (fedshift plan --print path).",
)

device_option = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    envvar="FEDSHIFT_DEVICE",
    show_default=True,
    help="auto: a GPU where there is one. cuda: fails on a machine without one.",
)

threads_option = click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="CPU threads, shared evenly by the runs that train at once.",
)


def required(plan: Path | None, instead: str) -> Path:
    """The plan. Raises FedshiftError where there is none; `instead` says what would do in its place."""
    if plan is None:
        raise FedshiftError(
            "--plan", "no plan is given", f"Give one (fedshift plan --print path), or {instead}."
        )
    return plan


def unchanged(where: str, planned: object, present: object) -> None:
    """Raise FedshiftError where the installed code gives `present` and the plan has `planned`, and they
    differ.
    """
    if present != planned:
        what = "the code has changed since this was planned"
        raise FedshiftError(where, what, "Run snakemake again: it plans anew.")
