"""What the campaign measures with can fail."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedshift.errors import FedshiftError
from fedshift.files import is_whole, write_text
from tests.faults import faults
from tests.faults.disk import mounted, why_none
from tests.faults.processes import end_all, of_folder, until
from tests.faults.writers import Writers
from tests.workflow.checkout import Checkout


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


def test_read_only_disk_is_read_only(tmp_path: Path) -> None:
    if reason := why_none(tmp_path / "disk"):
        pytest.skip(reason)
    with mounted(tmp_path / "disk") as disk:
        with disk.read_only(), pytest.raises(FedshiftError, match="Read-only file system"):
            write_text(disk.folder / "file", "text")
        write_text(disk.folder / "file", "text")


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


class Still:
    """A scene in which nothing runs."""

    def __init__(self, root: Path, seed: int) -> None:
        self.checkout, self.dice, self.notes = Checkout(root), random.Random(seed), list[str]()
        self.note = self.notes.append


def test_a_torn_file_is_empty_cut_off_or_zero(tmp_path: Path) -> None:
    whole, seen = b'{"digest": "d1ce"}\n', set()
    for seed in range(12):
        (tmp_path / "summary.json").write_bytes(whole)
        still = Still(tmp_path, seed)
        faults._tear(still, [tmp_path / "summary.json", tmp_path / "gone.json"])  # type: ignore[arg-type]
        torn = (tmp_path / "summary.json").read_bytes()
        assert not is_whole(tmp_path / "summary.json") and "summary.json" in still.notes[0]
        seen.add(torn)
    assert seen == {b"", whole[: len(whole) // 2], bytes(len(whole))}
    with pytest.raises(faults.Missed):
        faults._tear(Still(tmp_path, 0), [tmp_path / "gone.json"])  # type: ignore[arg-type]


def test_a_skewed_clock_dates_files_otherwise_and_changes_none(tmp_path: Path) -> None:
    write_text(tmp_path / "results" / "packs" / "one.json", "{}")
    write_text(tmp_path / "experiments" / "demo.yaml", "title: T")
    faults.skew_clock(Still(tmp_path, 3))  # type: ignore[arg-type]
    for name, text in (("results/packs/one.json", "{}"), ("experiments/demo.yaml", "title: T")):
        assert (tmp_path / name).read_text() == text
        assert abs((tmp_path / name).stat().st_mtime - time.time()) > 3000
