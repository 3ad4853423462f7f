"""Where every run of a plan stands: finished, running, failed or missing."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

from fedshift import planfile
from fedshift.planfile import Run

STATES = ("finished", "running", "failed", "missing")


def state(root: Path, run: Run) -> tuple[str, str]:
    """One of STATES, and the reason where the run failed or the writer where it is running."""
    found, told = planfile.outcome(root, run)
    if found == "finished":
        return "finished", ""
    writer = _writer(root / run.directory / "claim.json")
    if writer:
        return "running", writer
    if found == "failed":
        again = "a retry may help" if told.get("retry") else "a retry does not help"
        return "failed", f"{told.get('kind', '')}: {told.get('text', '')} ({again})"
    return "missing", ""


def _writer(claim: Path) -> str:
    """Who holds a run: "host:pid", "" where nobody does. A claim of another host is believed."""
    try:
        told = json.loads(claim.read_text())
    except FileNotFoundError:
        return ""
    if told["host"] == socket.gethostname():
        try:
            os.kill(told["pid"], 0)
        except ProcessLookupError:
            return ""
        except PermissionError:
            pass
    return f"{told['host']}:{told['pid']}"
