"""What verbs share that do as a plan says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedshift.errors import FedshiftError

if TYPE_CHECKING:
    from fedshift.workspace import Workspace

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


def required(plan: Path | None, instead: str) -> Path:
    """The plan. Raises FedshiftError where there is none; `instead` says what would do in its place."""
    if plan is None:
        raise FedshiftError(
            "--plan", "no plan is given", f"Give one (fedshift plan --print path), or {instead}."
        )
    return plan


def unchanged(workspace: Workspace, planned: str, present: Path) -> None:
    """Raise FedshiftError where the code has another name for what was `planned` (relative to the root)."""
    if workspace.root / planned != present:
        what = "the code has changed since this was planned"
        raise FedshiftError(planned, what, "Run snakemake again: it plans anew.")
