"""SIGTERM as a request."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from fedshift.training.stop import interruptible, stoppable


def test_the_first_sigterm_asks_and_a_second_one_would_end() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stoppable() as stop:
        assert not stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is before


def test_in_another_thread_nothing_changes() -> None:
    """Python takes signals in the first thread alone: there a run ends at once, as it would without."""
    seen: list[object] = []

    def work() -> None:
        with stoppable() as stop:
            seen.extend([stop.requested, signal.getsignal(signal.SIGTERM)])

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False, before]


def test_ctrl_c_asks_a_run_that_trains_and_a_second_one_ends_it() -> None:
    lines: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with interruptible(lines.append), stoppable() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested and len(lines) == 1 and "Ctrl-C again" in lines[0]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_ends_at_once_where_nothing_trains() -> None:
    lines: list[str] = []
    with pytest.raises(KeyboardInterrupt), interruptible(lines.append):
        os.kill(os.getpid(), signal.SIGINT)
    assert not lines
