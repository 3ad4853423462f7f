"""One writer a run: a lock file that a second process respects while the first one lives. Standard library
only.

Slurm may start a requeued job while its first life still writes on a node that was lost. So the lock is also
a fence: it is read again before any file of the run gets its name, and a process that lost it writes no more.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedshift.common.errors import FedshiftError
from fedshift.common.files import fenced, remove_temporary

Holder = dict[str, Any]
PATIENCE = 15  # seconds for Slurm's answer
PAUSE = 60  # seconds after which a lock file that cannot be read is nobody's


class Locked(FedshiftError):
    """Another process trains this run now."""

    def __init__(self, run: Path, holder: Holder | None) -> None:
        cure = f"Wait for it, or stop it first. If its machine is gone: fedshift release {run}"
        super().__init__(run, f"is being trained by {holder}", cure, retry=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path` for the block, which alone writes into the file's folder; a dead process's
    lock is taken over.

    Raises Locked where a living process holds it, and from any write inside the block once another has taken
    it over.
    """
    run, me = path.parent, this_process()
    run.mkdir(parents=True, exist_ok=True)
    mine = path.with_name(f".{path.stem}.{me['host']}.{me['pid']}")
    try:
        mine.write_text(json.dumps(me))
        ours = _acquire(path, mine, me)
    finally:
        mine.unlink(missing_ok=True)
    if not ours:
        raise Locked(run, holder(path))
    remove_temporary(run)  # what a killed holder was writing
    for left in run.glob(f".{path.stem}.*"):  # by who was killed while it asked for the lock
        if (asked := holder(left)) and not alive(asked):
            left.unlink(missing_ok=True)

    def check() -> None:
        if (now := holder(path)) != me:
            raise Locked(run, now)

    try:
        with fenced(check):
            yield
    finally:
        if holder(path) == me:
            path.unlink(missing_ok=True)


def holder(path: Path) -> Holder | None:
    """Who holds a lock file: {host, pid, born, job}; None where nobody does.

    A file that a crash of the machine tore gives {unreadable: when it was written}.
    """
    try:
        value: Holder = json.loads(path.read_text(encoding="utf-8"))
        return value
    except FileNotFoundError:
        return None
    except ValueError:
        with contextlib.suppress(FileNotFoundError):
            return {"unreadable": path.stat().st_mtime}
        return None


def on_this_host(holder: Holder) -> bool:
    """Whether the lock's process runs on this machine."""
    return holder.get("host") == socket.gethostname()


def alive(holder: Holder) -> bool:
    """Whether the lock's process may still run: asked of the system on this host, else of Slurm; where
    neither knows, it may.

    This job's own lock on another host is that of its first life, before it was requeued: it counts as dead,
    and is fenced. A torn lock is taken for a living process's for PAUSE seconds.
    """
    if "unreadable" in holder:
        return time.time() - float(holder["unreadable"]) < PAUSE
    if on_this_host(holder):
        return _born(holder["pid"]) is not None and holder.get("born") in (None, _born(holder["pid"]))
    if holder["job"] is None:
        return True
    if holder["job"] == os.environ.get("SLURM_JOB_ID"):
        return False
    try:
        reply = subprocess.run(
            ["squeue", "-h", "-o", "%T", "-j", holder["job"]],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    if reply.returncode != 0:
        return "Invalid job id" not in reply.stderr
    return reply.stdout.strip() in ("RUNNING", "COMPLETING", "STOPPED", "SUSPENDED")


def this_process() -> Holder:
    """This process, as the holder of a lock."""
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "pid": pid,
        "born": _born(pid),
        "job": os.environ.get("SLURM_JOB_ID"),
    }


def _born(pid: int) -> str | None:
    """When a process of this host started, in ticks since the host did; None where it has ended. A number
    that was given to another process has another start.
    """
    if not Path("/proc/self/stat").exists():  # no Linux: the number alone must do
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:  # another user's
            return ""
        return ""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else fields[18]


def _acquire(path: Path, mine: Path, me: Holder) -> bool:
    """Make `mine` the lock by a link, which succeeds for one process alone. The lock file of a dead holder is
    moved away first.
    """
    for _ in range(5):
        with contextlib.suppress(FileExistsError):
            os.link(mine, path)
            return True
        old = holder(path)
        if old is None:
            continue
        if alive(old):
            return False
        grave = path.with_name(f".{path.stem}.dead.{me['host']}.{me['pid']}")
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, grave)
            if holder(grave) != old:  # another process was quicker: this is its lock
                with contextlib.suppress(FileExistsError):
                    os.link(grave, path)
            grave.unlink()
    return False
