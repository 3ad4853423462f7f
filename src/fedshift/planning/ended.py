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
    after its end. Where a step of the job lacked memory, the job itself may be said to have FAILED.
    """
    states = re.findall(r"^\w+", _answer("sacct", "-n", "-P", "-o", "State", "-j", job), re.MULTILINE)
    states = states or re.findall(r"(?<=JobState=)\w+", _answer("scontrol", "show", "job", "-o", job))
    if not states or states[0] not in ENDED:
        return None
    return "OUT_OF_MEMORY" if "OUT_OF_MEMORY" in states else states[0]


def _answer(*command: str) -> str:
    """What a command prints; nothing where it fails, hangs or is not there."""
    try:
        reply = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return reply.stdout if reply.returncode == 0 else ""
