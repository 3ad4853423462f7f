"""SIGTERM as a request."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fedshift.planning import planfile
from fedshift.training.stop import interruptible, stoppable
from tests.verbs import done, fedshift


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


ONE = """\
title: One
protocol: digits
methods: {fedavg: }
axes: {target: [plain], seed: [0]}
"""
SWALLOWS = """\
import os, signal, sys


class Numpy:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            sys.meta_path.remove(self)
            try:
                os.kill(os.getpid(), signal.SIGINT)
                sum(range(1000))
            except KeyboardInterrupt:
                raise AttributeError("module 'numpy' has no attribute 'matrix'")


if "train" in sys.orig_argv:
    sys.meta_path.insert(0, Numpy())
"""


def test_ctrl_c_while_torch_is_imported_is_no_failure_of_the_run(project: Path, tmp_path: Path) -> None:
    """It was recorded as one for good, without a word of Ctrl-C, and the next call left the run out."""
    (project / "experiments" / "one.yaml").write_text(ONE)
    path = project / done(fedshift(project, "plan", "one", "--print", "path")).strip()
    (run,) = planfile.runs(path)
    done(fedshift(project, "partition", "--plan", str(path)))  # else a process of its own makes it first
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(SWALLOWS)
    command = ["-m", "fedshift", "--root", str(project), "train", "--plan", str(path), "--pack", run.pack]
    environment = os.environ | {"PYTHONPATH": str(hook)}
    ended = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)
    assert ended.returncode == 1 and "Aborted!" in ended.stderr, ended
    assert not (project / run.directory / "failure.json").exists()
