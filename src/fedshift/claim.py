"""One writer a run: a claim file that a second process respects while the first one lives.

Safety does not rest on it - checkpoints are atomic and exact - but two writers would waste each other's work.
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


@contextlib.contextmanager
def claimed(run: Path) -> Iterator[None]:
    """Hold `run`/claim.json for the block. Raises FedshiftError where a living process holds it; a dead one's claim is taken over."""
    run.mkdir(parents=True, exist_ok=True)
    path, me = (
        run / "claim.json",
        {"host": socket.gethostname(), "pid": os.getpid(), "job": os.environ.get("SLURM_JOB_ID")},
    )
    mine = run / f".claim.{me['host']}.{me['pid']}"
    mine.write_text(json.dumps(me))
    try:
        taken = _take(path, mine, me)
    finally:
        mine.unlink()
    if not taken:
        raise FedshiftError(
            run, f"is being trained by {path.read_text()}", "Wait for it, or stop it first.", retry=True
        )
    try:
        yield
    finally:
        if holder(path) == me:
            path.unlink(missing_ok=True)


def _take(path: Path, mine: Path, me: dict[str, Any]) -> bool:
    for _ in range(5):
        with contextlib.suppress(FileExistsError):
            os.link(mine, path)
            return True
        old = holder(path)
        if old is None:
            continue
        same_job = old["job"] is not None and old["job"] == me["job"]
        if not same_job and alive(old):
            return False
        grave = path.with_name(f".claim.dead.{me['host']}.{me['pid']}")
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, grave)
            if json.loads(grave.read_text()) != old:
                os.link(grave, path)
            grave.unlink()
    return False


def holder(path: Path) -> dict[str, Any] | None:
    """Who holds a claim file: {host, pid, job}; None where nobody does."""
    try:
        value: dict[str, Any] = json.loads(path.read_text())
        return value
    except FileNotFoundError:
        return None


def alive(claim: dict[str, Any]) -> bool:
    """Whether the claim's process may still be running: asked of Slurm for a job, of the system for a process of this host."""
    if claim["job"] is not None:
        asked = subprocess.run(
            ["squeue", "-h", "-o", "%T", "-j", claim["job"]], capture_output=True, text=True, check=False
        )
        if asked.returncode != 0:
            return "Invalid job id" not in asked.stderr
        return asked.stdout.strip() in ("RUNNING", "COMPLETING", "SUSPENDED")
    if claim["host"] != socket.gethostname():
        return True
    with contextlib.suppress(ProcessLookupError):
        os.kill(claim["pid"], 0)
        return True
    return False
