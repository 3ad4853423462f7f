"""SIGTERM between two pieces of work: what is reached is written before the process ends.

Slurm sends it before a time limit or a preemption, with some seconds to go.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
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
