"""Divide: the partition of a run, made once by whichever process asks for it first."""

from __future__ import annotations

from pathlib import Path

from fedshift.common.files import locked
from fedshift.data.partition import partition
from fedshift.identity import partition_name
from fedshift.spec import Division
from fedshift.storage.workspace import Workspace


def divide(workspace: Workspace, spec: Division) -> Path:
    """The partition of a resolved spec, made where it is absent; of packs that begin at the same time, on
    several machines, one makes it, and the others wait.

    Raises FedshiftError as `partition` does, and where the one that is there is damaged.
    """
    path = workspace.partition(partition_name(spec))
    if path.is_file():
        return partition(workspace, spec)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_suffix(".lock")
    with locked(lock):
        try:
            return partition(workspace, spec)
        finally:
            lock.unlink(missing_ok=True)
