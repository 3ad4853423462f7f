"""How the jobs of a pack have ended, which decides what its next job asks for: more memory only after an end
that looks like a lack of memory, more time only after a time limit. Standard library only: the Snakefile
needs it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fedshift.files import read_whole, write_json

NOTICE = 300  # seconds before its job's end at which a SIGTERM is that of the time limit
TERMINATED = 128 + signal.SIGTERM


@dataclass(frozen=True)
class Attempts:
    """Counts of a pack's jobs.

    killed: ended without a word, or for want of memory
    late: ended by their time limit
    begun: whether one has begun and not ended: it runs, or was killed
    """

    killed: int = 0
    late: int = 0
    begun: bool = False

    @classmethod
    def read(cls, path: Path) -> Attempts:
        """The counts in results/attempts/<pack>.json, none where it is absent or torn."""
        known = read_whole(path) or {}
        return cls(int(known.get("killed", 0)), int(known.get("late", 0)), bool(known.get("begun", False)))

    @property
    def lacked_memory(self) -> int:
        """How many seem to have lacked memory: a job that was killed could not say so."""
        return self.killed + self.begun


class Attempt:
    """The present job. starved: whether a run of it ended for want of memory."""

    starved = False


@contextmanager
def attempt(path: Path) -> Iterator[Attempt]:
    """Count the job that trains in the block, and how it ends. A kill leaves it begun."""
    before = Attempts.read(path)
    counts = replace(before, killed=before.lacked_memory, begun=True)
    write_json(path, vars(counts))
    present, late = Attempt(), False
    try:
        yield present
    except SystemExit as end:
        late = end.code == TERMINATED and _at_the_limit()
        raise
    finally:
        killed, ended_late = counts.killed + present.starved, counts.late + late
        write_json(path, vars(Attempts(killed, ended_late)))


def _at_the_limit() -> bool:
    """Whether the job's time is over, as far as Slurm has told it."""
    end = os.environ.get("SLURM_JOB_END_TIME", "")
    return not end.isdecimal() or time.time() > int(end) - NOTICE
