"""One writer a run: a claim file that a second process respects while the first one lives.

Slurm may start a requeued job while its first life still writes on a node that was lost. So a holder also looks at its
claim every few seconds, and ends itself once it is another's: two writers would record the same rounds twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedshift.errors import FedshiftError

BUSY = 76  # exit status of a process that lost its claim, or found a live holder
WATCH_SECONDS = 3.0


class Busy(FedshiftError):
    """Another process trains this run now."""


@contextlib.contextmanager
def claimed(run: Path) -> Iterator[None]:
    """Hold `run`/claim.json for the block. Raises Busy where a living process holds it; a dead one's claim is taken over."""
    run.mkdir(parents=True, exist_ok=True)
    path, me = run / "claim.json", _me()
    mine = run / f".claim.{me['host']}.{me['pid']}"
    mine.write_text(json.dumps(me))
    try:
        taken = _take(path, mine, me)
    finally:
        mine.unlink()
    if not taken:
        raise Busy(run, f"is being trained by {holder(path)}", "Wait for it, or stop it first.", retry=True)
    done = threading.Event()
    threading.Thread(target=_watch, args=(path, me, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()
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
    """Whether the claim's process may still run: asked of the system on this host, else of Slurm; where neither knows, it may."""
    if claim["host"] == socket.gethostname():
        return _born(claim["pid"]) is not None and claim.get("born") in (None, _born(claim["pid"]))
    if claim["job"] is None:
        return True
    try:
        asked = subprocess.run(
            ["squeue", "-h", "-o", "%T", "-j", claim["job"]], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return True
    if asked.returncode != 0:
        return "Invalid job id" not in asked.stderr
    return asked.stdout.strip() in ("RUNNING", "COMPLETING", "SUSPENDED")


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
        requeued = old["job"] is not None and old["job"] == me["job"] and old["host"] != me["host"]
        if not requeued and alive(old):
            return False
        grave = path.with_name(f".claim.dead.{me['host']}.{me['pid']}")
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, grave)
            if json.loads(grave.read_text()) != old:
                os.link(grave, path)
            grave.unlink()
    return False


def _watch(path: Path, me: dict[str, Any], done: threading.Event) -> None:
    while not done.wait(WATCH_SECONDS):
        with contextlib.suppress(OSError):  # a file system that is away for a moment takes no claim away
            if holder(path) != me and not done.is_set():
                os._exit(BUSY)
