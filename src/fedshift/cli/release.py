"""`fedshift release`: free runs whose process died with its machine."""

from __future__ import annotations

from pathlib import Path

import click

from fedshift.common.errors import FedshiftError
from fedshift.common.lock import alive, holder, on_this_host
from fedshift.storage.rundir import RunDirectory


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
        writer = holder(run.lock)
        if writer is None:
            click.echo(f"{path}: nobody holds it")
            continue
        if on_this_host(writer) and alive(writer):
            cure = f"Stop it first: kill {writer['pid']}"
            raise FedshiftError(path, f"is being trained on this machine by process {writer['pid']}", cure)
        run.lock.unlink(missing_ok=True)
        who = "somebody: its lock is torn" if "unreadable" in writer else f"{writer['host']}:{writer['pid']}"
        click.echo(f"{path}: freed; it was held by {who}")
