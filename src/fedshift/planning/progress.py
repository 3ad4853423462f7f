"""Progress of a workflow: a line for finished runs, with the remaining time. No heavy imports: the
Snakefile needs it.
"""

import time
from collections.abc import Callable, Iterable

from fedshift.planning.planfile import Run
from fedshift.storage.rundir import State
from fedshift.storage.workspace import Workspace

# Seconds between two lines: PAUSE, in a long workflow up to LONGEST. Where no run finishes for SILENCE, or 5%
# of the time so far, the round of a running one is printed.
PAUSE, LONGEST, SILENCE = 5.0, 60.0, 60.0


class Progress:
    """Counts the runs of a workflow by their directories.

    - planned: returns the current runs; more may be added
    - say: prints a line
    """

    def __init__(
        self, workspace: Workspace, planned: Callable[[], Iterable[Run]], say: Callable[[str], object]
    ) -> None:
        self._workspace, self._planned, self._say = workspace, planned, say
        self._begun = self._told = time.time()
        self._known: set[str] = set()
        self._open: dict[str, Run] = {}  # not finished, and without a failure that is final
        self._running: dict[str, float] = {}  # of these, since when they train
        self._new: list[Run] = []  # finished since the last line
        self._done = self._failed = 0
        self._spent = self._expected = 0.0  # seconds of the runs that finished meanwhile, and as planned
        self._scale = 1.0  # what of the plan's estimates is true here
        self._at_once = 1.0
        self._count()
        self._new.clear()

    def look(self, last: bool = False) -> None:
        """Count runs, and print a line if it is time for one, or for the last one."""
        for run in self._count():
            summary = self._workspace.run_at(run.directory).summary() or {}
            self._spent += summary["costs"]["seconds"]
            self._expected += 60 * run.minutes
            self._scale = self._spent / self._expected if self._expected else 1.0
        now = time.time()
        since, so_far = now - self._told, now - self._begun
        pause = 0 if last or not self._open else min(LONGEST, max(PAUSE, 0.01 * so_far))
        if self._new and since >= pause:
            more = f" and {len(self._new) - 1} more" if self._new[1:] else ""
            self._tell(_name(self._new[-1]) + more)
        elif self._running and since >= max(SILENCE, 0.05 * so_far):
            name, begun = min(self._running.items(), key=lambda item: item[1])
            run = self._open[name]
            rounds = self._rounds(run)
            if rounds and run.minutes and not self._expected:  # no run has finished that would tell
                self._scale = (now - begun) * run.rounds / rounds / (60 * run.minutes)
            self._tell(f"{_name(run)} in round {min(rounds + 1, run.rounds)} of {run.rounds}")

    def _count(self) -> list[Run]:
        """Update the state of each run; returns the runs that finished since the last call."""
        for run in self._planned():
            if run.digest not in self._known:
                self._known.add(run.digest)
                self._open[run.digest] = run
        finished, self._running = [], {}
        for name, run in [*self._open.items()]:
            directory = self._workspace.run_at(run.directory)
            outcome = directory.outcome()
            if outcome is State.FINISHED:
                finished.append(self._open.pop(name))
            elif outcome is State.FAILED and directory.failed_for_good:
                self._failed += 1
                del self._open[name]
            elif since := directory.locked_since():
                self._running[name] = since
        self._done += len(finished)
        self._new += finished
        self._at_once = max(len(self._running), 0.8 * self._at_once, 1.0)  # what has ended is soon replaced
        return finished

    def _tell(self, what: str) -> None:
        words = [f"{self._done} of {len(self._known)} runs"]
        words += [f"{self._failed} failed"] if self._failed else []
        words += [what, *([f"{duration(self._seconds_left())} left"] if self._open else [])]
        self._say(", ".join(words))
        self._told = time.time()
        self._new.clear()

    def _seconds_left(self) -> float:
        """Remaining time by the plan's estimates, scaled by the durations of finished runs."""
        now = time.time()
        spent = {name: now - since for name, since in self._running.items()}
        seconds = {name: 60 * self._scale * run.minutes for name, run in self._open.items()}
        return sum(max(whole - spent.get(name, 0.0), 0.0) for name, whole in seconds.items()) / self._at_once

    def _rounds(self, run: Run) -> int:
        """The number of rounds of a run on disk."""
        segments = self._workspace.run_at(run.directory).segments.glob("*-*.parquet")
        return max((int(path.stem.partition("-")[2]) for path in segments), default=0)


def duration(seconds: float) -> str:
    """A duration in rough units: "about 6 min", "about 3 h", "about 2 days"."""
    unit, size = ("min", 60) if seconds < 5400 else ("h", 3600) if seconds < 36 * 3600 else ("days", 86400)
    return f"about {max(1, round(seconds / size))} {unit}"


def _name(run: Run) -> str:
    return f"{run.method} on {run.dataset if run.target == 'none' else run.target}"
