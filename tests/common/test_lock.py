"""Exactly one writer a run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedshift.common.files import Locked, holder, locked, this_process
from tests.conftest import ROOT

HOLD = "import sys, time; from pathlib import Path; from fedshift.common.files import locked\nwith locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"


def start(path: Path) -> subprocess.Popen[str]:
    """A process that takes a lock and keeps it; tests of other modules use it, too."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def held(path: Path) -> subprocess.Popen[str]:
    """The same, once it has the lock."""
    process = start(path)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.mark.parametrize("before", ["free", "killed", "torn"])
def test_of_eight_processes_one_wins(before: str, tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    if before == "killed":
        end(held(path))
        assert path.exists() and holder(path) is None
    elif before == "torn":
        path.write_bytes(b'{"host')
    every = [start(path) for _ in range(8)]
    for _ in range(300):
        if sum(one.poll() is not None for one in every) == 7:
            break
        time.sleep(0.1)
    (winner,) = [one for one in every if one.poll() is None]
    assert (who := holder(path)) is not None and who.pid == winner.pid and who.host == this_process().host
    winner.kill()
    for one in every:
        _, told = one.communicate()
        assert one is winner or f"is being trained by {who.host}:{winner.pid}" in told
    assert holder(path) is None


def test_one_after_the_other_each_alone(tmp_path: Path) -> None:
    """As fast as they can, while others look who holds the lock."""
    program = """import sys; from pathlib import Path; from fedshift.common.files import Locked, holder, locked
path, turns = Path(sys.argv[1]), 0
while turns < 20:
    holder(path)
    try:
        with locked(path):
            (path.parent / "alone").touch(exist_ok=False)
            (path.parent / "alone").unlink()
            turns += 1
    except Locked:
        pass
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", program, str(tmp_path / "run" / "lock.json")]
    every = [subprocess.Popen(command, env=environment) for _ in range(4)]
    assert [one.wait(timeout=60) for one in every] == [0] * 4
    assert not list((tmp_path / "run").iterdir())


def test_the_holder_is_named_with_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with locked(tmp_path / "lock.json"):
        assert holder(tmp_path / "lock.json") == this_process()
        with pytest.raises(Locked) as error, locked(tmp_path / "lock.json"):
            pass
    assert error.value.where == str(tmp_path) and error.value.retry and "lock.json" in error.value.cure
    assert f"{os.getpid()}, Slurm job 7" in error.value.what
    assert holder(tmp_path / "lock.json") is None and not list(tmp_path.iterdir())


def test_a_lock_that_was_removed_is_free_and_its_holder_removes_no_other(tmp_path: Path) -> None:
    """What the message says to do where a machine is gone and its file server does not know."""
    path = tmp_path / "lock.json"
    with locked(path):
        path.unlink()
        other = held(path)
    assert (who := holder(path)) is not None and who.pid == other.pid
    end(other)
