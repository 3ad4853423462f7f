"""Data of a run: one process makes a partition, and what is damaged is found and removed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fedshift.common.errors import Damaged
from fedshift.common.files import locked
from fedshift.common.yaml_file import read
from fedshift.data.partition import partition
from fedshift.spec import Division
from fedshift.spec.resolve import resolve_division
from fedshift.storage.workspace import Workspace
from fedshift.training.provide import remove_damaged
from fedshift.training.run import train
from tests.faults.processes import until
from tests.training.test_run import MACHINE, spec_of


def flip(path: Path) -> None:
    """Change one bit of a file that other tests may share."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    path.write_bytes(content)


def test_damaged_images_and_partitions_are_retried_and_removed(project: Path) -> None:
    """A run that read them wrongly had failed for good."""
    workspace, spec = Workspace(project), spec_of("fedavg")
    path = partition(workspace, spec)
    folder = workspace.prepared(spec.data.prepared_name)
    own = folder.with_name("own")
    shutil.copytree(folder, own)
    folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)
    own.rename(folder)
    assert remove_damaged(workspace, spec) == []
    for damaged, removed in ((path, path), (folder / "images.npy", folder)):
        flip(damaged)
        with pytest.raises(Damaged):
            train(workspace, spec, MACHINE)
        failure = workspace.run(spec.run_name).failure()
        assert failure is not None and failure["retry"]
        assert remove_damaged(workspace, spec) == [removed]
        assert not removed.exists()
        if removed == path:
            partition(workspace, spec)


def waits(process: subprocess.Popen[str], lock: Path) -> bool:
    """Whether a process has opened the lock file that another one holds."""
    return any(
        os.path.realpath(file) == os.path.realpath(lock) for file in Path(f"/proc/{process.pid}/fd").iterdir()
    )


def test_who_asks_while_another_makes_it_waits_and_takes_that_one(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "division.yaml"
    file.write_text(yaml.safe_dump({"data": {"dataset": "digits", "target": "ink"}, "seed": 1}))
    made = partition(Workspace(project), resolve_division(Division(**read(file)), str(file)))
    away = made.rename(tmp_path / "away")
    program = [sys.executable, "-m", "fedshift", "--root", str(project), "partition", "--spec", str(file)]
    lock = made.with_suffix(".lock")
    with locked(lock):
        asking = [subprocess.Popen(program, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        assert until(lambda: all(waits(process, lock) for process in asking), 120)
        assert not made.exists() and [process.poll() for process in asking] == [None, None]
        away.rename(made)
        before = made.stat()
    assert [process.communicate(timeout=60)[0].strip() for process in asking] == [str(made)] * 2
    assert [process.returncode for process in asking] == [0, 0]
    assert (made.stat().st_ino, made.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
