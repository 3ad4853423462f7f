"""What the campaign measures with can fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_text
from tests.faults.disk import mounted, why_none
from tests.faults.processes import end_all, of_folder, until
from tests.faults.writers import Writers


def write(run: Path, pid: int) -> None:
    """What a write of process `pid` looks like."""
    (run / f".checkpoint.{pid}.tmp").touch()
    os.replace(run / f".checkpoint.{pid}.tmp", run / "checkpoint")


def test_two_writers_at_once_are_noticed(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    writers = Writers()
    writers.watch([one, other])
    for run, pid in ((one, 1), (one, 1), (other, 1), (one, 2), (other, 1)):
        write(run, pid)
    assert writers.count() == 3  # one after the other
    write(one, 1)
    with pytest.raises(AssertionError, match=r"two writers at once on .*one: \[1, 2, 1\]"):
        writers.count()
    writers.close()


def test_full_disk_is_full(tmp_path: Path) -> None:
    if reason := why_none(tmp_path / "disk"):
        pytest.skip(reason)
    with mounted(tmp_path / "disk") as disk:
        with disk.full(), pytest.raises(FedshiftError, match="No space left on device"):
            write_text(disk.folder / "file", "text")
        assert not list(disk.folder.iterdir())
        write_text(disk.folder / "file", "text")
        assert (disk.folder / "file").read_text() == "text"


def test_processes_of_a_folder_are_found_and_ended(tmp_path: Path) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    inside = subprocess.Popen(sleep, cwd=tmp_path)
    outside = subprocess.Popen(sleep)
    assert until(lambda: set(of_folder(tmp_path)) == {inside.pid}, 5)
    end_all(tmp_path)
    assert inside.wait() == -9
    assert outside.poll() is None
    outside.kill()
    outside.wait()
