"""Progress of a workflow: a line for finished runs, with the remaining time. No heavy imports: the Snakefile
needs it.
"""

import os
import time
from collections.abc import Callable, Iterable

from fedshift.planning.planfile import Run
from fedshift.storage.rundir import RunDirectory, State
from fedshift.storage.workspace import Workspace

# Seconds between two lines: PAUSE, in a long workflow up to LONGEST. Where no run finishes for SILENCE, or 5%
# of the time so far, the round of a running one is printed.
PAUSE, LONGEST, SILENCE = 5.0, 60.0, 60.0


class Progress:
    """Counts the runs of a workflow by their directories, and prints lines by `say`.

    The remaining time is that of the rounds that are left, by the plan's estimates, at the pace so far.
    """

    def __init__(self, workspace: Workspace, runs: Iterable[Run], say: Callable[[str], object]) -> None:
        self._directories = {run: workspace.run_at(run.directory) for run in runs}
        self._say = say
        self._open = {run: _rounds(directory) for run, directory in self._directories.items()}
        self._new: list[Run] = []  # finished since the last line
        self._failed = 0
        self._count()
        self._new.clear()
        self._begun = self._told = time.time()
        self._at_first = self._left()

    def look(self, last: bool = False) -> None:
        """Count runs, and print a line if it is time for one, or for the last one."""
        running, now = self._count(), time.time()
        since, so_far, left = now - self._told, now - self._begun, self._left()
        pause = 0 if last or not self._open else min(LONGEST, max(PAUSE, 0.01 * so_far))
        if self._new and since >= pause:
            more = f" and {len(self._new) - 1} more" if self._new[1:] else ""
            what = _name(self._new[-1]) + more
        elif running and since >= max(SILENCE, 0.05 * so_far):
            run = running[0]
            what = f"{_name(run)} in round {min(self._open[run] + 1, run.rounds)} of {run.rounds}"
        else:
            return
        every = len(self._directories)
        words = [f"{every - len(self._open) - self._failed} of {every} runs"]
        words += [f"{self._failed} failed"] if self._failed else []
        words += [what]
        if self._open and left < self._at_first:
            words += [f"{duration(so_far * left / (self._at_first - left))} left"]
        self._say(", ".join(words))
        self._told = now
        self._new.clear()

    def _count(self) -> list[Run]:
        """Update the open runs and their rounds; returns those that are being trained."""
        running = []
        for run in [*self._open]:
            directory = self._directories[run]
            outcome = directory.outcome()
            if outcome is State.FINISHED:
                self._new.append(run)
                del self._open[run]
            elif outcome is State.FAILED and directory.failed_for_good:
                self._failed += 1
                del self._open[run]
            elif os.path.exists(directory.lock):  # even if its holder has ended
                running.append(run)
                self._open[run] = _rounds(directory)
        return running

    def _left(self) -> float:
        """Minutes of training that are left, as planned."""
        return sum(run.minutes * (1 - rounds / max(run.rounds, 1)) for run, rounds in self._open.items())


def duration(seconds: float) -> str:
    """A duration in rough units: "about 6 min", "about 3 h", "about 2 days"."""
    unit, size = ("min", 60) if seconds < 5400 else ("h", 3600) if seconds < 36 * 3600 else ("days", 86400)
    return f"about {max(1, round(seconds / size))} {unit}"


def _rounds(directory: RunDirectory) -> int:
    """The number of rounds of a run on disk."""
    segments = directory.segments.glob("*-*.parquet")
    return max((int(path.stem.partition("-")[2]) for path in segments), default=0)


def _name(run: Run) -> str:
    return f"{run.method} on {run.dataset if run.target == 'none' else run.target}"
