"""A job and its processes.

- the GPU of a job, if no scheduler assigns one
- its runs, one after the other or at once
- delayed signals: SIGTERM until the end of a round, whose results are then written, and Ctrl-C until the end
  of an import

Slurm sends SIGTERM some seconds before a time limit or a preemption.
"""

import fcntl
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from fedshift.planning.planfile import Run
from fedshift.storage.workspace import Workspace

log = logging.getLogger("fedshift.pack")
POLL_SECONDS = 0.2
BUSY_SECONDS = 5.0
VISIBLE = "CUDA_VISIBLE_DEVICES"
_held: list[int] = []  # file descriptors: a lock ends with its process, however it ends


def claim(device: str, count: int, folder: Path | None = None) -> int | None:
    """Take one of `count` GPUs that no other job of this user holds; this process and its children see no
    other.

    Returns the GPU's number, or None if there is no choice: a computation on the CPU, at most one GPU, or
    CUDA_VISIBLE_DEVICES set by a scheduler or by hand. With more jobs than GPUs, one is shared.
    """
    if device == "cpu" or count < 2 or VISIBLE in os.environ:
        return None
    folder = folder or Path(tempfile.gettempdir())
    number = next((gpu for gpu in range(count) if _lock(folder, gpu)), os.getpid() % count)
    os.environ[VISIBLE] = str(number)
    return number


def _lock(folder: Path, gpu: int) -> bool:
    """Whether this process now holds the GPU's lock."""
    path = folder / f"fedshift-{os.getuid()}-gpu{gpu}.lock"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return False
    _held.append(file)
    return True


def in_turn(workspace: Workspace, runs: list[Run], train: Callable[[Run], None]) -> None:
    """Train `runs` one after the other in this process.

    A run that another process is training (a job that an earlier snakemake left behind) is moved to the end
    and waited for.
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
    """Train at most `parallel` of `runs` at a time, each by a separate command.

    A run that fails does not stop the others. SIGTERM is passed on to them; this process ends when all have
    ended.
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


class Stop:
    """Signal handler; requested: whether SIGTERM has been received."""

    requested = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second SIGTERM ends the process at once


@contextmanager
def stoppable() -> Iterator[Stop]:
    """In the block, SIGTERM requests a stop instead of ending the process; in the main thread only."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def whole() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block.

    It protects imports: after a KeyboardInterrupt in its import of numpy, torch continues with an incomplete
    numpy.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def interruptible(say: Callable[[str], object]) -> Iterator[None]:
    """In the block, in the main thread, the first Ctrl-C stops a run at the end of its round, with a message.

    The second Ctrl-C, or one while no run trains, raises KeyboardInterrupt at once.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if not isinstance(signal.getsignal(signal.SIGTERM), Stop):
            raise KeyboardInterrupt
        say("Stops at the end of the round. Ctrl-C again: at once.")
        signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
