"""A small disk that can be full: a file system of its own in memory."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MEGABYTES = 256


def why_none(folder: Path) -> str:
    """Why this user cannot mount a disk; empty where that works."""
    folder.mkdir(exist_ok=True)
    try:
        with mounted(folder):
            return ""
    except subprocess.CalledProcessError as error:
        return f"no disk can be mounted: {error.stderr.strip()}"


@dataclass(frozen=True)
class Disk:
    """Mounted at `folder`."""

    folder: Path

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Not a byte is free inside the block: writes fail with ENOSPC."""
        filler = self.folder / ".filler"
        try:
            with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
            yield
        finally:
            filler.unlink()

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        """Writes fail with EROFS inside the block. Raises TimeoutError where some file stays open for writing."""
        end = time.monotonic() + 20
        while True:
            try:
                _call("mount", "-o", "remount,ro", str(self.folder))
                break
            except subprocess.CalledProcessError:
                if time.monotonic() > end:
                    raise TimeoutError(self.folder) from None
                time.sleep(0.02)
        try:
            yield
        finally:
            _call("mount", "-o", "remount,rw", str(self.folder))


@contextlib.contextmanager
def mounted(folder: Path, options: str = f"size={MEGABYTES}m") -> Iterator[Disk]:
    """Mount a disk at `folder` for the block: `mount -o options`. What still uses it at the end does not keep it.

    Raises CalledProcessError where this user may not.
    """
    _call("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder))
    try:
        yield Disk(folder)
    finally:
        _call("umount", "--lazy", str(folder))


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
