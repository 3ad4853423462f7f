"""`fedshift release`: free runs whose process died with its machine."""

from __future__ import annotations

from pathlib import Path

import click

from fedshift.errors import FedshiftError
from fedshift.lock import alive, holder, on_this_host
from fedshift.rundir import RunDirectory


@click.command
@click.argument(
    "runs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False)
)
def command(runs: tuple[Path, ...]) -> None:
    """Free RUNS, directories below results/runs, that a process on another machine held and holds no more.

    A run is trained by one process at a time, which a lock in its directory names. Whether that process lives
    is asked of this machine or of Slurm; where neither can know - a machine that is gone, without Slurm -
    everybody waits. Say so by this command only when you know that the process is dead: a living one would be
    stopped at its next write.
    """
    for path in runs:
        run = RunDirectory(path)
        found = holder(run.lock)
        if found is None:
            click.echo(f"{path}: nobody holds it")
            continue
        if on_this_host(found) and alive(found):
            cure = f"Stop it first: kill {found['pid']}"
            raise FedshiftError(path, f"is being trained on this machine by process {found['pid']}", cure)
        run.lock.unlink(missing_ok=True)
        who = "somebody: its lock is torn" if "unreadable" in found else f"{found['host']}:{found['pid']}"
        click.echo(f"{path}: freed; it was held by {who}")
