"""Arguments and options shared by several commands, and conversion of their values."""

import json
from collections.abc import Sequence
from pathlib import Path

import click
import yaml

from fedshift.common.errors import FedshiftError
from fedshift.common.yaml_file import value as value_of

experiment_argument = click.argument("experiment")
experiments_argument = click.argument("names", metavar="[EXPERIMENT]...", nargs=-1)

json_option = click.option("--json", "as_json", is_flag=True, help="As JSON, for scripts.")

plan_option = click.option(
    "--plan",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="FEDSHIFT_PLAN",
    help="Plan file (fedshift plan --print path).",
)

device_option = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    envvar="FEDSHIFT_DEVICE",
    show_default=True,
    help="auto: a GPU if there is one. cuda: fails without one.",
)

threads_option = click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="CPU threads, shared by the runs trained at once.",
)


def echo_json(value: object) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))


def echo_rows(rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns, the first one to the left, the others to the right."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{cell!s:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
        click.echo("  ".join([f"{row[0]!s:{widths[0]}}", *cells]))


def parsed(options: tuple[str, ...], flag: str) -> dict[str, object]:
    """Settings of `FLAG KEY=VALUE`, with values as YAML.

    Raises FedshiftError for an option without "=", and for a value that is not YAML.
    """
    settings = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            raise FedshiftError(f"{flag} {option}", "has no '='", f"Write {flag} KEY=VALUE.")
        try:
            settings[key] = value_of(value)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            problem = getattr(error, "problem", None) or error
            cure = f"In quotes it is text: {flag} '{key}=\"{value}\"'."
            raise FedshiftError(f"{flag} {option}", f"its value is not YAML: {problem}", cure) from None
    return settings


def required(plan: Path | None, instead: str) -> Path:
    """The plan. Raises FedshiftError if there is none; `instead`: the alternative, for the message."""
    if plan is None:
        raise FedshiftError(
            "--plan", "no plan is given", f"Give one (fedshift plan --print path), or {instead}."
        )
    return plan


def unchanged(where: str, planned: object, present: object) -> None:
    """Raise FedshiftError if the installed code gives `present`, which differs from `planned` in the plan."""
    if present != planned:
        what = "the code has changed since this was planned"
        raise FedshiftError(where, what, "Run snakemake again: it plans again.")
