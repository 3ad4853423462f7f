"""Runs of a pack at once, and SIGTERM or Ctrl-C as a request."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fedshift.planning import planfile
from fedshift.planning.planfile import Run
from fedshift.storage.workspace import Workspace
from fedshift.training import pack
from fedshift.training.pack import interruptible, stoppable
from tests.common.test_files import end, held
from tests.verbs import done, fedshift


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


def test_the_first_sigterm_asks_and_a_second_one_would_end() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stoppable() as stop:
        assert not stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is before


def test_ctrl_c_asks_a_run_that_trains_and_a_second_one_ends_it() -> None:
    lines: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with interruptible(lines.append), stoppable() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested and len(lines) == 1 and "Ctrl-C again" in lines[0]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


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


if "train-pack" in sys.orig_argv:
    sys.meta_path.insert(0, Numpy())
"""


@pytest.mark.slow
def test_ctrl_c_while_torch_is_imported_is_no_failure_of_the_run(project: Path, tmp_path: Path) -> None:
    """It was recorded as one for good, without a word of Ctrl-C, and the next call left the run out."""
    (project / "experiments" / "one.yaml").write_text(ONE)
    path = project / done(fedshift(project, "plan", "one", "--print", "path")).strip()
    (run,) = planfile.runs(path)
    done(fedshift(project, "partition", "--plan", str(path)))  # else a process of its own makes it first
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(SWALLOWS)
    command = [
        "-m",
        "fedshift",
        "--root",
        str(project),
        "train-pack",
        "--plan",
        str(path),
        "--pack",
        run.pack,
    ]
    environment = os.environ | {"PYTHONPATH": str(hook)}
    ended = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)
    assert ended.returncode == 1 and "Aborted!" in ended.stderr, ended
    assert not (project / run.directory / "failure.json").exists()
