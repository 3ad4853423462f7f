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
import sys, time
from pathlib import Path
from fedshift.planning.attempts import attempt, terminable
with attempt(Path(sys.argv[1])) as present, terminable():
    present.starved = "starve" in sys.argv
    Path(sys.argv[1]).with_suffix(".begun").touch()
    time.sleep(60 if "wait" in sys.argv else 0)
"""


def job(path: Path, *how: str, end: int | None = None, left: float | None = None, number: str = "") -> None:
    """A job that trains a pack; `end`: the signal that ends it, `left`: seconds before its time limit, `number`: Slurm's."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_JOB")}
    if left is not None:
        environment["SLURM_JOB_END_TIME"] = str(int(time.time() + left))
    if number:
        environment["SLURM_JOB_ID"] = number
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
    assert Attempts.read(path).settled() == Attempts(killed=1)
    job(path, "wait", end=signal.SIGKILL)
    assert Attempts.read(path).settled() == Attempts(killed=2)
    job(path)
    assert Attempts.read(path) == Attempts(killed=2)


def test_a_lack_of_memory_that_was_noticed_counts(path: Path) -> None:
    job(path, "starve")
    assert Attempts.read(path) == Attempts(killed=1)


def test_a_preemption_is_no_time_limit(path: Path) -> None:
    job(path, "wait", end=signal.SIGTERM, left=10 * NOTICE)
    assert Attempts.read(path) == Attempts()
    job(path, "wait", end=signal.SIGTERM, left=120)
    assert Attempts.read(path).settled() == Attempts(late=1)
    job(path)
    assert Attempts.read(path) == Attempts(late=1)


@pytest.mark.parametrize(
    ("state", "killed", "stopped"),
    [
        ("OUT_OF_MEMORY", Attempts(killed=1), Attempts(killed=1)),
        ("TIMEOUT", Attempts(late=1), Attempts(late=1)),
        ("FAILED", Attempts(killed=1), Attempts(late=1)),  # Slurm does not know why
        ("FAILED\nFAILED\nOUT_OF_MEMORY", Attempts(killed=1), Attempts(killed=1)),  # of a step
        ("CANCELLED by 1000", Attempts(), Attempts()),
        ("NODE_FAIL", Attempts(), Attempts()),
        ("PREEMPTED", Attempts(), Attempts()),
        ("", Attempts(killed=1), Attempts(late=1)),  # forgotten
    ],
)
def test_slurm_is_asked_how_a_job_ended(
    path: Path, monkeypatch: pytest.MonkeyPatch, state: str, killed: Attempts, stopped: Attempts
) -> None:
    """Of job 17 alone; a job that was lost with its node got more memory, one that was killed at its limit no more minutes."""
    sacct = path.parents[1] / "sacct"
    sacct.write_text(f"#!/bin/sh\nfor job; do :; done\n[ $job != 17 ] || echo '{state}'\n")
    sacct.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sacct.parent}:{os.environ['PATH']}")
    for signal_, counted in ((signal.SIGKILL, killed), (signal.SIGTERM, stopped)):
        path.unlink(missing_ok=True)
        job(path, "wait", end=signal_, number="17")
        assert Attempts.read(path).settled() == counted
        job(path, number="18")
        assert Attempts.read(path) == counted


def test_a_job_that_is_queued_again_grows_nothing(path: Path) -> None:
    job(path, "wait", end=signal.SIGKILL, number="17")
    job(path, number="17")
    assert Attempts.read(path) == Attempts()


def test_a_job_that_never_began_or_failed_by_itself_grows_nothing(path: Path) -> None:
    assert Attempts.read(path).settled() == Attempts()
    with pytest.raises(SystemExit), attempt(path):
        sys.exit(1)
    with pytest.raises(RuntimeError), attempt(path):
        raise RuntimeError
    assert Attempts.read(path) == Attempts()


def test_a_torn_count_is_none(path: Path) -> None:
    job(path, "starve")
    path.write_text('{"kil')
    assert Attempts.read(path) == Attempts()
