"""How the jobs of a pack have ended, which decides what its next job asks for: more memory only after a lack
of it, more time only after a time limit. A job that was killed could not say why; Slurm is asked then.
Standard library only: the Snakefile needs it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from fedshift.common.files import read_whole, write_json
from fedshift.planning.ended import ended

NOTICE = 300  # seconds before its job's end at which a SIGTERM is that of the time limit
TERMINATED = 128 + signal.SIGTERM
UNSAID = ("FAILED", None)  # ends of which Slurm does not tell the reason


@dataclass(frozen=True)
class Attempts:
    """Counts of a pack's jobs, and the one whose end is not counted yet.

    killed: ended for want of memory, or so that nobody can say why
    late: ended by their time limit
    begun: whether one has begun and not told its end: it runs, was killed, or was stopped
    stopped: whether that one was asked to end (SIGTERM), maybe by its time limit
    job: its number in Slurm, empty where it has none
    """

    killed: int = 0
    late: int = 0
    begun: bool = False
    stopped: bool = False
    job: str = ""

    @classmethod
    def read(cls, path: Path) -> Attempts:
        """What stands in results/attempts/<pack>.json, nothing where it is absent or torn."""
        known = read_whole(path) or {}
        killed, late = (int(known.get(name, 0)) for name in ("killed", "late"))
        begun, stopped = (bool(known.get(name, False)) for name in ("begun", "stopped"))
        return cls(killed, late, begun, stopped, str(known.get("job", "")))

    def settled(self) -> Attempts:
        """The counts with that of the job that has begun, by what Slurm says of its end; where Slurm does not
        know, or says no more than FAILED, one that was stopped was late, and one that was killed lacked
        memory. This very job, queued again, had enough of both.
        """
        counted = Attempts(self.killed, self.late)
        if not self.begun or (self.job and self.job == _this_job()):
            return counted
        state = ended(self.job) if self.job else None
        late = state == "TIMEOUT" or (state in UNSAID and self.stopped)
        killed = state == "OUT_OF_MEMORY" or (state in UNSAID and not self.stopped)
        return replace(counted, killed=self.killed + killed, late=self.late + late)


def evaluations_of(experiment: str) -> str:
    """What the jobs that evaluate an experiment's runs are called, beside the packs."""
    return f"evaluations/{experiment}"


class Attempt:
    """The present job. starved: whether a run of it ended for want of memory."""

    starved = False


@contextmanager
def attempt(path: Path) -> Iterator[Attempt]:
    """Count the job that trains in the block, and how it ends. A kill leaves it begun, and so does a SIGTERM
    that may be its time limit's.
    """
    before = Attempts.read(path).settled()
    job = replace(before, begun=True, job=_this_job())
    write_json(path, vars(job))
    present, stopped = Attempt(), False
    try:
        yield present
    except SystemExit as end:
        stopped = end.code == TERMINATED and _at_the_limit()
        raise
    finally:
        told = replace(before, killed=before.killed + present.starved)
        write_json(path, vars(replace(job, stopped=True) if stopped and not present.starved else told))


@contextmanager
def terminable() -> Iterator[None]:
    """In the block, SIGTERM ends the process so that `attempt` can count it: for work that loses nothing by
    that.
    """

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _this_job() -> str:
    return os.environ.get("SLURM_JOB_ID", "")


def _at_the_limit() -> bool:
    """Whether the job's time is over, as far as Slurm has told it."""
    end = os.environ.get("SLURM_JOB_END_TIME", "")
    return not end.isdecimal() or time.time() > int(end) - NOTICE
