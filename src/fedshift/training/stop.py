"""Signals wait until they do no harm: SIGTERM for the end of a round, so that what is reached is written
before the process ends, and Ctrl-C for the end of an import.

Slurm sends SIGTERM before a time limit or a preemption, with some seconds to go.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """requested: whether SIGTERM has come."""

    requested = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second SIGTERM ends the process at once


@contextmanager
def stoppable() -> Iterator[Stop]:
    """In the block, SIGTERM asks to stop instead of ending the process; not in a thread other than the main
    one.
    """
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
    """In the block, Ctrl-C waits for its end. For imports: torch goes on after a KeyboardInterrupt in its
    import of numpy, and numpy lacks half of its names then.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def interruptible(say: Callable[[str], object]) -> Iterator[None]:
    """In the block, in the main thread, the first Ctrl-C asks a run that trains to stop at the end of its
    round, and says so; the second one, or one while nothing trains, raises KeyboardInterrupt at once.
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
