"""`fedshift list`: names and titles of what there is, without importing any of it."""

from __future__ import annotations

import click

from fedshift import experiments, registry
from fedshift.workspace import Workspace

KINDS = [*registry.PACKAGES, "experiments"]


@click.command
@click.argument("kind", type=click.Choice(KINDS), required=False)
@click.pass_obj
def command(workspace: Workspace, kind: str | None) -> None:
    """Name what there is, of one KIND or of all."""
    for shown in [kind] if kind else KINDS:
        titles = _titles(workspace, shown)
        width = max(map(len, titles), default=0)
        click.secho(shown, bold=True)
        for name, title in titles.items():
            click.echo(f"  {name:{width}}  {title}".rstrip())


def _titles(workspace: Workspace, kind: str) -> dict[str, str]:
    if kind == "experiments":
        names = experiments.available(workspace.root)
        return {name: experiments.load(workspace.root, name).title for name in names}
    return {name: registry.title(kind, name) for name in registry.names(kind)}
