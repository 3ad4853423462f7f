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
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends the process at once


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Within, SIGTERM asks to stop instead of ending the process; in any thread but the first it does not."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)
