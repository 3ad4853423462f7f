"""`fedshift reproduce`: train an archived run again and compare it with the archive."""

import logging
import sys

import click

from fedshift.archive.compare import compare
from fedshift.archive.file import Archived, read
from fedshift.cli._options import device_option
from fedshift.common.errors import FedshiftError
from fedshift.spec import parse
from fedshift.storage.rundir import State, trained
from fedshift.storage.workspace import Workspace


@click.command(epilog="Example: fedshift reproduce a9a525dc")
@click.argument("run", metavar="RUN")
@device_option
@click.option(
    "--threads", type=click.IntRange(min=1), help="CPU threads.  [default: as many as the archived run's]"
)
@click.pass_obj
def command(workspace: Workspace, run: str, device: str, threads: int | None) -> None:
    """Train an archived run again and compare it with the archive: equal bit for bit, within the noise
    between machines, or different.

    RUN is a run id or the beginning of one (`fedshift archive --list`). Images and partition are prepared
    first. An interrupted run resumes; a finished one is only compared. Exits with 1 if the run is different.
    """
    from fedshift.training.device import device as device_of
    from fedshift.training.provide import provide
    from fedshift.training.run import Machine, train

    archived = found(workspace, run)
    summary = archived.summary
    spec = parse(summary["spec"], str(archived.path))
    directory = workspace.run(spec.run_name)
    click.echo(f"{summary['digest']}: {trained(summary)}")
    click.echo(f"archived by {archived.machine}: {summary['costs']['seconds'] / 60:.0f} min")
    if directory.outcome() is not State.FINISHED:
        provide(workspace, spec, say=click.echo)
        machine = Machine(device_of(device), threads or int(summary["environment"]["threads"]))
        if not sys.stderr.isatty():  # a line per round instead of the bar
            logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
        train(workspace, spec, machine, show=True)
    result = compare(directory, archived)
    click.echo(f"{directory.path}\n{result}")
    if not result.passed:
        raise click.exceptions.Exit(1)


def found(workspace: Workspace, run: str) -> Archived:
    """The newest archived run whose id begins with `run`.

    Raises FedshiftError if there is none, or if there are several.
    """
    files = sorted(workspace.archive.rglob("*.zip"))
    named = [path for path in files if path.name.startswith(run)]
    if len({path.name.partition("-")[0] for path in named}) > 1:
        what = f"'{run}' begins the ids of {len(named)} archived runs"
        raise FedshiftError(workspace.archive, what, "Give more of it: fedshift archive --list.")
    if not named:
        raise FedshiftError(
            workspace.archive, f"no archived run is called '{run}'", "See: fedshift archive --list."
        )
    return max(map(read, named), key=lambda one: one.index.finished)
