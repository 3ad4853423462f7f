"""How Slurm says a job has ended. Standard library only: the Snakefile needs it."""

from __future__ import annotations

import re

from fedshift.common.answer import answer_of

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
    accounts = answer_of("sacct", "-n", "-P", "-o", "State", "-j", job) or ""
    states = re.findall(r"^\w+", accounts, re.MULTILINE)
    if not states:
        controller = answer_of("scontrol", "show", "job", "-o", job) or ""
        states = re.findall(r"(?<=JobState=)\w+", controller)
    if not states or states[0] not in ENDED:
        return None
    return "OUT_OF_MEMORY" if "OUT_OF_MEMORY" in states else states[0]
