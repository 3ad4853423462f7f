"""Damaged data are found, and what can be made again is removed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fedshift.common.errors import Damaged
from fedshift.data.partition import partition
from fedshift.storage.workspace import Workspace
from fedshift.training.provide import remove_damaged
from fedshift.training.run import train
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
