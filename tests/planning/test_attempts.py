"""How jobs end, as their packs remember it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedshift.planning.attempts import NOTICE, Attempts, attempt
from tests.faults.processes import until

JOB = """\
import signal, sys, time
from pathlib import Path
from fedshift.planning.attempts import attempt
with attempt(Path(sys.argv[1])) as present:
    present.starved = "starve" in sys.argv
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    Path(sys.argv[1]).with_suffix(".begun").touch()
    time.sleep(60 if "wait" in sys.argv else 0)
"""


def job(path: Path, *how: str, end: int | None = None, left: float | None = None) -> None:
    """A job that trains a pack; `end`: the signal that ends it, `left`: seconds before its time limit."""
    environment = {key: value for key, value in os.environ.items() if key != "SLURM_JOB_END_TIME"}
    if left is not None:
        environment["SLURM_JOB_END_TIME"] = str(int(time.time() + left))
    begun = path.with_suffix(".begun")
    begun.unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, "-c", JOB, str(path), *how], env=environment)
    assert until(begun.exists, 60)
    if end:
        process.send_signal(end)
    process.wait()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "attempts" / "pack.json"


def test_a_kill_looks_like_a_lack_of_memory(path: Path) -> None:
    job(path, "wait", end=signal.SIGKILL)
    assert Attempts.read(path) == Attempts(begun=True)
    assert Attempts.read(path).lacked_memory == 1
    job(path, "wait", end=signal.SIGKILL)
    assert Attempts.read(path).lacked_memory == 2
    job(path)
    assert Attempts.read(path) == Attempts(killed=2)


def test_a_lack_of_memory_that_was_noticed_counts(path: Path) -> None:
    job(path, "starve")
    assert Attempts.read(path) == Attempts(killed=1)


def test_a_preemption_is_no_time_limit(path: Path) -> None:
    job(path, "wait", end=signal.SIGTERM, left=10 * NOTICE)
    assert Attempts.read(path) == Attempts()
    job(path, "wait", end=signal.SIGTERM, left=120)
    assert Attempts.read(path) == Attempts(late=1)


def test_a_job_that_never_began_or_failed_by_itself_grows_nothing(path: Path) -> None:
    assert Attempts.read(path).lacked_memory == Attempts.read(path).late == 0
    with pytest.raises(SystemExit), attempt(path):
        sys.exit(1)
    with pytest.raises(RuntimeError), attempt(path):
        raise RuntimeError
    assert Attempts.read(path) == Attempts()


def test_a_torn_count_is_none(path: Path) -> None:
    job(path, "starve")
    path.write_text('{"kil')
    assert Attempts.read(path) == Attempts()
