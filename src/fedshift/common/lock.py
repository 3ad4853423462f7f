"""One writer a run: a lock file that names its holder and ends with it. Standard library only.

The lock is the kernel's (flock), which file servers share between nodes. A killed process holds none. The
file's content only serves messages.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from fedshift.common.errors import FedshiftError
from fedshift.common.files import cure_of, remove_temporary

PATIENCE = 1.0  # seconds: whoever asks for the holder has the lock for a moment
HELD = (BlockingIOError, PermissionError)  # of a local and of a remote file system


@dataclass(frozen=True)
class Holder:
    """A process that holds a lock. job: its Slurm job."""

    host: str
    pid: int
    job: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}" + (f", Slurm job {self.job}" if self.job else "")


class Locked(FedshiftError):
    """Another process trains this run now."""

    def __init__(self, path: Path, holder: Holder | None) -> None:
        cure = f"Wait for it, or stop it first. If its machine is gone: rm {path}"
        super().__init__(path.parent, f"is being trained by {holder or 'another process'}", cure, retry=True)


def this_process() -> Holder:
    """This process, as the holder of a lock."""
    return Holder(socket.gethostname(), os.getpid(), os.environ.get("SLURM_JOB_ID"))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path` for the block, which alone writes into the file's folder. Raises Locked where
    another process holds it.
    """
    if (file := hold(path)) is None:
        raise Locked(path, holder(path))
    try:
        remove_temporary(path.parent)  # what a killed holder was writing
        yield
    finally:
        if _is(path, file):
            path.unlink()
        os.close(file)


def hold(path: Path) -> int | None:
    """Take a lock and return its open file; None where another process holds it. It ends when the file is
    closed, at the latest with this process.
    """
    until = time.monotonic() + PATIENCE
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            with contextlib.suppress(*HELD):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is(path, file):  # else its holder has removed it meanwhile
                    os.ftruncate(file, 0)
                    os.write(file, json.dumps(asdict(this_process())).encode())
                    return file
            os.close(file)
        except OSError as error:
            cure = cure_of(error) or "Mount its file system with locks (flock), or work elsewhere (--root)."
            raise FedshiftError(path, f"cannot be locked: {error.strerror}", cure, retry=True) from error
        if time.monotonic() > until:
            return None
        time.sleep(0.05)


def holder(path: Path) -> Holder | None:
    """The process that holds a lock file; None where no process does."""
    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except HELD:
                return Holder(**json.load(file))
    except OSError:
        return None
    except (TypeError, ValueError):  # taken just now
        return Holder("another process", 0)
    return None


def _is(path: Path, file: int) -> bool:
    """Whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False
