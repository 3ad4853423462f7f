"""Several runs of one job at once, each in a process of its own."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from types import FrameType

from fedshift.planning.planfile import Run
from fedshift.storage.workspace import Workspace

log = logging.getLogger("fedshift.pack")
POLL_SECONDS = 0.2
BUSY_SECONDS = 5.0


def in_turn(workspace: Workspace, runs: list[Run], train: Callable[[Run], None]) -> None:
    """Train `runs` one after the other in this process.

    A run that another process is training - a job that an earlier snakemake left behind - comes last, and is
    waited for.
    """
    waiting = deque(runs)
    stuck = 0
    while waiting:
        run = waiting.popleft()
        if workspace.run_at(run.directory).writer():
            waiting.append(run)
            stuck += 1
            if stuck >= len(waiting):
                log.info("waiting for another process: %s", run.directory)
                time.sleep(BUSY_SECONDS)
        else:
            stuck = 0
            train(run)


def at_once(
    workspace: Workspace, runs: list[Run], parallel: int, command: Callable[[Run], list[str]]
) -> None:
    """Train at most `parallel` of `runs` at a time, each by a command of its own.

    A run that ends badly leaves the others alone. SIGTERM is passed on to them; this process ends when all
    have.
    """
    living: dict[Run, subprocess.Popen[bytes]] = {}
    signals: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        for process in living.values():
            process.send_signal(number)

    before = signal.signal(signal.SIGTERM, stop)
    waiting, look = deque(runs), 0.0
    try:
        while living or (waiting and not signals):
            if waiting and not signals and len(living) < parallel and time.monotonic() >= look:
                run = waiting.popleft()
                if workspace.run_at(run.directory).writer():
                    waiting.append(run)
                    look = time.monotonic() + BUSY_SECONDS
                else:
                    living[run] = subprocess.Popen(command(run))
                    if signals:  # while it was being started
                        living[run].send_signal(signals[0])
                continue
            time.sleep(POLL_SECONDS)
            for run in [run for run, process in living.items() if process.poll() is not None]:
                if status := living.pop(run).returncode:
                    log.error("%s: ended with status %d", run.directory, status)
    finally:
        signal.signal(signal.SIGTERM, before)
        for process in living.values():  # an error ends this one: they would train on unseen
            process.terminate()
            process.wait()
    if signals:
        sys.exit(128 + signals[0])
