"""Faults that need no training do what they say."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.common.files import Holder, is_whole, write_text
from tests.faults import people, strikes, torn
from tests.faults.disk import mounted, why_none
from tests.faults.processes import until
from tests.faults.scene import Missed, Scene, Victim
from tests.workflow.checkout import Checkout


def still(root: Path, seed: int = 0) -> Any:
    """A scene in which nothing runs."""
    scene = object.__new__(Scene)
    scene.checkout, scene.dice, scene.log = Checkout(root), random.Random(seed), sys.stdout
    return scene


def test_read_only_disk_is_read_only(tmp_path: Path) -> None:
    if reason := why_none(tmp_path / "disk"):
        pytest.skip(reason)
    with mounted(tmp_path / "disk") as disk:
        with disk.read_only(), pytest.raises(FedshiftError, match="Read-only file system"):
            write_text(disk.folder / "file", "text")
        write_text(disk.folder / "file", "text")


def test_a_file_that_is_open_for_writing_is_waited_for(tmp_path: Path) -> None:
    if reason := why_none(tmp_path / "disk"):
        pytest.skip(reason)
    with mounted(tmp_path / "disk") as disk:
        keep = "import sys, time; file = open('file', 'w'); print(flush=True); time.sleep(2)"
        writer = subprocess.Popen([sys.executable, "-c", keep], cwd=disk.folder, stdout=subprocess.PIPE)
        assert writer.stdout is not None and writer.stdout.readline()
        with disk.read_only():
            assert writer.wait() == 0
        writer.stdout.close()


def test_a_torn_file_is_empty_cut_off_or_zero(tmp_path: Path) -> None:
    whole, seen = b'{"digest": "d1ce"}\n', set()
    for seed in range(12):
        (tmp_path / "summary.json").write_bytes(whole)
        torn.tear(still(tmp_path, seed), tmp_path / "summary.json")
        assert not is_whole(tmp_path / "summary.json")
        assert time.time() - (tmp_path / "summary.json").stat().st_mtime > torn.AGO - 1
        seen.add((tmp_path / "summary.json").read_bytes())
    assert seen == {b"", whole[: len(whole) // 2], bytes(len(whole))}
    with pytest.raises(Missed):
        torn.tear(still(tmp_path), tmp_path / "gone.json")


def test_a_skewed_clock_dates_files_otherwise_and_changes_none(tmp_path: Path) -> None:
    with pytest.raises(Missed):
        people.skew_clock(still(tmp_path))
    texts = {"results/packs/one.json": "{}", "experiments/demo.yaml": "title: T"}
    for name, text in texts.items():
        write_text(tmp_path / name, text)
    people.skew_clock(still(tmp_path))
    for name, text in texts.items():
        assert (tmp_path / name).read_text() == text
        assert abs((tmp_path / name).stat().st_mtime - time.time()) > 3000


def test_a_pack_is_stopped_with_all_its_runs(tmp_path: Path) -> None:
    run = [sys.executable, "-c", "import time; time.sleep(60)"]
    pack = f"import subprocess; [subprocess.Popen({run}) for _ in range(2)]; print(flush=True); import time; time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", pack, "--pack"], stdout=subprocess.PIPE)
    assert parent.stdout is not None and parent.stdout.readline()
    children = [
        int(pid) for pid in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    ]
    assert len(children) == 2 and strikes.pack_of(children[0]) == parent.pid
    strikes.stop_pack(Victim(tmp_path / "lock.json", Holder("here", children[0])))
    assert parent.wait() == -9
    for pid in children:
        with contextlib.suppress(ProcessLookupError):  # an orphan that nobody reaps is a zombie
            os.kill(pid, 0)
            assert until(lambda pid=pid: "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text(), 5)  # type: ignore[misc]
    parent.stdout.close()
