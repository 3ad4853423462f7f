"""Arguments and options shared by several commands, conversion of their values, and completion in shells.

Enable completion with `eval "$(_FEDSHIFT_COMPLETE=bash_source fedshift)"`, or zsh_source, fish_source.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import click
import yaml

from fedshift.common import registry
from fedshift.common.errors import FedshiftError
from fedshift.common.yaml_file import value as value_of
from fedshift.storage.workspace import Workspace, project_folder

Completer = Callable[[click.Context, click.Parameter, str], list[str]]
Names = Callable[[Workspace], Iterable[str]]


def complete(*kinds: Names) -> Completer:
    """For `shell_complete=`: the names of these kinds that begin with the given text."""

    def completed(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
        workspace = Workspace(Path(context.find_root().params.get("root") or project_folder()))
        return [name for names in kinds for name in names(workspace) if name.startswith(begun)]

    return completed


def registered(kind: str) -> Names:
    """All names of a kind (`fedshift list`)."""
    return lambda workspace: registry.names(kind)


def experiments(workspace: Workspace) -> list[str]:
    """The names of the files below experiments/."""
    from fedshift.experiments.load import available

    return available(workspace)


experiment_argument = click.argument("experiment", shell_complete=complete(experiments))
experiments_argument = click.argument(
    "names", metavar="[EXPERIMENT]...", nargs=-1, shell_complete=complete(experiments)
)

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
