"""One writer a run: a claim file that a second process respects while the first one lives.

Slurm may start a requeued job while its first life still writes on a node that was lost. So the claim is also a fence: it
is read again before any file of the run gets its name, and a process that lost it writes no more.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedshift.errors import FedshiftError
from fedshift.files import fenced, remove_temporary


class Busy(FedshiftError):
    """Another process trains this run now."""

    def __init__(self, run: Path, who: dict[str, Any] | None) -> None:
        super().__init__(run, f"is being trained by {who}", "Wait for it, or stop it first.", retry=True)


@contextlib.contextmanager
def claimed(run: Path) -> Iterator[None]:
    """Hold `run`/claim.json for the block; a dead process's claim is taken over.

    Raises Busy where a living process holds it, and from any write inside the block once another has taken it over.
    """
    run.mkdir(parents=True, exist_ok=True)
    path, me = run / "claim.json", _me()
    mine = run / f".claim.{me['host']}.{me['pid']}"
    try:
        mine.write_text(json.dumps(me))
        taken = _take(path, mine, me)
    finally:
        mine.unlink(missing_ok=True)
    if not taken:
        raise Busy(run, holder(path))
    remove_temporary(run)  # what a killed holder was writing

    def check() -> None:
        if (now := holder(path)) != me:
            raise Busy(run, now)

    try:
        with fenced(check):
            yield
    finally:
        if holder(path) == me:
            path.unlink(missing_ok=True)


def holder(path: Path) -> dict[str, Any] | None:
    """Who holds a claim file: {host, pid, born, job}; None where nobody does."""
    try:
        value: dict[str, Any] = json.loads(path.read_text())
        return value
    except FileNotFoundError:
        return None


def alive(claim: dict[str, Any]) -> bool:
    """Whether the claim's process may still run: asked of the system on this host, else of Slurm; where neither knows, it may.

    This job's own claim on another host is that of its first life, before it was requeued: it counts as dead, and is fenced.
    """
    if claim["host"] == socket.gethostname():
        return _born(claim["pid"]) is not None and claim.get("born") in (None, _born(claim["pid"]))
    if claim["job"] is None:
        return True
    if claim["job"] == os.environ.get("SLURM_JOB_ID"):
        return False
    try:
        asked = subprocess.run(
            ["squeue", "-h", "-o", "%T", "-j", claim["job"]], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return True
    if asked.returncode != 0:
        return "Invalid job id" not in asked.stderr
    return asked.stdout.strip() in ("RUNNING", "COMPLETING", "STOPPED", "SUSPENDED")


def _me() -> dict[str, Any]:
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "pid": pid,
        "born": _born(pid),
        "job": os.environ.get("SLURM_JOB_ID"),
    }


def _born(pid: int) -> str | None:
    """When a process of this host started, in ticks since the host did: a number used again is another process. None: it is gone."""
    if not Path("/proc/self/stat").exists():  # no Linux: the number alone must do
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        return ""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else fields[18]


def _take(path: Path, mine: Path, me: dict[str, Any]) -> bool:
    for _ in range(5):
        with contextlib.suppress(FileExistsError):
            os.link(mine, path)
            return True
        old = holder(path)
        if old is None:
            continue
        if alive(old):
            return False
        grave = path.with_name(f".claim.dead.{me['host']}.{me['pid']}")
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, grave)
            if json.loads(grave.read_text()) != old:  # of somebody who was quicker
                with contextlib.suppress(FileExistsError):
                    os.link(grave, path)
            grave.unlink()
    return False
