"""How Slurm says a job has ended. Standard library only: the Snakefile needs it."""

from __future__ import annotations

import re
import subprocess

PATIENCE = 15  # seconds for an answer
ENDED = (
    "COMPLETED",
    "FAILED",
    "OUT_OF_MEMORY",
    "TIMEOUT",
    "DEADLINE",
    "CANCELLED",
    "PREEMPTED",
    "NODE_FAIL",
    "BOOT_FAIL",
)


def ended(job: str) -> str | None:
    """The state in which a job has ended, in Slurm's words; None where it has not, or nobody knows.

    Asked are the accounts, where a cluster keeps them, else the controller, which forgets a job some minutes
    after its end.
    """
    accounts = _answer("sacct", "-X", "-n", "-P", "-o", "State", "-j", job)
    told = re.match(r"\w+", accounts) or re.search(
        r"(?<=JobState=)\w+", _answer("scontrol", "show", "job", "-o", job)
    )
    return told[0] if told and told[0] in ENDED else None


def _answer(*command: str) -> str:
    """What a command prints; nothing where it fails, hangs or is not there."""
    try:
        reply = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return reply.stdout if reply.returncode == 0 else ""
