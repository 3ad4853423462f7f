"""Runs of a pack at once: neighbours, signals, waiting for another process."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from fedshift.planning.planfile import Run
from fedshift.storage.workspace import Workspace
from fedshift.training import pack
from tests.common.test_lock import end, held


def run_of(name: str) -> Run:
    return Run(name, "c", f"runs/{name}", "d", "m", "t", 0, "{}", "p", 1, 1, 1.0, 1, 1, "i", "j")


RUNS = [run_of(name) for name in "abcd"]


def script(root: Path, text: str) -> list[str]:
    return [
        sys.executable,
        "-c",
        f"import os, sys, time\nfrom pathlib import Path\nroot = Path({str(root)!r})\n{text}",
    ]


def test_at_most_k_at_a_time_and_one_failure_leaves_the_others_alone(tmp_path: Path) -> None:
    text = "name = {!r}\n(root / f'{{name}}.begin').touch(); time.sleep(0.5)\nif name == 'b': sys.exit(3)\n(root / f'{{name}}.end').touch()"
    most, done = [0], threading.Event()

    def count() -> None:
        while not done.wait(0.02):
            begun, ended = len(list(tmp_path.glob("*.begin"))), len(list(tmp_path.glob("*.end")))
            most[0] = max(most[0], begun - ended)

    watcher = threading.Thread(target=count)
    watcher.start()
    pack.at_once(Workspace(tmp_path), RUNS, 2, lambda run: script(tmp_path, text.format(run.digest)))
    done.set()
    watcher.join()
    assert sorted(path.name for path in tmp_path.glob("*.end")) == ["a.end", "c.end", "d.end"]
    assert 2 <= most[0] <= 3  # b has begun and never ends


def test_sigterm_is_passed_on_and_waited_for(tmp_path: Path) -> None:
    text = "import signal\ndef bye(*_): time.sleep(0.5); (root / f'{os.getpid()}.saved').touch(); sys.exit(1)\nsignal.signal(signal.SIGTERM, bye)\n(root / f'{os.getpid()}.begin').touch()\nfor _ in range(300): time.sleep(0.1)"

    def kill() -> None:
        while len(list(tmp_path.glob("*.begin"))) < 2:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=kill).start()
    with pytest.raises(SystemExit) as ended:
        pack.at_once(Workspace(tmp_path), RUNS, 2, lambda run: script(tmp_path, text))
    assert ended.value.code == 128 + signal.SIGTERM
    assert len(list(tmp_path.glob("*.saved"))) == 2
    assert len(list(tmp_path.glob("*.begin"))) == 2  # nothing was started after the signal


def test_a_run_that_another_process_trains_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "BUSY_SECONDS", 0.1)
    path = tmp_path / RUNS[0].directory / "lock.json"
    path.parent.mkdir(parents=True)
    other = held(path)
    order: list[str] = []

    def train(run: Run) -> None:
        order.append(run.digest)
        if len(order) == 3:
            end(other)

    pack.in_turn(Workspace(tmp_path), RUNS, train)
    assert order == ["b", "c", "d", "a"]


def test_an_error_leaves_no_run_that_trains_on_unseen(tmp_path: Path) -> None:
    def command(run: Run) -> list[str]:
        if run.digest == "a":
            return script(tmp_path, "(root / str(os.getpid())).touch(); time.sleep(60)")
        while not list(tmp_path.iterdir()):
            time.sleep(0.02)
        return [str(tmp_path / "no such program")]

    with pytest.raises(FileNotFoundError):
        pack.at_once(Workspace(tmp_path), RUNS[:2], 2, command)
    (begun,) = tmp_path.iterdir()
    assert not Path("/proc", begun.name).exists()
