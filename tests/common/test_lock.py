"""Exactly one writer a run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedshift.common import lock
from fedshift.common.lock import Locked, alive, holder, locked
from tests.conftest import ROOT

HOLD = "import sys, time; from pathlib import Path; from fedshift.common.lock import locked\nwith locked(Path(sys.argv[1], 'lock.json')): print('held', flush=True); time.sleep(30)"
WRITE = """import itertools, sys; from pathlib import Path; from fedshift.common.lock import locked; from fedshift.common.files import write_text
with locked(Path(sys.argv[1], 'lock.json')):
    print('held', flush=True)
    for count in itertools.count():
        write_text(Path(sys.argv[1], 'count'), str(count))
"""


def start(run: Path, program: str = HOLD) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(run)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("before", ["free", "dead"])
def test_of_eight_processes_one_wins(before: str, tmp_path: Path) -> None:
    if before == "dead":
        first = start(tmp_path)
        assert first.stdout is not None and first.stdout.readline() == "held\n"
        first.kill()
        first.wait()
        assert (tmp_path / "lock.json").exists()
    every = [start(tmp_path) for _ in range(8)]
    for _ in range(200):
        if sum(one.poll() is not None for one in every) == 7:
            break
        time.sleep(0.1)
    (winner,) = [one for one in every if one.poll() is None]
    assert holder(tmp_path / "lock.json") == {
        "host": socket.gethostname(), "pid": winner.pid, "born": lock._born(winner.pid), "job": os.environ.get("SLURM_JOB_ID"),
    }  # fmt: skip
    winner.kill()
    for one in every:
        _, told = one.communicate()
        assert one is winner or "Locked" in told


def test_a_process_id_that_is_used_again_is_another_process() -> None:
    mine = {"host": socket.gethostname(), "pid": os.getpid(), "born": lock._born(os.getpid()), "job": None}
    assert alive(mine)
    assert not alive({**mine, "born": "1"})
    assert alive({**mine, "host": "elsewhere"})  # nobody here can know


def test_process_that_lost_its_lock_writes_no_more(tmp_path: Path) -> None:
    """A requeued job took over from a lost node, on which its first life still writes."""
    old = start(tmp_path, WRITE)
    assert old.stdout is not None and old.stdout.readline() == "held\n"
    while not (tmp_path / "count").exists():
        time.sleep(0.01)
    new = {"host": "elsewhere", "pid": 1, "born": "1", "job": "7"}
    (tmp_path / "taken").write_text(json.dumps(new))
    os.replace(tmp_path / "taken", tmp_path / "lock.json")
    _, told = old.communicate(timeout=10)
    assert "Locked" in told and "elsewhere" in told
    assert holder(tmp_path / "lock.json") == new
    assert {path.name for path in tmp_path.iterdir()} == {"lock.json", "count"}


def test_what_a_killed_holder_was_writing_is_removed(tmp_path: Path) -> None:
    half = tmp_path / "segments" / ".1-2.parquet.7.tmp"
    half.parent.mkdir()
    half.write_text("half")
    with locked(tmp_path / "lock.json"):
        assert not half.exists()


def test_what_was_killed_while_it_asked_for_the_lock_leaves_nothing(tmp_path: Path) -> None:
    """Between the link that makes the lock and the removal of the file behind it, or of a dead lock."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead, living = (
        lock.this_process() | {"pid": pid, "born": lock._born(pid)} for pid in (ended.pid, os.getppid())
    )
    for name, asked in (("vm.1", dead), ("dead.vm.1", dead), ("vm.2", living)):
        (tmp_path / f".lock.{name}").write_text(json.dumps(asked))
    with locked(tmp_path / "lock.json"):
        assert {path.name for path in tmp_path.iterdir()} == {"lock.json", ".lock.vm.2"}


def test_same_job_on_another_host_is_a_requeued_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = {"host": "elsewhere", "pid": 1, "born": "1", "job": "7"}
    (tmp_path / "lock.json").write_text(json.dumps(old))
    monkeypatch.setenv("PATH", "/nowhere")  # no squeue: a job of another host may be alive
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    with pytest.raises(Locked, match="elsewhere"), locked(tmp_path / "lock.json"):
        pass
    assert alive(old)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert not alive(old)  # or the job would wait for itself
    with locked(tmp_path / "lock.json"):
        assert (holder(tmp_path / "lock.json") or {})["pid"] == os.getpid()
    assert not (tmp_path / "lock.json").exists()


def test_a_torn_lock_is_waited_for_and_then_taken_over(tmp_path: Path) -> None:
    """As a crash of the machine leaves it; a whole one appears by a link, at once."""
    path = tmp_path / "lock.json"
    path.write_bytes(b"")
    with pytest.raises(Locked, match=r"is being trained by .*unreadable"), locked(path):
        pass
    long_ago = time.time() - lock.PAUSE - 1
    os.utime(path, (long_ago, long_ago))
    with locked(path):
        assert (holder(path) or {})["pid"] == os.getpid()
    assert not list(tmp_path.iterdir())


def test_a_slurm_that_hangs_leaves_a_lock_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "squeue").write_text("#!/bin/sh\nexec sleep 30\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(lock, "PATIENCE", 0.5)
    began = time.monotonic()
    assert alive({"host": "another", "pid": 1, "born": None, "job": "7"})
    assert time.monotonic() - began < 20
