"""`fedshift list`: names and titles of plug-ins, data sets and experiments, without importing any of them.

For data sets it also shows their state, for methods what they record.
"""

from datetime import datetime

import click

from fedshift.cli._options import echo_json, json_option
from fedshift.common import registry
from fedshift.common.errors import FedshiftError
from fedshift.experiments.load import available, load
from fedshift.storage.rundir import rounds_trained, trained
from fedshift.storage.workspace import Workspace

KINDS = [*registry.PACKAGES, "experiments"]
RUNS = "runs"  # listed on request only


@click.command(epilog="Examples: fedshift list methods; fedshift list experiments --json; fedshift list runs")
@click.argument("kind", type=click.Choice([*KINDS, RUNS]), required=False)
@json_option
@click.pass_obj
def command(workspace: Workspace, kind: str | None, as_json: bool) -> None:
    """List methods, models, data sets, metrics, experiments and more: all, or one KIND.

    `runs` lists the finished runs in this folder with their ids, the newest last.
    """
    listed = {section: _titles(workspace, section) for section in ([kind] if kind else KINDS)}
    if as_json:
        echo_json(listed)
        return
    for section, titles in listed.items():
        width = max(map(len, titles), default=0)
        click.secho(section, bold=True)
        for name, title in titles.items():
            click.echo(f"  {name:{width}}  {title}".rstrip())
            for line in _states(workspace, name) if kind == "datasets" else ():
                click.echo(f"  {'':{width}}    {line}")


def _states(workspace: Workspace, name: str) -> list[str]:
    """The state of each release of a data set: absent, raw, verified, prepared and partitioned."""
    from fedshift.data.state import states

    try:
        return [f"{release}: {state}" for release, state in states(workspace, name).items()]
    except FedshiftError as error:
        return [_broken(error)]


def _titles(workspace: Workspace, kind: str) -> dict[str, str]:
    """Names with their titles, or with the error in their files."""

    def title(name: str) -> str:
        try:
            if kind == "experiments":
                return load(workspace, name).title
            if name not in registry.own(kind):
                registry.get(kind, name)  # a file of the user's may be broken
            return registry.title(kind, name)
        except FedshiftError as error:
            return _broken(error)

    if kind == RUNS:
        return _runs(workspace)
    every = available(workspace) if kind == "experiments" else registry.names(kind)
    return {name: title(name) for name in every}


def _runs(workspace: Workspace) -> dict[str, str]:
    """The finished runs, by the time of their end: run id -> what it trained, and when it ended."""
    found = []
    for run in workspace.runs():
        if summary := run.summary():
            ended = datetime.fromtimestamp(run.summary_file.stat().st_mtime)
            words = f"{trained(summary)}, rounds: {rounds_trained(summary)}, {ended:%Y-%m-%d %H:%M}"
            found.append((ended, run.name, words))
    return {name: words for _, name, words in sorted(found)}


def _broken(error: FedshiftError) -> str:
    return f"broken: {error.where}: {error.what}"
