"""One process makes a partition, whoever else asks for it meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import yaml

from fedshift.common.files import locked
from fedshift.common.yaml_file import read
from fedshift.data.partition import partition
from fedshift.spec import Division
from fedshift.spec.resolve import resolve_division
from fedshift.storage.workspace import Workspace


def test_who_asks_while_another_makes_it_waits_and_takes_that_one(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "division.yaml"
    file.write_text(yaml.safe_dump({"data": {"dataset": "digits", "target": "ink"}, "seed": 1}))
    made = partition(Workspace(project), resolve_division(Division(**read(file)), str(file)))
    away = made.rename(tmp_path / "away")
    program = [sys.executable, "-m", "fedshift", "--root", str(project), "partition", "--spec", str(file)]
    lock = made.with_suffix(".lock")
    with locked(lock):
        asking = [subprocess.Popen(program, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        time.sleep(8)  # three times what it takes to make it
        assert not made.exists() and [process.poll() for process in asking] == [None, None]
        away.rename(made)
        before = made.stat()
    assert [process.communicate(timeout=60)[0].strip() for process in asking] == [str(made)] * 2
    assert [process.returncode for process in asking] == [0, 0]
    assert (made.stat().st_ino, made.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
