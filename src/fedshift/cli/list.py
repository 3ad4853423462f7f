"""`fedshift list`: names and titles of what there is, without importing any of it; for data sets also how far
each has come, for methods what they record.
"""

from __future__ import annotations

import click

from fedshift.cli._options import echo_json, json_option
from fedshift.common import registry
from fedshift.common.errors import FedshiftError
from fedshift.experiments.load import available, load
from fedshift.storage.workspace import Workspace

KINDS = [*registry.PACKAGES, "experiments"]


@click.command
@click.argument("kind", type=click.Choice(KINDS), required=False)
@json_option
@click.pass_obj
def command(workspace: Workspace, kind: str | None, as_json: bool) -> None:
    """Name what there is, of one KIND or of all."""
    if as_json:
        echo_json({section: _titles(workspace, section) for section in ([kind] if kind else KINDS)})
        return
    for section in [kind] if kind else KINDS:
        titles = _titles(workspace, section)
        width = max(map(len, titles), default=0)
        click.secho(section, bold=True)
        for name, title in titles.items():
            click.echo(f"  {name:{width}}  {title}".rstrip())
            try:
                if kind == "datasets":
                    _states(workspace, name, width)
                if kind == "methods":
                    _logs(name, width)
            except FedshiftError as error:
                click.echo(f"  {'':{width}}    {_broken(error)}")


def _logs(name: str, width: int) -> None:
    """A line per small tensor that the method logs."""
    for logged, meaning in registry.get("methods", name).logs.items():
        click.echo(f"  {'':{width}}    {logged}: {meaning}")


def _states(workspace: Workspace, name: str, width: int) -> None:
    """A line per release: absent, raw, verified, prepared, partitioned."""
    from fedshift.data.state import states

    for release, state in states(workspace, name).items():
        click.echo(f"  {'':{width}}    {release}: {state}")


def _titles(workspace: Workspace, kind: str) -> dict[str, str]:
    """Names with what each is, or what is wrong with its file."""

    def title(name: str) -> str:
        try:
            return load(workspace, name).title if kind == "experiments" else registry.title(kind, name)
        except FedshiftError as error:
            return _broken(error)

    every = available(workspace) if kind == "experiments" else registry.names(kind)
    return {name: title(name) for name in every}


def _broken(error: FedshiftError) -> str:
    return f"broken: {error.where}: {error.what}"
